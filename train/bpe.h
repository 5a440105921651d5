// Byte-level byte-pair encoding (Sennrich et al. 2016, section 3.2; bytes as in GPT-2), learned from a corpus
// and written in the published tokenizer.json format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/chat_form.h"

namespace lacuna::train {

/// Splits text into pieces that merges never cross: words and runs of punctuation with the space before them,
/// integers, other white space. A number is always a separate piece, so that it can become one token wherever
/// it is.
inline constexpr std::string_view kPieceExpression = R"( ?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+|\s+)";

/// Which texts a vocabulary is learned from.
enum class VocabularyKind : uint8_t {
  kShared,  ///< words of arithmetic, stories and chat
  kWide,    ///< words and numbers of `questions` as well
};

struct Bpe {
  std::vector<std::string> vocabulary;  ///< bytes of each token; the first 256 are the single bytes
  std::vector<std::pair<int32_t, int32_t>> merges;  ///< in order of rank; merge i makes token 256 + i
  const ChatForm* form = &kChatMlForm;              ///< special tokens, whose ids follow, and chat template

  int32_t start_id() const { return static_cast<int32_t>(vocabulary.size()); }
  int32_t end_id() const { return start_id() + 1; }
  int32_t mask_id() const { return total_size() - 1; }
  SpecialIds ids() const { return {end_id(), mask_id(), start_id()}; }
  /// Vocabulary and special tokens.
  int32_t total_size() const { return start_id() + static_cast<int32_t>(form->special_tokens.size()); }
};

/// Merges the most frequent adjacent pair (ties: the pair with the lower ids) until the vocabulary has
/// `max_vocabulary` tokens or every piece of the corpus is one token. `corpus` is UTF-8; `max_vocabulary` >=
/// 256.
Bpe learn_bpe(const std::vector<std::string>& corpus, size_t max_vocabulary);

/// The tokenizer, chat template and ids that readers of the JSON files below get.
Vocabulary vocabulary_of(const Bpe& bpe);

/// Description of a special token in tokenizer.json and tokenizer_config.json, without its id.
nlohmann::ordered_json added_token(std::string_view content);

/// Contents of tokenizer.json, tokenizer_config.json and special_tokens_map.json.
nlohmann::ordered_json tokenizer_json(const Bpe& bpe);
nlohmann::ordered_json tokenizer_config_json(const Bpe& bpe);
nlohmann::ordered_json special_tokens_map_json(const Bpe& bpe);

}  // namespace lacuna::train
