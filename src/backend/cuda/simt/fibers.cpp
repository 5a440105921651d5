#include "backend/cuda/simt/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#ifdef LACUNA_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LACUNA_SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace lacuna::simt {
namespace {

#if defined(LACUNA_SIMT_ASAN) || defined(LACUNA_SIMT_TSAN)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif

}  // namespace

FiberStack::FiberStack() {
  const auto guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = kStackBytes + guard;
  void* memory =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, guard, PROT_NONE);
#ifdef LACUNA_SIMT_TSAN
  thread_state_ = __tsan_create_fiber(0);
#endif
}

FiberStack::~FiberStack() {
#ifdef LACUNA_SIMT_TSAN
  __tsan_destroy_fiber(thread_state_);
#endif
#ifdef LACUNA_SIMT_ASAN
  // An abandoned fiber leaves its frames poisoned.
  __asan_unpoison_memory_region(memory_ + (bytes_ - kStackBytes), kStackBytes);
#endif
  munmap(memory_, bytes_);
}

void FiberStack::start(Context& context, void (*entry)(boost::context::detail::transfer_t)) {
  std::byte* bottom = memory_ + (bytes_ - kStackBytes);
  context = {.stack_bottom = bottom, .stack_bytes = kStackBytes, .thread_state = thread_state_};
  context.where = boost::context::detail::make_fcontext(bottom + kStackBytes, kStackBytes, entry);
}

void jump(Context& from, Context& to, bool for_good) {
#ifdef LACUNA_SIMT_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack, to.stack_bottom, to.stack_bytes);
#else
  (void)for_good;
#endif
#ifdef LACUNA_SIMT_TSAN
  __tsan_switch_to_fiber(to.thread_state, __tsan_switch_to_fiber_no_sync);
#endif
  arrive(boost::context::detail::jump_fcontext(to.where, &from), from);
}

void arrive(boost::context::detail::transfer_t transfer, Context& self) {
  auto& came_from = *static_cast<Context*>(transfer.data);
  came_from.where = transfer.fctx;
#ifdef LACUNA_SIMT_ASAN
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
  came_from.stack_bottom = bottom;
  came_from.stack_bytes = bytes;
#else
  (void)self;
#endif
}

void describe_host_thread(Context& context) {
  context = {};
#ifdef LACUNA_SIMT_TSAN
  context.thread_state = __tsan_get_current_fiber();
#endif
}

void release([[maybe_unused]] void* at) {
#ifdef LACUNA_SIMT_TSAN
  __tsan_release(at);
#endif
}

void acquire([[maybe_unused]] void* at) {
#ifdef LACUNA_SIMT_TSAN
  __tsan_acquire(at);
#endif
}

}  // namespace lacuna::simt
