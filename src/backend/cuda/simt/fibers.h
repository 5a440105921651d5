// Fibers: stacks and context switches, announced to the sanitizers.
//
// This file and the scheduler are compiled without -fsanitize=thread: a context switch inside instrumented
// code would confuse the sanitizer's call stack.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace lacuna::simt {

/// Saved execution state of a fiber or of the host thread.
struct Context {
  boost::context::detail::fcontext_t where = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;    // AddressSanitizer's
  void* thread_state = nullptr;  // ThreadSanitizer's
};

/// A stack with a guard page below it. Its ThreadSanitizer state lives with it, because fibers reuse the
/// stack.
class FiberStack {
 public:
  FiberStack();
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  /// Makes `context` start at `entry` at the first jump to it.
  void start(Context& context, void (*entry)(boost::context::detail::transfer_t));

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;  // including the guard page
  void* thread_state_ = nullptr;
};

/// Saves `from` and continues at `to`. Returns at the next jump to `from`; never if `for_good`.
void jump(Context& from, Context& to, bool for_good);
/// Completes a jump; a fiber's entry function must call it first.
void arrive(boost::context::detail::transfer_t transfer, Context& self);
/// Fills in the host thread's own context, before its first jump.
void describe_host_thread(Context& context);

/// Tells ThreadSanitizer that everything before the release happens before everything after the acquire.
void release(void* at);
void acquire(void* at);

}  // namespace lacuna::simt
