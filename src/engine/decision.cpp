#include "engine/decision.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lacuna {
namespace {

size_t index_of_largest(std::span<const double> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

std::string_view name_of(QuestionKind kind) {
  constexpr std::array<std::string_view, kNumQuestionKinds> kNames = {"predicate", "choice", "score"};
  return kNames[static_cast<size_t>(kind)];
}

DecisionQuestion make_predicate(std::string instructions, std::string if_true, std::string if_false) {
  return {QuestionKind::kPredicate,
          std::move(instructions),
          {{"yes", std::move(if_true)}, {"no", std::move(if_false)}}};
}

size_t DecisionAnswer::best() const {
  return index_of_largest(probabilities);
}

double DecisionAnswer::score() const {
  double sum = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) sum += static_cast<double>(i) * probabilities[i];
  return sum;
}

std::vector<double> label_probabilities(std::span<const double> logprobs, double temperature) {
  std::vector<double> result(logprobs.begin(), logprobs.end());
  const double largest = *std::max_element(result.begin(), result.end());
  double sum = 0;
  for (double& value : result) {
    // If no label has any probability, all are equally probable.
    value = std::isinf(largest) ? 1 : std::exp((value - largest) / temperature);
    sum += value;
  }
  for (double& value : result) value /= sum;
  return result;
}

double confidence_of(QuestionKind kind, std::span<const double> probabilities) {
  const auto n = static_cast<double>(probabilities.size());
  if (probabilities.size() == 1) return 1;
  const size_t best = index_of_largest(probabilities);
  if (kind != QuestionKind::kScore) return std::max(0.0, (probabilities[best] - 1 / n) / (1 - 1 / n));
  double spread = 0, even_spread = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const auto level = static_cast<double>(i);
    spread += probabilities[i] * std::abs(level - static_cast<double>(best));
    even_spread += std::abs(level - (n - 1) / 2) / n;
  }
  return std::max(0.0, 1 - spread / even_spread);
}

}  // namespace lacuna
