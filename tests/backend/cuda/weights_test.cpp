// Quantized weights on the device: logits against those of the CPU, and of bf16 weights where they are exact.
#include "backend/cuda/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <list>
#include <span>
#include <string_view>

#include "cuda_models.h"
#include "logits.h"
#include "model/read_config.h"
#include "source_folder.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/quantize.h"
#include "weights/safetensors_writer.h"

namespace lacuna::cuda::weights_test {
namespace {

/// Formats that the CPU has kernels for, too.
constexpr const char* kFormats[] = {"int8", "int8-group", "int4", "int4-group", "int4-min"};

TEST(DeviceWeights, GiveTheLogitsOfQuantizedWeights) {
  for (const char* name : kFormats) {
    const WeightFormats formats = bf16_with_layers(name);
    expect_close(config_of("llada"), formats, name);
    expect_close(config_of("dream"), formats, name);
  }
  WeightFormats formats = DType::kBF16;  // as GGUF's Q4_K is held
  formats.layers = Quantization{.bits = 4, .group = 32, .has_minimum = true, .wide_scales = true};
  expect_close(config_of("llada"), formats, "Q4_K");
}

/// One matrix for embedding and head, in rows that need no padding: where it is dense, one copy serves for
/// both.
ModelConfig tied_config() {
  ModelConfig config = config_of("llada");
  config.tied_embeddings = true;
  config.hidden_dim = kDepthStep;
  return config;
}

TEST(DeviceWeights, GiveTheLogitsOfQuantizedHeads) {
  const ModelConfig tied = tied_config();
  for (const ModelConfig& config : {config_of("llada"), tied}) {
    expect_close(config, DType::kBF16, "dense");
    for (const char* name : kFormats) {
      WeightFormats formats = DType::kBF16;
      formats.embedding = weight_format(name);
      expect_close(config, formats, name);
    }
  }
}

// On the CPU all is f32, and only the device rounds. Without llada-moe, whose router the device computes in
// bf16: where two experts nearly tie, it chooses another than f32 does, also with weights in bf16.
TEST(DeviceWeights, GiveTheLogitsOfTheWeightsThatFp8StandsFor) {
  const ModelConfig tied = tied_config();
  for (const ModelConfig& config :
       {config_of("llada"), config_of("dream"), config_of("llada2"), config_of("diffusion-gemma"), tied}) {
    WeightFormats formats = bf16_with_layers("fp8");
    expect_close(config, formats, expanded_cpu_model(config, formats), std::string(config.family));
    formats.embedding = formats.layers;
    expect_close(config, formats, expanded_cpu_model(config, formats),
                 "the head of " + std::string(config.family));
  }
}

/// Writes a copy of a model that ships, whose matrices fp8 holds without loss: e4m3 numbers times a power of
/// two for each output, which are bf16 numbers, too.
void write_exact_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  const Quantization fp8 = weight_format("fp8")->quantization;
  const Checkpoint checkpoint = Checkpoint::open(from);
  std::vector<TensorToWrite> tensors;
  std::list<std::vector<bf16>> numbers;
  for (const std::string_view name : checkpoint.names()) {
    const RawTensor raw = checkpoint.raw(name);
    std::vector<float> values = checkpoint.values(name, raw.shape);
    const auto width = static_cast<size_t>(raw.shape.back());
    for (size_t first = 0; raw.shape.size() == 2 && first < values.size(); first += width) {
      const std::span<float> row = std::span(values).subspan(first, width);
      QuantizedRow codes;
      quantize(fp8, row, codes);
      codes.scales[0] = std::exp2(std::round(std::log2(codes.scales[0])));
      dequantize(fp8, codes, row);
    }
    numbers.push_back(to_bf16(values));
    tensors.push_back({std::string(name), DType::kBF16, raw.shape, std::as_bytes(std::span(numbers.back()))});
  }
  write_safetensors(to / "model.safetensors", tensors, {});
  std::filesystem::copy(from / "config.json", to / "config.json");
}

TEST(DeviceWeights, GiveTheSameBitsInFp8AndInBf16WhereFp8IsExact) {
  for (const char* name : {"mini-llada", "mini-llada2"}) {
    const std::filesystem::path original = source_folder() / "models" / name;
    if (!exists(original))
      GTEST_SKIP() << original << " is not on this machine";  // where a device runs what was built elsewhere
    const TemporaryFolder folder;
    write_exact_copy(original, folder.path());
    const ModelConfig config = read_config(folder.path());
    const auto logits = [&](const WeightFormats& formats) {
      return logits_of(load_on_cuda(open_cuda_device(0), one_thread(), folder.path(), config, formats, 0, {},
                                    {int64_t{4} << 20}),
                       plan_of(config, 3, 12));
    };
    WeightFormats formats = bf16_with_layers("fp8");
    formats.embedding = formats.layers;
    EXPECT_EQ(logits(formats), logits(DType::kBF16)) << name;
  }
}

TEST(DeviceWeights, GiveTheLogitsOfQuantizedExperts) {
  // With a dense layer next to experts. Rows take all of them: with int8 weights, two nearly tie for a place
  // among three in one row, and the machines choose differently.
  ModelConfig parallel = config_of("diffusion-gemma");
  parallel.moe.experts_per_token = parallel.moe.num_experts;
  for (const char* name : kFormats) {
    const WeightFormats formats = bf16_with_layers(name);
    expect_close(config_of("llada-moe"), formats, name);
    expect_close(config_of("llada2.2"), formats, name);  // with a shared expert
    // Two rows of llada2 nearly tie between experts in int4: rows in bf16 choose others than rows in f32 do,
    // on the CPU as well.
    if (name != std::string_view("int4")) expect_close(config_of("llada2"), formats, name);
    expect_close(parallel, formats, name);
  }
}

}  // namespace
}  // namespace lacuna::cuda::weights_test
