// Whether a training fits into the machine, asked before it starts.
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// About what a training of `parameters` numbers takes whose steps are like `examples`: the weights with
/// their average, two moments and the gradients of each thread, and what the backward pass remembers of each
/// row. Bytes; within a factor of two of what LibTorch takes.
double estimated_bytes(const ModelShape& shape, int64_t parameters, const Examples& examples, int threads);

/// What the machine and the process's own limit leave; infinite where neither says.
double available_bytes();

/// Throws InputError where a training needs more than there is.
void expect_to_fit(double needed, double available);

}  // namespace lacuna::train
