#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "model/rope.h"

namespace lacuna::read_rope_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Rotation read(const json& config, const RopeRules& rules = {}) {
  return read_rope(JsonObject(config, "config.json"), 64, 4096, rules);
}

void expect_refused(const json& config, const std::string& a, const std::string& b,
                    const RopeRules& rules = {}) {
  EXPECT_THAT([&] { read(config, rules); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("config.json"), HasSubstr(a), HasSubstr(b))))
      << config.dump();
}

json yarn() {
  return {{"rope_type", "yarn"},
          {"rope_theta", 1e6},
          {"factor", 4.0},
          {"original_max_position_embeddings", 1024}};
}

TEST(ReadRope, TakesEveryFormForTheSameRotation) {
  json old = yarn();
  old.erase("rope_theta");
  old.erase("rope_type");
  old["type"] = "yarn";
  const RopeConfig wanted = read({{"rope_parameters", yarn()}}).rope;
  EXPECT_EQ(wanted.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(wanted.theta, 1e6F);
  const json sliding = {{"rope_type", "default"}, {"rope_theta", 5}};
  const json forms[] = {
      {{"rope_theta", 1000000}, {"rope_scaling", old}},
      {{"rope_scaling", yarn()}},
      {{"rope_parameters", {{"full_attention", yarn()}}}},
      {{"rope_parameters", {{"full_attention", yarn()}, {"sliding_attention", sliding}}}},
      {{"rope_parameters", {{"full_attention", yarn()}, {"sliding_attention", nullptr}}}},
      {{"rope_scaling", {{"full_attention", old}}}, {"rope_theta", 1e6}},
      {{"rope_theta", 1e6}, {"rope_scaling", old}, {"rope_parameters", yarn()}},
      {{"rope_theta", 1e6}, {"partial_rotary_factor", 1.0}, {"rope_parameters", yarn()}},
  };
  for (const json& form : forms) EXPECT_EQ(read(form).rope, wanted) << form.dump();
}

TEST(ReadRope, TakesNothingForTheDefault) {
  const RopeConfig plain = read({{"rope_theta", 500}}).rope;
  EXPECT_EQ(plain, (RopeConfig{.theta = 500}));
  const json nothings[] = {nullptr, false, json::object(), {{"rope_type", "default"}}, {{"type", "default"}}};
  for (const json& nothing : nothings) {
    EXPECT_EQ(read({{"rope_theta", 500}, {"rope_scaling", nothing}}).rope, plain) << nothing.dump();
    EXPECT_EQ(read({{"rope_theta", 500}, {"rope_parameters", nothing}}).rope, plain) << nothing.dump();
  }
  EXPECT_EQ(read(json::object(), {.usual_theta = 10000}).rope.theta, 10000);
  expect_refused(json::object(), "\"rope_theta\" is missing", "expected a number");
}

TEST(ReadRope, RefusesFormsThatDisagree) {
  expect_refused({{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 2e4}}}},
                 "\"rope_theta\" is 10000.0", "\"rope_parameters.rope_theta\" is 20000.0");
  expect_refused({{"rope_theta", 1e6},
                  {"rope_scaling", {{"type", "linear"}, {"factor", 4}}},
                  {"rope_parameters", yarn()}},
                 "\"rope_scaling.type\" is \"linear\"", "\"rope_parameters.rope_type\" is \"yarn\"");
  json other = yarn();
  other["factor"] = 8;
  expect_refused({{"rope_scaling", other}, {"rope_parameters", yarn()}}, "\"rope_scaling.factor\" is 8",
                 "\"rope_parameters.factor\" is 4.0");
  expect_refused({{"rope_theta", 9}, {"rope_scaling", {{"rope_type", "default"}, {"type", "linear"}}}},
                 "rope_scaling.type", "rope_scaling.rope_type");
  expect_refused({{"partial_rotary_factor", 0.5},
                  {"rope_parameters", {{"rope_theta", 9}, {"partial_rotary_factor", 0.25}}}},
                 "partial_rotary_factor\" is 0.5", "0.25", {.allows_partial_rotation = true});
  expect_refused({{"original_max_position_embeddings", 512}, {"rope_parameters", yarn()}},
                 "original_max_position_embeddings\" is 512", "1024");
}

TEST(ReadRope, ReadsLlama3) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 1024}};
  const RopeConfig rope = read({{"rope_theta", 5e5}, {"rope_scaling", scaling}}).rope;
  EXPECT_EQ(
      rope,
      (RopeConfig{
          .theta = 5e5F, .scaling = RopeConfig::Scaling::kLlama3, .factor = 32, .original_positions = 1024}));
  for (const char* const key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    json without = scaling;
    without.erase(key);
    expect_refused({{"rope_theta", 5e5}, {"rope_scaling", without}}, std::string("rope_scaling.") + key,
                   "is missing");
  }
  json without = scaling;
  without.erase("original_max_position_embeddings");
  EXPECT_EQ(read({{"rope_theta", 5e5}, {"rope_scaling", without}}).rope.original_positions, 4096);
  without["high_freq_factor"] = 1;
  expect_refused({{"rope_theta", 5e5}, {"rope_scaling", without}}, "high_freq_factor", "more than");
}

TEST(ReadRope, ReadsYarnsOptions) {
  const auto with = [](const char* key, const json& value) {
    json rope = yarn();
    rope[key] = value;
    return read({{"rope_parameters", rope}}).rope;
  };
  EXPECT_NEAR(with("factor", 4).attention_scaling, 0.1 * std::log(4) + 1, 1e-6);
  EXPECT_EQ(with("factor", nullptr).factor, 4) << "4096 / 1024";
  EXPECT_EQ(with("attention_factor", 1.25).attention_scaling, 1.25F);
  EXPECT_FALSE(with("truncate", false).whole_ramp);
  EXPECT_EQ(with("beta_fast", 8).beta_fast, 8);
  EXPECT_EQ(with("beta_slow", 2).beta_slow, 2);
  EXPECT_EQ(with("original_max_position_embeddings", nullptr).original_positions, 4096);
  json no_factor = yarn();
  no_factor.erase("factor");
  no_factor.erase("original_max_position_embeddings");
  expect_refused({{"rope_parameters", no_factor}}, "rope_parameters.factor\" is missing", "a number");
}

TEST(ReadRope, RefusesTypesThatItDoesNotCompute) {
  for (const char* const type : {"longrope", "su", "mrope", "ntk", "xpos", "proportional"}) {
    expect_refused({{"rope_theta", 9}, {"rope_scaling", {{"type", type}, {"factor", 2}}}},
                   std::string("\"rope_scaling.type\" is \"") + type, "expected \"default\", \"linear\"");
  }
  expect_refused({{"rope_theta", 9}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}},
                 "rope_scaling.rope_type\" is \"linear\"", "the published class scales nothing",
                 {.scales = false});
  expect_refused({{"rope_theta", 9}, {"rope_scaling", 2.0}}, "rope_scaling\" is 2.0", "an object");
  expect_refused({{"rope_theta", 9}, {"rope_scaling", {{"type", "linear"}}}}, "rope_scaling.factor",
                 "missing");
  expect_refused({{"rope_theta", 9}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 0.5}}}},
                 "factor\" is 0.5", "from 1");
  expect_refused({{"rope_theta", 9}, {"partial_rotary_factor", 0.5}}, "partial_rotary_factor\" is 0.5",
                 "expected 1");
  expect_refused({{"rope_parameters", {{"sliding_attention", yarn()}}}}, "rope_parameters.full_attention",
                 "an object");
}

TEST(ReadRope, ReadsSharesOfHeads) {
  const RopeRules half{.usual_share = 0.5F, .allows_partial_rotation = true};
  EXPECT_EQ(read({{"rope_theta", 9}}, half).rotary_dim, 32);
  EXPECT_EQ(read({{"rope_theta", 9}, {"partial_rotary_factor", 0.25}}, half).rotary_dim, 16);
  EXPECT_EQ(read({{"rope_theta", 9}}).rotary_dim, 64);
  expect_refused({{"rope_theta", 9}, {"partial_rotary_factor", 0.01}}, "partial_rotary_factor", "a pair",
                 half);
}

}  // namespace
}  // namespace lacuna::read_rope_test
