// Perplexity, by an autoregressive model, of a text that another model wrote, and how much the text repeats
// itself: quality without a right answer to compare with. A low perplexity alone means little, because a text
// that repeats itself has one too.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"
#include "engine/guide.h"
#include "eval/interval.h"

namespace lacuna {

/// Rows of a pass that only scores texts: enough to use the weights well.
inline constexpr int32_t kScoringRows = 1024;

/// A text in the judge's tokens.
struct JudgedText {
  std::vector<TokenId> prompt;      ///< read, never counted
  std::vector<TokenId> answer;      ///< without its end token
  std::optional<TokenId> end = {};  ///< counted as one token
  int64_t bytes = 0;  ///< of the answer's text, as its model's tokenizer writes it; no end token
};

/// An answer as the judge reads it, up to and with its first end token; what follows is padding. A judge with
/// another tokenizer reads the text: prompt and answer are cut into its tokens, each by itself. Bytes are
/// left to the caller.
///   messages  what the prompt was rendered from, for a judge with another tokenizer, which renders it in its
///             own template; empty: it reads the prompt's text
JudgedText judged_text(const Guide& judge, std::span<const TokenId> prompt,
                       std::span<const TokenId> generated, std::span<const TokenId> end_ids,
                       std::span<const Message> messages = {});

/// A judge's result for one text.
struct TextScore {
  int64_t tokens = 0;  ///< scored
  double nats = 0;     ///< -log p of them
  int64_t bytes = 0;   ///< JudgedText::bytes

  bool operator==(const TextScore&) const = default;
};

struct Judgement {
  std::vector<TextScore> texts;        ///< [texts], in their order
  int64_t tokens = 0;                  ///< scored: the answers' and their ends
  double negative_log_likelihood = 0;  ///< sum over all scored tokens, in nats
  int64_t bytes = 0;                   ///< of all answers
  /// Distinct n-grams of all answers per n-gram, n = 1, 2, 3 (Li et al., arXiv 1510.03055).
  double distinct[3] = {};
  /// Share of 4-grams that their own answer has had before (seq-rep-4, Welleck et al., arXiv 1908.04319).
  double repetition = 0;

  /// Micro-averaged: each token weighs the same, whatever the length of its answer (SureLock, Gen-PPL).
  double perplexity() const;
  /// Its logarithm: nats per token; 0 where no token was scored.
  double mean_nll() const { return tokens > 0 ? negative_log_likelihood / static_cast<double>(tokens) : 0; }
  /// Nats per byte of the answers, which judges with different tokenizers have in common; 0 without bytes.
  double nats_per_byte() const {
    return bytes > 0 ? negative_log_likelihood / static_cast<double>(bytes) : 0;
  }
  /// 95% bootstrap intervals over texts.
  Interval perplexity_interval(uint64_t seed) const;
  Interval nats_per_byte_interval(uint64_t seed) const;
};

/// Distinct n-grams of all texts together, as a share of all their n-grams; 0 if there are none.
double distinct_ngrams(std::span<const JudgedText> texts, size_t n);

/// 1 - distinct n-grams of each text / n-grams, counts summed over texts; 0 if there are none.
double repeated_ngrams(std::span<const JudgedText> texts, size_t n);

/// Scores each token given the prompt and the tokens before it, several texts to a forward pass. A text's
/// first token counts only if something stands before it. Throws InputError for a token outside the judge's
/// vocabulary.
Judgement judge(const BackendModel& model, std::span<const JudgedText> texts);

/// perplexity, nats_per_byte, each with its interval; tokens, bytes, distinct_1, distinct_2, distinct_3,
/// repetition.
///   seed  of the intervals
nlohmann::ordered_json to_json(const Judgement& judgement, uint64_t seed);

}  // namespace lacuna
