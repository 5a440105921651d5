// From a row of logits to what a decoder asks of it, without the row leaving the device.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// How a row is drawn from: without filters, but with what may never be drawn or does not count.
struct DrawRule {
  float temperature = 0;        ///< 0: the best token
  float logit_scale = 1;        ///< logits are multiplied by it first
  float divisor = 1;            ///< logits are then divided by it, but for what is said of raw logits
  int32_t first_forbidden = 0;  ///< in the list of tokens: never drawn, not counted
  int32_t num_forbidden = 0;
};

struct DrawRequest {
  uint64_t noise_key = 0;  ///< RngStream::key()
  int32_t row = 0;         ///< of the logits
  int32_t rule = 0;
  int32_t scored_token = -1;  ///< its rank, logit and probability are wanted; -1: of none
};

struct DrawStatistics {
  double log_sum = 0;  ///< log of the sum of exp(logit - best_logit)
  double negative_entropy = 0;
  double probability = 0;  ///< of `token`
  double scored_probability = 0;
  float best_logit = 0;                         ///< the largest raw logit
  float scored_logit = 0;                       ///< raw
  float likeliest_logit = 0, second_logit = 0;  ///< the two largest
  int32_t best_token = 0;
  int32_t token = 0;
  int32_t scored_rank = 0;
  int32_t is_finite = 1;
};

struct DrawArguments {
  float* logits = nullptr;  ///< [rows, stride]; forbidden tokens become -infinity, all are scaled and divided
  const DrawRequest* requests = nullptr;
  const DrawRule* rules = nullptr;
  const int32_t* tokens = nullptr;  ///< lists of the rules
  DrawStatistics* out = nullptr;    ///< [requests]
  int64_t vocabulary = 0;
  int64_t stride = 0;
};

/// No two requests of a call name the same row.
void draw(Stream& stream, const DrawArguments& arguments, uint32_t num_requests);

struct DriftArguments {
  const float* now = nullptr;     ///< [rows, stride] logits
  const float* before = nullptr;  ///< [rows, stride]
  double* out = nullptr;          ///< [rows, 2]: KL(now || before), and the largest |ln p now - ln p before|
  int64_t vocabulary = 0;
  int64_t stride = 0;
  float logit_scale = 1;  ///< logits are multiplied by it first
};

void measure_drift(Stream& stream, const DriftArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
