// The memory of a training run: whether it fits, and that it is used again from step to step.
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// Counts of numbers that training keeps besides the activations of a step.
struct KeptWeights {
  int64_t parameters = 0;  ///< of the model
  int64_t learned = 0;     ///< parameters with updates: they have an average, two moments and gradients
  int64_t teacher = 0;     ///< parameters of a teacher
  int threads = 1;         ///< each has gradients of its own
  bool keeps_activations = true;  ///< of all blocks, or of one at a time
};

/// Estimates the memory of training with steps like `examples`: weights and a copy with their averages while
/// that is measured, averages, two moments, the gradients of each thread, and activations of each row for the
/// backward pass. In bytes, within a factor of two of LibTorch's use.
double estimated_bytes(const ModelShape& shape, const KeptWeights& kept, const Examples& examples);

/// Memory left by the machine and the process's own limit; infinite if neither is known.
double available_bytes();

/// Throws InputError if training needs more memory than is available.
void expect_to_fit(double needed, double available);

/// From here on freed memory stays with the process, for all of its threads: a step allocates what the one
/// before has freed, and the kernel need not clear it again. Before the first thread begins. With glibc;
/// nothing otherwise.
void keep_freed_memory();

}  // namespace lacuna::train
