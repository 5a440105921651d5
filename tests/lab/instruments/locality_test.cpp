#include "instruments/locality.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::locality_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int32_t kAnswer = 12;

class Locality : public testing::Test {
 protected:
  LocalityFindings run(const ModelConfig& config, uint64_t seed = 0) {
    const std::shared_ptr<const BackendModel> model = on_cpu(tiny_model(config), default_table(), threads_);
    GenerationOptions options;
    options.gen_length = kAnswer;
    std::vector<std::unique_ptr<Decoder>> requests;
    requests.push_back(make_decoder(config, options, random_tokens(11, 5, 80)));
    return analyze_locality(*model, requests, seed);
  }

  ThreadPool threads_{2};
};

TEST(JensenShannon, IsZeroForTheSameDistributionAndLnTwoForDisjointOnes) {
  const std::array<float, 3> a = {1, 2, 3};
  const std::array<float, 3> shifted = {101, 102, 103};
  EXPECT_NEAR(jensen_shannon(a, shifted), 0, 1e-12);
  const std::array<float, 2> left = {500, -500};
  const std::array<float, 2> right = {-500, 500};
  EXPECT_NEAR(jensen_shannon(left, right), std::log(2), 1e-12);
}

TEST(JensenShannon, IsTheMeanDivergenceFromTheMixture) {
  const std::array<float, 2> a = {std::log(3.0F), 0};  // 3/4, 1/4
  const std::array<float, 2> b = {0, 0};               // 1/2, 1/2
  const double p = 0.75 * std::log(0.75 / 0.625) + 0.25 * std::log(0.25 / 0.375);
  const double q = 0.5 * std::log(0.5 / 0.625) + 0.5 * std::log(0.5 / 0.375);
  EXPECT_NEAR(jensen_shannon(a, b), (p + q) / 2, 1e-7);
  EXPECT_DOUBLE_EQ(jensen_shannon(a, b), jensen_shannon(b, a));
}

TEST_F(Locality, LooksAtEveryOtherMaskOfEveryReveal) {
  for (const size_t index : {0, 4}) {  // LLaDA, Dream
    ModelConfig config = tiny_configs()[index];
    config.end_ids.clear();
    int64_t all = 0;
    for (const auto& [place, divergence] : run(config).divergence) {
      EXPECT_NE(place.distance, 0);
      EXPECT_LT(std::abs(place.distance), kAnswer);
      EXPECT_GE(divergence.mean(), 0);
      if (place.masked == 1) all += divergence.count;
    }
    EXPECT_EQ(all, kReveals * (kAnswer - 1));
  }
}

TEST_F(Locality, ChangesWithTheSeedAlone) {
  const auto rows = to_json(run(tiny_configs()[0], 1));
  EXPECT_EQ(rows, to_json(run(tiny_configs()[0], 1)));
  EXPECT_NE(rows, to_json(run(tiny_configs()[0], 2)));
}

TEST_F(Locality, NeedsMasksAnywhere) {
  EXPECT_THAT([&] { run(tiny_gidd_config(1000, 60)); }, ThrowsMessage<InputError>(HasSubstr("LLaDA, Dream")));
}

}  // namespace
}  // namespace lacuna::locality_test
