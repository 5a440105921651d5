// Sampling and statistics over rows of logits on the device.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Sampling rule for the device: temperature, filters, forbidden and undrawn tokens.
struct DrawRule {
  float temperature = 0;        ///< 0: argmax
  float logit_scale = 1;        ///< multiplies logits first
  float divisor = 1;            ///< then divides the logits that statistics are measured in
  int32_t first_forbidden = 0;  ///< index in DrawArguments::tokens of distinct tokens with probability 0
  int32_t num_forbidden = 0;
  int32_t first_undrawn = 0;  ///< the same of distinct tokens that are counted and not sampled
  int32_t num_undrawn = 0;
  // Filters, as those of SamplingRule; rows of a rule without `filters` pass them by.
  bool filters = false;
  bool measures_filtered = false;  ///< statistics are those of the tokens that the filters keep
  float filter_divisor = 1;  ///< divides the logits that are filtered and sampled from, instead of `divisor`
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;
};

struct DrawRequest {
  uint64_t noise_key = 0;  ///< RngStream::key()
  int32_t row = 0;         ///< row of the logits
  int32_t rule = 0;
  int32_t scored_token = -1;  ///< token to report rank, logit and probability of; -1: none
};

struct DrawStatistics {
  double log_sum = 0;  ///< log of the sum of exp(logit - likeliest_logit)
  double negative_entropy = 0;
  double probability = 0;  ///< probability of `token`
  double scored_probability = 0;
  float best_logit = 0;                         ///< the largest raw logit that may be sampled
  float scored_logit = 0;                       ///< raw; -infinity if the token may not be sampled
  float likeliest_logit = 0, second_logit = 0;  ///< the two largest after division
  int32_t best_token = 0;                       ///< the most likely token that may be sampled
  int32_t second_token = 0;                     ///< the next one, by raw logits
  int32_t token = 0;
  int32_t scored_rank = 0;
  int32_t is_finite = 1;
};

/// Results of kSliceTokens logits of a row.
struct DrawPart {
  // All tokens but forbidden ones, after division:
  double sum, weighted;     ///< sums of w and w x; w = exp(x), x = logit - likeliest, -infinity as 0
  float likeliest, next;    ///< the two largest
  float scored_likelihood;  ///< logit of the scored token
  // Tokens that may be sampled:
  float best, second;    ///< the two largest raw logits
  float sampled, drawn;  ///< logits after division: the largest, and that of drawn_token
  float scored;          ///< raw logit of the scored token
  double noisy;          ///< the largest noisy logit
  int32_t best_token, second_token, sampled_token, drawn_token;
  int32_t num_before_scored;  ///< tokens that are before the scored one
  int32_t num_special;        ///< logits of the model that are not finite
};

/// Fixed, so that a row's bits depend on the vocabulary alone.
inline constexpr int32_t kSliceTokens = 4096;

constexpr uint32_t num_slices(int64_t vocabulary) {
  return static_cast<uint32_t>((vocabulary + kSliceTokens - 1) / kSliceTokens);
}

struct DrawArguments {
  float* logits = nullptr;  ///< [rows, stride]; rows with filters are overwritten
  const DrawRequest* requests = nullptr;
  const DrawRule* rules = nullptr;
  const int32_t* tokens = nullptr;  ///< forbidden and undrawn tokens of all rules
  DrawPart* parts = nullptr;        ///< [requests, num_slices(vocabulary)]
  DrawStatistics* out = nullptr;    ///< [requests]
  int64_t vocabulary = 0;
  int64_t stride = 0;
};

/// Samples rows and computes their statistics. Requests of one call must have distinct rows.
///   filters  whether any of the rules does
void draw(Stream& stream, const DrawArguments& arguments, uint32_t num_requests, bool filters = false);

/// Overwrites the rows of requests with the logits that draw() measures: scaled and divided, and -infinity
/// for forbidden tokens. For rules without filters.
void prepare_rows(Stream& stream, const DrawArguments& arguments, uint32_t num_requests);

}  // namespace lacuna::cuda
