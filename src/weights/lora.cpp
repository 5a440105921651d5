#include "weights/lora.h"

#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "weights/lora_config.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Kinds of tensors of an update; PEFT appends a name for each to the module's path.
enum class Part : uint8_t { kA, kB, kBiasOfB, kEmbeddingA, kEmbeddingB, kMagnitude };

struct PartName {
  std::string_view mark;
  Part part;
};

constexpr PartName kParts[] = {{".lora_embedding_A", Part::kEmbeddingA},
                               {".lora_embedding_B", Part::kEmbeddingB},
                               {".lora_magnitude_vector", Part::kMagnitude},
                               {".lora_A", Part::kA},
                               {".lora_B", Part::kB}};

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kBiasSuffix = ".bias";

/// Removes the adapter's ".NAME" before the ending, which PEFT leaves out when it saves.
std::string_view without_adapter_name(std::string_view ending) {
  if (!ending.starts_with('.')) return ending;
  const size_t next = ending.find('.', 1);
  const bool is_end = ending == kWeightSuffix || ending == kBiasSuffix;
  if (next == ending.npos) return is_end ? ending : std::string_view();
  return ending.substr(next);
}

/// Module and part that a tensor's name states; empty if the tensor is not part of an update.
std::optional<std::pair<std::string, Part>> part_of(std::string_view name) {
  for (const auto& [mark, part] : kParts) {
    const size_t at = name.rfind(mark);
    if (at == name.npos || at == 0) continue;
    const std::string_view ending = without_adapter_name(name.substr(at + mark.size()));
    if (!ending.empty() && ending != kWeightSuffix && !(part == Part::kB && ending == kBiasSuffix)) return {};
    return std::pair(std::string(name.substr(0, at)), ending == kBiasSuffix ? Part::kBiasOfB : part);
  }
  return {};
}

/// The tensor's name in the model, without the prefixes of PEFT's wrappers.
std::string own_name(std::string name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  constexpr std::string_view kSaved = ".modules_to_save.";
  if (const size_t saved = name.find(kSaved); saved != name.npos) {
    const size_t end = name.find('.', saved + kSaved.size());
    const bool has_adapter_name = end != name.npos;
    name.erase(saved, has_adapter_name ? end - saved : kSaved.size() - 1);
  }
  constexpr std::string_view kBase = ".base_layer";
  const size_t base = name.find(std::string(kBase) + '.');
  if (base != name.npos) name.erase(base, kBase.size());
  return name;
}

class Reader {
 public:
  Reader(const TensorFiles& file, std::string place, const LoraConfig& config, float scale)
      : file_(file), place_(std::move(place)), config_(config), scale_(scale) {}

  void read(std::vector<LoraUpdate>& updates, std::vector<LoraReplacement>& replacements) {
    for (const std::string_view full : file_.names()) {
      const std::string name = own_name(std::string(full));
      const RawTensor raw = file_.raw(full);
      const TensorView tensor = file_.tensor(full, raw.shape);
      if (const auto part = part_of(name)) {
        auto& [module, which] = *part;
        if (!modules_[module].emplace(which, tensor).second) refuse(full, "another tensor has the same part");
      } else if (name.find(".lora_") != name.npos || name.ends_with(".original_module.weight")) {
        refuse(full, "expected lora_A, lora_B, lora_embedding_A, lora_embedding_B or lora_magnitude_vector");
      } else if (!names_.insert(name).second) {
        refuse(full, "another tensor has the same name in the model");
      } else {
        replacements.push_back({name, tensor});
      }
    }
    for (const auto& [module, parts] : modules_) updates.push_back(update_of(module, parts));
    if (updates.empty() && replacements.empty())
      throw InputError("{}: holds no tensor of an adapter", place_);
    if (scale_ == 1 || replacements.empty()) return;
    throw InputError(
        "{}: tensor {} replaces the model's own, which has no scale; expected the adapter without =SCALE",
        place_, in_quotes(replacements.front().tensor.name));
  }

 private:
  using Parts = std::map<Part, TensorView>;

  [[noreturn]] void refuse(std::string_view tensor, std::string_view reason) const {
    throw InputError("{}: tensor {} is not known: {}", place_, in_quotes(tensor), reason);
  }

  const TensorView* find(const Parts& parts, Part part) const {
    const auto found = parts.find(part);
    return found == parts.end() ? nullptr : &found->second;
  }

  void expect_shape(const TensorView& tensor, std::vector<int64_t> shape) const {
    if (tensor.shape == shape) return;
    throw InputError("{}: tensor {} has shape {}; expected {}", place_, in_quotes(tensor.name),
                     shown(tensor.shape), shown(shape));
  }

  LoraUpdate update_of(const std::string& module, const Parts& parts) const {
    LoraUpdate update;
    update.module = module;
    update.is_embedding = parts.contains(Part::kEmbeddingA) || parts.contains(Part::kEmbeddingB);
    const TensorView* a = find(parts, update.is_embedding ? Part::kEmbeddingA : Part::kA);
    const TensorView* b = find(parts, update.is_embedding ? Part::kEmbeddingB : Part::kB);
    if (a == nullptr || b == nullptr || (update.is_embedding && parts.size() > 2)) {
      throw InputError("{}: tensor {} of module {} stands alone; expected both factors of an update, A and B",
                       place_, in_quotes(parts.begin()->second.name), in_quotes(module));
    }
    for (const TensorView* factor : {a, b}) {
      if (factor->shape.size() == 2 && factor->shape[0] > 0 && factor->shape[1] > 0) continue;
      throw InputError("{}: tensor {} has shape {}; expected two dimensions", place_, in_quotes(factor->name),
                       shown(factor->shape));
    }
    update.a = *a;
    update.b = *b;
    update.rank = config_.rank_of(module);
    update.outputs = update.is_embedding ? a->shape[1] : b->shape[0];
    update.inputs = update.is_embedding ? b->shape[0] : a->shape[1];
    expect_shape(*a, {update.rank, update.is_embedding ? update.outputs : update.inputs});
    expect_shape(*b, {update.is_embedding ? update.inputs : update.outputs, update.rank});
    update.scaling = scale_ * config_.scaling_of(module);
    config_.expect_targeted(module, a->name);
    read_rest(parts, update);
    return update;
  }

  void read_rest(const Parts& parts, LoraUpdate& update) const {
    const TensorView* magnitude = find(parts, Part::kMagnitude);
    if (config_.use_dora != (magnitude != nullptr)) {
      throw InputError("{}: module {} has {}, and \"use_dora\" is {}; expected both to agree", place_,
                       in_quotes(update.module),
                       magnitude != nullptr ? "a lora_magnitude_vector" : "no lora_magnitude_vector",
                       config_.use_dora);
    }
    if (magnitude != nullptr) {
      expect_shape(*magnitude, {update.outputs});
      update.magnitude = *magnitude;
    }
    const TensorView* bias = find(parts, Part::kBiasOfB);
    if (bias == nullptr) return;
    expect_shape(*bias, {update.outputs});
    update.bias = *bias;
  }

  const TensorFiles& file_;
  std::string place_;
  const LoraConfig& config_;
  float scale_;
  std::map<std::string, Parts> modules_;
  std::set<std::string> names_;
};

std::vector<float> all_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  widen(tensor, 0, values);
  return values;
}

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> result(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col)
      result[static_cast<size_t>(col * rows + row)] = values[static_cast<size_t>(row * cols + col)];
  }
  return result;
}

}  // namespace

LoraAdapter LoraAdapter::open(const fs::path& folder, float scale) {
  LoraAdapter adapter;
  adapter.folder_ = folder;
  adapter.scale_ = scale;
  const fs::path weights = folder / "adapter_model.safetensors";
  std::error_code ignored;
  if (!fs::is_regular_file(weights, ignored)) {
    throw InputError("{}: holds no adapter_model.safetensors; expected an adapter as PEFT saves it",
                     folder.string());
  }
  const LoraConfig config = LoraConfig::read(folder / "adapter_config.json");
  adapter.file_ = std::make_shared<const TensorFiles>(TensorFiles::open_file(weights));
  adapter.keeps_tied_ = config.keeps_tied;
  Reader(*adapter.file_, weights.string(), config, scale).read(adapter.updates_, adapter.replacements_);
  return adapter;
}

LoraFactors::LoraFactors(const LoraUpdate& update)
    : inputs_(update.inputs), rank_(update.rank), scaling_(update.scaling) {
  left_ = all_of(update.b);
  right_ = all_of(update.a);
  if (update.is_embedding) {
    std::vector<float> left = transposed(right_, rank_, update.outputs);
    right_ = transposed(left_, inputs_, rank_);
    left_ = std::move(left);
  }
  if (update.magnitude) magnitude_ = all_of(*update.magnitude);
}

void LoraFactors::apply(int64_t n, float* row) const {
  thread_local std::vector<float> delta;
  delta.assign(static_cast<size_t>(inputs_), 0.0F);
  const float* const left = left_.data() + n * rank_;
  for (int64_t r = 0; r < rank_; ++r) {
    const float factor = left[r];
    const float* const right = right_.data() + r * inputs_;
    for (int64_t i = 0; i < inputs_; ++i) delta[static_cast<size_t>(i)] += factor * right[i];
  }
  for (int64_t i = 0; i < inputs_; ++i) row[i] += scaling_ * delta[static_cast<size_t>(i)];
  if (magnitude_.empty()) return;
  double sum = 0;
  for (int64_t i = 0; i < inputs_; ++i) sum += double{row[i]} * row[i];
  const auto factor = static_cast<float>(magnitude_[static_cast<size_t>(n)] / std::sqrt(sum));
  for (int64_t i = 0; i < inputs_; ++i) row[i] *= factor;
}

}  // namespace lacuna
