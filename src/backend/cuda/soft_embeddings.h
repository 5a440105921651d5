// The soft embeddings that sequences of a model with canvases keep for their cells.
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

/// Where the sequences keep the soft embeddings of rows; null for rows that keep none.
std::vector<float*> soft_embeddings_of(const StepPlan& plan, std::span<const CudaSequence* const> sequences,
                                       std::span<const LogitRow> wanted);

// The caller holds the device's mutex.

/// Keeps those of the distributions that lie as logits in the scratch, temperatures applied.
///   requests  [count] on the device
void keep_soft_embeddings(DeviceModel& model, const SoftRequest* requests, int64_t count);

/// Keeps those of distributions on the host: to[i] = factors[i] * the sum of weight * embedding. Waits.
///   weights  [rows, vocab]
void keep_soft_embeddings(DeviceModel& model, Staging& staging, ConstMatrix<float> weights,
                          std::span<const float> factors, std::span<float* const> to);

}  // namespace lacuna::cuda
