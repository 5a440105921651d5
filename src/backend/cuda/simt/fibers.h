// Stacks to run on, and the jump from one to another, announced to the sanitizers.
//
// This file and the scheduler are compiled without -fsanitize=thread: a jump inside instrumented code would
// confuse the sanitizer's own call stack.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace lacuna::simt {

/// Where a fiber, or the host thread itself, continues.
struct Context {
  boost::context::detail::fcontext_t where = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;    // of AddressSanitizer
  void* thread_state = nullptr;  // of ThreadSanitizer
};

/// A stack with a guard page below it. Keeps its history in ThreadSanitizer as long as it lives, because its
/// bytes are used again.
class FiberStack {
 public:
  FiberStack();
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  /// `context` then starts at `entry` when it is jumped to.
  void start(Context& context, void (*entry)(boost::context::detail::transfer_t));

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;  // with the guard page
  void* thread_state_ = nullptr;
};

/// Saves `from` and continues at `to`; returns when somebody jumps to `from`, or never, if `for_good`.
void jump(Context& from, Context& to, bool for_good);
/// The first call of a fiber's entry.
void arrive(boost::context::detail::transfer_t transfer, Context& self);
/// Fills in the host thread's own context, before its first jump.
void describe_host_thread(Context& context);

/// Tells ThreadSanitizer that everything before the release happens before everything after the acquire.
void release(void* at);
void acquire(void* at);

}  // namespace lacuna::simt
