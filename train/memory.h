// Checks before a training run whether it fits into memory.
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// Estimates the memory of training `parameters` parameters with steps like `examples`: weights with their
/// average, two moments, the gradients of each thread, and activations of each row for the backward pass. In
/// bytes, within a factor of two of LibTorch's use.
double estimated_bytes(const ModelShape& shape, int64_t parameters, const Examples& examples, int threads);

/// Memory left by the machine and the process's own limit; infinite if neither is known.
double available_bytes();

/// Throws InputError if training needs more memory than is available.
void expect_to_fit(double needed, double available);

}  // namespace lacuna::train
