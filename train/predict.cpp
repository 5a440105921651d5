#include "train/predict.h"

#include <vector>

namespace lacuna::train {

torch::Tensor soft_embeddings(Transformer& model, const Examples& examples) {
  if (!examples.temperatures.defined()) return {};
  const torch::NoGradGuard no_grad;
  const torch::Tensor conditioned = examples.temperatures.nonzero().squeeze(1);
  if (conditioned.size(0) == 0) return {};
  const auto of_conditioned = [&](const torch::Tensor& x) { return x.index_select(0, conditioned); };
  const torch::Tensor hidden =
      model->hidden(of_conditioned(examples.inputs), of_conditioned(examples.positions),
                    of_conditioned(examples.unseen), {examples.canvas_begin, {}});
  const torch::Tensor logits = model->logits(hidden.slice(1, examples.canvas_begin)).to(torch::kFloat32);
  const torch::Tensor temperatures = of_conditioned(examples.temperatures).view({-1, 1, 1});
  const torch::Tensor soft = model->soft_embedding(torch::softmax(logits / temperatures, -1));
  return torch::zeros({examples.inputs.size(0), soft.size(1), soft.size(2)}, soft.options())
      .index_copy(0, conditioned, soft);
}

namespace {

/// The normalized hidden states [M, width] of the rows that predict.
torch::Tensor predicting_rows(Transformer& model, const Examples& examples, const torch::Tensor& soft) {
  const std::vector<torch::Tensor> residuals =
      model->residuals(examples.inputs, examples.positions, examples.unseen, {examples.canvas_begin, soft});
  // Only rows that predict need the head.
  const auto rows_after = [&](const torch::Tensor& residual, const torch::Tensor& rows) {
    return residual.flatten(0, 1).index_select(0, rows);
  };
  torch::Tensor read = rows_after(residuals.back(), examples.rows);
  if (examples.blocks_left.defined()) {
    for (size_t left = 1; left < residuals.size(); ++left) {
      const torch::Tensor early = examples.blocks_left.eq(static_cast<int64_t>(left)).nonzero().squeeze(1);
      if (early.size(0) == 0) continue;
      const torch::Tensor& residual = residuals[residuals.size() - 1 - left];
      read = read.index_copy(0, early, rows_after(residual, examples.rows.index_select(0, early)));
    }
  }
  return model->normed(read);
}

}  // namespace

torch::Tensor predict(Transformer& model, const Examples& examples, const torch::Tensor& soft) {
  return model->logits(predicting_rows(model, examples, soft));
}

torch::Tensor loss_of(Transformer& model, const Examples& examples, const torch::Tensor& soft) {
  const torch::Tensor rows = predicting_rows(model, examples, soft);
  const bool is_plain = !examples.log_snr.defined() && !examples.confidence_weights.defined() &&
                        model->shape().traits().logit_soft_cap == 0;
  if (!is_plain || !rows.device().is_cpu() || rows.scalar_type() != torch::kFloat32)
    return weighted_loss(model->logits(rows), examples);
  return cross_entropy(rows, model->head(), examples.targets, examples.weights, model->logit_scale(),
                       examples.suppressed);
}

}  // namespace lacuna::train
