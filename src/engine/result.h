// Result of a finished request, and its trace lines.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/surelock.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

struct GenerationResult {
  std::string text;  ///< up to the first end token, special tokens left out; empty without tokenizer
  std::vector<TokenId> tokens;  ///< every generated id, those after an end token included
  int32_t prompt_tokens = 0;
  int32_t answer_tokens = 0;  ///< up to and without the first end token
  StopReason stop_reason = StopReason::kLength;
  std::vector<IndexRange>
      holes;  ///< canvas positions, for an infill whose canvas changed its length; else empty
  uint64_t seed = 0;
  RunStatistics statistics;
  std::optional<DriftEstimate> drift_estimate;  ///< set if the lock estimates its threshold

  double tokens_per_second() const;         ///< answer tokens
  double canvas_tokens_per_second() const;  ///< all generated tokens
  double tokens_per_forward() const;        ///< answer tokens for each pass of any model
};

/// "length", "eos" or "stop".
std::string_view name_of(StopReason reason);

/// The part of `generated` before its first end token.
std::span<const TokenId> answer_part(std::span<const TokenId> generated, std::span<const TokenId> end_ids);

///   tokenizer      may be null     stop  texts that end the answer
///   shows_special  whether the text includes special tokens, which may be tags of tool calls
GenerationResult make_result(const Decoder& decoder, const RunStatistics& statistics,
                             const ModelConfig& config, const Tokenizer* tokenizer, uint64_t seed,
                             const std::vector<std::string>& stop = {}, bool shows_special = false);

/// Explains why an answer has no text and what may help; empty if it has text.
///   tokenizer  may be null     stop  see make_result()
std::string explain_no_text(const GenerationResult& result, const ModelConfig& config,
                            const Tokenizer* tokenizer, const std::vector<std::string>& stop = {});

/// Describes the rows of a run relative to its baseline: "59 of 1,888 rows: 32x fewer".
std::string describe_rows(const StepCost& cost, const StepCost& baseline);

/// Everything but times.
nlohmann::ordered_json to_json(const RunStatistics& statistics);
/// The object that `lacuna run --json` prints.
nlohmann::ordered_json to_json(const GenerationResult& result);

/// The lines of a trace: trace_start() with the starting canvas, then trace_step() for each pass.
nlohmann::ordered_json trace_start(size_t request, std::span<const TokenId> canvas, int32_t prompt_length);
nlohmann::ordered_json trace_step(const StepEvent& event);

}  // namespace lacuna
