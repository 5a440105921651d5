#include "weights/published_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/name_list.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

/// One way to store a matrix. It applies to a module that has the tensor of codes with this type, and the
/// tensor `tell`.
struct Layout {
  QuantMethod method;
  std::string_view codes;  ///< suffix of the tensor of codes
  std::string_view type;   ///< of that tensor; empty: any
  std::string_view tell;   ///< suffix of another tensor; empty: none
  std::unique_ptr<StoredMatrix> (*open)(const PublishedModule& module);
};

constexpr std::string_view kNf4 = ".weight.quant_state.bitsandbytes__nf4";
constexpr std::string_view kFp4 = ".weight.quant_state.bitsandbytes__fp4";

constexpr std::array kLayouts = {
    Layout{QuantMethod::kMlx, ".weight", "U32", "", open_mlx},
    Layout{QuantMethod::kGptq, ".qweight", "", "", open_gptq},
    Layout{QuantMethod::kAwq, ".qweight", "", "", open_awq},
    Layout{QuantMethod::kFp8, ".weight", "F8_E4M3", "", open_float8},
    Layout{QuantMethod::kFp8, ".weight", "F8_E5M2", "", open_float8},
    Layout{QuantMethod::kCompressedTensors, ".weight", "F8_E4M3", "", open_float8},
    Layout{QuantMethod::kCompressedTensors, ".weight", "I8", "", open_compressed_int8},
    Layout{QuantMethod::kCompressedTensors, ".weight_packed", "I32", "", open_compressed_packed},
    Layout{QuantMethod::kCompressedTensors, ".weight_packed", "U8", "", open_compressed_float4},
    Layout{QuantMethod::kModelOpt, ".weight", "F8_E4M3", "", open_float8},
    Layout{QuantMethod::kModelOpt, ".weight", "U8", "", open_modelopt_float4},
    Layout{QuantMethod::kBitsAndBytes, ".weight", "I8", "", open_bnb_int8},
    Layout{QuantMethod::kBitsAndBytes, ".weight", "", kNf4, open_bnb_table},
    Layout{QuantMethod::kBitsAndBytes, ".weight", "", kFp4, open_bnb_table},
};

/// Suffixes of the tensors that accompany a module's weights, of all methods. Those for activations are not
/// read, because activations are not quantized here.
constexpr std::string_view kPartners =
    ".biases .g_idx .input_global_scale .input_scale .input_zero_point .k_scale .output_scale .qzeros "
    ".SCB .scales .v_scale .weight.absmax .weight.nested_absmax .weight.nested_quant_map "
    ".weight.quant_map .weight.quant_state.bitsandbytes__nf4 .weight.quant_state.bitsandbytes__fp4 "
    ".weight_format .weight_g_idx .weight_global_scale .weight_scale .weight_scale_2 .weight_scale_inv "
    ".weight_shape .weight_zero_point";

/// Null if the module is not stored quantized.
const Layout* layout_of(const TensorFiles& files, QuantMethod method, std::string_view module) {
  const std::string name(module);
  for (const Layout& layout : kLayouts) {
    const std::string codes = name + std::string(layout.codes);
    if (layout.method != method || !files.holds(codes)) continue;
    if (!layout.type.empty() && files.raw(codes).type != layout.type) continue;
    if (!layout.tell.empty() && !files.holds(name + std::string(layout.tell))) continue;
    return &layout;
  }
  return nullptr;
}

}  // namespace

bool is_published_module(const TensorFiles& files, const PublishedQuantization& quantization,
                         std::string_view module) {
  return layout_of(files, quantization.method, module) != nullptr;
}

bool is_partner_tensor(const TensorFiles& files, const PublishedQuantization& quantization,
                       std::string_view tensor) {
  for (size_t dot = tensor.find('.'); dot != tensor.npos; dot = tensor.find('.', dot + 1)) {
    if (!has_name(kPartners, tensor.substr(dot))) continue;
    if (is_published_module(files, quantization, tensor.substr(0, dot))) return true;
  }
  return false;
}

std::unique_ptr<StoredMatrix> open_published(const TensorFiles& files,
                                             const PublishedQuantization& quantization,
                                             std::string_view module, int64_t outputs, int64_t inputs) {
  const Layout* const layout = layout_of(files, quantization.method, module);
  expects(layout != nullptr, "open_published: the module is stored quantized");
  const PublishedModule opened{files, quantization, std::string(module), outputs, inputs};
  const std::vector<std::string>& dense = quantization.dense;
  if (std::find(dense.begin(), dense.end(), opened.name) != dense.end()) {
    throw InputError("{}: config.json says that {} is not quantized; expected both to agree",
                     files.raw(opened.tensor(layout->codes)).file, in_quotes(opened.name));
  }
  // Scaling the activations before the matmul (AWQ's pre_quant_scale) is not supported.
  constexpr std::string_view kScaledInputs = ".pre_quant_scale";
  if (opened.holds(kScaledInputs)) {
    throw InputError("{}: tensor {} scales the inputs of a matrix; expected a format without it",
                     files.raw(opened.tensor(kScaledInputs)).file, in_quotes(opened.tensor(kScaledInputs)));
  }
  return layout->open(opened);
}

bool PublishedModule::holds(std::string_view suffix) const {
  return files.holds(tensor(suffix));
}

RawTensor PublishedModule::raw(std::string_view suffix) const {
  return files.raw(tensor(suffix));
}

int64_t PublishedModule::columns_of(const RawTensor& stored) const {
  if (stored.shape.size() < 2 || stored.shape.size() > 3) return -1;
  const int64_t rows =
      stored.shape.size() == 2 ? stored.shape[0] : stored.shape[0] * std::max<int64_t>(stored.shape[1], 0);
  return rows == outputs ? stored.shape.back() : -1;
}

void PublishedModule::expect_sizes(std::string_view suffix, int64_t bits, int64_t group) const {
  const CodeSizes& said = quantization.sizes_for(name);
  const int64_t said_group = said.group == -1 ? inputs : said.group;
  const bool has_bits = said.bits == 0 || said.bits == bits;
  const bool has_group =
      said_group == 0 || group == 0 || std::min(said_group, inputs) == std::min(group, inputs);
  if (has_bits && has_group) return;
  throw InputError(
      "{}: tensor {} holds codes of {} bits in groups of {}, and config.json says {} bits in groups of {}; "
      "expected both to agree",
      raw(suffix).file, in_quotes(tensor(suffix)), bits, group, said.bits, said.group);
}

void PublishedModule::refuse(std::string_view suffix, std::string_view expected) const {
  const RawTensor stored = raw(suffix);
  throw InputError("{}: tensor {} is {} of shape {}; expected {}, for [{}, {}] weights", stored.file,
                   in_quotes(tensor(suffix)), stored.type, shown(stored.shape), expected, outputs, inputs);
}

}  // namespace lacuna
