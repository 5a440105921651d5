// Memory of a training run: an estimate, whether it fits, and its reuse between steps.
#pragma once

#include <cstdint>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// Inputs of the memory estimate, besides model shape and examples.
struct TrainingMemory {
  int64_t parameters = 0;         ///< of the model
  int64_t learned = 0;            ///< trainable parameters: each has an average, two moments and gradients
  int64_t teacher = 0;            ///< parameters of a teacher
  int threads = 1;                ///< each has its own gradients
  bool keeps_activations = true;  ///< false: activation checkpointing
};

/// Estimates the bytes of training with steps like `examples`, within a factor of two: weights, a copy of
/// them for evaluating the averages, averages, two moments, gradients of each thread, and activations kept
/// for the backward pass.
double estimated_bytes(const ModelShape& shape, const TrainingMemory& kept, const Examples& examples);

/// Memory that the machine and the container's limit leave to the process; infinite if neither is known.
double available_bytes();

/// Throws InputError if training needs more memory than is available.
void expect_to_fit(double needed, double available);

/// Makes malloc keep freed memory in one arena for all threads: a step reuses the pages of the previous one,
/// and the kernel need not zero new ones. Call before the first thread starts. No effect without glibc.
void keep_freed_memory();

}  // namespace lacuna::train
