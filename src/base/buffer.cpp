#include "base/buffer.h"

#include <sys/mman.h>

namespace lacuna {
namespace {

constexpr auto kAlignment = std::align_val_t{64};

}  // namespace

std::byte* allocate_aligned(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new[](bytes, kAlignment));
#ifdef MADV_HUGEPAGE
  // Walking a large matrix page by page of 4 KiB costs a look-up in the page tables each time. Only a hint: a
  // refusal changes nothing.
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  if (bytes >= skipped + kHugePage) {
    ::madvise(memory + skipped, (bytes - skipped) / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return memory;
}

void free_aligned(std::byte* memory) {
  ::operator delete[](memory, kAlignment);
}

}  // namespace lacuna
