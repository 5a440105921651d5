// Negative log-likelihood of given texts: exact for autoregressive models, and for diffusion models an upper
// bound, estimated as an average over seeded random samples. exp of its value per token is the perplexity
// that papers report.
//
// The prompt p of a text is given, and the tokens x_1 ... x_L after it are scored.
//
// Left to right (exact):            -log p(x) = sum over i of -log p(x_i | p, x_1 ... x_(i-1)).
//
// Slots (ReFusion; exact): the likelihood of decoding slot after slot from left to right. The first token of
// a slot is predicted by the mask in its place, each other one by the token before it.
//
// Masks (LLaDA: Nie et al. 2025, section 2.4 and its get_log_likelihood.py; Dream with logits of the row
// before): a number l of masks is sampled uniformly from 1 to L, then which l of the L tokens are masked,
//
//   -log p(x) <= E [ (L / l) sum over masked i of -log p(x_i | p, tokens that are not masked) ].
//
// This equals the bound with a ratio t and weights 1/t (equation 4 there), with less variance. It is the
// mean, over all orders of the L tokens, of the negative log-likelihood of decoding one token at a time in
// that order.
//
// Blocks (BD3-LM: Arriola et al. 2025, section 3; SDAR, LLaDA 2, Fast-dLLM v2): the sum over blocks of that
// bound, each given the clean tokens of earlier blocks. With shifted logits, a block's first token is scored
// exactly, by the last row of the block before, as in decoding.
//
// Noise (GIDD: von Rütte et al., arXiv 2503.04482, section 3 and arXiv 2512.10858): t is sampled uniformly
// from (0, 1), alpha = 1 - t, l = log(alpha / t) clamped to the process's limits; each x becomes z ~ q(.|x),
// with q(k|x) = alpha [k = x] + (1 - alpha) pi(k) and the noise pi; the prediction p gives the mask no
// probability, and q(k|p) = alpha p(k) + (1 - alpha) pi(k):
//
//   -log p(x) <= E [ sum over i of w / (alpha (1 - alpha)) (KL(q(.|x_i) || q(.|p_i)) + r - log r - 1) ],
//   r = q(z_i|x_i) / q(z_i|p_i),      w = (pi(z) - dpi/dl(z)) / (pi(z) + e^l [z = x]).
//
// Left out, as in the published code: the terms at the limits of the process, below 0.001 nats per token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"
#include "eval/interval.h"

namespace lacuna {

struct BoundText {
  std::vector<TokenId> prompt;  ///< given; not empty
  std::vector<TokenId> scored;  ///< scored tokens, including end tokens that fill a canvas
  int64_t counted = 0;          ///< number of scored tokens without those that only fill the canvas
};

/// Kind of a paradigm's likelihood: "exact, left to right", "bound over masks".
std::string_view bound_name(Paradigm paradigm);
/// Whether the likelihood needs no random samples of masks or noise.
bool is_exact(Paradigm paradigm);

struct BoundSettings {
  int32_t draws = 32;  ///< per text, spread evenly over l or t with one random offset per text
  uint64_t seed = 0;
  int32_t block_length = 0;  ///< kBlocks; 0: the trained length
  int32_t slot_size = 8;     ///< kSlots
};

struct Bound {
  struct Text {
    double nats = 0;  ///< sum over the scored tokens
    int64_t counted = 0;
  };
  std::vector<Text> texts;
  int64_t forward_passes = 0;
  int64_t rows = 0;
  double seconds = 0;

  int64_t tokens() const;
  double nats_per_token() const;  ///< all texts together; 0 without tokens
  /// 95% interval of the ratio of two sums over texts sampled at random (the delta method); it includes the
  /// noise of the samples. Empty for fewer than two texts.
  std::optional<Interval> interval() const;
};

/// A prompt and an answer in the model's input form. The answer is followed by the end token `end` (negative:
/// none) and, for models that fill a canvas, by end tokens up to `room` scored tokens or the end of the last
/// block.
BoundText bound_text(const ModelConfig& config, std::vector<TokenId> prompt, std::span<const TokenId> answer,
                     TokenId end, int32_t room, int32_t block_length);

/// Scores texts, several per pass; results do not depend on how texts are batched. Throws InputError for a
/// token outside the vocabulary, a mask, or a text that is longer than the model's context.
Bound bound(const BackendModel& model, std::span<const BoundText> texts, const BoundSettings& settings);

/// texts, tokens, nats_per_token, perplexity, their intervals (null for fewer than two texts), costs.
nlohmann::ordered_json to_json(const Bound& bound);

}  // namespace lacuna
