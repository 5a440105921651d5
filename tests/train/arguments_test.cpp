#include "train/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::train::arguments_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Arguments parsed(std::vector<std::string> words) {
  Arguments arguments;
  CLI::App app;
  add_options(app, arguments);
  words.insert(words.end(), {"--out", "out", "--steps", "10"});
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  app.parse(words);
  complete(arguments);
  return arguments;
}

TEST(Arguments, GiveThePapersLossToFamiliesThatHaveOne) {
  EXPECT_FALSE(parsed({"--family", "refusion"}).train.is_paper);
  const Arguments refusion = parsed({"--family", "refusion", "--objective", "paper", "--lambda", "0.5"});
  EXPECT_TRUE(refusion.train.is_paper);
  EXPECT_EQ(refusion.train.lambda, 0.5);
  EXPECT_EQ(parsed({"--family", "dream", "--objective", "paper"}).train.cart_p, 0.1);
  for (const char* const family : {"qwen3", "gidd", "i-dlm", "diffusion-gemma"}) {
    EXPECT_THAT(
        [&] {
          parsed({"--family", family, "--objective", "paper"});
        },
        ThrowsMessage<InputError>(AllOf(HasSubstr("--objective paper"), HasSubstr("refusion"))));
  }
}

TEST(Arguments, RefuseFlagsThatTheObjectiveDoesNotRead) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& flag) {
    EXPECT_THAT([&] { parsed(words); }, ThrowsMessage<InputError>(HasSubstr(flag + ": expected"))) << flag;
  };
  refused({"--family", "refusion", "--lambda", "1"}, "--lambda");
  refused({"--family", "llada", "--objective", "paper", "--cart-p", "0.3"}, "--cart-p");
  refused({"--family", "llada", "--clean-weight", "0.3"}, "--clean-weight");
  refused({"--family", "llada", "--uniform-shift", "0"}, "--uniform-shift");
  refused({"--family", "qwen3", "--confidence-weight", "1"}, "--confidence-weight");
  refused({"--family", "llada2-moe", "--left-to-right", "--confidence-weight", "1"}, "--confidence-weight");
  refused({"--family", "fast-dllm-v2", "--teacher", "x"}, "--teacher");
  refused({"--family", "llada", "--teacher", "x", "--objective", "paper"}, "--teacher");
  refused({"--family", "refusion", "--objective", "paper", "--half-written-share", "0.5"},
          "--objective paper");
}

TEST(Arguments, LeaveOutSlotSizesThatNoAnswerHasRoomFor) {
  EXPECT_EQ(parsed({"--family", "refusion"}).train.slot_sizes, (std::vector<int64_t>{4, 8, 16, 32}));
  EXPECT_EQ(parsed({"--family", "refusion", "--canvas", "16"}).train.slot_sizes,
            (std::vector<int64_t>{4, 8, 16}));
  EXPECT_EQ(parsed({"--family", "refusion", "--canvas", "3"}).train.slot_sizes, (std::vector<int64_t>{3}));
  EXPECT_EQ(parsed({"--family", "refusion", "--canvas", "16", "--longest-canvas", "64"}).train.slot_sizes,
            (std::vector<int64_t>{4, 8, 16, 32}));
  EXPECT_EQ(parsed({"--family", "refusion", "--canvas", "3", "--slot-sizes", "5,6"}).train.slot_sizes,
            (std::vector<int64_t>{5, 6}));
}

TEST(Arguments, NameTheMovingAverageTwice) {
  EXPECT_EQ(parsed({"--ema", "0.9"}).train.average_decay, 0.9);
  EXPECT_EQ(parsed({"--average-decay", "0.9"}).train.average_decay, 0.9);
  EXPECT_EQ(parsed({"--clip-norm", "0.5"}).train.clip_norm, 0.5);
  EXPECT_TRUE(parsed({"--checkpoint-activations"}).checkpoints_activations);
}

}  // namespace
}  // namespace lacuna::train::arguments_test
