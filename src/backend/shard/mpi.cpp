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
constexpr size_t kMaxBytes = size_t{1} << 30;  // largest message; MPI counts are int

/// All-gather by point-to-point messages, each awaited separately, to identify a rank that fails.
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
  /// Skips MPI_Finalize() after a failure: it would wait for dead ranks. The launcher ends the remaining
  /// ones.
  ~MpiRank() override {
    if (!has_failed_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all,
                  Wait wait) override {
    Messages messages;
    size_t begin = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const size_t size = sizes[static_cast<size_t>(peer)];
      if (peer != rank_) {
        receive(peer, all.subspan(begin, size), messages);
      } else if (size > 0) {
        std::memcpy(all.data() + begin, own.data(), size);
      }
      begin += size;
    }
    for (int step = 1; step < size_; ++step)
      send((rank_ + step) % size_, own, messages);  // each rank begins with a different peer
    await(messages, wait);
  }

  void ring_exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                     std::span<std::byte> received) override {
    Messages messages;
    receive(previous(), received.first(sizes[static_cast<size_t>(previous())]), messages);
    send((rank_ + 1) % size_, own, messages);
    await(messages, Wait::kBounded);
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
  struct Messages {
    std::vector<MPI_Request> requests;
    std::vector<int> peers;  // peer of each request
  };

  static void receive(int peer, std::span<std::byte> bytes, Messages& messages) {
    for_each_message(bytes.size(), [&](size_t first, int count) {
      messages.peers.push_back(peer);
      MPI_Irecv(bytes.data() + first, count, MPI_BYTE, peer, kBytesTag, MPI_COMM_WORLD,
                &messages.requests.emplace_back());
    });
  }

  static void send(int peer, std::span<const std::byte> bytes, Messages& messages) {
    for_each_message(bytes.size(), [&](size_t first, int count) {
      messages.peers.push_back(peer);
      MPI_Isend(bytes.data() + first, count, MPI_BYTE, peer, kBytesTag, MPI_COMM_WORLD,
                &messages.requests.emplace_back());
    });
  }

  template <typename Use>
  static void for_each_message(size_t size, Use&& use) {
    for (size_t first = 0; first < size; first += kMaxBytes)
      use(first, static_cast<int>(std::min(kMaxBytes, size - first)));
  }

  void await(Messages& messages, Wait wait) {
    std::vector<MPI_Request>& requests = messages.requests;
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
        if (wait == Wait::kBounded && now - start >= timeout_ * patience()) give_up(messages);
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

  [[noreturn]] void give_up(const Messages& messages) {
    has_failed_ = true;
    const auto open = std::find_if(messages.requests.begin(), messages.requests.end(),
                                   [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
    const auto index = static_cast<size_t>(open - messages.requests.begin());
    throw RankError(messages.peers[index],
                    fmt::format("has not answered for {} seconds",
                                std::chrono::duration<double>(timeout_ * patience()).count()));
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
