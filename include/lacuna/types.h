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
  std::string content;  ///< text of the turn
};

/// Value of a generation setting, as on the command line or in an HTTP request.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
/// Settings by the names of docs/reference/flags.md ("Generation"), with underscores or hyphens:
/// {"steps", 64}, {"unmask", "threshold=0.9"}, {"cache", "dkv"}. Others have the family's defaults.
using Options = std::map<std::string, OptionValue, std::less<>>;

/// A token that was written to a position.
struct Commit {
  int32_t position = 0;   ///< position in the canvas, 0-based
  TokenId token = 0;      ///< token that was written
  double confidence = 0;  ///< value by which the unmask rule ranks; a probability for most rules

  /// Whether all fields are the same.
  bool operator==(const Commit&) const = default;
};

/// The masked positions of the current block in one pass. Element i of every span belongs to position[i].
struct Candidates {
  std::span<const int32_t> position;    ///< positions in the canvas, ascending
  std::span<const TokenId> token;       ///< token sampled in this pass
  std::span<const double> probability;  ///< probability of token[i]
  std::span<const double> entropy;      ///< entropy of the position's distribution, in nats
  std::span<const double> margin;       ///< the largest probability minus the second largest
  int32_t age = 0;                      ///< passes since the block began
};
/// Returns the positions to commit in this pass, at least one; the others stay masked.
using UnmaskFunction = std::function<std::vector<int32_t>(const Candidates&)>;

/// Why an answer ended.
enum class StopReason : uint8_t {
  kLength,    ///< all positions are final
  kEndToken,  ///< the answer contains an end token
  kStopText,  ///< the answer contains a stop text
};

/// Work that a request took.
struct Statistics {
  int32_t steps = 0;             ///< denoising steps: forward passes of the model itself
  int32_t forward_passes = 0;    ///< forward passes of the model and its guide
  int64_t rows = 0;              ///< positions computed, summed over all passes
  int64_t rows_baseline = 0;     ///< rows that the uncached baseline computes
  double flops = 0;              ///< FLOPs of all passes, by the formulas of docs/reference/statistics.md
  double flops_baseline = 0;     ///< FLOPs of the uncached baseline
  double seconds = 0;            ///< wall time from the first pass to the last, other requests included
  double tokens_per_second = 0;  ///< answer tokens per second
};

/// Answer of a model.
struct Answer {
  std::string text;             ///< up to the first end token or stop text; empty without a tokenizer
  std::vector<TokenId> tokens;  ///< all generated tokens, including those after an end token
  int32_t prompt_tokens = 0;    ///< tokens of the prompt, including the chat template
  int32_t answer_tokens = 0;    ///< tokens before the first end token
  StopReason stop_reason = StopReason::kLength;  ///< why the answer ended
  uint64_t seed = 0;                             ///< seed of the sampling
  Statistics statistics;                         ///< work that the request took
};

}  // namespace lacuna
