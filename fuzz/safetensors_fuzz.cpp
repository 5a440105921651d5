// A safetensors file: refused with InputError, or every byte that its tensors claim can be read.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "weights/safetensors.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_safetensors)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    size_t claimed = 0;
    unsigned sum = 0;
    for (const auto& entry : lacuna::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz")) {
      for (const std::byte byte : entry.bytes) sum += std::to_integer<unsigned>(byte);
      claimed += entry.bytes.size();
    }
    volatile unsigned keep = sum;  // so that the reads are not optimised away
    static_cast<void>(keep);
    fuzz::check(claimed <= size);
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
