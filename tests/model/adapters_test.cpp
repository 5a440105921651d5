#include "model/adapters.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "model/tensor_places.h"
#include "model/tiny_models.h"
#include "weights/lora_files.h"

namespace lacuna::adapters_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AdaptersTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("adapters_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path write(const LoraFiles& files, const std::string& name = "adapter") const {
    files.write(root_ / name);
    return root_ / name;
  }
  /// The golden model of a family with adapters.
  std::unique_ptr<WeightSource> open_all(const std::string& family, std::vector<AdapterChoice> adapters) {
    const fs::path folder = golden_folder(family);
    adapted_ = with_adapters(folder, read_config(folder), std::move(adapters));
    return open_weights(folder, adapted_.config);
  }
  std::unique_ptr<WeightSource> open(const std::string& family, const LoraFiles& files, float scale = 1) {
    return open_all(family, {{write(files), scale}});
  }
  template <typename... Texts>
  void expect_refused(const std::string& family, const LoraFiles& files, Texts... texts) {
    EXPECT_THAT(
        [&] { open(family, files); },
        ThrowsMessage<InputError>(AllOf(HasSubstr("adapter_model.safetensors"), HasSubstr(texts)...)));
  }

  fs::path root_;
  AdaptedModel adapted_;
};

std::vector<float> row_of(const WeightSource& weights, const std::string& module, int64_t n, int64_t outputs,
                          int64_t inputs) {
  std::vector<float> row(static_cast<size_t>(inputs));
  weights.matrix(module, outputs, inputs)->read(n, row.data());
  return row;
}

/// scaling B A of row n.
std::vector<double> delta_of(const LoraFiles& files, const std::string& module, int64_t n, int64_t inputs,
                             double scaling) {
  const std::vector<float>& a = files.values("base_model.model." + module + ".lora_A.weight");
  const std::vector<float>& b = files.values("base_model.model." + module + ".lora_B.weight");
  std::vector<double> delta(static_cast<size_t>(inputs));
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < delta.size(); ++i)
      delta[i] += scaling * b[static_cast<size_t>(n) * 2 + r] * a[r * delta.size() + i];
  }
  return delta;
}

TEST_F(AdaptersTest, ChangeEveryMatrixOfEveryFamilyUnderItsPublishedName) {
  for (const char* const family : {"llada", "llada_moe", "dream", "qwen3", "qwen3_moe", "llada2", "fast_dllm",
                                   "gidd", "sumi", "nemotron_labs", "diffcoder"}) {
    const fs::path folder = golden_folder(family);
    const ModelConfig config = read_config(folder);
    const std::unique_ptr<WeightSource> base = open_weights(folder, config);
    LoraFiles files;
    std::vector<MatrixPlace> modules;
    std::set<std::string> seen;
    for (const MatrixPlace& place : matrix_places(config, family_entry(config.family).tensors)) {
      const bool is_stored = base->contains(place.module + ".weight") && place.key != "embedding";
      if (!is_stored || !seen.insert(place.module).second) continue;
      files.add_update(place.module, place.total, place.inputs);
      modules.push_back(place);
    }
    ASSERT_GE(modules.size(), 8U) << family;
    const std::unique_ptr<WeightSource> merged = open(family, files, 0.5F);
    for (const MatrixPlace& place : modules) {
      for (const int64_t n : {int64_t{0}, place.total / 2, place.total - 1}) {
        const std::vector<float> before = row_of(*base, place.module, n, place.total, place.inputs);
        const std::vector<float> after = row_of(*merged, place.module, n, place.total, place.inputs);
        const std::vector<double> delta = delta_of(files, place.module, n, place.inputs, 0.5 * 4 / 2);
        for (size_t i = 0; i < after.size(); ++i)
          ASSERT_NEAR(after[i], before[i] + delta[i], 1e-5) << family << ' ' << place.module << ' ' << n;
      }
    }
  }
}

TEST_F(AdaptersTest, AreAddedOneAfterTheOther) {
  LoraFiles first;
  first.add_update("model.layers.0.self_attn.q_proj", 24, 24);
  const fs::path folder = golden_folder("qwen3");
  const ModelConfig config = read_config(folder);
  first.tensors.clear();
  first.add_update("model.layers.0.self_attn.q_proj", config.q_dim(), config.hidden_dim);
  const std::unique_ptr<WeightSource> twice =
      open_all("qwen3", {{write(first, "a"), 1}, {write(first, "b"), -0.25F}});
  const std::unique_ptr<WeightSource> once = open("qwen3", first, 0.75F);
  const auto row = [&](const WeightSource& weights) {
    return row_of(weights, "model.layers.0.self_attn.q_proj", 3, config.q_dim(), config.hidden_dim);
  };
  EXPECT_THAT(row(*twice), testing::Pointwise(testing::FloatNear(1e-5F), row(*once)));
}

TEST_F(AdaptersTest, MayLeaveOutTheFirstPartOfPaths) {
  const ModelConfig config = read_config(golden_folder("qwen3"));
  LoraFiles files;
  files.add_update("layers.0.self_attn.q_proj", config.q_dim(), config.hidden_dim);
  EXPECT_NO_THROW(open("qwen3", files));
}

TEST_F(AdaptersTest, ReplaceWholeTensors) {
  const ModelConfig config = read_config(golden_folder("dream"));
  LoraFiles files;
  const std::vector<float> norm = files.add("base_model.model.model.norm.weight", {config.hidden_dim});
  const std::vector<float> bias =
      files.add("base_model.model.model.layers.0.self_attn.k_proj.bias", {config.kv_dim()});
  const std::vector<float> head =
      files.add("base_model.model.lm_head.weight", {config.vocab_size, config.hidden_dim});
  files.add_update("lm_head", config.vocab_size, config.hidden_dim);
  const std::unique_ptr<WeightSource> merged = open("dream", files);
  const auto values = [&](const std::string& name, int64_t count) {
    return merged->values(name, std::vector<int64_t>{count});
  };
  EXPECT_EQ(values("model.norm.weight", config.hidden_dim), norm);
  EXPECT_EQ(values("model.layers.0.self_attn.k_proj.bias", config.kv_dim()), bias);
  const std::vector<float> row = row_of(*merged, "lm_head", 5, config.vocab_size, config.hidden_dim);
  const std::vector<double> delta = delta_of(files, "lm_head", 5, config.hidden_dim, 2);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_NEAR(row[i], head[5 * row.size() + i] + delta[i], 1e-5) << "what replaces comes first";
}

TEST_F(AdaptersTest, AddTheBiasOfTheSecondFactor) {
  const fs::path folder = golden_folder("dream");
  const ModelConfig config = read_config(folder);
  LoraFiles files;
  files.config["lora_bias"] = true;
  files.add_update("model.layers.0.self_attn.v_proj", config.kv_dim(), config.hidden_dim);
  const std::vector<float> added =
      files.add("base_model.model.model.layers.0.self_attn.v_proj.lora_B.bias", {config.kv_dim()});
  const std::unique_ptr<WeightSource> merged = open("dream", files);
  const std::vector<int64_t> shape = {config.kv_dim()};
  const std::string name = "model.layers.0.self_attn.v_proj.bias";
  const std::vector<float> before = open_weights(folder, config)->values(name, shape);
  const std::vector<float> after = merged->values(name, shape);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i] + 2 * added[i], 1e-6);
}

TEST_F(AdaptersTest, SeparateAHeadFromTheEmbeddingThatItWas) {
  const fs::path folder = golden_folder("qwen2");
  const ModelConfig config = read_config(folder);
  ASSERT_TRUE(config.tied_embeddings);
  LoraFiles files;
  files.add("base_model.model.model.embed_tokens.lora_embedding_A", {2, config.vocab_size});
  files.add("base_model.model.model.embed_tokens.lora_embedding_B", {config.hidden_dim, 2});
  const std::unique_ptr<WeightSource> merged = open("qwen2", files);
  EXPECT_FALSE(adapted_.config.tied_embeddings);
  const std::unique_ptr<WeightSource> base = open_weights(folder, config);
  const auto row = [&](const WeightSource& weights, const std::string& module) {
    return row_of(weights, module, 7, config.vocab_size, config.hidden_dim);
  };
  EXPECT_EQ(row(*merged, "lm_head"), row(*base, "model.embed_tokens"));
  EXPECT_NE(row(*merged, "model.embed_tokens"), row(*base, "model.embed_tokens"));

  files.config["ensure_weight_tying"] = true;
  open("qwen2", files);
  EXPECT_TRUE(adapted_.config.tied_embeddings) << "the head changes with the embedding";
  LoraFiles other;
  other.add_update("model.layers.0.self_attn.q_proj", config.q_dim(), config.hidden_dim);
  open("qwen2", other);
  EXPECT_TRUE(adapted_.config.tied_embeddings);
}

TEST_F(AdaptersTest, AreRefusedWhereTheModelHasNoPlaceForThem) {
  const ModelConfig config = read_config(golden_folder("qwen3"));
  const auto update = [&](const std::string& module, int64_t outputs, int64_t inputs) {
    LoraFiles files;
    files.add_update(module, outputs, inputs);
    return files;
  };
  expect_refused("qwen3", update("model.layers.99.self_attn.q_proj", 4, 4),
                 "model.layers.99.self_attn.q_proj");
  expect_refused("qwen3", update("model.vision.patch_embed", 4, 4), "model.vision.patch_embed", "qwen3");
  expect_refused("qwen3", update("model.layers.0.self_attn.q_proj", 4, config.hidden_dim), "[4, ");
  expect_refused("qwen3", update("model.embed_tokens", config.vocab_size, config.hidden_dim),
                 "lora_embedding_A");
  LoraFiles bias;
  bias.add("base_model.model.model.layers.0.self_attn.q_proj.bias", {config.q_dim()});
  expect_refused("qwen3", bias, "has none in this model");
  LoraFiles larger;
  larger.add("base_model.model.lm_head.weight", {config.vocab_size + 1, config.hidden_dim});
  expect_refused("qwen3", larger, "lm_head.weight");
  LoraFiles unknown;
  unknown.add("base_model.model.score.weight", {2, config.hidden_dim});
  expect_refused("qwen3", unknown, "score.weight");
  unknown.tensors.clear();
  unknown.add("base_model.model.model.rotary.inv_freq", {2});
  expect_refused("qwen3", unknown, "inv_freq");
}

TEST_F(AdaptersTest, DoNotReplaceWhatAnotherOneChanges) {
  const ModelConfig config = read_config(golden_folder("qwen3"));
  LoraFiles head;
  head.add("base_model.model.lm_head.weight", {config.vocab_size, config.hidden_dim});
  LoraFiles update;
  update.add_update("lm_head", config.vocab_size, config.hidden_dim);
  EXPECT_NO_THROW(open_all("qwen3", {{write(head, "a"), 1}, {write(update, "b"), 1}}));
  EXPECT_THAT(
      [&] {
        open_all("qwen3", {{write(head, "a"), 1}, {write(head, "b"), 1}});
      },
      ThrowsMessage<InputError>(HasSubstr("another adapter")));
  EXPECT_THAT(
      [&] {
        open_all("qwen3", {{write(update, "b"), 1}, {write(head, "a"), 1}});
      },
      ThrowsMessage<InputError>(HasSubstr("another adapter")));
}

TEST_F(AdaptersTest, RefuseWeightsThatAreNotFinite) {
  const ModelConfig config = read_config(golden_folder("qwen3"));
  LoraFiles files;
  files.add_update("model.layers.0.self_attn.q_proj", config.q_dim(), config.hidden_dim);
  files.tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"].second[3] = NAN;
  const std::unique_ptr<WeightSource> merged = open("qwen3", files);
  ThreadPool threads(1);
  EXPECT_THAT([&] { load_parameters(adapted_.config, *merged, DType::kF32, threads, {}); },
              ThrowsMessage<InputError>(HasSubstr("with adapters")));
}

TEST_F(AdaptersTest, ArePartOfTheFingerprint) {
  const ModelConfig config = read_config(golden_folder("qwen3"));
  LoraFiles files;
  files.add_update("model.layers.0.self_attn.q_proj", config.q_dim(), config.hidden_dim);
  const fs::path adapter = write(files);
  const fs::path model = golden_folder("qwen3");
  std::set<std::string> fingerprints;
  const auto add = [&](const std::vector<AdapterChoice>& adapters) {
    return fingerprints.insert(fingerprint_of(model, adapters)).second;
  };
  EXPECT_TRUE(add({}));
  EXPECT_TRUE(add({{adapter, 1}}));
  EXPECT_FALSE(add({{adapter, 1}}));
  EXPECT_TRUE(add({{adapter, 0.5F}}));
  EXPECT_TRUE(add({{adapter, 1}, {adapter, 1}}));
}

TEST_F(AdaptersTest, AreNamedByFolderAndScale) {
  LoraFiles files;
  files.add_update("a", 2, 2);
  const std::string folder = write(files).string();
  const std::string odd = write(files, "x=2").string();
  const ModelPlaces places;
  const auto find = [&](const std::string& text) { return find_adapter(text, "--lora", places); };
  EXPECT_EQ(find(folder), (AdapterChoice{folder, 1}));
  EXPECT_EQ(find(folder + "=0.5"), (AdapterChoice{folder, 0.5F}));
  EXPECT_EQ(find(folder + "=-1e-1"), (AdapterChoice{folder, -0.1F}));
  EXPECT_EQ(find(odd), (AdapterChoice{odd, 1})) << "a folder of that name";
  EXPECT_EQ(find(odd + "=3"), (AdapterChoice{odd, 3}));
  for (const std::string& text :
       {std::string(), std::string("=1"), folder + "=", folder + "=x", folder + "=nan", folder + "=1e9",
        folder + "=1=2", root_.string(), root_.string() + "/none", std::string("org/name")}) {
    EXPECT_THAT([&] { find(text); }, ThrowsMessage<InputError>(HasSubstr("--lora " + text))) << text;
  }
}

}  // namespace
}  // namespace lacuna::adapters_test
