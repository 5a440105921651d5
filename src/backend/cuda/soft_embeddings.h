// Soft embeddings that sequences of a model with canvases store for their cells.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/device_model.h"
#include "backend/cuda/kernels/soft_embedding.h"
#include "backend/cuda/staging.h"
#include "base/matrix.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Addresses of the rows' soft embeddings in their sequences; null for rows without.
std::vector<float*> soft_embeddings_of(const StepPlan& plan, std::span<const CudaSequence* const> sequences,
                                       std::span<const LogitRow> wanted);

// The caller must hold the device's mutex.

/// Stores soft embeddings of distributions given by Scratch::logits, temperatures already applied.
///   requests  [count] on the device
void keep_soft_embeddings(DeviceModel& model, const SoftRequest* requests, int64_t count);

/// Stores soft embeddings of distributions on the host: to[i] = factors[i] * sum of weight * embedding. Waits
/// until they are stored.
///   weights  [rows, vocab]
void keep_soft_embeddings(DeviceModel& model, Staging& staging, ConstMatrix<float> weights,
                          std::span<const float> factors, std::span<float* const> to);

}  // namespace lacuna::cuda
