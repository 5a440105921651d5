// A request for an answer, as every API asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "constraint/constraint.h"
#include "engine/infill.h"
#include "engine/opened_model.h"
#include "engine/tools.h"
#include "options/options.h"
#include "tokenizer/chat_template.h"

namespace lacuna {

/// Fields that all generating requests have in common.
struct GenerationRequest {
  std::vector<Prompt> prompts;          ///< at least one; empty for an infill
  std::string prompt_field = "prompt";  ///< the field that has them, or the canvas
  std::vector<CanvasPart> canvas;       ///< parts of an infill's canvas: at least one hole
  GenerationOptions options;            ///< without `stop`
  /// options.gen_length is the most that the answer may have, as clients send it: what does not fit is
  /// lowered (engine/answer_limit.h). False: it is the length of a canvas, and refused where it does not fit.
  bool caps_length = false;
  std::vector<std::string> stop;         ///< none empty
  std::optional<Constraint> constraint;  ///< of the answer's text
  std::optional<Tools> tools;            ///< tools that a chat's answer may call
  std::optional<Tools> idle_tools;       ///< those of a request whose tool_choice is "none"
  int32_t num_choices = 1;               ///< for each prompt
  int32_t num_candidates = 1;            ///< for each choice, of which the most confident is taken (best_of)
  std::vector<TokenId> stop_tokens;      ///< besides the model's end tokens
  bool stream = false;
  bool include_usage = false;  ///< a last chunk with usage and timings alone
  bool wants_logprobs = false;
  int32_t num_alternatives = 0;  ///< tokens that are listed for each of the answer, 0 to kMaxAlternatives
  bool wants_step_map = false;   ///< the pass that committed each token
  bool echoes = false;           ///< the prompt before the answer
  bool inserts = false;          ///< an infill whose answer is what was filled in alone (suffix)
  bool fills_cursor = false;     ///< an infill between input_prefix and input_suffix, as editors ask for it
  bool scores_only = false;      ///< max_tokens 0: likelihoods of the prompt alone
  /// Finish reason of a reply without an answer, once the model is loaded: "length" (n_predict 0), "load" or
  /// "unload" (Ollama); empty: an answer is written.
  std::string answers_nothing = {};
  /// Likelihoods of a masked model: tokens of the prompt that are given, and draws (0: left to right).
  std::optional<int32_t> given_tokens;
  std::optional<int32_t> likelihood_draws;
  bool events = false;  ///< each step's changes
  /// Asked for with lacuna.guide or with a setting of the guide, of the request or of the defaults.
  bool uses_guide = false;

  /// Hints and elements that change no answer here, and fields that no API has: each once, printable ASCII.
  std::vector<std::string> left_out, unknown;
  size_t num_unnamed = 0;  ///< names beyond kMaxIgnoredNames

  /// The keys by which settings were sent, by what strategies call the settings.
  std::map<std::string, std::string, std::less<>> keys;

  bool is_infill() const { return !canvas.empty(); }
  /// Name of a field in this request: the key that was sent, else request_name().
  std::optional<std::string> name_of(std::string_view field) const;
};

// The bodies' limits: more is refused.
inline constexpr int32_t kMaxRequestChoices = 128;  ///< prompts times n
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopTokens = 64;
inline constexpr size_t kMaxLogitBiases = 1'024;
inline constexpr size_t kMaxStopBytes = 512;
inline constexpr int32_t kMaxAlternatives = 20;
/// Alternatives of all positions and choices of a request.
inline constexpr int64_t kMaxListedAlternatives = int64_t{1} << 18;
inline constexpr int32_t kMaxLikelihoodDraws = 4096;
inline constexpr size_t kMaxCanvasParts = 65536;
inline constexpr size_t kMaxIgnoredNames = 256;  ///< of each list; further ones are counted

}  // namespace lacuna
