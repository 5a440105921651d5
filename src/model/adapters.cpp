#include "model/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "model/families.h"
#include "model/fingerprint.h"
#include "model/gguf_model.h"
#include "model/tensor_places.h"
#include "model/unread_tensors.h"
#include "weights/checkpoint.h"
#include "weights/lora.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kBiasSuffix = ".bias";
constexpr float kMaxScale = 1000;

/// A change of rows [first, first + count) of a checkpoint's tensor: by an update, or by a replacement
/// tensor, from their row `from` on.
struct RowEdit {
  int64_t first = 0, count = 0, from = 0;
  const LoraUpdate* update = nullptr;
  const LoraReplacement* replacement = nullptr;

  bool covers(int64_t row) const { return row >= first && row < first + count; }
};

using Edits = std::map<std::string, std::vector<RowEdit>, std::less<>>;

/// A matrix with the adapters' changes. A LoRA update's factors are read when its first row is.
class MergedMatrix : public StoredMatrix {
 public:
  MergedMatrix(std::unique_ptr<StoredMatrix> base, const std::vector<RowEdit>& edits, int64_t inputs)
      : base_(std::move(base)), inputs_(inputs) {
    for (const RowEdit& edit : edits) edits_.push_back(std::make_unique<LazyEdit>(edit));
  }

  void read(int64_t n, float* out) const override {
    const bool is_replaced = std::ranges::any_of(
        edits_, [&](const auto& each) { return each->edit.replacement != nullptr && each->edit.covers(n); });
    if (!is_replaced) base_->read(n, out);
    for (const std::unique_ptr<LazyEdit>& each : edits_) {
      const RowEdit& edit = each->edit;
      if (!edit.covers(n)) continue;
      const int64_t row = edit.from + n - edit.first;
      if (edit.replacement != nullptr) {
        widen(edit.replacement->tensor, row * inputs_, {out, static_cast<size_t>(inputs_)});
        continue;
      }
      std::call_once(each->flag, [&] { each->factors.emplace(*edit.update); });
      each->factors->apply(row, out);
    }
  }
  std::string place() const override { return base_->place() + " with adapters"; }

 private:
  struct LazyEdit {
    explicit LazyEdit(const RowEdit& given) : edit(given) {}
    RowEdit edit;
    mutable std::once_flag flag;
    mutable std::optional<LoraFactors> factors;
  };

  std::unique_ptr<StoredMatrix> base_;
  int64_t inputs_;
  std::vector<std::unique_ptr<LazyEdit>> edits_;
};

TensorNames names_of(const ModelConfig& config) {
  return config.gguf_names ? gguf_tensor_names(config.family) : family_entry(config.family).tensors;
}

/// Maps adapters' tensors to their places in a checkpoint.
class EditFinder {
 public:
  EditFinder(const ModelConfig& config, const WeightSource& base)
      : config_(config), names_(names_of(config)) {
    const TensorNames published = family_entry(config.family).tensors;
    const HoldsTensor holds = [&base](const std::string& tensor) { return base.contains(tensor); };
    for (MatrixPlace& place : matrix_places(config, names_, holds)) {
      std::string key = place.key;
      stored_.emplace(std::move(key), std::move(place));
    }
    for (MatrixPlace& place : matrix_places(config, published)) {
      std::string module = place.module;
      published_[std::move(module)].push_back(std::move(place));
    }
    std::map<std::string, std::string> stored_vectors;
    for (const VectorPlace& place : vector_places(config, names_)) stored_vectors[place.key] = place.tensor;
    for (VectorPlace& place : vector_places(config, published)) {
      const std::string stored = stored_vectors[place.key];
      place.key = stored;
      std::string tensor = place.tensor;
      vectors_.emplace(std::move(tensor), std::move(place));
    }
  }

  void add(const LoraAdapter& adapter) {
    file_ = (adapter.folder() / "adapter_model.safetensors").string();
    for (const LoraReplacement& each : adapter.replacements()) add(each);
    for (const LoraUpdate& each : adapter.updates()) add(each);
  }

  Edits matrices, vectors;  ///< by module and by tensor name of the checkpoint

 private:
  /// The places of a module by its published name, with or without "model."; null: none.
  const std::vector<MatrixPlace>* places_of(const std::string& module) const {
    for (const std::string& name : {module, "model." + module}) {
      if (const auto found = published_.find(name); found != published_.end()) return &found->second;
    }
    return nullptr;
  }

  const std::vector<MatrixPlace>& expect_places(const std::string& module, std::string_view tensor) const {
    if (const std::vector<MatrixPlace>* const found = places_of(module)) return *found;
    throw InputError(
        "{}: tensor {} is of the module {}, which this {} model has not or does not read as a matrix", file_,
        in_quotes(tensor), in_quotes(module), config_.family);
  }

  void expect_shape(const TensorView& tensor, const std::vector<int64_t>& found,
                    const std::vector<int64_t>& expected) const {
    if (found == expected) return;
    throw InputError("{}: tensor {} is for a shape of {}; the model has {}", file_, in_quotes(tensor.name),
                     shown(found), shown(expected));
  }

  void add(const LoraUpdate& update) {
    const std::vector<MatrixPlace>& places = expect_places(update.module, update.a.name);
    expect_shape(update.a, {update.outputs, update.inputs}, {places.front().total, places.front().inputs});
    if (update.is_embedding != (places.front().key == "embedding")) {
      throw InputError(
          "{}: tensor {} of the module {}; expected lora_embedding_A and _B for the embedding alone", file_,
          in_quotes(update.a.name), in_quotes(update.module));
    }
    for (const MatrixPlace& place : places) {
      const MatrixPlace& stored = stored_.at(place.key);
      RowEdit edit{stored.first, place.count, place.first, &update, nullptr};
      matrices[stored.module].push_back(edit);
      if (update.bias) vectors[bias_of(place, update.bias->name)].push_back(edit);
    }
  }

  void add(const LoraReplacement& replacement) {
    const std::string& name = replacement.name;
    const TensorView& tensor = replacement.tensor;
    if (const auto found = find_vector(name)) {
      expect_shape(tensor, tensor.shape, found->shape);
      if (config_.gguf_names && family_entry(config_.family).gguf->adds_one_to_norms)
        refuse(tensor, "norms of this family are stored otherwise in GGUF files");
      put(vectors[found->key], {0, tensor.num_elements(), 0, nullptr, &replacement}, tensor);
      return;
    }
    const bool is_bias = name.ends_with(kBiasSuffix);
    if (!is_bias && !name.ends_with(kWeightSuffix)) refuse(tensor, "the model has no such tensor");
    const std::string module = name.substr(0, name.size() - (is_bias ? kBiasSuffix : kWeightSuffix).size());
    const std::vector<MatrixPlace>& places = expect_places(module, tensor.name);
    const int64_t total = places.front().total;
    expect_shape(tensor, tensor.shape,
                 is_bias ? std::vector{total} : std::vector{total, places.front().inputs});
    for (const MatrixPlace& place : places) {
      const MatrixPlace& stored = stored_.at(place.key);
      std::vector<RowEdit>& edits = is_bias ? vectors[bias_of(place, tensor.name)] : matrices[stored.module];
      put(edits, {stored.first, place.count, place.first, nullptr, &replacement}, tensor);
    }
  }

  /// Adds a replacement; refuses one that would overwrite an earlier adapter's change.
  void put(std::vector<RowEdit>& edits, const RowEdit& edit, const TensorView& tensor) const {
    const bool is_changed = std::ranges::any_of(edits, [&](const RowEdit& other) {
      return other.first < edit.first + edit.count && edit.first < other.first + other.count;
    });
    if (is_changed) refuse(tensor, "it would replace what another adapter changes");
    edits.push_back(edit);
  }

  std::string bias_of(const MatrixPlace& place, std::string_view tensor) const {
    if (place.has_bias) return stored_.at(place.key).module + std::string(kBiasSuffix);
    throw InputError("{}: tensor {} is a bias of the module {}, which has none in this model", file_,
                     in_quotes(tensor), in_quotes(place.module));
  }

  std::optional<VectorPlace> find_vector(const std::string& tensor) const {
    for (const std::string& name : {tensor, "model." + tensor}) {
      if (const auto found = vectors_.find(name); found != vectors_.end() && !found->second.key.empty())
        return found->second;
    }
    return {};
  }

  [[noreturn]] void refuse(const TensorView& tensor, std::string_view reason) const {
    throw InputError("{}: tensor {} cannot be used: {}", file_, in_quotes(tensor.name), reason);
  }

  const ModelConfig& config_;
  TensorNames names_;
  std::string file_;
  std::map<std::string, MatrixPlace> stored_;                  // by key
  std::map<std::string, std::vector<MatrixPlace>> published_;  // by module
  std::map<std::string, VectorPlace> vectors_;                 // by published name; `key` is the stored name
};

class MergedWeights : public AdaptedWeights {
 public:
  MergedWeights(std::unique_ptr<WeightSource> base, const ModelConfig& config) : base_(std::move(base)) {
    const TensorNames names = names_of(config);
    embedding_ = names.embedding;
    if (config.head_from_embedding_matrix) head_ = names.head;
    adapters_.reserve(config.adapters.size());
    EditFinder finder(config, *base_);
    for (const AdapterChoice& choice : config.adapters) {
      adapters_.push_back(LoraAdapter::open(choice.folder, choice.scale));
      finder.add(adapters_.back());
    }
    matrices_ = std::move(finder.matrices);
    vectors_ = std::move(finder.vectors);
  }

  bool contains(std::string_view tensor) const override { return base_->contains(tensor); }
  bool changes(std::string_view module) const override { return matrices_.find(module) != matrices_.end(); }
  bool changes_values(std::string_view name) const override { return vectors_.find(name) != vectors_.end(); }

  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override {
    std::vector<float> values = base_->values(name, shape);
    const auto found = vectors_.find(name);
    if (found == vectors_.end()) return values;
    for (const RowEdit& edit : found->second) {
      const auto count = static_cast<size_t>(edit.count);
      const std::span<float> own = std::span(values).subspan(static_cast<size_t>(edit.first), count);
      if (edit.replacement != nullptr) {
        widen(edit.replacement->tensor, edit.from, own);
        continue;
      }
      std::vector<float> added(count);
      widen(*edit.update->bias, edit.from, added);
      for (size_t i = 0; i < count; ++i) own[i] += edit.update->scaling * added[i];
    }
    expect_finite(values, fmt::format("tensor {} with adapters", in_quotes(name)));
    return values;
  }

  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override {
    const bool is_head = !head_.empty() && module == head_;
    std::unique_ptr<StoredMatrix> stored = base_->matrix(is_head ? embedding_ : module, outputs, inputs);
    const auto found = matrices_.find(module);
    if (found == matrices_.end()) return stored;
    return std::make_unique<MergedMatrix>(std::move(stored), found->second, inputs);
  }

  void release_pages() const override {
    base_->release_pages();
    for (const LoraAdapter& adapter : adapters_) adapter.release_pages();
  }

  const WeightSource& base() const { return *base_; }

  /// Whether embedding and head differ although the files hold one matrix for both.
  bool unties() const {
    const bool all_keep =
        std::ranges::all_of(adapters_, [](const LoraAdapter& adapter) { return adapter.keeps_tied(); });
    return changes(head_) || (changes(embedding_) && !all_keep);
  }

 private:
  std::unique_ptr<WeightSource> base_;
  std::string_view embedding_, head_;  // head_ is empty unless the embedding's matrix serves as the head
  std::vector<LoraAdapter> adapters_;
  Edits matrices_, vectors_;
};

bool is_adapter(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "adapter_config.json", ignored);
}

/// Empty if the text names no adapter.
std::optional<fs::path> adapter_folder(std::string_view text, const ModelPlaces& places) {
  if (text.empty()) return {};
  if (is_adapter(text)) return fs::path(text);
  const std::optional<HubModel> model = HubModel::parse(text);
  if (!model || places.hub_cache.empty()) return {};
  const std::optional<std::string> commit = places.hub_cache.commit(*model);
  if (!commit) return {};
  fs::path snapshot = places.hub_cache.snapshot(*model, *commit);
  if (!is_adapter(snapshot)) return {};
  return snapshot;
}

/// The weights of a folder or a GGUF file, without adapters.
std::unique_ptr<WeightSource> open_files(const std::filesystem::path& folder, const ModelConfig& config) {
  struct HeldFile {
    GgufFile file;
  };
  struct OpenGguf : HeldFile, GgufWeights {
    OpenGguf(GgufFile opened, const ModelConfig& config)
        : HeldFile{std::move(opened)}, GgufWeights(gguf_weights(file, config)) {}
  };
  if (GgufFile::is_gguf(folder)) {
    auto weights = std::make_unique<OpenGguf>(GgufFile::open(folder), config);
    expect_no_unread_tensors(config, *weights, folder.string());
    expect_no_unread_tensors(weights->file, config);
    return weights;
  }
  auto weights = std::make_unique<Checkpoint>(Checkpoint::open(folder));
  expect_no_unread_tensors(config, *weights, folder.string());
  return weights;
}

}  // namespace

AdapterChoice find_adapter(std::string_view text, std::string_view flag, const ModelPlaces& places) {
  if (std::optional<fs::path> whole = adapter_folder(text, places)) return {*std::move(whole), 1};
  const size_t equals = text.rfind('=');
  const std::string_view name = text.substr(0, equals);
  const std::optional<fs::path> folder = adapter_folder(name, places);
  if (!folder) {
    throw InputError(
        "{} {}: there is no adapter {}; expected FOLDER[=SCALE], a folder that holds adapter_config.json and "
        "adapter_model.safetensors, or ORG/NAME of one that `lacuna pull` has downloaded",
        flag, text, in_quotes(name));
  }
  const std::string_view digits = text.substr(equals + 1);
  float scale = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), scale);
  if (error != std::errc() || end != digits.data() + digits.size() || !(std::abs(scale) <= kMaxScale)) {
    throw InputError("{} {}: the scale '{}' is not a number from {} to {}", flag, text, digits, -kMaxScale,
                     kMaxScale);
  }
  return {*folder, scale};
}

std::unique_ptr<AdaptedWeights> merge_adapters(std::unique_ptr<WeightSource> base,
                                               const ModelConfig& config) {
  return std::make_unique<MergedWeights>(std::move(base), config);
}

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& folder, const ModelConfig& config) {
  std::unique_ptr<WeightSource> weights = open_files(folder, config);
  if (config.adapters.empty()) return weights;
  return merge_adapters(std::move(weights), config);
}

AdaptedModel with_adapters(const fs::path& folder, const ModelConfig& config,
                           std::vector<AdapterChoice> adapters) {
  AdaptedModel adapted{config};
  if (adapters.empty()) return adapted;
  if (folder.empty())
    throw InputError("an adapter changes weights of a checkpoint; expected no random model");
  adapted.config.adapters = std::move(adapters);
  adapted.config.head_from_embedding_matrix = config.tied_embeddings;
  const MergedWeights merged(open_files(folder, config), adapted.config);
  adapted.config.head_from_embedding_matrix = config.tied_embeddings && merged.unties();
  adapted.config.tied_embeddings = config.tied_embeddings && !merged.unties();
  const WeightSource& base = merged.base();
  std::set<std::string> seen;
  const HoldsTensor holds = [&](const std::string& tensor) { return base.contains(tensor); };
  for (const MatrixPlace& place : matrix_places(config, names_of(config), holds)) {
    if (!merged.changes(place.module) || !seen.insert(place.module).second) continue;
    const bool is_head = config.tied_embeddings && place.key == "head";
    const std::string module(is_head ? std::string(names_of(config).embedding) : place.module);
    const bool is_quantized = base.matrix(module, place.total, place.inputs)->quantization().has_value();
    adapted.num_dequantized += is_quantized ? 1 : 0;
  }
  return adapted;
}

std::string fingerprint_of(const fs::path& model, std::span<const AdapterChoice> adapters) {
  const std::string own = fingerprint_of(model);
  if (adapters.empty()) return own;
  Fnv1a hash;
  hash.add_piece(own);
  for (const AdapterChoice& adapter : adapters) {
    hash.add_piece(fingerprint_of(adapter.folder));
    hash.add_piece(fmt::to_string(adapter.scale));
  }
  return hash.text();
}

}  // namespace lacuna
