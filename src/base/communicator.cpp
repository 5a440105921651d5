#include "base/communicator.h"

#include <numeric>

namespace lacuna {

std::vector<std::vector<std::byte>> gather_all(Communicator& communicator, std::span<const std::byte> own,
                                               Communicator::Wait wait) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const std::vector<size_t> size_of_size(ranks, sizeof(uint64_t));
  std::vector<uint64_t> announced(ranks);
  const uint64_t own_size = own.size();
  communicator.all_gather(std::as_bytes(std::span(&own_size, 1)), size_of_size,
                          std::as_writable_bytes(std::span(announced)), wait);
  const std::vector<size_t> sizes(announced.begin(), announced.end());
  std::vector<std::byte> bytes(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
  communicator.all_gather(own, sizes, bytes);
  std::vector<std::vector<std::byte>> all;
  auto begin = bytes.cbegin();
  for (const size_t size : sizes) {
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    all.emplace_back(begin, end);
    begin = end;
  }
  return all;
}

std::vector<std::byte> broadcast(Communicator& communicator, std::span<const std::byte> sent,
                                 Communicator::Wait wait) {
  const bool sends = communicator.rank() == 0;
  std::vector<size_t> sizes(static_cast<size_t>(communicator.size()), 0);
  sizes.front() = sizeof(uint64_t);
  const uint64_t own_size = sent.size();
  uint64_t size = 0;
  communicator.all_gather(sends ? std::as_bytes(std::span(&own_size, 1)) : std::span<const std::byte>(),
                          sizes, std::as_writable_bytes(std::span(&size, 1)), wait);
  sizes.front() = size;
  std::vector<std::byte> bytes(size);
  communicator.all_gather(sent, sizes, bytes);
  return bytes;
}

}  // namespace lacuna
