#include "backend/shard/mpi.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBytesTag = 1;
constexpr int kFailureTag = 2;
constexpr size_t kMostBytes = size_t{1} << 30;  // of a message; counts of MPI are int

/// Messages from everybody to everybody, each waited for by itself, so that the rank that is missing is
/// known.
class MpiRank final : public Communicator {
 public:
  explicit MpiRank(std::chrono::milliseconds timeout) : timeout_(timeout) {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
      throw InputError("--shard: MPI does not start");
    if (provided < MPI_THREAD_SERIALIZED)
      throw InputError("--shard: this MPI knows no threads; expected MPI_THREAD_SERIALIZED");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  /// Without MPI_Finalize() after a failure, which would wait for ranks that are gone: the launcher then ends
  /// what is left.
  ~MpiRank() override {
    if (!has_failed_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all,
                  Wait wait) override {
    std::vector<MPI_Request> requests;
    std::vector<int> peers;  // of the requests
    size_t begin = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const size_t size = sizes[static_cast<size_t>(peer)];
      if (peer == rank_) {
        if (size > 0) std::memcpy(all.data() + begin, own.data(), size);
      } else {
        for_each_message(size, [&](size_t first, int count) {
          peers.push_back(peer);
          MPI_Irecv(all.data() + begin + first, count, MPI_BYTE, peer, kBytesTag, MPI_COMM_WORLD,
                    &requests.emplace_back());
        });
      }
      begin += size;
    }
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;  // not all to the same rank first
      for_each_message(own.size(), [&](size_t first, int count) {
        peers.push_back(peer);
        MPI_Isend(own.data() + first, count, MPI_BYTE, peer, kBytesTag, MPI_COMM_WORLD,
                  &requests.emplace_back());
      });
    }
    await(requests, peers, wait);
  }

  void fail(const std::string& cause) noexcept override {
    has_failed_ = true;
    cause_ = cause;
    for (int peer = 0; peer < size_; ++peer) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (peer != rank_)
        MPI_Isend(cause_.data(), static_cast<int>(cause_.size()), MPI_BYTE, peer, kFailureTag, MPI_COMM_WORLD,
                  &request);
    }
  }

 private:
  template <typename Use>
  static void for_each_message(size_t size, Use&& use) {
    for (size_t first = 0; first < size; first += kMostBytes)
      use(first, static_cast<int>(std::min(kMostBytes, size - first)));
  }

  void await(std::vector<MPI_Request>& requests, const std::vector<int>& peers, Wait wait) {
    const auto start = Clock::now();
    auto next_check = start + std::chrono::milliseconds(20);
    for (;;) {
      int is_done = 0;
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
      if (is_done != 0) return;
      const auto now = Clock::now();
      if (now >= next_check) {
        next_check = now + std::chrono::milliseconds(20);
        check_for_failures();
        if (wait == Wait::kBounded && now - start >= timeout_) give_up(requests, peers);
      }
      if (now - start < std::chrono::milliseconds(50)) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
  }

  void check_for_failures() {
    int is_there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, MPI_COMM_WORLD, &is_there, &status);
    if (is_there == 0) return;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    std::string cause(static_cast<size_t>(count), ' ');
    MPI_Recv(cause.data(), count, MPI_BYTE, status.MPI_SOURCE, kFailureTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    has_failed_ = true;
    throw RankError(status.MPI_SOURCE, cause);
  }

  [[noreturn]] void give_up(const std::vector<MPI_Request>& requests, const std::vector<int>& peers) {
    has_failed_ = true;
    const auto open = std::find_if(requests.begin(), requests.end(),
                                   [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
    const auto index = static_cast<size_t>(open - requests.begin());
    throw RankError(peers[index], fmt::format("has not answered for {} seconds",
                                              std::chrono::duration<double>(timeout_).count()));
  }

  std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int size_ = 1;
  bool has_failed_ = false;
  std::string cause_;
};

}  // namespace

std::unique_ptr<Communicator> ranks_of_mpi(std::chrono::milliseconds timeout) {
  return std::make_unique<MpiRank>(timeout);
}

}  // namespace lacuna
