#include "backend/cuda/soft_embeddings.h"

#include <algorithm>

#include "backend/cuda/kernels/rows.h"
#include "base/error.h"

namespace lacuna::cuda {
namespace {

/// Distributions per upload.
constexpr int64_t kMaxHostRows = 64;

/// Reserves scratch memory for token weights, factors and means of `count` rows.
void reserve(DeviceModel& model, int64_t count) {
  expects(model.config.canvas.has_value(), "soft embeddings are kept by passes of a model with canvases");
  Stream& stream = model.stream();
  grow(stream, model.scratch.token_weights,
       count * model.weights.mean_embedding.depth * model.number_bytes());
  grow(stream, model.scratch.soft_factors, count * static_cast<int64_t>(sizeof(float)));
  reserve_partials(model, model.weights.mean_embedding, count);
  grow(stream, model.scratch.soft_means,
       count * model.config.hidden_dim * static_cast<int64_t>(sizeof(float)));
}

/// Multiplies the token weights in the scratch with the embedding, and stores the results in the sequences.
void multiply_and_keep(DeviceModel& model, const float* factors, const SoftRequest* requests, int64_t count) {
  const int64_t hidden = model.config.hidden_dim;
  auto* means = model.scratch.soft_means.as<float>();
  multiply(model, model.weights.mean_embedding,
           {.x = model.bf16_rows(model.scratch.token_weights),
            .x_f32 = model.f32_rows(model.scratch.token_weights),
            .out_f32 = means,
            .out_stride = hidden},
           count);
  keep_means(model.stream(), {means, factors, requests, hidden}, static_cast<uint32_t>(count));
}

}  // namespace

std::vector<float*> soft_embeddings_of(const StepPlan& plan, std::span<const CudaSequence* const> sequences,
                                       std::span<const LogitRow> wanted) {
  std::vector<float*> kept(wanted.size());
  const bool keeps = std::any_of(wanted.begin(), wanted.end(),
                                 [](const LogitRow& logit) { return logit.soft_embedding_slack >= 0; });
  if (!keeps) return kept;
  std::vector<const CudaSequence*> sequence_of(plan.tokens.size());
  for (const RowGroup& group : plan.groups) {
    std::fill(sequence_of.begin() + group.rows.begin, sequence_of.begin() + group.rows.end,
              sequences[static_cast<size_t>(group.sequence)]);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = static_cast<size_t>(wanted[i].row);
    if (wanted[i].soft_embedding_slack >= 0) kept[i] = sequence_of[row]->soft_embedding(plan.cells[row]);
  }
  return kept;
}

void keep_soft_embeddings(DeviceModel& model, const SoftRequest* requests, int64_t count) {
  reserve(model, count);
  auto* factors = model.scratch.soft_factors.as<float>();
  weigh_tokens(model.stream(),
               {.logits = model.scratch.logits.as<float>(),
                .requests = requests,
                .out = model.bf16_rows(model.scratch.token_weights),
                .out_f32 = model.f32_rows(model.scratch.token_weights),
                .factors = factors,
                .vocabulary = model.config.vocab_size,
                .stride = model.config.vocab_size,
                .out_stride = model.weights.mean_embedding.depth,
                .scale = model.embedding_scale()},
               static_cast<uint32_t>(count));
  multiply_and_keep(model, factors, requests, count);
}

void keep_soft_embeddings(DeviceModel& model, Staging& staging, ConstMatrix<float> weights,
                          std::span<const float> factors, std::span<float* const> to) {
  Stream& stream = model.stream();
  for (int64_t first = 0; first < weights.rows; first += kMaxHostRows) {
    const int64_t count = std::min(kMaxHostRows, weights.rows - first);
    reserve(model, count);
    staging.clear();
    std::vector<Staged<float>> staged_rows;
    std::vector<SoftRequest> requests;
    for (int64_t row = first; row < first + count; ++row) {
      staged_rows.push_back(staging.add(weights.row_span(row)));
      requests.push_back({.to = to[static_cast<size_t>(row)]});
    }
    const auto staged_factors =
        staging.add(factors.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
    const auto staged_requests = staging.add(requests);
    // Two uploads: the device addresses of rows are only known after the first.
    staging.send(stream);
    std::vector<const float*> rows;
    rows.reserve(staged_rows.size());
    for (const Staged<float>& row : staged_rows) rows.push_back(staging.at(row));
    const DeviceBuffer pointers(rows.size() * sizeof(const float*));
    stream.copy(pointers.as<const float*>(), rows.data(), pointers.bytes());
    round_rows(stream,
               {.rows = pointers.as<const float*>(),
                .out = model.bf16_rows(model.scratch.token_weights),
                .hidden = model.config.vocab_size,
                .stride = model.weights.mean_embedding.depth,
                .out_f32 = model.f32_rows(model.scratch.token_weights)},
               static_cast<uint32_t>(count));
    multiply_and_keep(model, staging.at(staged_factors), staging.at(staged_requests), count);
    stream.wait();  // the next chunk reuses the staging memory
  }
}

}  // namespace lacuna::cuda
