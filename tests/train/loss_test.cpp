// Losses of random batches, compared with those of an independent implementation in NumPy. The kept values
// are written by tests/reference/check_losses.py PROBE --golden tests/golden/losses.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "loss_cases.h"

namespace lacuna::train::loss_test {
namespace {

TEST(Losses, OfEveryObjectiveAreThoseOfAnIndependentImplementation) {
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/golden/losses.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::set<std::string> compared;
  for (const auto& [name, losses] : golden.items()) {
    const auto& cases = loss_cases::cases();
    const auto chosen =
        std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c.name == name; });
    ASSERT_NE(chosen, cases.end()) << name;
    compared.insert(name);
    for (size_t seed = 0; seed < losses.size(); ++seed) {
      const double loss = losses[seed];
      EXPECT_NEAR(loss_cases::make_instance(*chosen, seed).loss, loss, 1e-5 * std::max(1.0, std::abs(loss)))
          << name << ", seed " << seed;
    }
  }
  EXPECT_EQ(compared.size(), loss_cases::cases().size()) << "every case has kept values";
}

/// Parts of a batch, as threads share it, have losses that add up to the whole.
TEST(Losses, OfPartsAddUpToThatOfTheBatch) {
  for (const auto& chosen : loss_cases::cases()) {
    const loss_cases::Instance whole = loss_cases::make_instance(chosen, 4);
    const int64_t rows = whole.examples.inputs.size(0), length = whole.examples.inputs.size(1);
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const Examples part = part_of(whole.examples, row, row + 1);
      const torch::Tensor logits = whole.logits.slice(0, row * length, (row + 1) * length);
      sum += weighted_loss(logits.index_select(0, part.rows), part).item<double>();
    }
    EXPECT_NEAR(sum, whole.loss, 1e-5 * std::max(1.0, std::abs(whole.loss))) << chosen.name;
  }
}

}  // namespace
}  // namespace lacuna::train::loss_test
