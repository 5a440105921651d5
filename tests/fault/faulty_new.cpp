// Takes the place of operator new in the whole program.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "fault/faulty_calls.h"

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (lacuna::allocation_fails(bytes)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#pragma GCC visibility push(default)  // the C++ library's own calls come here, too

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, 0);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return allocate(bytes, 0);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return allocate(bytes, 0);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t& /*nothrow*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t& /*nothrow*/) noexcept {
  std::free(memory);
}

#pragma GCC visibility pop

/// Constructors of nlohmann::json lose a few bytes where they throw.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:nlohmann::*basic_json\n";
}
