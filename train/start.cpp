#include "train/start.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/gguf.h"
#include "base/json.h"
#include "base/read_file.h"
#include "base/written_file.h"
#include "model/gguf_model.h"
#include "model/read_config.h"
#include "model/rope.h"
#include "tokenizer/tokenizer.h"
#include "train/bpe.h"

namespace lacuna::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNewMask = "<|mask|>";
/// Mask tokens of published tokenizers.
constexpr std::array<std::string_view, 5> kMasks = {"<|mdm_mask|>", "<|mask|>", "|<MASK>|", "<|MASK|>",
                                                    "<mask>"};
constexpr std::array<std::string_view, 9> kTokenizerFiles = {
    "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt",
    "added_tokens.json", "chat_template.jinja",   "chat_template.json",      "LICENSE"};

std::string read_file(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = size_t{1} << 28;
  return read_whole_file(path, kMaxBytes);
}

Json read_object(const std::filesystem::path& path) {
  Json json = parse_ordered_json(read_file(path), path.string());
  if (!json.is_object()) throw InputError("{}: expected an object", path.string());
  return json;
}

void expect_computed(const ModelConfig& config, const std::filesystem::path& folder, std::string_view flag) {
  const auto refuse_if = [&](bool has, std::string_view what) {
    if (has) throw InputError("{} {}: {}, which training does not compute", flag, folder.string(), what);
  };
  refuse_if(config.has_experts(), "it has experts");
  refuse_if(config.sliding.has_value(), "it has layers with a sliding window");
  refuse_if(config.noise.has_value() || config.canvas.has_value(), "it denoises other noise than masks");
  refuse_if(config.activation != Activation::kSilu, "its activation is not silu");
  refuse_if(config.norm_offset || config.norms_outputs, "its norms are not Llama's");
  refuse_if(config.embedding_scale != 1 || config.logit_scale != 1 || config.residual_scale != 1,
            "it scales its embeddings, residuals or logits");
  refuse_if(config.attn_soft_cap != 0 || config.logit_soft_cap != 0, "it has soft caps");
  refuse_if(config.attn_output_bias || config.ffn_bias, "it has biases behind attention or in its layers");
  refuse_if(config.qk_norm_full || config.v_norm, "its norms of q, k or v are not Qwen3's");
  refuse_if(config.attn_scale != 0 || config.qkv_clip.has_value(), "it scales or clamps attention");
  refuse_if(config.rotary_dim != 0 && config.rotary_dim != config.head_dim, "it rotates a part of each head");
  refuse_if(config.rope.attention_scaling != 1 || config.rope.query_growth != 0,
            "its RoPE (YaRN) scales attention");
}

}  // namespace

Start Start::open(const std::filesystem::path& folder, std::string_view flag) {
  const bool is_gguf = GgufFile::is_gguf(folder) && std::filesystem::is_regular_file(folder);
  if (!is_gguf && !std::filesystem::is_directory(folder))
    throw InputError("{} {}: expected a folder with config.json and safetensors, or a .gguf file", flag,
                     folder.string());
  Start start;
  start.folder_ = folder;
  if (is_gguf) {
    const GgufFile file = GgufFile::open(folder);
    if (!has_gguf_tokenizer(file))
      throw InputError("{} {}: it has no tokenizer (\"tokenizer.ggml.tokens\")", flag, folder.string());
    start.published_ = parse_ordered_json(gguf_config_text(file), folder.string());
  } else {
    start.published_ = read_object(folder / "config.json");
  }
  if (start.published_.contains("quantization_config"))
    throw InputError("{} {}: its weights are quantized; expected bf16, f16 or f32", flag, folder.string());
  start.config_ = read_config(folder);
  expect_computed(start.config_, folder, flag);
  const ModelConfig& config = start.config_;
  if (config.eos_id < 0 && config.end_ids.empty())
    throw InputError("{} {}: no file names the token that ends a text (\"eos_token_id\")", flag,
                     folder.string());
  start.ids_ = {config.eos_id >= 0 ? config.eos_id : config.end_ids.front(), config.mask_id, config.bos_id};
  return start;
}

void Start::set_sizes(ModelShape& shape) {
  const auto fits = [&](const FamilyTraits& family) {
    const bool is_dense = !family.experts && !family.interpolates() && !family.has_canvases();
    return is_dense && (family.qkv_bias || !config_.qkv_bias) &&
           (family.qk_norm == QkNorm::kNone || config_.qk_norm_per_head);
  };
  if (!fits(shape.traits())) {
    std::string names;
    for (const FamilyTraits& family : families()) {
      if (fits(family)) names += (names.empty() ? "" : ", ") + std::string(family.name);
    }
    throw InputError("--family {}: {} ({}) cannot become one; expected one of {}", shape.traits().name,
                     folder_.string(), config_.architecture, names);
  }
  shape.layers = config_.num_layers;
  shape.width = config_.hidden_dim;
  shape.heads = config_.num_heads;
  shape.kv_heads = config_.num_kv_heads;
  shape.head_size = config_.head_dim;
  shape.ffn_width = config_.ffn_dim;
  shape.vocabulary = config_.vocab_size;
  shape.tied_head = config_.tied_embeddings;
  shape.norm_epsilon = config_.norm_eps;
  shape.context = config_.max_positions;
  shape.rope_theta = config_.rope.theta;
  if (config_.rope.scaling != RopeConfig::Scaling::kNone)
    shape.rotations = rope_frequencies(config_.rope, config_.head_dim);

  if (shape.objective() == Objective::kNextToken) return;
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  for (const std::string_view text : kMasks) {
    if (ids_.mask >= 0) break;
    ids_.mask = tokenizer.id_of(text).value_or(-1);
  }
  if (ids_.mask >= 0) {
    mask_note_ = fmt::format("the mask is token {}, {}", ids_.mask,
                             in_quotes(tokenizer.decode(std::array{ids_.mask}, /*skip_special=*/false)));
    return;
  }
  ids_.mask = tokenizer.size();
  new_mask_ = kNewMask;
  const bool has_row = ids_.mask < config_.vocab_size;
  shape.vocabulary = std::max<int64_t>(shape.vocabulary, ids_.mask + 1);
  mask_note_ = fmt::format("the tokenizer has no mask: {} becomes token {}, {}", kNewMask, ids_.mask,
                           has_row ? "whose row of the embedding no token used" : "a new row");
}

void Start::export_texts(const std::filesystem::path& folder, const ModelShape& shape) const {
  if (GgufFile::is_gguf(folder_)) {
    const TokenizerTexts texts = gguf_tokenizer_texts(GgufFile::open(folder_));
    write_whole_file(folder / "tokenizer.json", texts.tokenizer);
    write_whole_file(folder / "tokenizer_config.json", texts.tokenizer_config);
  }
  for (const std::string_view name : kTokenizerFiles) {
    if (std::filesystem::exists(folder_ / name)) write_whole_file(folder / name, read_file(folder_ / name));
  }
  Json config = config_json(shape, ids_);
  for (const char* const key : {"rope_theta", "rope_scaling", "rope_parameters"}) {
    if (published_.contains(key)) config[key] = published_[key];
  }
  write_whole_file(folder / "config.json", config.dump(2) + "\n");
  const Json ends = config_.end_ids.empty() ? Json(ids_.end) : Json(config_.end_ids);
  Json generation = {{"eos_token_id", ends}, {"transformers_version", config["transformers_version"]}};
  if (ids_.start >= 0) generation["bos_token_id"] = ids_.start;
  write_whole_file(folder / "generation_config.json", generation.dump(2) + "\n");

  if (!new_mask_.empty()) {
    const Json token = added_token(new_mask_);
    if (std::filesystem::exists(folder / "tokenizer.json")) {
      Json tokenizer = read_object(folder / "tokenizer.json");
      Json added = {{"id", ids_.mask}};
      added.update(token);
      tokenizer["added_tokens"].push_back(std::move(added));
      write_whole_file(folder / "tokenizer.json", tokenizer.dump() + "\n");
    } else {
      Json added = std::filesystem::exists(folder / "added_tokens.json")
                       ? read_object(folder / "added_tokens.json")
                       : Json::object();
      added[new_mask_] = ids_.mask;
      write_whole_file(folder / "added_tokens.json", added.dump(2) + "\n");
    }
    if (std::filesystem::exists(folder / "tokenizer_config.json")) {
      Json tokenizer_config = read_object(folder / "tokenizer_config.json");
      tokenizer_config["mask_token"] = new_mask_;
      tokenizer_config["added_tokens_decoder"][std::to_string(ids_.mask)] = token;
      write_whole_file(folder / "tokenizer_config.json", tokenizer_config.dump(2) + "\n");
    }
  }
  const ModelConfig exported = read_config(folder);
  if (exported.num_kv_heads != config_.num_kv_heads || exported.head_dim != config_.head_dim ||
      exported.rope != config_.rope || exported.tied_embeddings != config_.tied_embeddings ||
      exported.norm_eps != config_.norm_eps)
    throw InputError("--family {}: its config.json cannot state the heads or the RoPE of {}",
                     shape.traits().name, folder_.string());
}

WordRows Start::words(const ModelShape& shape) const {
  WordRows words{config_.vocab_size, {}};
  for (int64_t row = 0; row < shape.vocabulary; ++row) {
    const bool is_new = row == ids_.mask && !new_mask_.empty();
    if (!is_new) {
      words.spelled.push_back({static_cast<TokenId>(row)});
      continue;
    }
    // The mean of all rows: a mask stands for any token.
    std::vector<TokenId> all(static_cast<size_t>(config_.vocab_size));
    std::iota(all.begin(), all.end(), 0);
    words.spelled.push_back(std::move(all));
  }
  return words;
}

}  // namespace lacuna::train
