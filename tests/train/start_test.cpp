// Published checkpoints that become others, compared with what the engine computes of both.
#include "train/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf_bytes.h"
#include "model/read_config.h"
#include "temporary_folder.h"
#include "tokenizer/byte_characters.h"
#include "train/bpe.h"
#include "train/names.h"
#include "train/trainer.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace lacuna::train::start_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Json = nlohmann::json;

/// Logits of scale 10 in f32.
constexpr float kTolerance = 2e-3F;

class StartTest : public ::testing::Test {
 protected:
  StartTest() : bpe_(learn_bpe({"Mia has 12 shells. 12+7=19."}, 300)) {
    std::filesystem::create_directories(from_);
    std::filesystem::create_directories(to_);
  }

  /// Six query heads that share two keys and values, as wide as no division of the width gives.
  ModelShape shape(Family family) const {
    ModelShape shape;
    shape.family = family;
    shape.layers = 2;
    shape.width = 48;
    shape.heads = 6;
    shape.kv_heads = 2;
    shape.ffn_width = 40;
    shape.vocabulary = bpe_.total_size();
    shape.rope_theta = 5000;
    shape.norm_epsilon = 1e-5;
    shape.context = 96;
    return shape;
  }

  /// Writes a random checkpoint into from_, with `change`d config. Its tokenizer knows no mask.
  void write_start(ModelShape shape, const Json& change = Json::object()) {
    torch::manual_seed(3);
    Transformer model(shape);
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      torch::Tensor values = item.value();
      if (item.key().ends_with("norm.weight")) values.uniform_(0.7, 1.3);
      if (item.key().ends_with("bias")) values.normal_(0, 0.5);
      if (item.key().find("head") != std::string::npos) values.mul_(3);
    }
    export_texts(from_, shape, bpe_);
    export_weights(from_, model);
    edit("config.json", [&](Json& config) { config.update(change); });
    for (const char* const file : {"tokenizer.json", "tokenizer_config.json"}) {
      edit(file, [](Json& json) {
        json.erase("mask_token");
        Json text = Json::parse(replaced(json.dump(), "<|mdm_mask|>", "<|unused|>"));
        json = text;
      });
    }
    std::filesystem::remove(from_ / "special_tokens_map.json");
  }

  /// The same of Llama's class: without norms of q and k, and without biases.
  void write_llama(const Json& change = Json::object()) {
    write_start(shape(Family::kQwen2));
    edit("config.json", [&](Json& config) {
      config["architectures"] = {"LlamaForCausalLM"};
      config["model_type"] = "llama";
      for (const char* const key : {"sliding_window", "use_sliding_window", "max_window_layers", "use_mrope"})
        config.erase(key);
      config.update(change);
    });
    drop_biases();
  }

  void drop_biases() {
    std::vector<std::vector<float>> storage;
    std::vector<TensorToWrite> kept;
    std::vector<std::string> names;
    std::vector<std::vector<int64_t>> sizes;
    {
      const Checkpoint checkpoint = Checkpoint::open(from_);
      Transformer model(shape(Family::kQwen2));
      import_weights(from_, model);
      for (const auto& item : model->named_parameters()) {
        if (item.key().ends_with("bias")) continue;
        const torch::Tensor values = item.value().detach().contiguous();
        storage.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
        names.push_back(llama_name(item.key()));
        sizes.push_back(values.sizes().vec());
      }
    }
    for (size_t i = 0; i < storage.size(); ++i)
      kept.push_back({names[i], DType::kF32, sizes[i], std::as_bytes(std::span(storage[i]))});
    write_safetensors(from_ / "model.safetensors", kept, {{"format", "pt"}});
  }

  static std::string llama_name(std::string name) {
    static const std::vector<std::pair<std::string, std::string>> kParts = {
        {"blocks.", "model.layers."},
        {"embedding.", "model.embed_tokens."},
        {"final_norm.", "model.norm."},
        {".attn_norm.", ".input_layernorm."},
        {".ffn_norm.", ".post_attention_layernorm."},
        {".q.", ".self_attn.q_proj."},
        {".k.", ".self_attn.k_proj."},
        {".v.", ".self_attn.v_proj."},
        {".o.", ".self_attn.o_proj."},
        {".gate.", ".mlp.gate_proj."},
        {".up.", ".mlp.up_proj."},
        {".down.", ".mlp.down_proj."}};
    for (const auto& [part, published] : kParts) name = replaced(name, part, published);
    return name.starts_with("head.") ? "lm_" + name : name;
  }

  static std::string replaced(std::string text, const std::string& part, const std::string& other) {
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += other.size())
      text.replace(at, part.size(), other);
    return text;
  }

  /// The random checkpoint in from_ as a GGUF file of llama.cpp's converter, in f32.
  std::filesystem::path write_gguf(const ModelShape& shape, const std::string& architecture) {
    Transformer model(shape);
    import_weights(from_, model);
    test::GgufBytes file;
    const auto key = [&](const std::string& name) { return architecture + "." + name; };
    file.text("general.architecture", architecture);
    file.number(key("block_count"), static_cast<uint32_t>(shape.layers));
    file.number(key("embedding_length"), static_cast<uint32_t>(shape.width));
    file.number(key("feed_forward_length"), static_cast<uint32_t>(shape.ffn_width));
    file.number(key("attention.head_count"), static_cast<uint32_t>(shape.heads));
    file.number(key("attention.head_count_kv"), static_cast<uint32_t>(shape.num_kv_heads()));
    file.number(key("attention.key_length"), static_cast<uint32_t>(shape.head_width()));
    file.number(key("attention.value_length"), static_cast<uint32_t>(shape.head_width()));
    file.number(key("context_length"), static_cast<uint32_t>(shape.context));
    file.number(key("rope.dimension_count"), static_cast<uint32_t>(shape.head_width()));
    file.number(key("vocab_size"), static_cast<uint32_t>(shape.vocabulary));
    file.real(key("rope.freq_base"), static_cast<float>(shape.rope_theta));
    file.real(key("attention.layer_norm_rms_epsilon"), static_cast<float>(shape.epsilon()));
    std::vector<std::string> tokens, merges;
    for (const std::string& token : bpe_.vocabulary) tokens.push_back(to_byte_characters(token));
    for (const auto& [left, right] : bpe_.merges)
      merges.push_back(tokens[static_cast<size_t>(left)] + " " + tokens[static_cast<size_t>(right)]);
    std::vector<int32_t> types(tokens.size(), 1);
    for (const std::string_view token : bpe_.form->special_tokens) {
      tokens.emplace_back(token == "<|mdm_mask|>" ? "<|unused|>" : token);
      types.push_back(3);
    }
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", "qwen2");
    file.texts("tokenizer.ggml.tokens", tokens);
    file.numbers("tokenizer.ggml.token_type", types);
    file.texts("tokenizer.ggml.merges", merges);
    file.number("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(bpe_.end_id()));
    file.text("tokenizer.chat_template", bpe_.form->program);
    for (const auto& item : model->named_parameters()) {
      const bool is_bias = item.key().ends_with("bias");
      if (is_bias && architecture == "llama") continue;
      torch::Tensor values = item.value().detach();
      const bool turns =
          item.key().find(".q.w") != std::string::npos || item.key().find(".k.w") != std::string::npos;
      if (turns && architecture == "llama")  // rotated as neighbouring pairs there
        values = values.view({-1, 2, shape.head_width() / 2, shape.width}).transpose(1, 2).flatten(0, 2);
      values = values.contiguous();
      std::vector<uint64_t> sizes;
      for (const int64_t size : values.sizes()) sizes.push_back(static_cast<uint64_t>(size));
      file.tensor(gguf_name(item.key()), 0, sizes,
                  std::string(reinterpret_cast<const char*>(values.data_ptr<float>()), values.nbytes()));
    }
    const std::filesystem::path path = folder_.path() / "start.gguf";
    file.write(path);
    return path;
  }

  template <typename Change>
  void edit(const std::string& name, Change&& change) {
    std::ifstream in(from_ / name);
    Json json = Json::parse(in);
    in.close();
    change(json);
    std::ofstream(from_ / name) << json;
  }

  /// Makes a model of another family of the checkpoint, writes it to to_ and returns it.
  Transformer become(Family family) { return become(family, from_); }
  Transformer become(Family family, const std::filesystem::path& from) {
    ModelShape shape;
    shape.family = family;
    Start start = Start::open(from);
    start.set_sizes(shape);
    start.export_texts(to_, shape);
    Transformer model(shape);
    const WordRows words = start.words(shape);
    import_weights(from, model, &words);
    export_weights(to_, model);
    return model;
  }

  torch::Tensor engine_logits(const std::filesystem::path& folder, int64_t vocabulary,
                              const std::string& flags = "") const {
    std::ofstream(folder / "request.json") << Json{{"tokens", tokens_}};
    const std::string out = (folder / "logits.npy").string();
    const std::string command = LACUNA_BINARY " logits --dtype f32 --threads 1 -m " + folder.string() +
                                " --request " + (folder / "request.json").string() + " --out " + out + flags;
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(out, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    torch::Tensor logits = torch::zeros({static_cast<int64_t>(tokens_.size()), vocabulary});
    EXPECT_GT(bytes.size(), logits.nbytes());
    if (bytes.size() > logits.nbytes())
      std::memcpy(logits.data_ptr(), &bytes[bytes.size() - logits.nbytes()], logits.nbytes());
    return logits;
  }

  torch::Tensor own_logits(Transformer model) const {
    const torch::NoGradGuard no_grad;
    round_weights(model);
    return model->logits(model->hidden(torch::tensor(tokens_).unsqueeze(0))).squeeze(0);
  }

  static float difference(const torch::Tensor& a, const torch::Tensor& b) {
    return (a - b).abs().max().item<float>();
  }

  TemporaryFolder folder_;
  const std::filesystem::path from_ = folder_.path() / "from", to_ = folder_.path() / "to";
  Bpe bpe_;
  const std::vector<int64_t> tokens_ = {77, 105, 97, 32, 104, 97, 115, 260, 49, 50, 46};
};

TEST_F(StartTest, OfALlamaKeepsItsLogitsAsAQwen2) {
  write_llama();
  Transformer model = become(Family::kQwen2);
  const torch::Tensor before = engine_logits(from_, bpe_.total_size());
  EXPECT_LT(difference(engine_logits(to_, bpe_.total_size()), before), kTolerance);
  EXPECT_LT(difference(own_logits(model), before), kTolerance);
  EXPECT_GT(before.abs().max().item<float>(), 2);
}

TEST_F(StartTest, KeepsTiedHeadsScaledRopeAndHeadsOfTheirOwnWidth) {
  ModelShape qwen3 = shape(Family::kQwen3);
  qwen3.tied_head = true;
  qwen3.head_size = 12;
  write_start(qwen3, {{"rope_scaling",
                       {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 24}}}});
  Transformer model = become(Family::kQwen3);
  EXPECT_EQ(model->shape().head_width(), 12);
  EXPECT_EQ(model->shape().rotations.size(), 6U);
  const torch::Tensor before = engine_logits(from_, bpe_.total_size());
  EXPECT_LT(difference(engine_logits(to_, bpe_.total_size()), before), kTolerance);
  EXPECT_LT(difference(own_logits(model), before), kTolerance);
  const float turned = difference(own_logits([&] {
                                    ModelShape plain = model->shape();
                                    plain.rotations.clear();
                                    Transformer other(plain);
                                    import_weights(from_, other);
                                    return other;
                                  }()),
                                  before);
  EXPECT_GT(turned, 10 * kTolerance) << "the scaling matters";
}

TEST_F(StartTest, BecomesADiffusionModelThatTheEngineReadsAlike) {
  write_llama();
  for (const Family family : {Family::kDream, Family::kFastDllm, Family::kLlada}) {
    Transformer model = become(family);
    EXPECT_LT(difference(engine_logits(to_, model->shape().vocabulary), own_logits(model)), kTolerance)
        << traits_of(family).name;
  }
  write_start(shape(Family::kQwen3));
  for (const Family family : {Family::kSdar, Family::kRefusion, Family::kLlada, Family::kIdlm}) {
    Transformer model = become(family);
    EXPECT_LT(difference(engine_logits(to_, model->shape().vocabulary), own_logits(model)), kTolerance)
        << traits_of(family).name;
  }
}

TEST_F(StartTest, GivesTheTokenizerAMaskWithARowOfItsOwn) {
  write_llama();
  Transformer model = become(Family::kDream);
  const int64_t mask = bpe_.total_size();
  EXPECT_EQ(model->shape().vocabulary, mask + 1);
  EXPECT_EQ(Tokenizer::load(to_).id_of("<|mask|>"), mask);
  EXPECT_TRUE(Tokenizer::load(to_).is_special(static_cast<TokenId>(mask)));
  EXPECT_EQ(read_config(to_).mask_id, mask);
  const torch::NoGradGuard no_grad;
  const torch::Tensor rows = model->named_parameters()["embedding.weight"];
  EXPECT_LT(difference(rows[mask], rows.slice(0, 0, mask).mean(0)), 1e-6);
  EXPECT_EQ(Start::open(to_).ids().mask, mask) << "and finds it there again";
}

TEST_F(StartTest, TakesARowThatNoTokenUses) {
  ModelShape wide = shape(Family::kQwen2);
  wide.vocabulary += 5;
  write_start(wide);
  Start start = Start::open(from_);
  ModelShape shape;
  shape.family = Family::kDream;
  start.set_sizes(shape);
  EXPECT_EQ(shape.vocabulary, wide.vocabulary);
  EXPECT_EQ(start.ids().mask, bpe_.total_size());
  EXPECT_THAT(start.mask_note(), HasSubstr("no token used"));
}

TEST_F(StartTest, NamesTheFamiliesThatACheckpointCanBecome) {
  ModelShape target;
  const auto refused = [&](Family family, const std::string& text) {
    target.family = family;
    EXPECT_THAT([&] { Start::open(from_).set_sizes(target); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("--family"), HasSubstr(text))));
  };
  write_start(shape(Family::kQwen2));
  refused(Family::kLlada, "expected one of dream, qwen2, fast-dllm-v2");
  refused(Family::kGidd, "expected one of dream, qwen2, fast-dllm-v2");
  write_llama();
  refused(Family::kSdar, "expected one of llada, dream, qwen2, fast-dllm-v2");
}

TEST_F(StartTest, BeginsWithAGgufFileAsWithItsFolder) {
  ModelShape qwen3 = shape(Family::kQwen3);
  qwen3.head_size = 8;
  write_start(qwen3);
  const std::filesystem::path file = write_gguf(qwen3, "qwen3");
  const torch::Tensor before = engine_logits(from_, bpe_.total_size());
  Transformer model = become(Family::kSdar, file);
  EXPECT_EQ(model->shape().vocabulary, bpe_.total_size() + 1) << "a mask is added";
  EXPECT_EQ(Tokenizer::load(to_).id_of("<|mask|>"), bpe_.total_size());
  EXPECT_EQ(Tokenizer::load(to_).encode("Mia has 12"), Tokenizer::load(file).encode("Mia has 12"));
  EXPECT_FALSE(load_chat_template(to_).is_none());
  const torch::Tensor after = engine_logits(to_, model->shape().vocabulary, " --paradigm blocks");
  Transformer next = become(Family::kQwen3, file);
  EXPECT_LT(difference(engine_logits(to_, bpe_.total_size()), before), kTolerance);
  EXPECT_LT(difference(own_logits(next), before), kTolerance);
  EXPECT_GT(difference(after.slice(1, 0, bpe_.total_size()), before), kTolerance)
      << "its rows see their block";
}

TEST_F(StartTest, TurnsBackTheRowsThatGgufFilesOfLlamaPermute) {
  write_llama();
  const torch::Tensor before = engine_logits(from_, bpe_.total_size());
  Transformer model = become(Family::kQwen2, write_gguf(shape(Family::kQwen2), "llama"));
  EXPECT_LT(difference(own_logits(model), before), kTolerance);
  EXPECT_LT(difference(engine_logits(to_, bpe_.total_size()), before), kTolerance);
}

TEST_F(StartTest, RefusesWhatTrainingDoesNotCompute) {
  const auto refused = [&](const Json& change, const std::string& text) {
    write_llama(change);
    EXPECT_THAT([&] { Start::open(from_); }, ThrowsMessage<InputError>(HasSubstr(text)));
  };
  refused({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}, "quantized");
  refused(
      {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 24}}}},
      "YaRN");
  EXPECT_THAT([&] { Start::open(from_ / "config.json"); },
              ThrowsMessage<InputError>(HasSubstr("expected a folder")));
}

TEST_F(StartTest, LearnsUpdatesAloneWhoseAdapterGivesTheMergedLogits) {
  write_llama();
  Transformer model = become(Family::kDream);
  const std::vector<torch::Tensor> before = [&] {
    std::vector<torch::Tensor> copies;
    for (const torch::Tensor& values : model->parameters()) copies.push_back(values.detach().clone());
    return copies;
  }();
  model->add_lora({.rank = 3, .alpha = 6});
  EXPECT_EQ(model->learned().size(), 2U * 7 * 2);
  const Vocabulary vocabulary{Tokenizer::load(to_), load_chat_template(to_), Start::open(to_).ids()};
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.batch_rows = 4;
  TrainOptions options;
  options.steps = 8;
  options.warmup_steps = 1;
  options.peak_rate = 0.05;
  const auto train = [&](int steps, bool resumes) {
    Trainer trainer(model, BatchSource(data, vocabulary), vocabulary, options, folder_.path());
    if (resumes) trainer.resume();
    for (int i = 0; i < steps; ++i) trainer.step();
    trainer.save();
    return trainer.averaged_model();
  };
  Transformer trained = train(6, /*resumes=*/false);
  size_t i = 0;
  for (const auto& item : trained->named_parameters()) {
    if (item.key().find("lora") == std::string::npos) {
      EXPECT_TRUE(item.value().equal(before[i++])) << item.key();
    }
  }
  const torch::Tensor of_updates = [&] {
    const torch::NoGradGuard no_grad;
    return trained->logits(trained->hidden(torch::tensor(tokens_).unsqueeze(0))).squeeze(0);
  }();
  Transformer merged = merged_model(trained);
  const torch::NoGradGuard no_grad;
  EXPECT_LT(
      difference(merged->logits(merged->hidden(torch::tensor(tokens_).unsqueeze(0))).squeeze(0), of_updates),
      kTolerance);
  // The engine merges the adapter into the checkpoint that training began with.
  std::filesystem::create_directories(to_ / "adapter");
  export_adapter(to_ / "adapter", trained, "from");
  const torch::Tensor plain = engine_logits(to_, model->shape().vocabulary);
  const torch::Tensor adapted =
      engine_logits(to_, model->shape().vocabulary, " --lora " + (to_ / "adapter").string());
  EXPECT_LT(difference(adapted, of_updates), 20 * kTolerance) << "weights are bf16 there";
  EXPECT_GT(difference(adapted, plain), 100 * kTolerance);
  // Another run begins with it.
  const LoraShape shape = adapter_shape(to_ / "adapter");
  EXPECT_EQ(shape.rank, trained->lora().rank);
  EXPECT_EQ(shape.alpha, trained->lora().alpha);
  Transformer again = become(trained->shape().family);
  again->add_lora(shape);
  import_adapter(to_ / "adapter", again);
  const torch::Tensor continued =
      again->logits(again->hidden(torch::tensor(tokens_).unsqueeze(0))).squeeze(0);
  EXPECT_LT(difference(continued, of_updates), kTolerance);
}

TEST_F(StartTest, LowersTheLossOfEveryObjectiveAndResumesToTheSameBits) {
  std::ofstream data_file(folder_.path() / "data.jsonl");
  for (int i = 0; i < 120; ++i) data_file << R"({"prompt": "Mia has 12", "response": "12+7=19."})" << '\n';
  data_file.close();
  const auto losses = [&](Family family, int stop_at) {
    Transformer model = become(family);
    const Vocabulary vocabulary{Tokenizer::load(to_), load_chat_template(to_), Start::open(to_).ids()};
    const Records records =
        Records::open(folder_.path() / "data.jsonl", vocabulary, 96, folder_.path() / "rows");
    DataOptions data;
    data.files = {{&records, 1}};
    data.drill_share = 0;
    data.batch_rows = 2;
    data.canvas = 16;
    data.one_end_token = model->shape().objective() == Objective::kSlots;
    if (model->shape().objective() == Objective::kBlocks) data.block_length = model->shape().block_length;
    TrainOptions options;
    options.steps = 40;
    options.warmup_steps = 4;
    options.accumulate = 2;
    auto trainer =
        std::make_unique<Trainer>(model, BatchSource(data, vocabulary), vocabulary, options, folder_.path());
    Transformer first = trainer->averaged_model();
    const double before = trainer->held_out_loss(first);
    for (int i = 0; i < options.steps; ++i) {
      if (i == stop_at) {
        trainer->save();
        torch::manual_seed(99);
        Transformer fresh(model->shape());
        trainer = std::make_unique<Trainer>(fresh, BatchSource(data, vocabulary), vocabulary, options,
                                            folder_.path());
        trainer->resume();
      }
      trainer->step();
    }
    Transformer last = trainer->averaged_model();
    return std::pair(before, trainer->held_out_loss(last));
  };
  write_start(shape(Family::kQwen3));
  for (const Family family : {Family::kQwen3, Family::kLlada, Family::kDream, Family::kFastDllm,
                              Family::kSdar, Family::kRefusion, Family::kIdlm}) {
    const auto [before, after] = losses(family, -1);
    EXPECT_LT(after, 0.8 * before) << traits_of(family).name;
    EXPECT_EQ(losses(family, 13), std::pair(before, after)) << traits_of(family).name;
  }
}

}  // namespace
}  // namespace lacuna::train::start_test
