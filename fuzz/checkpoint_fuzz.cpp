// A checkpoint folder with its index, shards, panels and quantized tensors: refused with InputError, or every
// row of every matrix can be read.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "fuzz.h"
#include "mutators.h"
#include "weights/checkpoint.h"
#include "weights/panel_tensors.h"
#include "weights/quantized_tensors.h"
#include "weights/stored_matrix.h"

namespace {

using lacuna::Checkpoint;
using lacuna::RawTensor;

constexpr int64_t kMaxWeights = 1 << 14;
constexpr size_t kMaxNames = 32;
constexpr std::string_view kWeightSuffix = ".weight";

/// Rows by columns that a matrix may have, judged by one of its tensors.
using Sizes = std::vector<std::pair<int64_t, int64_t>>;

Sizes sizes_of(const RawTensor& tensor, std::string_view name) {
  if (name.ends_with(lacuna::kFormatSuffix)) {
    if (tensor.type != "I64" || tensor.bytes.size() < 2 * sizeof(int64_t)) return {{16, 16}};
    int64_t outputs = 0, inputs = 0;
    std::memcpy(&outputs, tensor.bytes.data(), sizeof outputs);
    std::memcpy(&inputs, tensor.bytes.data() + sizeof outputs, sizeof inputs);
    return {{outputs, inputs}};
  }
  if (tensor.shape.size() == 3) return {{tensor.shape[0] * tensor.shape[1], tensor.shape[2]}};
  if (tensor.shape.size() != 2) return {{1, 1}};
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  if (rows > kMaxWeights || columns > kMaxWeights) return {};
  if (name.ends_with(lacuna::kCodesSuffix)) {
    return {{rows, columns}, {rows, 2 * columns}, {rows, 2 * columns - 1}};
  }
  // Formats of other programs: 4 bits of GPTQ and AWQ, of words, and of pairs; 3 bits, and the size of seeds.
  if (name.ends_with(".qweight")) return {{columns, 8 * rows}, {8 * columns, rows}, {32, 64}};
  return {{rows, columns}, {rows, 8 * columns}, {rows, 2 * columns}, {32, 64}};
}

void read_rows(const lacuna::StoredMatrix& matrix, int64_t outputs, int64_t inputs) {
  static lacuna::ThreadPool threads(1);
  std::vector<float> row(static_cast<size_t>(inputs));
  for (int64_t n = 0; n < outputs; ++n) matrix.read(n, row.data());
  if (const auto quantization = matrix.quantization()) {
    lacuna::QuantizedRow codes;
    codes.resize(*quantization, inputs);
    for (int64_t n = 0; n < outputs; ++n) matrix.read_codes(n, codes);
    const auto packed = pack(threads, lacuna::WeightFormat(*quantization), matrix, 0, outputs, inputs);
    fuzz::check(packed.bytes() > 0);
  }
  const auto packed = pack(threads, lacuna::WeightFormat(lacuna::DType::kBF16), matrix, 0, outputs, inputs);
  packed.read_row(outputs - 1, row.data());
}

/// Reads the matrix that a tensor belongs to.
void read_matrix(const Checkpoint& checkpoint, std::string_view name) {
  std::string_view module = name;
  for (const std::string_view suffix :
       {kWeightSuffix, lacuna::kCodesSuffix, lacuna::kScalesSuffix, lacuna::kPanelsSuffix,
        lacuna::kFormatSuffix, std::string_view(".qweight"), std::string_view(".weight_packed")}) {
    if (name.ends_with(suffix)) module = name.substr(0, name.size() - suffix.size());
  }
  for (const auto& [outputs, inputs] : sizes_of(checkpoint.raw(name), name)) {
    if (outputs < 1 || inputs < 1 || outputs > kMaxWeights || inputs > kMaxWeights / outputs) continue;
    try {
      read_rows(*checkpoint.matrix(module, outputs, inputs), outputs, inputs);
    } catch (const lacuna::InputError&) {  // another of the sizes may be right
    }
  }
}

void read_all(const Checkpoint& checkpoint, size_t most_bytes) {
  fuzz::check(checkpoint.total_bytes() >= 0);
  std::vector<std::string_view> names = checkpoint.names();
  names.resize(std::min(names.size(), kMaxNames));
  unsigned sum = 0;
  for (const std::string_view name : names) {
    fuzz::check(checkpoint.holds(name));
    const RawTensor tensor = checkpoint.raw(name);
    fuzz::check(tensor.bytes.size() <= most_bytes);
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
    read_matrix(checkpoint, name);
    try {
      if (tensor.bytes.size() < size_t{1} << 16) checkpoint.values(name, tensor.shape);
    } catch (const lacuna::InputError&) {  // not of a type that holds numbers
    }
  }
  volatile unsigned keep = sum;  // so that the reads are not optimised away
  static_cast<void>(keep);
  if (checkpoint.is_packed()) panel_formats(checkpoint);
  checkpoint.dtype();
}

}  // namespace

LACUNA_FUZZ_MUTATOR(fuzz::mutate_files)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::ScratchFolder folder;
  folder.replace(fuzz::split_files(fuzz::text_of(data, size)));
  try {
    read_all(Checkpoint::open(folder.path()), size);
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
