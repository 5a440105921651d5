// Sampling and statistics over rows of logits on the device.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Sampling rule for the device: no filters, but forbidden tokens.
struct DrawRule {
  float temperature = 0;        ///< 0: argmax
  float logit_scale = 1;        ///< multiplies logits first
  float divisor = 1;            ///< then divides logits, after statistics of raw logits
  int32_t first_forbidden = 0;  ///< index in DrawArguments::tokens of tokens with probability 0
  int32_t num_forbidden = 0;
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
  float best_logit = 0;                         ///< the largest raw logit
  float scored_logit = 0;                       ///< raw
  float likeliest_logit = 0, second_logit = 0;  ///< the two largest after division
  int32_t best_token = 0;
  int32_t token = 0;
  int32_t scored_rank = 0;
  int32_t is_finite = 1;
};

struct DrawArguments {
  float* logits = nullptr;  ///< [rows, stride]; forbidden tokens become -infinity, all are scaled and divided
  const DrawRequest* requests = nullptr;
  const DrawRule* rules = nullptr;
  const int32_t* tokens = nullptr;  ///< forbidden tokens of all rules
  DrawStatistics* out = nullptr;    ///< [requests]
  int64_t vocabulary = 0;
  int64_t stride = 0;
};

/// Samples rows and computes their statistics. Requests of one call must have distinct rows.
void draw(Stream& stream, const DrawArguments& arguments, uint32_t num_requests);

struct DriftArguments {
  const float* now = nullptr;     ///< [rows, stride] logits
  const float* before = nullptr;  ///< [rows, stride]
  double* out = nullptr;          ///< [rows, 2]: KL(now || before), and the largest |ln p now - ln p before|
  int64_t vocabulary = 0;
  int64_t stride = 0;
  float logit_scale = 1;  ///< multiplies logits first
};

void measure_drift(Stream& stream, const DriftArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
