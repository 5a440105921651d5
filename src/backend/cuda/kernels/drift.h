// How far distributions of logits have moved.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

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
