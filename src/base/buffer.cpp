#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdlib>

namespace lacuna {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

std::byte* allocate_aligned(size_t bytes) {
  if (bytes > PTRDIFF_MAX) throw std::bad_alloc();
  const bool is_large = bytes >= kHugePage;
  // Rounds up to whole huge pages if that wastes at most 1/16.
  const size_t padding = (kHugePage - bytes % kHugePage) % kHugePage;
  if (is_large && padding <= bytes / 16) bytes += padding;
  void* memory = nullptr;
  if (::posix_memalign(&memory, is_large ? kHugePage : kCacheLine, bytes) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // With pages of 4 KiB a large matrix costs many page-table walks. Only a hint: failure is harmless.
  if (is_large) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(memory);
}

void free_aligned(std::byte* memory) {
  std::free(memory);
}

}  // namespace lacuna
