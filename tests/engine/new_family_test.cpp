// A family that no file of the engine mentions, added as docs/inside/adding_a_family.md says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "kernels/dispatch.h"
#include "model/config_texts.h"
#include "model/families.h"
#include "model/model.h"
#include "model/random_spec.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "temporary_folder.h"

namespace lacuna {

FamilyEntry toy_family();  // toy_family.cpp

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void add_toy_once() {
  [[maybe_unused]] static const bool is_added = (add_family(toy_family()), true);
}

/// The toy family's name for a tensor of LLaDA's.
std::string toy_name(const std::string& name) {
  if (name == "model.transformer.wte.weight") return "model.embed_tokens.weight";
  if (name == "model.transformer.ln_f.weight") return "model.norm.weight";
  if (name == "model.transformer.ff_out.weight") return "lm_head.weight";
  const std::string prefix = "model.transformer.blocks.";
  const size_t dot = name.find('.', prefix.size());
  const std::string part = name.substr(dot + 1);
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"attn_norm.weight", "norm_1.weight"},        {"ff_norm.weight", "norm_2.weight"},
      {"q_proj.weight", "self_attn.q_proj.weight"}, {"k_proj.weight", "self_attn.k_proj.weight"},
      {"v_proj.weight", "self_attn.v_proj.weight"}, {"attn_out.weight", "self_attn.o_proj.weight"},
      {"ff_proj.weight", "mlp.gate_proj.weight"},   {"up_proj.weight", "mlp.up_proj.weight"},
      {"ff_out.weight", "mlp.down_proj.weight"}};
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const auto& pair) { return pair.first == part; });
  if (found == parts.end()) throw std::runtime_error("no name for " + name);
  return "model.layers." + name.substr(prefix.size(), dot - prefix.size()) + '.' + found->second;
}

/// The golden LLaDA checkpoint as the toy's publisher would have written it: the same block, other names.
void write_toy(const fs::path& folder) {
  const json llada = read_golden_json("llada", "config.json");
  const json config = {{"architectures", {"ToyForMaskedLM"}},
                       {"model_type", "toy"},
                       {"hidden_size", llada["d_model"]},
                       {"intermediate_size", llada["mlp_hidden_size"]},
                       {"num_hidden_layers", llada["n_layers"]},
                       {"num_attention_heads", llada["n_heads"]},
                       {"num_key_value_heads", llada["n_kv_heads"]},
                       {"vocab_size", llada["embedding_size"]},
                       {"max_position_embeddings", llada["max_sequence_length"]},
                       {"rope_theta", llada["rope_theta"]},
                       {"rms_norm_eps", llada["rms_norm_eps"]},
                       {"mask_token_id", llada["mask_token_id"]},
                       {"eos_token_id", llada["eos_token_id"]}};
  std::ofstream(folder / "config.json") << config.dump();

  const std::string file = read_text(golden_folder("llada") / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  json renamed;
  const json names = json::parse(file.substr(8, length));
  for (const auto& [name, value] : names.items()) {
    renamed[name == "__metadata__" ? name : toy_name(name)] = value;
  }
  std::string header = renamed.dump();
  header.append(8 - header.size() % 8, ' ');
  const uint64_t new_length = header.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&new_length), sizeof(new_length));
  out << header << file.substr(8 + length);
}

std::vector<TokenId> answer(const fs::path& folder) {
  ThreadPool threads(1);
  const auto model = Model::load(folder, WeightFormats(DType::kF32), threads);
  Engine engine(on_cpu(model, default_table(), threads));
  GenerationOptions options;
  options.gen_length = 24;
  const size_t request = engine.add(make_decoder(model->config(), options, {3, 5, 7}));
  engine.run();
  const auto canvas = engine.decoder(request).canvas();
  return {canvas.begin(), canvas.end()};
}

TEST(NewFamily, LoadsAndDecodesAsTheSameBlockUnderOtherNames) {
  add_toy_once();
  const TemporaryFolder folder;
  write_toy(folder.path());
  EXPECT_EQ(read_config(folder.path()).family, "toy");
  EXPECT_EQ(answer(folder.path()), answer(golden_folder("llada")));
}

TEST(NewFamily, HasRandomModelsAndIsListedWhereArchitecturesAre) {
  add_toy_once();
  EXPECT_EQ(parse_random_spec("random:toy-1b,layers=2").num_layers, 2);
  EXPECT_THAT([] { read_config_texts({.config = R"({"architectures": ["Nobody"]})"}, "folder"); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("ToyForMaskedLM")));
}

TEST(NewFamily, NeedsANameOfItsOwn) {
  add_toy_once();
  EXPECT_THROW(add_family(toy_family()), std::logic_error);
}

TEST(NewFamily, IsTheOneThatTheDocumentShows) {
  const std::string code = read_text(LACUNA_SOURCE_DIR "/tests/engine/toy_family.cpp");
  const std::string page = read_text(LACUNA_SOURCE_DIR "/docs/inside/adding_a_family.md");
  const std::string quoted = code.substr(code.find('\n') + 1);
  EXPECT_THAT(page, testing::HasSubstr("```cpp\n" + quoted + "```\n"));
}

}  // namespace
}  // namespace lacuna
