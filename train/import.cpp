// Reading checkpoints to start another: match_words() and import_weights() of export.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/gguf_model.h"
#include "model/read_config.h"
#include "train/export.h"
#include "train/names.h"
#include "weights/checkpoint.h"
#include "weights/gguf.h"
#include "weights/lora_config.h"
#include "weights/tensor_files.h"

namespace lacuna::train {
namespace {

/// The tensors of a folder's files or of a GGUF file, in f32.
class StoredTensors {
 public:
  explicit StoredTensors(const std::filesystem::path& path) {
    if (!GgufFile::is_gguf(path)) {
      checkpoint_.emplace(Checkpoint::open(path));
      return;
    }
    file_.emplace(GgufFile::open(path));
    gguf_.emplace(gguf_weights(*file_, read_config(path)));
  }

  /// The stored name of a parameter: GGUF's, or the family's published one in a folder.
  std::string name(Family family, std::string_view parameter) const {
    return gguf_ ? gguf_name(parameter) : published_name(family, parameter);
  }
  bool is_gguf() const { return gguf_.has_value(); }
  bool contains(std::string_view name) const {
    return gguf_ ? gguf_->contains(name) : checkpoint_->contains(name);
  }
  torch::Tensor read(const std::string& name, const std::vector<int64_t>& sizes) const {
    torch::Tensor values = torch::empty(sizes);
    float* const out = values.data_ptr<float>();
    if (!gguf_) {
      widen(checkpoint_->tensor(name, sizes), 0, {out, static_cast<size_t>(values.numel())});
    } else if (sizes.size() == 1) {
      const std::vector<float> stored = gguf_->values(name, sizes);
      std::copy(stored.begin(), stored.end(), out);
    } else {
      const std::string module = name.substr(0, name.rfind('.'));
      const std::unique_ptr<StoredMatrix> matrix = gguf_->matrix(module, sizes[0], sizes[1]);
      for (int64_t row = 0; row < sizes[0]; ++row) matrix->read(row, out + row * sizes[1]);
    }
    return values;
  }

 private:
  std::optional<Checkpoint> checkpoint_;
  std::optional<GgufFile> file_;
  std::optional<GgufWeights> gguf_;
};

/// Folds the norms of q and k into the matrices. Inputs are h_j = g_j x_j with the weights g of the norm
/// before. For independent x_j of variance 1, the expected mean square of a head's q is the mean over its
/// rows i of sum over j of (W_ij g_j)^2.
void fold_head_norms(const StoredTensors& stored, Transformer& model) {
  const ModelShape& shape = model->shape();
  auto parameters = model->named_parameters();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    for (const char* const part : {"q", "k"}) {
      const std::string name = stored.name(Family::kQwen3, fmt::format("{}{}_norm.weight", block, part));
      const torch::Tensor norm = stored.read(name, {shape.head_width()});
      const torch::Tensor heads =
          parameters[block + part + ".weight"].view({-1, shape.head_width(), shape.width});
      const torch::Tensor mean_square =
          (heads * parameters[block + "attn_norm.weight"]).square().sum(-1).mean(1).view({-1, 1, 1});
      heads.mul_(norm.view({1, -1, 1}) * torch::rsqrt(mean_square));
    }
  }
}

/// Permutation of a dense head's dimensions for a head with partial rotary embedding: every n-th of the pairs
/// (i, i + half) keeps rotating at its frequency, the others no longer rotate.
torch::Tensor kept_rotations(const ModelShape& shape) {
  const int64_t half = shape.head_width() / 2;
  const int64_t every = shape.head_width() / shape.rotary_width();
  std::vector<int64_t> order;
  for (const int64_t begin : {int64_t{0}, half}) {
    for (int64_t i = 0; i < half; i += every) order.push_back(begin + i);
  }
  for (int64_t i = 0; i < 2 * half; ++i) {
    if (i % half % every != 0) order.push_back(i);
  }
  return torch::tensor(order);
}

/// Rows of an embedding or a head: each is the mean of the rows that spell its token.
void import_rows(const StoredTensors& stored, const std::string& name, const WordRows& words,
                 torch::Tensor out) {
  const torch::Tensor values = stored.read(name, {words.vocabulary, out.size(1)});
  for (int64_t row = 0; row < out.size(0); ++row) {
    const std::vector<TokenId>& spelled = words.spelled[static_cast<size_t>(row)];
    const std::vector<int64_t> indices(spelled.begin(), spelled.end());
    if (!indices.empty()) out[row].copy_(values.index_select(0, torch::tensor(indices)).mean(0));
  }
}

/// See import_weights().
void import_dense_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words) {
  const ModelShape& shape = model->shape();
  const int64_t expert_width = shape.experts.ffn_width;
  const int64_t slices = shape.ffn_width / expert_width;
  if (slices < 2 || shape.ffn_width % expert_width != 0) {
    throw InputError("--expert-width {}: expected a half, a third, ... of --ffn-width {} to start from {}",
                     expert_width, shape.ffn_width, folder.string());
  }
  ModelShape dense_shape = shape;
  dense_shape.family = Family::kQwen3;
  dense_shape.left_to_right = false;
  Transformer dense_model(dense_shape);
  import_weights(folder, dense_model, words);
  const auto dense = dense_model->named_parameters();
  const torch::Tensor rotations = kept_rotations(shape);
  constexpr std::string_view kExperts = "moe.", kExpert = "moe.experts.", kShared = "moe.shared.";
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    torch::Tensor weights = item.value();
    const auto is = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const auto slice = [&](int64_t index) {  // "blocks.1.moe.shared.up.weight" is one of "blocks.1.up.weight"
      const std::string part = name.substr(name.rfind('.', name.rfind('.') - 1) + 1);
      const torch::Tensor whole = dense[name.substr(0, name.find(kExperts)) + part];
      return whole.slice(is(".down.") ? 1 : 0, index * expert_width, (index + 1) * expert_width);
    };
    if (is(".q.") || is(".k.")) {
      weights.copy_(
          dense[name].view({shape.heads, shape.head_width(), -1}).index_select(1, rotations).flatten(0, 1));
    } else if (is("q_norm") || is("k_norm")) {
      weights.copy_(dense[name].index_select(0, rotations));
    } else if (is(kShared)) {
      weights.copy_(slice(0));
    } else if (is(kExpert)) {
      const int64_t expert = std::stoll(name.substr(name.find(kExpert) + kExpert.size()));
      weights.copy_(slice(1 + expert % (slices - 1)));
      // Selected experts have weight kRoutedScale in total; in the dense model each of these slices had
      // weight 1.
      if (is(".down.")) weights.mul_(static_cast<double>(slices - 1) / kRoutedScale);
    } else if (dense.contains(name)) {
      weights.copy_(dense[name]);
    }
  }
}

}  // namespace

WordRows match_words(const Tokenizer& from, const Tokenizer& to) {
  WordRows rows{from.size(), {}};
  for (TokenId id = 0; id < to.size(); ++id)
    rows.spelled.push_back(
        from.encode(to.decode(std::array{id}, /*skip_special=*/false), SpecialTokens::kAsAtoms));
  return rows;
}

void import_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words) {
  const torch::NoGradGuard no_grad;
  const StoredTensors stored(folder);
  const ModelShape& shape = model->shape();
  const auto contains = [&](Family family, std::string_view parameter) {
    return stored.contains(stored.name(family, parameter));
  };
  if (stored.is_gguf() && (shape.traits().interpolates() || shape.traits().has_canvases()))
    throw InputError("{}: expected a checkpoint folder to start {}; GGUF files start dense models",
                     folder.string(), shape.traits().name);
  const bool is_dense = contains(Family::kQwen3, "embedding.weight");
  if (shape.family == Family::kLlada2 && is_dense) return import_dense_weights(folder, model, words);
  const bool has_more_norms =
      shape.traits().qk_norm == QkNorm::kNone && contains(Family::kQwen3, "blocks.0.q_norm.weight");
  if (!shape.traits().qkv_bias && contains(Family::kQwen2, "blocks.0.q.bias"))
    throw InputError("{}: its q, k and v have biases, which {} has not", folder.string(),
                     shape.traits().name);
  const Family names = contains(shape.family, "embedding.weight") ? shape.family : Family::kQwen3;
  const auto name_of = [&](std::string_view parameter) { return stored.name(names, parameter); };
  for (const PublishedTensor& tensor : published_tensors(model, name_of)) {
    const bool is_bias = tensor.name.ends_with("_proj.bias") || tensor.name.starts_with("blk.");
    if (is_bias && tensor.name.ends_with(".bias") && !stored.contains(tensor.name)) {
      for (torch::Tensor part : tensor.parts) part.zero_();
      continue;
    }
    if (words != nullptr && tensor.sizes().front() == shape.vocabulary) {
      import_rows(stored, tensor.name, *words, tensor.parts.front());
      continue;
    }
    const torch::Tensor values = stored.read(tensor.name, tensor.sizes());
    int64_t first = 0;
    for (torch::Tensor part : tensor.parts) {
      part.copy_(values.slice(0, first, first + part.size(0)));
      first += part.size(0);
    }
  }
  if (has_more_norms) fold_head_norms(stored, model);
}

LoraShape adapter_shape(const std::filesystem::path& folder) {
  const LoraConfig config = LoraConfig::read(folder / "adapter_config.json");
  const int64_t rank = config.rank_of("");
  return {rank, static_cast<double>(config.scaling_of("")) * static_cast<double>(rank)};
}

void import_adapter(const std::filesystem::path& folder, Transformer& model) {
  const torch::NoGradGuard no_grad;
  const TensorFiles files = TensorFiles::open_file(folder / "adapter_model.safetensors");
  for (const auto& item : model->named_parameters()) {
    if (item.key().find(kUpdate) == std::string::npos) continue;
    torch::Tensor values = torch::empty(item.value().sizes());
    widen(files.tensor(update_name(model->shape().family, item.key()).tensor, values.sizes().vec()), 0,
          {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
    torch::Tensor update = item.value();
    update.copy_(values);
  }
}

}  // namespace lacuna::train
