// A packed copy is the model that it was made from, bit for bit.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "counting_source.h"
#include "model/adapters.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "temporary_folder.h"
#include "tiny_models.h"
#include "weights/panel_tensors.h"

namespace lacuna::packed_copy_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path zoo_folder(const std::string& name) {
  return std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
}

std::vector<std::filesystem::path> all_models() {
  std::vector<std::filesystem::path> folders;
  for (const auto& families : {golden_families(), golden_block_families()}) {
    for (const std::string& family : families) folders.push_back(golden_folder(family));
  }
  for (const char* const family : {"gidd", "sumi", "nemotron_labs", "diffusion_gemma", "lfm2"})
    folders.push_back(golden_folder(family));
  for (const auto& entry : std::filesystem::directory_iterator(zoo_folder(""))) {
    if (exists(entry.path() / "model.safetensors")) folders.push_back(entry.path());
  }
  return folders;
}

/// Formats that a checkpoint may be packed in: dense, all quantized, and half of it quantized.
std::vector<WeightFormats> some_formats() {
  WeightFormats int8(DType::kBF16);
  int8.layers = *weight_format("int8");
  WeightFormats int4(DType::kF32);
  int4.layers = *weight_format("int4");
  int4.embedding = *weight_format("int4-min");
  return {DType::kF32, DType::kBF16, int8, int4};
}

class PackedCopy : public testing::Test {
 protected:
  /// Packs a checkpoint into an empty folder.
  void write(const std::filesystem::path& source, const ModelConfig& config, const WeightFormats& formats) {
    std::filesystem::remove_all(copy_);
    std::filesystem::create_directory(copy_);
    ShardWriter writer(copy_);
    pack_parameters(config, *open_weights(source, config), formats, threads_, {},
                    [&](HeldTensors held) { writer.add(std::move(held)); });
    writer.finish();
  }

  std::shared_ptr<const Model> load(const std::filesystem::path& folder, const ModelConfig& config,
                                    const WeightFormats& formats) {
    return Model::load(folder, config, formats, threads_);
  }

  static std::vector<float> logits(const std::shared_ptr<const Model>& model) {
    const ModelConfig& config = model->config();
    const std::vector<TokenId> tokens = random_tokens(1, 20, config.vocab_size);
    Runner runner(model, default_table(), 1);
    if (config.block_causal) return runner.logits(blocks_plan(tokens, 4));
    return runner.logits(canvas_plan(tokens, own_rows_of(config)));
  }

  static int64_t mapped_bytes(const Model& model) {
    int64_t bytes = 0;
    for (const auto panels : model.mapped_panels()) bytes += std::ssize(panels);
    return bytes;
  }

  TemporaryFolder folder_;
  std::filesystem::path copy_ = folder_.path() / "copy";
  ThreadPool threads_{1};
};

TEST_F(PackedCopy, OfEveryFamilyGivesTheBitsOfItsSource) {
  for (const std::filesystem::path& source : all_models()) {
    const ModelConfig config = read_config(source);
    for (const WeightFormats& formats : some_formats()) {
      write(source, config, formats);
      EXPECT_EQ(logits(load(copy_, config, formats.dtype)), logits(load(source, config, formats))) << source;
    }
  }
}

TEST_F(PackedCopy, CopiesNoMatrixWhenItLoads) {
  for (const char* name : {"mini-llada", "mini-llada2", "mini-gidd"}) {
    const ModelConfig config = read_config(zoo_folder(name));
    for (const WeightFormats& formats : some_formats()) {
      write(zoo_folder(name), config, formats);
      const auto model = load(copy_, config, formats.dtype);
      int64_t panel_bytes = 0;
      for (const auto& [format, bytes] : panel_formats(Checkpoint::open(copy_))) panel_bytes += bytes;
      EXPECT_EQ(mapped_bytes(*model), panel_bytes) << name;
      EXPECT_GT(mapped_bytes(*model), 0);
    }
  }
}

TEST_F(PackedCopy, IsMappedByEachRankAsFarAsTheRankNeedsIt) {
  for (const char* name : {"mini-llada", "mini-sdar", "mini-gidd"}) {
    const ModelConfig config = read_config(zoo_folder(name));
    for (const WeightFormats& formats : some_formats()) {
      write(zoo_folder(name), config, formats);
      expect_fair_shares(copy_, config, formats.dtype);
    }
  }
}

TEST_F(PackedCopy, IsPackedAgainWhereOtherFormatsAreWanted) {
  const std::filesystem::path source = golden_folder("llada2");
  const ModelConfig config = read_config(source);
  write(source, config, DType::kF32);
  for (const WeightFormats& formats : some_formats())
    EXPECT_EQ(logits(load(copy_, config, formats)), logits(load(source, config, formats)));
}

TEST_F(PackedCopy, OfAPackedCopyIsTheSame) {
  const std::filesystem::path source = zoo_folder("mini-llada2");
  const ModelConfig config = read_config(source);
  const WeightFormats formats = some_formats()[2];
  write(source, config, formats);
  const std::filesystem::path first = folder_.path() / "first";
  std::filesystem::rename(copy_, first);
  write(first, config, formats.dtype);
  EXPECT_EQ(read_text(copy_ / "model.safetensors"), read_text(first / "model.safetensors"));
}

TEST_F(PackedCopy, OfAnotherShapeThanTheConfigSaysIsRefusedByName) {
  ModelConfig config = read_config(golden_folder("llada"));
  write(golden_folder("llada"), config, DType::kF32);
  config.vocab_size += 1;
  EXPECT_THAT([&] { load(copy_, config, DType::kF32); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("wte.weight_panels"), HasSubstr("[97, "), HasSubstr("expected [98, "))));
  config.vocab_size -= 1;
  config.num_layers += 1;
  EXPECT_THAT([&] { load(copy_, config, DType::kF32); },
              ThrowsMessage<InputError>(AllOf(HasSubstr(".2."), HasSubstr("is missing"))));
}

}  // namespace
}  // namespace lacuna::packed_copy_test
