// The loss of all objectives: weighted_loss() of objective.h.
#include <cmath>
#include <limits>

#include "train/objective.h"

namespace lacuna::train {
namespace {

/// [M] losses KL(q(.|x) || q(.|p)) + r - log r - 1. Noise is the suppressed token with probability 1 - share,
/// else uniform over all other tokens. `logits` [M, V] are f32 and exclude the suppressed token, so q(.|x)
/// and q(.|p) agree on it. q(.|x) is uniform but for x, so the KL needs one pass over log q(.|p).
torch::Tensor uniform_noise_losses(const torch::Tensor& logits, const Examples& examples) {
  const torch::Tensor alpha = examples.log_snr.sigmoid();
  torch::Tensor other = (-examples.log_snr).sigmoid() / static_cast<double>(logits.size(1) - 1);
  if (examples.uniform_shares.defined()) other = other * examples.uniform_shares;
  const torch::Tensor log_other = other.log();
  const torch::Tensor log_predicted =
      (alpha.unsqueeze(1) * torch::softmax(logits, -1) + other.unsqueeze(1)).log();
  const auto of_tokens = [&](const torch::Tensor& tokens) {
    return log_predicted.gather(1, tokens.unsqueeze(1)).squeeze(1);
  };
  const torch::Tensor log_x = (alpha + other).log();
  const torch::Tensor predicted_x = of_tokens(examples.targets);
  // The suppressed token adds zero to the sum over all.
  const torch::Tensor rest = (log_other.unsqueeze(1) - log_predicted).sum(1) - (log_other - predicted_x);
  const torch::Tensor divergence = (alpha + other) * (log_x - predicted_x) + other * rest;

  const torch::Tensor seen = examples.inputs.flatten().index_select(0, examples.rows);
  const torch::Tensor log_ratio = torch::where(seen == examples.targets, log_x, log_other) - of_tokens(seen);
  return divergence + log_ratio.exp() - log_ratio - 1;
}

/// The weighted sum of the entropies of rows with a correct most probable token. `logits` [M, V] are f32.
torch::Tensor confidence_loss(const torch::Tensor& logits, const Examples& examples) {
  const torch::Tensor log_p = torch::log_softmax(logits, -1);
  const torch::Tensor p = log_p.exp();
  const torch::Tensor entropy = -(p * log_p.masked_fill(p == 0, 0)).sum(-1);
  const torch::Tensor right = logits.argmax(-1).eq(examples.targets);
  return (entropy * right * examples.confidence_weights).sum();
}

}  // namespace

torch::Tensor weighted_loss(const torch::Tensor& logits, const Examples& examples) {
  torch::Tensor wide = logits.to(torch::kFloat32);
  if (examples.suppressed >= 0) {
    wide = wide.index_fill(-1, torch::tensor({examples.suppressed}, torch::kInt64).to(wide.device()),
                           -std::numeric_limits<double>::infinity());
  }
  const torch::Tensor losses =
      examples.log_snr.defined()
          ? uniform_noise_losses(wide, examples)
          : torch::nn::functional::cross_entropy(
                wide, examples.targets,
                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  const torch::Tensor loss = (losses * examples.weights).sum();
  return examples.confidence_weights.defined() ? loss + confidence_loss(wide, examples) : loss;
}

}  // namespace lacuna::train
