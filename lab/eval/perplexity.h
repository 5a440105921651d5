// Quality of generated text without reference answers: perplexity under an autoregressive judge model, and
// repetition. A low perplexity alone means little, because repetitive text has one too.
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

/// Rows of a pass that only scores texts, large enough to amortize reading the weights.
inline constexpr int32_t kScoringRows = 1024;

/// A text in the judge's tokens.
struct JudgedText {
  std::vector<TokenId> prompt;      ///< context, not scored
  std::vector<TokenId> answer;      ///< without its end token
  std::optional<TokenId> end = {};  ///< counted as one token
  int64_t bytes = 0;                ///< of the answer's text by its model's tokenizer, without the end token
};

/// An answer for the judge, up to and including its first end token; tokens after that are padding. For a
/// judge with another tokenizer, prompt and answer are each decoded and tokenized again. The caller sets
/// `bytes`.
///   messages  source of the prompt, which a judge with another tokenizer renders in its own chat template;
///             empty: the judge reads the prompt's text
JudgedText judged_text(const Guide& judge, std::span<const TokenId> prompt,
                       std::span<const TokenId> generated, std::span<const TokenId> end_ids,
                       std::span<const Message> messages = {});

/// A judge's result for one text.
struct TextScore {
  int64_t tokens = 0;  ///< number of scored tokens
  double nats = 0;     ///< -log p of the scored tokens
  int64_t bytes = 0;   ///< JudgedText::bytes

  bool operator==(const TextScore&) const = default;
};

struct Judgement {
  std::vector<TextScore> texts;        ///< in the order of the input
  int64_t tokens = 0;                  ///< number of scored tokens, end tokens included
  double negative_log_likelihood = 0;  ///< sum over all scored tokens, in nats
  int64_t bytes = 0;                   ///< of all answers
  /// Number of distinct n-grams over the number of all n-grams, n = 1, 2, 3 (Li et al., arXiv 1510.03055).
  double distinct[3] = {};
  /// Share of 4-grams that repeat one of the same answer (seq-rep-4, Welleck et al., arXiv 1908.04319).
  double repetition = 0;

  /// Micro-averaged: every token of every answer has the same weight (SureLock, Gen-PPL).
  double perplexity() const;
  /// Logarithm of the perplexity, nats per token; 0 if no token was scored.
  double mean_nll() const { return tokens > 0 ? negative_log_likelihood / static_cast<double>(tokens) : 0; }
  /// Nats per byte of the answers, comparable between judges with different tokenizers; 0 without bytes.
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

/// Scores each answer token given the prompt and the tokens before it, several texts per forward pass.
/// Without a prompt, the first token is not scored. Throws InputError for a token outside the judge's
/// vocabulary.
Judgement judge(const BackendModel& model, std::span<const JudgedText> texts);

/// perplexity, nats_per_byte, each with its interval; tokens, bytes, distinct_1, distinct_2, distinct_3,
/// repetition.
///   seed  seed of the bootstrap intervals
nlohmann::ordered_json to_json(const Judgement& judgement, uint64_t seed);

}  // namespace lacuna
