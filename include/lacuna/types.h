// Types of requests and answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lacuna {

/// A row of the embedding table, 0-based.
using TokenId = int32_t;

/// A turn of a conversation.
struct Message {
  std::string role;     ///< "system", "user" or "assistant"; LLaDA's template takes any
  std::string content;  ///< its text
};

/// A setting of a generation by its name, with the value that the command line or a request over HTTP would
/// give it.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
/// By the names of docs/reference/flags.md ("Generation"), with underscores or hyphens: {"steps", 64},
/// {"unmask", "threshold=0.9"}, {"cache", "dkv"}. Settings that are not named have the defaults of the
/// model's family.
using Options = std::map<std::string, OptionValue, std::less<>>;

/// A token that was written to a position.
struct Commit {
  int32_t position = 0;   ///< in the canvas, 0-based
  TokenId token = 0;      ///< token that was written
  double confidence = 0;  ///< as the unmask rule ranks it; a probability for most rules

  /// Whether all fields are the same.
  bool operator==(const Commit&) const = default;
};

/// The masked positions of the current block, as a pass sees them. Element i of every span belongs to one
/// position.
struct Candidates {
  std::span<const int32_t> position;    ///< in the canvas, ascending
  std::span<const TokenId> token;       ///< sampled in this pass
  std::span<const double> probability;  ///< probability of the candidate's token
  std::span<const double> entropy;      ///< entropy of the position's distribution, in nats
  std::span<const double> margin;       ///< the largest probability minus the second largest
  int32_t age = 0;                      ///< passes since the block began
};
/// Returns the positions to commit in this pass, at least one; the others stay masked.
using UnmaskFunction = std::function<std::vector<int32_t>(const Candidates&)>;

/// Why an answer ended.
enum class StopReason : uint8_t {
  kLength,    ///< every position is done
  kEndToken,  ///< the answer holds a token that ends it
  kStopText,  ///< the answer holds a text that ends it
};

/// Work that a request took.
struct Statistics {
  int32_t steps = 0;           ///< denoising steps: forward passes of the model itself
  int32_t forward_passes = 0;  ///< of the model and its guide
  int64_t rows = 0;            ///< positions that forward passes computed, all passes together
  int64_t rows_baseline = 0;   ///< the same for the uncached baseline
  double flops = 0;            ///< of all passes, by the formulas of docs/reference/statistics.md
  double flops_baseline = 0;   ///< the same for the uncached baseline
  double seconds = 0;  ///< from the first pass to the last; requests that run at the same time share it
  double tokens_per_second = 0;  ///< answer tokens per second
};

/// Answer of a model.
struct Answer {
  std::string text;             ///< up to the first end token or stop text; empty without a tokenizer
  std::vector<TokenId> tokens;  ///< every generated token, those after an end token included
  int32_t prompt_tokens = 0;    ///< tokens of the prompt, including the chat template
  int32_t answer_tokens = 0;    ///< tokens before the first end token
  StopReason stop_reason = StopReason::kLength;  ///< why it ended
  uint64_t seed = 0;                             ///< seed of the sampling
  Statistics statistics;                         ///< work that the request took
};

}  // namespace lacuna
