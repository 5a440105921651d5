// A generation request, common to all APIs.
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

/// Fields of a generation request, whichever API it was sent to.
struct GenerationRequest {
  std::vector<Prompt> prompts;          ///< at least one; empty for an infill
  std::string prompt_field = "prompt";  ///< the request's field with the prompts or the canvas
  std::vector<CanvasPart> canvas;       ///< parts of an infill's canvas, with at least one hole
  GenerationOptions options;            ///< without `stop`
  /// True: options.gen_length limits the answer's tokens and is lowered if it does not fit
  /// (engine/answer_limit.h). False: it is the length of a canvas, and an error if it does not fit.
  bool caps_length = false;
  std::vector<std::string> stop;         ///< stop texts; none is empty
  std::optional<Constraint> constraint;  ///< constraint on the answer's text
  std::optional<Tools> tools;            ///< tools that a chat's answer may call
  std::optional<Tools> disabled_tools;   ///< the tools if tool_choice is "none"
  int32_t num_choices = 1;               ///< choices per prompt
  int32_t num_candidates = 1;            ///< candidates per choice; the most confident one is kept (best_of)
  std::vector<TokenId> stop_tokens;      ///< end tokens besides the model's
  bool stream = false;
  bool include_usage = false;  ///< a stream ends with a chunk of usage and timings
  bool wants_logprobs = false;
  int32_t num_alternatives = 0;  ///< alternatives listed per token, 0 to kMaxAlternatives
  bool wants_step_map = false;   ///< the reply lists the pass that committed each token
  bool echoes = false;           ///< the reply's text begins with the prompt
  bool inserts = false;          ///< an infill whose answer is only the filled-in text (suffix)
  bool fills_cursor = false;     ///< an infill between input_prefix and input_suffix, for editors
  bool scores_only = false;      ///< max_tokens 0: only likelihoods of the prompt
  /// Finish reason of a reply that only needs the model to be loaded: "length" (n_predict 0), "load" or
  /// "unload" (Ollama). Empty: an answer is generated.
  std::string answers_nothing = {};
  /// Likelihoods of a masked model: number of leading prompt tokens that are not scored, and number of random
  /// maskings (0: left to right).
  std::optional<int32_t> given_tokens;
  std::optional<int32_t> likelihood_draws;
  bool events = false;  ///< the reply has each step's changes (EventLog)
  /// Set by lacuna.guide, or by a guide setting in the request or the defaults.
  bool uses_guide = false;

  /// Ignored hints and elements, and fields unknown to all APIs: each once, printable ASCII.
  std::vector<std::string> left_out, unknown;
  size_t num_unnamed = 0;  ///< names beyond kMaxIgnoredNames

  /// Maps a setting's internal name ("gen_length") to the key that was sent.
  std::map<std::string, std::string, std::less<>> keys;

  bool is_infill() const { return !canvas.empty(); }
  /// Name of a field for messages: the key that was sent, else request_name().
  std::optional<std::string> name_of(std::string_view field) const;
};

// Limits of request bodies; larger values are refused.
inline constexpr int32_t kMaxRequestChoices = 128;  ///< prompts times n
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopTokens = 64;
inline constexpr size_t kMaxLogitBiases = 1'024;
inline constexpr size_t kMaxStopBytes = 512;
inline constexpr int32_t kMaxAlternatives = 20;
/// Limit on the alternatives of all positions and choices of a request.
inline constexpr int64_t kMaxListedAlternatives = int64_t{1} << 18;
inline constexpr int32_t kMaxLikelihoodDraws = 4096;
inline constexpr size_t kMaxCanvasParts = 65536;
inline constexpr size_t kMaxIgnoredNames = 256;  ///< names per list; further ones are only counted

}  // namespace lacuna
