// Expectations follow PEFT's saved files: its LoraConfig, and the merge that its layers do.
#include "weights/lora.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/lora_files.h"

namespace lacuna::lora_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

constexpr const char* kModule = "model.layers.0.self_attn.q_proj";

class LoraTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("lora_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  }
  void TearDown() override { fs::remove_all(folder_); }

  LoraAdapter open(const LoraFiles& files, float scale = 1) const {
    files.write(folder_);
    return LoraAdapter::open(folder_, scale);
  }
  template <typename... Texts>
  void expect_refused(const LoraFiles& files, Texts... texts) const {
    files.write(folder_);
    EXPECT_THAT([&] { LoraAdapter::open(folder_, 1); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(folder_.string()), HasSubstr(texts)...)));
  }
  /// Scaling of an adapter of one module [3, 5].
  float scaling(const std::function<void(LoraFiles&)>& change, float scale = 1, int64_t rank = 2) const {
    LoraFiles files;
    files.add_update(kModule, 3, 5, rank);
    change(files);
    return open(files, scale).updates().at(0).scaling;
  }

  fs::path folder_;
};

LoraFiles one_module() {
  LoraFiles files;
  files.add_update(kModule, 3, 5);
  return files;
}

TEST_F(LoraTest, ScalesByAlphaAndRank) {
  const auto nothing = [](LoraFiles&) {};
  EXPECT_EQ(scaling(nothing), 2) << "4 / 2";
  EXPECT_EQ(scaling(nothing, 0.5F), 1);
  EXPECT_FLOAT_EQ(scaling([](LoraFiles& f) { f.config["use_rslora"] = true; }), 4 / std::sqrt(2.0F));
  EXPECT_EQ(scaling([](LoraFiles& f) { f.config["alpha_pattern"] = {{"q_proj", 6}}; }), 3);
  EXPECT_EQ(scaling([](LoraFiles& f) {
              f.config["alpha_pattern"] = {{"proj", 6}};
            }),
            2)
      << "a name begins after a dot";
  EXPECT_EQ(scaling([](LoraFiles& f) { f.config["alpha_pattern"] = {{"k_proj", 8}, {".*q_proj", 6}}; }), 3);
  EXPECT_EQ(scaling([](LoraFiles& f) {
              f.config["alpha_pattern"] = nlohmann::ordered_json{{"z|q_proj", 6}, {"q_proj", 8}};
            }),
            3)
      << "the first that fits";
  EXPECT_EQ(scaling(
                [](LoraFiles& f) {
                  f.config["rank_pattern"] = {{"layers.0.self_attn.q_proj", 4}};
                },
                1, 4),
            1);
}

TEST_F(LoraTest, AddsTheProductOfItsFactors) {
  const LoraFiles files = one_module();
  const LoraAdapter adapter = open(files);
  ASSERT_THAT(adapter.updates(), SizeIs(1));
  EXPECT_EQ(adapter.updates()[0].module, kModule);
  const auto& a = files.values("base_model.model." + std::string(kModule) + ".lora_A.weight");
  const auto& b = files.values("base_model.model." + std::string(kModule) + ".lora_B.weight");
  const LoraFactors factors(adapter.updates()[0]);
  for (size_t n = 0; n < 3; ++n) {
    std::vector<float> row = {1, 2, 3, 4, 5};
    factors.apply(static_cast<int64_t>(n), row.data());
    for (size_t i = 0; i < 5; ++i) {
      const double added = 2 * (b[2 * n] * a[i] + b[2 * n + 1] * a[5 + i]);
      EXPECT_NEAR(row[i], static_cast<double>(i + 1) + added, 1e-6);
    }
  }
}

TEST_F(LoraTest, GivesRowsTheLengthOfDora) {
  LoraFiles files = one_module();
  files.config["use_dora"] = true;
  files.add("base_model.model." + std::string(kModule) + ".lora_magnitude_vector", {3}) = {2, 3, 4};
  const LoraAdapter adapter = open(files);
  const LoraFactors factors(adapter.updates()[0]);
  std::vector<float> row = {1, 2, 3, 4, 5};
  factors.apply(1, row.data());
  double sum = 0;
  for (const float value : row) sum += double{value} * value;
  EXPECT_NEAR(std::sqrt(sum), 3, 1e-5);
}

TEST_F(LoraTest, TransposesUpdatesOfAnEmbedding) {
  LoraFiles files;
  const std::vector<float> a = files.add("base_model.model.model.embed_tokens.lora_embedding_A", {2, 7});
  const std::vector<float> b = files.add("base_model.model.model.embed_tokens.lora_embedding_B", {4, 2});
  const LoraAdapter adapter = open(files);
  const LoraUpdate& update = adapter.updates().at(0);
  EXPECT_EQ(update.outputs, 7);
  EXPECT_EQ(update.inputs, 4);
  std::vector<float> row(4);
  LoraFactors(update).apply(5, row.data());
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(row[i], 2 * (a[5] * b[2 * i] + a[7 + 5] * b[2 * i + 1]), 1e-6);
}

TEST_F(LoraTest, ReadsNamesAsSeveralVersionsWriteThem) {
  LoraFiles files;
  files.config["use_dora"] = true;
  files.add("base_model.model.m.q.lora_A.default.weight", {2, 5});
  files.add("base_model.model.m.q.lora_B.default.weight", {3, 2});
  files.add("base_model.model.m.q.lora_magnitude_vector.default.weight", {3});
  files.add("base_model.model.m.head.modules_to_save.default.weight", {2, 2});
  files.add("base_model.model.m.k.base_layer.bias", {2});
  files.add("m.norm.weight", {2});
  const LoraAdapter adapter = open(files);
  EXPECT_EQ(adapter.updates().at(0).module, "m.q");
  EXPECT_TRUE(adapter.updates().at(0).magnitude);
  std::vector<std::string> names;
  for (const LoraReplacement& each : adapter.replacements()) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("m.head.weight", "m.k.bias", "m.norm.weight"));
}

TEST_F(LoraTest, TakesWhatDoesNotChangeTheAdapter) {
  LoraFiles files = one_module();
  for (const char* const key : {"auto_mapping", "base_model_name_or_path", "layers_pattern",
                                "megatron_config", "modules_to_save", "revision", "trainable_token_indices"})
    files.config[key] = nullptr;
  files.config.update({{"loftq_config", nlohmann::json::object()},
                       {"lora_dropout", 0.05},
                       {"fan_in_fan_out", true},
                       {"init_lora_weights", "gaussian"},
                       {"task_type", "CAUSAL_LM"},
                       {"peft_version", "0.18.0"},
                       {"use_qalora", false},
                       {"target_modules", "all-linear"},
                       {"eva_config", {{"rho", 2.0}}}});
  EXPECT_THAT(open(files).updates(), SizeIs(1));
}

TEST_F(LoraTest, RefusesKeysByNameAndValue) {
  const auto refused = [&](const std::string& key, const nlohmann::json& value, auto... texts) {
    LoraFiles files = one_module();
    files.config[key] = value;
    expect_refused(files, "adapter_config.json", '"' + key + '"', texts...);
  };
  refused("peft_type", "IA3", "\"LORA\"");
  refused("peft_type", nullptr, "\"LORA\"");
  refused("r", 0);
  refused("r", nullptr);
  refused("lora_alpha", "x");
  refused("bias", "some", "lora_only");
  refused("target_modules", 3);
  refused("target_modules", "(?=q)", "regular expression");
  refused("alpha_pattern", nlohmann::json::array());
  for (const char* const start : {"pissa", "pissa_niter_16", "olora", "loftq", "corda"})
    refused("init_lora_weights", start, "base weights");
  refused("layer_replication", {{0, 4}, {2, 5}});
  refused("target_parameters", {"mlp.experts.gate_up_proj"});
  refused("trainable_token_indices", {5, 6});
  refused("use_qalora", true);
  refused("alora_invocation_tokens", {1, 2});
  refused("some_new_key", 0.5, "not known");
}

TEST_F(LoraTest, RefusesTensorsThatTheConfigurationLeavesOut) {
  const auto refused = [&](const std::string& key, const nlohmann::json& value) {
    LoraFiles files = one_module();
    files.config[key] = value;
    expect_refused(files, '"' + key + '"', kModule);
  };
  refused("target_modules", {"k_proj", "proj"});
  refused("target_modules", R"(.*\.(k|v)_proj)");
  refused("exclude_modules", {"q_proj"});
  refused("layers_to_transform", {1, 2});
  refused("layers_to_transform", 3);
  LoraFiles files = one_module();
  files.config.update({{"target_modules", {"self_attn.q_proj"}},
                       {"layers_to_transform", {0}},
                       {"layers_pattern", "layers"},
                       {"exclude_modules", ".*k_proj"}});
  EXPECT_THAT(open(files).updates(), SizeIs(1));
}

TEST_F(LoraTest, RefusesTensorsByName) {
  const std::string prefix = "base_model.model." + std::string(kModule);
  const auto refused = [&](const std::function<void(LoraFiles&)>& change, auto... texts) {
    LoraFiles files = one_module();
    change(files);
    expect_refused(files, "adapter_model.safetensors", texts...);
  };
  refused([&](LoraFiles& f) { f.tensors.erase(prefix + ".lora_B.weight"); }, prefix + ".lora_A.weight",
          "both factors");
  refused([&](LoraFiles& f) { f.add(prefix + ".lora_A.weight", {3, 5}); }, "has shape [3, 5]", "[2, 5]");
  refused([&](LoraFiles& f) { f.tensors[prefix + ".lora_B.weight"].first = {2, 3}; }, "[2, 3]", "[2, 2]");
  refused([&](LoraFiles& f) { f.add(prefix + ".lora_C.weight", {2}); }, "lora_C");
  refused([&](LoraFiles& f) { f.add(prefix + ".lora_A.x.y.weight", {2}); }, "lora_A.x.y");
  refused([&](LoraFiles& f) { f.add(prefix + ".lora_A.default.weight", {2, 5}); }, "same part");
  refused([&](LoraFiles& f) { f.add(prefix + ".lora_magnitude_vector", {3}); }, "use_dora");
  refused([&](LoraFiles& f) { f.config["use_dora"] = true; }, "no lora_magnitude_vector");
  refused([&](LoraFiles& f) { f.add("a.original_module.weight", {3}); }, "original_module");
  refused([&](LoraFiles& f) { f.tensors.clear(); }, "no tensor");
}

TEST_F(LoraTest, RefusesAScaleOfWholeTensors) {
  LoraFiles files = one_module();
  files.add("base_model.model.lm_head.weight", {2, 2});
  EXPECT_NO_THROW(open(files));
  EXPECT_THAT([&] { open(files, 0.5F); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("lm_head.weight"), HasSubstr("=SCALE"))));
}

TEST_F(LoraTest, RefusesOtherFiles) {
  fs::create_directories(folder_);
  EXPECT_THAT([&] { LoraAdapter::open(folder_, 1); },
              ThrowsMessage<InputError>(HasSubstr("adapter_model.safetensors")));
  one_module().write(folder_);
  for (const char* const text : {"", "[]", "{", "null", "{\"peft_type\": 3}"}) {
    std::ofstream(folder_ / "adapter_config.json") << text;
    EXPECT_THROW(LoraAdapter::open(folder_, 1), InputError) << text;
  }
}

}  // namespace
}  // namespace lacuna::lora_test
