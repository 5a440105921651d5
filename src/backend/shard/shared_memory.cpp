#include "backend/shard/shared_memory.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenChecks{20};
constexpr std::chrono::milliseconds kBetweenBeats{50};
#ifdef MAP_NORESERVE
constexpr int kReserveNothing = MAP_NORESERVE;
#else
constexpr int kReserveNothing = 0;  // FreeBSD never reserves swap for a mapping
#endif
constexpr size_t kSlotBytesOfProcesses = size_t{16} << 20;  // pages are committed on first use

/// State that a rank publishes to the others, in memory that all of them map.
struct alignas(64) RankState {
  std::atomic<uint64_t> handed_over{0};  ///< number of exchanges whose bytes it has written to its slots
  std::atomic<uint64_t> beats{0};        ///< heartbeats so far
  std::atomic<bool> has_failed{false};
  std::array<char, 512> cause{};  ///< set before has_failed
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics are shared by processes");

/// States of all ranks, then two slots per rank, for even and odd exchanges. Exchange n + 2 may reuse the
/// slot of n: its writer has seen all ranks arrive at n + 1, so they have read n.
class SharedRegion {
 public:
  SharedRegion(int count, size_t slot_bytes) : count_(count), slot_bytes_(slot_bytes) {
    const size_t states = sizeof(RankState) * static_cast<size_t>(count);
    bytes_ = states + 2 * static_cast<size_t>(count) * slot_bytes;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | kReserveNothing,
                        /*fd=*/-1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "shared memory");
    memory_ = static_cast<std::byte*>(memory);
    for (int rank = 0; rank < count; ++rank) new (&state(rank)) RankState;
  }
  ~SharedRegion() { munmap(memory_, bytes_); }
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  int count() const { return count_; }
  size_t slot_bytes() const { return slot_bytes_; }
  RankState& state(int rank) const { return reinterpret_cast<RankState*>(memory_)[rank]; }
  std::byte* slot(int rank, uint64_t exchange) const {
    const size_t index = 2 * static_cast<size_t>(rank) + exchange % 2;
    return memory_ + sizeof(RankState) * static_cast<size_t>(count_) + index * slot_bytes_;
  }

 private:
  int count_;
  size_t slot_bytes_;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

/// Detects the end of another process, even by a crash: each process holds the write end of a pipe, and the
/// others poll the read end for hang-up.
class DeathPipes {
 public:
  explicit DeathPipes(int count) {
    for (int rank = 0; rank < count; ++rank) {
      std::array<int, 2> ends{-1, -1};
      if (!open_pipe(ends)) throw std::system_error(errno, std::generic_category(), "a pipe between ranks");
      pipes_.push_back(ends);
    }
  }
  ~DeathPipes() {
    for (const auto& ends : pipes_) {
      for (const int end : ends) {
        if (end >= 0) close(end);
      }
    }
  }
  DeathPipes(const DeathPipes&) = delete;
  DeathPipes& operator=(const DeathPipes&) = delete;

  /// Makes this process the given rank: closes the write ends of the other ranks.
  void become(int rank) {
    for (size_t other = 0; other < pipes_.size(); ++other) {
      if (static_cast<int>(other) != rank) close(std::exchange(pipes_[other][1], -1));
    }
  }
  bool has_ended(int rank) const {
    pollfd watched{pipes_[static_cast<size_t>(rank)][0], POLLIN, 0};
    return poll(&watched, 1, 0) > 0 && (watched.revents & POLLHUP) != 0;
  }

 private:
  std::vector<std::array<int, 2>> pipes_;
};

/// Thread that increments a rank's heartbeat counter until it is destroyed.
class Heart {
 public:
  explicit Heart(std::atomic<uint64_t>& beats)
      : thread_([&beats](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            ++beats;
            std::this_thread::sleep_for(kBetweenBeats);
          }
        }) {}

 private:
  std::jthread thread_;
};

class SharedMemoryRank final : public Communicator {
 public:
  ///   lives  null if the ranks are threads
  SharedMemoryRank(std::shared_ptr<const SharedRegion> region, int rank, std::chrono::milliseconds timeout,
                   std::chrono::milliseconds heartbeat_timeout = {},
                   std::unique_ptr<DeathPipes> lives = nullptr, std::vector<pid_t> children = {})
      : region_(std::move(region)),
        rank_(rank),
        timeout_(timeout),
        heartbeat_timeout_(heartbeat_timeout),
        lives_(std::move(lives)),
        children_(std::move(children)) {
    if (lives_ != nullptr) heart_.emplace(region_->state(rank).beats);
  }

  ~SharedMemoryRank() override {
    lives_.reset();  // forks that still wait for this rank see that it has ended
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    for (const pid_t child : children_) {
      while (waitpid(child, nullptr, WNOHANG) == 0) {
        if (Clock::now() >= deadline) kill(child, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return region_->count(); }

  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all,
                  Wait wait) override {
    std::vector<std::byte*> places;  // address of each rank's bytes
    size_t begin = 0;
    for (const size_t size : sizes) {
      places.push_back(all.data() + begin);
      begin += size;
    }
    exchange_all(own, sizes, places, wait);
  }

  void ring_exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                     std::span<std::byte> received) override {
    std::vector<std::byte*> places(sizes.size(), nullptr);
    places[static_cast<size_t>(previous())] = received.data();
    exchange_all(own, sizes, places, Wait::kBounded);
  }

  void fail(const std::string& cause) noexcept override {
    RankState& state = region_->state(rank_);
    std::snprintf(state.cause.data(), state.cause.size(), "%s", cause.c_str());
    state.has_failed.store(true, std::memory_order_release);
  }

 private:
  ///   places  [size()] destination of each rank's bytes; null: discarded
  void exchange_all(std::span<const std::byte> own, std::span<const size_t> sizes,
                    std::span<std::byte* const> places, Wait wait) {
    const size_t largest = *std::max_element(sizes.begin(), sizes.end());
    for (size_t done = 0; done < largest; done += region_->slot_bytes())
      exchange(own, sizes, places, done, wait);
  }

  /// Exchanges the bytes [done, done + slot_bytes) of every rank.
  void exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                std::span<std::byte* const> places, size_t done, Wait wait) {
    const auto part_of = [&](size_t size) {
      return size > done ? std::min(size - done, region_->slot_bytes()) : 0;
    };
    if (part_of(own.size()) > 0) {
      std::memcpy(region_->slot(rank_, exchanges_), own.data() + done, part_of(own.size()));
    }
    region_->state(rank_).handed_over.store(exchanges_ + 1, std::memory_order_release);
    for (int rank = 0; rank < size(); ++rank) {
      std::byte* const place = places[static_cast<size_t>(rank)];
      const size_t count = part_of(sizes[static_cast<size_t>(rank)]);
      if (rank != rank_) await(rank, wait);
      if (place == nullptr || count == 0) continue;
      std::memcpy(place + done, rank == rank_ ? own.data() + done : region_->slot(rank, exchanges_), count);
    }
    ++exchanges_;
  }

  void await(int rank, Wait wait) const {
    const RankState& state = region_->state(rank);
    const auto is_there = [&] { return state.handed_over.load(std::memory_order_acquire) > exchanges_; };
    for (int spin = 0; spin < 200; ++spin) {
      if (is_there()) return;
    }
    const auto start = Clock::now();
    auto next_check = start + kBetweenChecks;
    // Counts checks instead of time: this process may have been suspended, too.
    int64_t checks_without_beat = 0;
    uint64_t beats = 0;
    while (!is_there()) {
      const auto now = Clock::now();
      if (now >= next_check) {
        next_check = now + kBetweenChecks;
        const uint64_t beats_now = state.beats.load(std::memory_order_relaxed);
        checks_without_beat = beats_now == beats ? checks_without_beat + 1 : 0;
        beats = beats_now;
        const std::optional<RankError> error = error_of_others();
        if (is_there()) return;  // checked again: a rank may have ended after this exchange
        if (error) throw RankError(*error);
        if (wait == Wait::kBounded && lives_ != nullptr &&
            checks_without_beat * kBetweenChecks >= heartbeat_timeout_) {
          throw RankError(rank, fmt::format("has not responded for {} seconds",
                                            std::chrono::duration<double>(heartbeat_timeout_).count()));
        }
        if (wait == Wait::kBounded && now - start >= timeout_ * patience()) {
          throw RankError(rank, fmt::format("has not answered for {} seconds",
                                            std::chrono::duration<double>(timeout_ * patience()).count()));
        }
      }
      pause_after(now - start);
    }
  }

  /// Yields, then sleeps: ranks of one machine often share its cores.
  static void pause_after(Clock::duration waited) {
    if (waited < std::chrono::milliseconds(2)) {
      std::this_thread::yield();
    } else if (waited < std::chrono::milliseconds(500)) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::optional<RankError> error_of_others() const {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_) continue;
      const RankState& state = region_->state(rank);
      if (state.has_failed.load(std::memory_order_acquire)) return RankError(rank, state.cause.data());
      if (lives_ != nullptr && lives_->has_ended(rank)) return RankError(rank, "has ended");
    }
    return {};
  }

  std::shared_ptr<const SharedRegion> region_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::unique_ptr<DeathPipes> lives_;
  std::vector<pid_t> children_;  // child processes that rank 0 started
  uint64_t exchanges_ = 0;       // finished exchanges
  std::optional<Heart> heart_;   // heartbeat of this process; last, because it uses the region
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> ranks_of_threads(int count, std::chrono::milliseconds timeout,
                                                            size_t slot_bytes) {
  const auto region = std::make_shared<const SharedRegion>(count, slot_bytes);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.reserve(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(std::make_unique<SharedMemoryRank>(region, rank, timeout));
  }
  return ranks;
}

std::unique_ptr<Communicator> fork_ranks(int count, std::chrono::milliseconds timeout,
                                         std::chrono::milliseconds heartbeat_timeout) {
  const auto region = std::make_shared<const SharedRegion>(count, kSlotBytesOfProcesses);
  auto lives = std::make_unique<DeathPipes>(count);
  std::fflush(nullptr);  // else each fork would write the buffered output again
  std::vector<pid_t> children;
  for (int rank = 1; rank < count; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      const int error = errno;
      for (const pid_t other : children) kill(other, SIGKILL);
      for (const pid_t other : children) waitpid(other, nullptr, 0);
      throw std::system_error(error, std::generic_category(), "a process for a rank");
    }
    if (child == 0) {
      std::signal(SIGINT, SIG_IGN);
      std::signal(SIGTERM, SIG_IGN);
      lives->become(rank);
      return std::make_unique<SharedMemoryRank>(region, rank, timeout, heartbeat_timeout, std::move(lives));
    }
    children.push_back(child);
  }
  lives->become(0);
  return std::make_unique<SharedMemoryRank>(region, 0, timeout, heartbeat_timeout, std::move(lives),
                                            std::move(children));
}

}  // namespace lacuna
