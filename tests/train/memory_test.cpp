#include "train/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/predict.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lacuna::train::memory_test {
namespace {

Examples examples_of(int64_t rows, int64_t length) {
  return {torch::zeros({rows, length}, torch::kInt64),
          {},
          {},
          torch::arange(rows * length / 2),
          torch::zeros({rows * length / 2}, torch::kInt64),
          torch::ones({rows * length / 2})};
}

ModelShape medium_shape() {
  ModelShape shape;
  shape.layers = 4;
  shape.vocabulary = 600;
  return shape;
}

TEST(Memory, GrowsWithRowsTheirLengthAndTheModel) {
  const ModelShape shape = medium_shape();
  const auto bytes = [&](int64_t rows, int64_t length, int64_t parameters) {
    return estimated_bytes(shape, {.parameters = parameters, .learned = parameters},
                           examples_of(rows, length));
  };
  EXPECT_NEAR(bytes(8, 64, 0) - bytes(4, 64, 0), bytes(12, 64, 0) - bytes(8, 64, 0), 1);
  EXPECT_GT(bytes(8, 64, 0), 1.5 * bytes(4, 64, 0));
  EXPECT_GT(bytes(4, 8192, 0), 2 * bytes(4, 4096, 0)) << "a mask has the square of the length";
  EXPECT_EQ(bytes(4, 64, 1000) - bytes(4, 64, 0), 4 * 6 * 1000);
}

/// The most memory that the process has had, in bytes.
double peak() {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kib = 0;
  while (status >> word && word != "VmHWM:") {
  }
  status >> kib;
  return 1024 * kib;
}

/// Bytes that a step takes beyond those before.
double taken_by(Transformer& model, const Examples& examples) {
  std::ofstream("/proc/self/clear_refs") << 5;  // forgets the peaks of tests before
  const double before = peak();
  loss_of(model, examples).backward();
  return peak() - before;
}

TEST(Memory, IsAboutWhatAStepTakes) {
  torch::manual_seed(1);
  const Examples examples = examples_of(32, 256);
  for (const Family family : {Family::kLlada, Family::kLlada2}) {
    ModelShape shape = medium_shape();
    shape.family = family;
    Transformer model(shape);
    const double taken = taken_by(model, examples);
    const double estimate = estimated_bytes(shape, {}, examples);
    EXPECT_GT(taken, estimate / 2) << traits_of(family).name;
    EXPECT_LT(taken, estimate * 2) << traits_of(family).name;
  }
}

TEST(Memory, OfWeightsThatAreNotLearnedIsThatOfTwoCopies) {
  const ModelShape shape = medium_shape();
  const auto bytes = [&](const TrainingMemory& kept) {
    const TrainingMemory nothing{.threads = kept.threads};
    return estimated_bytes(shape, kept, examples_of(1, 64)) -
           estimated_bytes(shape, nothing, examples_of(1, 64));
  };
  EXPECT_EQ(bytes({.parameters = 1000}), 4 * 2 * 1000);
  EXPECT_EQ(bytes({.parameters = 1000, .learned = 10, .threads = 2}), 4 * (2 * 1000 + 5 * 10));
  EXPECT_EQ(bytes({.teacher = 1000}), 4 * 1000);
}

TEST(Memory, OfActivationsIsThatOfOneLayerWhereTheyAreComputedAgain) {
  ModelShape deep = medium_shape();
  deep.layers = 40;
  const double all = estimated_bytes(deep, {}, examples_of(4, 64));
  const double one = estimated_bytes(deep, {.keeps_activations = false}, examples_of(4, 64));
  EXPECT_LT(one, all / 8);
}

TEST(Memory, IsAskedForBeforeItIsTaken) {
  EXPECT_NO_THROW(expect_to_fit(1e9, 2e9));
  EXPECT_THROW(expect_to_fit(3e9, 2e9), InputError);
  EXPECT_GT(available_bytes(), 1e6);
}

#ifdef __GLIBC__
/// Whether a large array has a mapping of its own, which goes back to the kernel with it.
bool maps_large_arrays() {
  constexpr size_t kBytes = size_t{1} << 28;
  const size_t before = mallinfo2().hblkhd;
  const std::vector<char> array(kBytes, 1);
  return mallinfo2().hblkhd >= before + kBytes;
}

TEST(Memory, ThatIsFreedStaysWithTheProcess) {
  EXPECT_EXIT(std::_Exit(maps_large_arrays() ? 1 : 0), ::testing::ExitedWithCode(1), "");
  EXPECT_EXIT(
      {
        keep_freed_memory();
        std::_Exit(maps_large_arrays() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace lacuna::train::memory_test
