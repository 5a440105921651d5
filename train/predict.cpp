#include "train/predict.h"

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

torch::Tensor predict(Transformer& model, const Examples& examples, const torch::Tensor& soft) {
  const torch::Tensor hidden =
      model->hidden(examples.inputs, examples.positions, examples.unseen, {examples.canvas_begin, soft});
  // Only rows that predict need the head.
  return model->logits(hidden.flatten(0, 1).index_select(0, examples.rows));
}

}  // namespace lacuna::train
