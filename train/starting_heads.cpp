#include "train/starting_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/error.h"

namespace lacuna::train {
namespace {

constexpr double kConstantShare =
    0.5;                             // c, for unit-length embeddings; the own part has length sqrt(1 - c^2)
constexpr double kOffsetScore = 14;  // score of an offset head at its offset; the mean score is about 0
constexpr double kMatchScore = 12;   // approximate score of equal tokens in a matching head
constexpr double kNearScore = 16;    // reduction of that score at distance 0
constexpr double kSlow = 0.0101;     // radians per position: slow over a few hundred positions
constexpr int64_t kNearPairs = 6;    // the fastest pairs; their sum falls to a third at distance five
constexpr int64_t kMatchingLayer = 1;
constexpr int64_t kMatchingHeads = 2;
/// Scale of attention's output in each layer relative to the usual initialization; in layers that the labels
/// depend on, the output becomes as long as the embedding.
constexpr std::array<double, 4> kOutputGains = {1, 8, 4, 4};

/// A head that attends `offset` positions away, using the rotation pairs [first_pair, last_pair); slow pairs
/// make it attend to a neighborhood.
struct OffsetHead {
  int64_t layer, head;
  double offset;
  int64_t first_pair, last_pair;
};

/// In questions with options yes and no, the last word is 19 tokens before the label; the last options of
/// other questions are nearer.
constexpr auto kOffsetHeads = std::to_array<OffsetHead>({{0, 0, -1, 0, 8},
                                                         {0, 1, -4, 2, 8},
                                                         {0, 2, 1, 0, 8},
                                                         {1, 2, -5, 2, 8},
                                                         {2, 0, -19, 0, 8},
                                                         {2, 1, -14, 4, 10},
                                                         {3, 0, -6, 3, 9}});

torch::Tensor frequencies(const ModelShape& shape) {
  const torch::Tensor index = torch::arange(0, shape.head_width(), 2, torch::kFloat32);
  return torch::pow(shape.rope_theta, -index / static_cast<double>(shape.head_width()));
}

/// Parameters of a model by name.
class Weights {
 public:
  explicit Weights(const Transformer& model)
      : parameters_(model->named_parameters()), head_width_(model->shape().head_width()) {}

  torch::Tensor of(int64_t layer, const char* part) const {
    return parameters_[fmt::format("blocks.{}.{}.weight", layer, part)];
  }
  torch::Tensor embedding() const { return parameters_["embedding.weight"]; }
  /// The rows of the q or k matrix for one head.
  torch::Tensor head(int64_t layer, const char* part, int64_t number) const {
    return of(layer, part).slice(0, number * head_width_, (number + 1) * head_width_);
  }

 private:
  torch::OrderedDict<std::string, torch::Tensor> parameters_;
  int64_t head_width_;
};

/// Scale of q and of k for which `pairs` pairs with equal rotations have total score `score`, if inputs have
/// the product c sqrt(width) with the constant direction.
double constant_gain(const ModelShape& shape, double score, int64_t pairs) {
  const double scaled =
      score * std::sqrt(static_cast<double>(shape.head_width())) / static_cast<double>(pairs);
  return std::sqrt(scaled) / (kConstantShare * std::sqrt(static_cast<double>(shape.width)));
}

void set_offset(const Weights& weights, const ModelShape& shape, const OffsetHead& head,
                const torch::Tensor& constant) {
  const int64_t half = shape.head_width() / 2;
  const torch::Tensor pairs = torch::zeros({half});
  pairs.slice(0, head.first_pair, head.last_pair).fill_(1);
  const torch::Tensor angles = frequencies(shape) * head.offset;
  const double gain = constant_gain(shape, kOffsetScore, head.last_pair - head.first_pair);
  const torch::Tensor q = torch::cat({angles.cos() * pairs, angles.sin() * pairs});
  const torch::Tensor k = torch::cat({pairs, torch::zeros({half})});
  weights.head(head.layer, "q", head.head).copy_(gain * torch::outer(q, constant));
  weights.head(head.layer, "k", head.head).copy_(gain * torch::outer(k, constant));
}

void set_matching(const Weights& weights, const ModelShape& shape, int64_t head,
                  const torch::Tensor& constant) {
  const int64_t half = shape.head_width() / 2;
  const torch::Tensor slow = (frequencies(shape) < kSlow).to(torch::kFloat32);
  const auto rows = static_cast<double>(2 * slow.sum().item<int64_t>());
  const torch::Tensor mixed = torch::randn({shape.head_width(), shape.width});
  const torch::Tensor own = mixed - torch::outer(torch::mv(mixed, constant), constant);
  const double own_square = static_cast<double>(shape.width) * (1 - kConstantShare * kConstantShare);
  const double square = kMatchScore * std::sqrt(static_cast<double>(shape.head_width()));  // of P x
  const torch::Tensor match =
      std::sqrt(square / (rows * own_square)) * own * torch::cat({slow, slow}).unsqueeze(1);
  const torch::Tensor near = torch::zeros({shape.head_width()});
  near.slice(0, 0, std::min(kNearPairs, half)).fill_(constant_gain(shape, kNearScore, kNearPairs));
  weights.head(kMatchingLayer, "q", head).copy_(match - torch::outer(near, constant));
  weights.head(kMatchingLayer, "k", head).copy_(match + torch::outer(near, constant));
}

void check(const ModelShape& shape) {
  const FamilyTraits& traits = shape.traits();
  if (traits.has_canvases() || traits.interpolates() || traits.qk_norm != QkNorm::kNone ||
      traits.rotary_share != 1) {
    throw InputError(
        "--starting-heads: {} has norms of queries and keys, or other rotations; expected llada, "
        "dream, qwen2 or fast-dllm-v2",
        traits.name);
  }
  const auto layers = static_cast<int64_t>(kOutputGains.size());
  if (shape.layers < layers || shape.heads < 4 || shape.head_width() < 32) {
    throw InputError("--starting-heads: {} layers with {} heads of {}; expected at least {} with 4 of 32",
                     shape.layers, shape.heads, shape.head_width(), layers);
  }
}

/// Gives each embedding the length sqrt(width) and the same component along `constant`.
void set_embedding(const torch::Tensor& embedding, const ModelShape& shape, const torch::Tensor& constant) {
  const double length = std::sqrt(static_cast<double>(shape.width));
  const torch::Tensor own = torch::randn_like(embedding);
  own.sub_(torch::outer(torch::mv(own, constant), constant));
  own.div_(own.norm(2, 1, /*keepdim=*/true));
  const double own_share = std::sqrt(1 - kConstantShare * kConstantShare);
  embedding.copy_(length * (own_share * own + kConstantShare * constant));
}

}  // namespace

void add_starting_heads(Transformer& model) {
  const ModelShape& shape = model->shape();
  check(shape);
  const torch::NoGradGuard no_grad;
  const Weights weights(model);
  torch::Tensor constant = torch::randn({shape.width});
  constant.div_(constant.norm());
  set_embedding(weights.embedding(), shape, constant);
  for (size_t layer = 0; layer < kOutputGains.size(); ++layer) {
    const auto number = static_cast<int64_t>(layer);
    weights.of(number, "o").mul_(kOutputGains[layer]);
    if (number == 0) continue;
    for (const char* const part : {"q", "k"}) {
      const torch::Tensor matrix = weights.of(number, part);
      matrix.sub_(torch::outer(torch::mv(matrix, constant), constant));
    }
  }
  for (const OffsetHead& head : kOffsetHeads) set_offset(weights, shape, head, constant);
  for (int64_t head = 0; head < kMatchingHeads; ++head) set_matching(weights, shape, head, constant);
}

}  // namespace lacuna::train
