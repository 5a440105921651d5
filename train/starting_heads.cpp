#include "train/starting_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/error.h"

namespace lacuna::train {
namespace {

constexpr double kConstantShare = 0.5;  // c: of a normalised embedding, whose own part is sqrt(1 - c^2)
constexpr double kOffsetScore = 14;     // of an offset's head at its offset; its mean is about 0
constexpr double kMatchScore = 12;      // of equal tokens, about
constexpr double kNearScore = 16;       // by how much a matching head likes itself less
constexpr double kSlow = 0.0101;        // radians per position: rotations that a few hundred positions leave
constexpr int64_t kNearPairs = 6;       // the fastest: their sum has fallen to a third five positions away
constexpr int64_t kMatchingLayer = 1;
constexpr int64_t kMatchingHeads = 2;
/// The output of attention in each layer, as a multiple of its usual length: as long as the embedding,
/// where the labels depend on it.
constexpr std::array<double, 4> kOutputGains = {1, 8, 4, 4};

/// A head that looks `offset` positions away, by the rotations [first_pair, last_pair): slow ones make it
/// look at a neighbourhood.
struct OffsetHead {
  int64_t layer, head;
  double offset;
  int64_t first_pair, last_pair;
};

/// The last word of a question whose options are yes and no is 19 tokens before the label, the last options
/// of others are nearer.
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
  /// The rows of q or k that make one head.
  torch::Tensor head(int64_t layer, const char* part, int64_t number) const {
    return of(layer, part).slice(0, number * head_width_, (number + 1) * head_width_);
  }

 private:
  torch::OrderedDict<std::string, torch::Tensor> parameters_;
  int64_t head_width_;
};

/// A factor of q and of k, so that `pairs` equal rotations give `score` in all, of inputs whose product with
/// the constant direction is c sqrt(width).
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

/// Gives each embedding the length sqrt(width), of which the part along `constant` is the same for all.
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
