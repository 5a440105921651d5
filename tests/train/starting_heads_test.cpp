// First weights with heads for offsets and for equal tokens.
#include "train/starting_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "base/error.h"

namespace lacuna::train::starting_heads_test {
namespace {

ModelShape shape_of(Family family) {
  ModelShape shape;
  shape.family = family;
  shape.vocabulary = 300;
  return shape;
}

Transformer model_with_heads() {
  torch::manual_seed(3);
  Transformer model(shape_of(Family::kLlada));
  add_starting_heads(model);
  return model;
}

/// The score that a head gives a key of `key_token` at a distance from a query of `query_token`, where rows
/// hold their embedding alone: R(d) applied to q and k as pairs (i, i + half).
double score(const Transformer& model, int64_t layer, int64_t head, int64_t query_token, int64_t key_token,
             int64_t distance) {
  const ModelShape& shape = model->shape();
  const auto parameters = model->named_parameters();
  const int64_t width = shape.head_width(), half = width / 2;
  const auto projected = [&](const char* part, int64_t token) {
    const torch::Tensor x = parameters["embedding.weight"][token];
    const torch::Tensor normalised = x * torch::rsqrt(x.square().mean());
    const std::string name = "blocks." + std::to_string(layer) + "." + part + ".weight";
    return torch::mv(parameters[name].slice(0, head * width, (head + 1) * width), normalised);
  };
  const torch::Tensor q = projected("q", query_token), k = projected("k", key_token);
  const torch::Tensor angles =
      distance * torch::pow(shape.rope_theta, -2 * torch::arange(half) / static_cast<double>(width));
  const torch::Tensor cos = angles.cos(), sin = angles.sin();
  const torch::Tensor k1 = k.slice(0, 0, half), k2 = k.slice(0, half);
  const torch::Tensor rotated = torch::cat({k1 * cos - k2 * sin, k2 * cos + k1 * sin});
  return (q * rotated).sum().item<double>() / std::sqrt(static_cast<double>(width));
}

TEST(StartingHeads, AHeadPrefersItsOffsetWhateverTheTokens) {
  const torch::NoGradGuard no_grad;
  const Transformer model = model_with_heads();
  for (const auto& [layer, head, offset] : {std::array<int64_t, 3>{0, 0, -1}, {0, 2, 1}, {2, 0, -19}}) {
    const double best = score(model, layer, head, 5, 9, offset);
    EXPECT_NEAR(best, score(model, layer, head, 200, 77, offset), 1e-3);
    for (int64_t distance = -60; distance <= 60; ++distance) {
      if (distance == offset) continue;
      EXPECT_LT(score(model, layer, head, 5, 9, distance), best) << distance;
    }
  }
}

TEST(StartingHeads, MatchingHeadsPreferEqualTokensFarAwayToOthersAndToThemselves) {
  const torch::NoGradGuard no_grad;
  const Transformer model = model_with_heads();
  for (const int64_t head : {0, 1}) {
    double equal = 0, others = 0, own = 0;
    constexpr int64_t kTokens = 40;
    for (int64_t token = 0; token < kTokens; ++token) {
      equal += score(model, 1, head, token, token, 60) / kTokens;
      others += score(model, 1, head, token, token + 1, 60) / kTokens;
      own += score(model, 1, head, token, token, 0) / kTokens;
    }
    EXPECT_GT(equal, others + 6);
    EXPECT_GT(equal, own + 6);
  }
}

TEST(StartingHeads, FamiliesWithoutRoomForThemAreRefused) {
  for (const Family family : {Family::kQwen3, Family::kGidd, Family::kDiffusionGemma}) {
    Transformer model(shape_of(family));
    EXPECT_THROW(add_starting_heads(model), InputError);
  }
  ModelShape shallow = shape_of(Family::kLlada);
  shallow.layers = 3;
  Transformer model(shallow);
  EXPECT_THROW(add_starting_heads(model), InputError);
}

}  // namespace
}  // namespace lacuna::train::starting_heads_test
