// A GGUF file: refused with InputError, or every byte that its tensors claim can be read and dequantized.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "fuzz.h"
#include "mutators.h"
#include "weights/gguf.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_gguf)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = std::as_bytes(std::span(data, size));
    const lacuna::GgufContent content = lacuna::GgufContent::parse(file, "fuzz");
    size_t read = 0;
    for (const lacuna::GgufTensor& tensor : content.tensors) {
      read += tensor.bytes.size();
      if (read > 8 * size) break;  // tensors may lie on top of each other
      if (tensor.bytes.empty()) continue;
      fuzz::check(tensor.bytes.size() <= size);
      const lacuna::GgmlType& type = *lacuna::ggml_type(tensor.type);
      std::vector<float> values(tensor.bytes.size() / static_cast<size_t>(type.block_bytes) *
                                static_cast<size_t>(type.block));
      lacuna::widen_blocks(tensor.type, tensor.bytes.data(), values);
      volatile float keep = values.back();
      static_cast<void>(keep);
    }
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
