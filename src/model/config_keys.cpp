#include "model/config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

// Keys that the transformers library writes for itself, and settings of training, of its generate() and of
// its outputs.
constexpr std::array kBookkeeping = std::to_array<std::string_view>(
    {// Who wrote the file, and which classes read it.
     "_name_or_path", "_commit_hash", "architectures", "auto_map", "model_type", "name_or_path",
     "tokenizer_class", "transformers_version", "transformers.js_config",
     // How weights are stored and which implementation of the same mathematics runs them.
     "dtype", "torch_dtype", "precision", "torchscript", "use_bfloat16", "tf_legacy_loss",
     "_attn_implementation", "_attn_implementation_autoset", "attn_implementation", "flash_attention",
     "gradient_checkpointing", "pretraining_tp", "chunk_size_feed_forward",
     // Outputs of a call.
     "output_attentions", "output_hidden_states", "output_router_logits", "output_scores", "return_dict",
     "return_dict_in_generate", "use_cache", "use_return_dict",
     // Heads for other tasks.
     "finetuning_task", "id2label", "label2id", "num_labels", "problem_type", "task_specific_params",
     // Left to right generation: decoders here have flags of their own.
     "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty", "do_sample",
     "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
     "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens",
     "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "prefix",
     "remove_invalid_values", "repetition_penalty", "sep_token_id", "suppress_tokens", "temperature", "top_k",
     "top_p", "typical_p",
     // Training alone: initial values, and a fused kernel of the same loss (SDAR's).
     "dropout", "fuse_cross_entropy", "init_std", "initializer_factor", "initializer_range"});

// Training alone: rates of dropout, and weights of losses.
constexpr std::array kTrainingEnds =
    std::to_array<std::string_view>({"_dropout", "_pdrop", "_loss_coef", "_loss_weight"});

/// A model that also sees images keeps the keys of its language model in an object of their own.
std::string_view without_text_config(std::string_view key) {
  constexpr std::string_view kPrefix = "text_config.";
  return key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key;
}

}  // namespace

bool is_bookkeeping_key(std::string_view key) {
  key = without_text_config(key);
  return key.starts_with("auto_map.") ||
         std::find(kBookkeeping.begin(), kBookkeeping.end(), key) != kBookkeeping.end() ||
         std::any_of(kTrainingEnds.begin(), kTrainingEnds.end(),
                     [&](std::string_view end) { return key.ends_with(end); });
}

void refuse_unknown_keys(const JsonObject& json, std::span<const std::string_view> harmless,
                         std::span<const std::string> ignored) {
  std::vector<std::string> unknown = json.unread_keys();
  std::erase_if(unknown, [&](const std::string& key) {
    return is_bookkeeping_key(key) ||
           std::find(harmless.begin(), harmless.end(), without_text_config(key)) != harmless.end() ||
           std::find(ignored.begin(), ignored.end(), key) != ignored.end();
  });
  if (unknown.empty()) return;
  constexpr size_t kMostNamed = 8;
  const size_t num_left_out = unknown.size() - std::min(unknown.size(), kMostNamed);
  std::vector<std::string> named(unknown.begin(), unknown.end() - static_cast<std::ptrdiff_t>(num_left_out));
  for (std::string& key : named) key = in_quotes(key);
  const std::string more = num_left_out > 0 ? fmt::format(" and {} more", num_left_out) : "";
  std::vector<std::string> arguments(unknown.begin(),
                                     unknown.begin() + static_cast<std::ptrdiff_t>(named.size()));
  throw InputError(
      "{}: {}{} {} not known for this architecture and may change what the model computes; expected keys "
      "that are "
      "known (--ignore-config-keys {} runs it nevertheless)",
      json.file(), fmt::join(named, ", "), more, unknown.size() == 1 ? "is" : "are",
      fmt::join(arguments, ","));
}

}  // namespace lacuna
