#include "fault/faulty_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

namespace lacuna {
namespace {

FaultPlan plan;
std::atomic<bool> is_on{false};
std::array<std::atomic<uint64_t>, kNumFaultyCalls> counts{};
std::atomic<uint64_t> num_failed{0};
thread_local bool is_spared = false;
thread_local bool is_spared_small = false;
constexpr size_t kSmallBytes = 16 << 10;

/// One of the calls of a program, as LACUNA_FAULT names it.
struct NamedFault {
  static constexpr int kShort = -1;
  static constexpr int kKill = -2;

  FaultyCall call = FaultyCall::kWrite;
  int failure = 0;  // errno, kShort or kKill; 0: nothing fails
  uint64_t nth = 0;
  std::atomic<uint64_t> seen{0};

  NamedFault() {
    const char* const text = std::getenv("LACUNA_FAULT");
    char name[16] = {};
    char what[16] = {};
    unsigned long long number = 0;
    if (text == nullptr || std::sscanf(text, "%15[^:]:%15[^:]:%llu", name, what, &number) != 3) return;
    nth = number;
    const auto is = [](const char* a, const char* b) { return std::strcmp(a, b) == 0; };
    if (is(name, "open")) call = FaultyCall::kOpen;
    if (is(name, "read")) call = FaultyCall::kRead;
    if (is(name, "fsync")) call = FaultyCall::kSync;
    if (is(name, "rename")) call = FaultyCall::kRename;
    if (is(what, "ENOSPC")) failure = ENOSPC;
    if (is(what, "EIO")) failure = EIO;
    if (is(what, "EINTR")) failure = EINTR;
    if (is(what, "EMFILE")) failure = EMFILE;
    if (is(what, "short")) failure = kShort;
    if (is(what, "kill")) failure = kKill;
    if (failure == 0 || (call == FaultyCall::kWrite && !is(name, "write"))) std::abort();  // a misspelt fault
  }
};

NamedFault& named() {
  static NamedFault fault;
  return fault;
}

/// The failure that this call of a program has; 0: none.
int named_failure(FaultyCall call) {
  NamedFault& fault = named();
  if (fault.failure == 0 || fault.call != call) return 0;
  const uint64_t number = ++fault.seen;
  const bool fails = number == fault.nth || (number > fault.nth && fault.failure == ENOSPC);
  if (fails && fault.failure == NamedFault::kKill) ::raise(SIGKILL);
  return fails ? fault.failure : 0;
}

/// Mixes bits (the finalizer of SplitMix64).
uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
  value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
  return value ^ value >> 31U;
}

/// Random bits where this call fails; 0: it does not.
uint64_t dice(FaultyCall call) {
  if (!is_on.load(std::memory_order_relaxed) || is_spared) return 0;
  const auto index = static_cast<size_t>(call);
  const uint32_t one_in = plan.one_in[index];
  if (one_in == 0) return 0;
  const uint64_t bits = mix(plan.seed + mix(index + 1) + counts[index]++ * 0x9e3779b97f4a7c15U);
  if (bits % one_in != 0) return 0;
  ++num_failed;
  return mix(bits) | 1U;
}

/// Not the standard streams: tests give those to programs.
bool is_regular(int descriptor) {
  struct stat status = {};
  return descriptor > 2 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <typename Result>
Result fail_with(int error) {
  errno = error;
  return static_cast<Result>(-1);
}

size_t part_of(size_t count) {
  return count < 2 ? count : count / 2;
}

/// The error of a file's call by the dice: the disk, or a signal.
int file_error(uint64_t bits) {
  constexpr std::array kErrors = {EIO, ENOSPC, EINTR};
  return kErrors[(bits >> 8U) % kErrors.size()];
}

/// Gives `error`, or the number of bytes that a short call takes.
struct Outcome {
  int error = 0;
  size_t count = 0;
};

/// EINTR and a part of the bytes are not failures; `error` is one. Each is as likely.
Outcome outcome_of_transfer(uint64_t bits, size_t count, int error) {
  switch ((bits >> 8U) % 3) {
    case 0:
      return {EINTR, 0};
    case 1:
      return {0, part_of(count)};
    default:
      return {error, 0};
  }
}

/// A call of read(2) or write(2), of a regular file with the failure that it has.
template <typename Bytes>
ssize_t transfer(FaultyCall call, ssize_t (*real)(int, Bytes*, size_t), int descriptor, Bytes* bytes,
                 size_t count) {
  if (!is_regular(descriptor)) return real(descriptor, bytes, count);
  if (const int failure = named_failure(call); failure == NamedFault::kShort) {
    count = part_of(count);
  } else if (failure > 0) {
    return fail_with<ssize_t>(failure);
  }
  if (const uint64_t bits = dice(call); bits != 0) {
    const int error = call == FaultyCall::kRead ? EIO : file_error(bits);
    const Outcome outcome = outcome_of_transfer(bits, count, error);
    if (outcome.error != 0) return fail_with<ssize_t>(outcome.error);
    count = outcome.count;
  }
  return real(descriptor, bytes, count);
}

}  // namespace

void begin_faults(const FaultPlan& wanted) {
  plan = wanted;
  for (auto& count : counts) count = 0;
  num_failed = 0;
  is_on = true;
}

uint64_t end_faults() {
  is_on = false;
  return num_failed;
}

void spare_this_thread() {
  is_spared = true;
}

void spare_small_allocations_of_this_thread() {
  is_spared_small = true;
}

bool allocation_fails(size_t bytes) {
  if (is_spared_small && bytes < kSmallBytes) return false;
  // The destructor of nlohmann::json allocates a stack of its elements and ends the program where it cannot.
  // Sizes that such a stack has here are spared, and so is whatever destructors need while an exception is
  // thrown.
  constexpr size_t kJsonBytes = 16;
  constexpr size_t kMaxStackBytes = 4096;
  if (bytes % kJsonBytes == 0 && bytes <= kMaxStackBytes) return false;
  if (std::uncaught_exceptions() > 0) return false;
  if (is_on.load(std::memory_order_relaxed) && !is_spared && plan.nth_allocation != 0) {
    const bool fails = ++counts[static_cast<size_t>(FaultyCall::kAllocate)] == plan.nth_allocation;
    if (fails) ++num_failed;
    return fails;
  }
  return dice(FaultyCall::kAllocate) != 0;
}

}  // namespace lacuna

using lacuna::FaultyCall;
using lacuna::NamedFault;

#pragma GCC visibility push(default)
extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t count) {
  static auto* const real = lacuna::next<ssize_t(int, const void*, size_t)>("write");
  return lacuna::transfer(FaultyCall::kWrite, real, descriptor, bytes, count);
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  static auto* const real = lacuna::next<ssize_t(int, void*, size_t)>("read");
  return lacuna::transfer(FaultyCall::kRead, real, descriptor, bytes, count);
}

int fsync(int descriptor) {
  static auto* const real = lacuna::next<int(int)>("fsync");
  if (const int failure = lacuna::named_failure(FaultyCall::kSync); failure > 0) {
    return lacuna::fail_with<int>(failure);
  }
  if (const uint64_t bits = lacuna::dice(FaultyCall::kSync); bits != 0) {
    return lacuna::fail_with<int>(lacuna::file_error(bits));
  }
  return real(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = lacuna::next<int(const char*, const char*)>("rename");
  if (const int failure = lacuna::named_failure(FaultyCall::kRename); failure > 0) {
    return lacuna::fail_with<int>(failure);
  }
  if (lacuna::dice(FaultyCall::kRename) != 0) return lacuna::fail_with<int>(EIO);
  return real(from, to);
}

int open(const char* path, int flags, ...) {
  static auto* const real = lacuna::next<int(const char*, int, ...)>("open");
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  if (const int failure = lacuna::named_failure(FaultyCall::kOpen); failure > 0) {
    return lacuna::fail_with<int>(failure);
  }
  if (const uint64_t bits = lacuna::dice(FaultyCall::kOpen); bits != 0) {
    return lacuna::fail_with<int>((bits >> 8U) % 2 == 0 ? EMFILE : EIO);
  }
  return real(path, flags, mode);
}

ssize_t recv(int socket, void* bytes, size_t count, int flags) {
  static auto* const real = lacuna::next<ssize_t(int, void*, size_t, int)>("recv");
  if (const uint64_t bits = lacuna::dice(FaultyCall::kReceive); bits != 0) {
    const lacuna::Outcome outcome = lacuna::outcome_of_transfer(bits, count, ECONNRESET);
    if (outcome.error != 0) return lacuna::fail_with<ssize_t>(outcome.error);
    count = outcome.count;
  }
  return real(socket, bytes, count, flags);
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static auto* const real = lacuna::next<ssize_t(int, msghdr*, int)>("recvmsg");
  const uint64_t bits = lacuna::dice(FaultyCall::kReceive);
  if (bits == 0 || message->msg_iovlen == 0) return real(socket, message, flags);
  const lacuna::Outcome outcome = lacuna::outcome_of_transfer(bits, message->msg_iov->iov_len, ECONNRESET);
  if (outcome.error != 0) return lacuna::fail_with<ssize_t>(outcome.error);
  iovec first = *message->msg_iov;
  first.iov_len = outcome.count;
  msghdr part = *message;
  part.msg_iov = &first;
  part.msg_iovlen = 1;
  return real(socket, &part, flags);
}

// No part of the bytes: to an edge-triggered reactor that means a full buffer, after which the system tells
// when there is room again. Clients that read slowly fill it.
ssize_t send(int socket, const void* bytes, size_t count, int flags) {
  static auto* const real = lacuna::next<ssize_t(int, const void*, size_t, int)>("send");
  if (const uint64_t bits = lacuna::dice(FaultyCall::kSend); bits != 0) {
    return lacuna::fail_with<ssize_t>((bits >> 8U) % 2 == 0 ? EINTR : EPIPE);
  }
  return real(socket, bytes, count, flags);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const real = lacuna::next<ssize_t(int, const msghdr*, int)>("sendmsg");
  if (const uint64_t bits = lacuna::dice(FaultyCall::kSend); bits != 0) {
    return lacuna::fail_with<ssize_t>((bits >> 8U) % 2 == 0 ? EINTR : EPIPE);
  }
  return real(socket, message, flags);
}

int accept(int socket, sockaddr* address, socklen_t* length) {
  static auto* const real = lacuna::next<int(int, sockaddr*, socklen_t*)>("accept");
  if (const uint64_t bits = lacuna::dice(FaultyCall::kAccept); bits != 0) {
    constexpr std::array kErrors = {EMFILE, ENFILE, ECONNABORTED, EINTR, ENOBUFS};
    return lacuna::fail_with<int>(kErrors[(bits >> 8U) % kErrors.size()]);
  }
  return real(socket, address, length);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = lacuna::next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock != CLOCK_REALTIME || result != 0) return result;
  if (const uint64_t bits = lacuna::dice(FaultyCall::kClock); bits != 0) {
    // Anything from 1970 to 2106.
    time->tv_sec = static_cast<time_t>(bits >> 32U);
  }
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
#pragma GCC visibility pop
