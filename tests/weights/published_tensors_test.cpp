#include "weights/published_tensors.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "safetensors_bytes.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"

namespace lacuna::published_tensors_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kRows = 32;
constexpr int64_t kInputs = 64;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/golden/quantized" / name;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The reference's weights.
std::vector<float> golden_weights(const std::string& name) {
  const std::string bytes = text_of(golden(name) / "weights.npy");
  std::vector<float> values(kRows * kInputs);
  const size_t size = values.size() * sizeof(float);
  EXPECT_GT(bytes.size(), size) << name;
  if (bytes.size() > size) std::memcpy(values.data(), bytes.data() + bytes.size() - size, size);
  return values;
}

struct FileTensor {
  std::string type;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// The tensors of a checkpoint with one module, and its config.json.
struct Case {
  std::map<std::string, FileTensor> tensors;
  json config;

  explicit Case(const std::string& name) {
    const std::string file = text_of(golden(name) / "model.safetensors");
    for (const SafetensorsEntry& entry : parse_safetensors(as_bytes_of(file), name)) {
      const auto* begin = reinterpret_cast<const char*>(entry.bytes.data());
      tensors[entry.name] = {entry.dtype_name, entry.shape, std::string(begin, entry.bytes.size())};
    }
    config = json::parse(text_of(golden(name) / "config.json"));
  }

  void write(const TemporaryFolder& folder) const {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.type},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    folder.write("model.safetensors", safetensors_bytes(header.dump(), data));
    folder.write("config.json", config.dump());
  }
};

std::vector<float> read_all(const StoredMatrix& matrix, int64_t rows, int64_t inputs) {
  std::vector<float> values(static_cast<size_t>(rows * inputs));
  for (int64_t n = 0; n < rows; ++n) matrix.read(n, values.data() + n * inputs);
  return values;
}

/// The form of a matrix after loading: the quantization that holds it, or f32.
std::vector<float> packed_as_stored(const StoredMatrix& matrix, int64_t rows, int64_t inputs) {
  ThreadPool threads(2);
  const auto quantization = matrix.quantization();
  const WeightFormat format = quantization ? WeightFormat(*quantization) : WeightFormat(DType::kF32);
  const PackedMatrix packed = pack(threads, format, matrix, 0, rows, inputs);
  std::vector<float> values(static_cast<size_t>(rows * inputs));
  for (int64_t n = 0; n < rows; ++n) packed.read_row(n, values.data() + n * inputs);
  return values;
}

struct Golden {
  std::string name;
  /// The words of describe(); empty: dense in memory.
  std::string held_as;
};

class PublishedFormat : public testing::TestWithParam<Golden> {};

TEST_P(PublishedFormat, HasTheWeightsThatItsProgramMeans) {
  const Checkpoint checkpoint = Checkpoint::open(golden(GetParam().name));
  EXPECT_TRUE(checkpoint.contains("m.weight"));
  const auto matrix = checkpoint.matrix("m", kRows, kInputs);
  const std::vector<float> expected = golden_weights(GetParam().name);
  EXPECT_EQ(read_all(*matrix, kRows, kInputs), expected);
  EXPECT_EQ(packed_as_stored(*matrix, kRows, kInputs), expected);
  const auto held = matrix->quantization();
  EXPECT_EQ(held ? describe(*held) : "", GetParam().held_as);
}

INSTANTIATE_TEST_SUITE_P(
    Of, PublishedFormat,
    testing::Values(
        Golden{"awq", "4-bit codes in groups of 32, minimums, f32 scales"}, Golden{"bitsandbytes-fp4", ""},
        Golden{"bitsandbytes-nf4", ""}, Golden{"compressed-tensors-fp8", ""},
        Golden{"compressed-tensors-int4", "4-bit codes in groups of 32, f32 scales"},
        Golden{"compressed-tensors-int4-asymmetric", "4-bit codes in groups of 32, minimums, f32 scales"},
        Golden{"compressed-tensors-int8", "int8"},
        Golden{"compressed-tensors-nvfp4", "8-bit codes in groups of 16, f32 scales"},
        Golden{"fp8-block", ""}, Golden{"gptq-3bit", "4-bit codes in groups of 32, minimums, f32 scales"},
        Golden{"gptq-4bit", "int4-group"}, Golden{"gptq-act-order", ""},
        Golden{"gptq-v2", "4-bit codes in groups of 32, minimums, f32 scales"},
        Golden{"mlx-3bit", "4-bit codes with a scale for each output, minimums, f32 scales"},
        Golden{"mlx-4bit", "4-bit codes in groups of 32, minimums, f32 scales"},
        Golden{"mlx-6bit", "8-bit codes in groups of 32, minimums, f32 scales"},
        Golden{"mlx-8bit", "8-bit codes with a scale for each output, minimums, f32 scales"},
        Golden{"modelopt-fp8", ""}, Golden{"modelopt-nvfp4", "8-bit codes in groups of 16, f32 scales"}),
    [](const testing::TestParamInfo<Golden>& format) {
      std::string name = format.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// bitsandbytes multiplies by the scale and then by 1 / 127, so two roundings differ from ours.
TEST(PublishedTensors, OfLlmInt8AreItsWeightsUpToTheRoundingOfAScale) {
  const Checkpoint checkpoint = Checkpoint::open(golden("bitsandbytes-int8"));
  const auto matrix = checkpoint.matrix("m", kRows, kInputs);
  EXPECT_EQ(describe(*matrix->quantization()), "int8");
  const std::vector<float> expected = golden_weights("bitsandbytes-int8");
  const std::vector<float> values = packed_as_stored(*matrix, kRows, kInputs);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(values[i] - expected[i]), 0x1p-22F * std::abs(expected[i])) << i;
  EXPECT_EQ(values, read_all(*matrix, kRows, kInputs));
}

class DamagedFile : public testing::Test {
 protected:
  /// Opens a changed file and packs its matrix, in the form in which it would be loaded.
  void expect_refused(const std::string& name, const std::function<void(Case&)>& change,
                      const testing::Matcher<std::string>& message) const {
    Case changed(name);
    change(changed);
    changed.write(folder_);
    EXPECT_THAT(
        [&] {
          packed_as_stored(*Checkpoint::open(folder_.path()).matrix("m", kRows, kInputs), kRows, kInputs);
        },
        ThrowsMessage<InputError>(message))
        << name;
  }

  TemporaryFolder folder_;
};

TEST_F(DamagedFile, WithoutAPartnerTensorIsRefusedByItsName) {
  const auto without = [&](const std::string& name, const std::string& tensor) {
    expect_refused(
        name, [&](Case& file) { EXPECT_EQ(file.tensors.erase(tensor), 1U); },
        AllOf(HasSubstr('"' + tensor + '"'), HasSubstr("is missing")));
  };
  without("awq", "m.scales");
  without("awq", "m.qzeros");
  without("gptq-4bit", "m.qzeros");
  without("mlx-4bit", "m.biases");
  without("mlx-4bit", "m.scales");
  without("fp8-block", "m.weight_scale_inv");
  without("compressed-tensors-int4", "m.weight_scale");
  without("compressed-tensors-nvfp4", "m.weight_global_scale");
  without("bitsandbytes-int8", "m.SCB");
  without("bitsandbytes-nf4", "m.weight.absmax");
  without("bitsandbytes-nf4", "m.weight.nested_absmax");
  without("bitsandbytes-nf4", "m.weight.nested_quant_map");
  without("bitsandbytes-nf4", "m.weight.quant_map");
}

TEST_F(DamagedFile, WithAnotherShapeOrTypeIsRefused) {
  const auto reshaped = [&](const std::string& name, const std::string& tensor, std::vector<int64_t> shape,
                            const std::string& text) {
    expect_refused(
        name, [&](Case& file) { file.tensors.at(tensor).shape = std::move(shape); },
        AllOf(HasSubstr('"' + tensor + '"'), HasSubstr(text)));
  };
  reshaped("awq", "m.qweight", {32, 8}, "expected I32 of shape [64, 4], for [32, 64] weights");
  reshaped("awq", "m.qzeros", {4, 2}, "expected I32 of shape [2, 4]");
  reshaped("gptq-4bit", "m.qweight", {16, 16}, "expected I32 of shape [64 * bits / 32, 32]");
  reshaped("gptq-4bit", "m.scales", {32, 2}, "expected floats of shape [groups, 32]");
  reshaped("gptq-4bit", "m.g_idx", {8, 8}, "expected I32 of shape [64]");
  reshaped("mlx-4bit", "m.weight", {16, 16}, "expected U32 of shape [32, 64 * bits / 32]");
  reshaped("mlx-4bit", "m.biases", {64, 1}, "has shape [64, 1]; expected [32, 2]");
  reshaped("fp8-block", "m.weight_scale_inv", {4, 1}, "has shape [4, 1]; expected [] or [32, 1] or [2, 2]");
  reshaped("fp8-block", "m.weight", {64, 32}, "expected F8_E4M3 of shape [32, 64]");
  reshaped("compressed-tensors-int8", "m.weight", {64, 32}, "expected I8 of shape [32, 64]");
  reshaped("compressed-tensors-int4-asymmetric", "m.weight_zero_point", {2, 4},
           "expected I32 of shape [4, 2]");
  reshaped("modelopt-nvfp4", "m.weight_scale", {64, 2}, "has shape [64, 2]; expected [32, 4]");
  reshaped("bitsandbytes-nf4", "m.weight.absmax", {4, 8}, "expected U8 of shape [32]");
  expect_refused(
      "mlx-4bit", [](Case& file) { file.tensors.at("m.scales").type = "I16"; },
      AllOf(HasSubstr("\"m.scales\""), HasSubstr("has type I16; expected floats")));
}

TEST_F(DamagedFile, WithGroupNumbersOutOfRangeIsRefused) {
  for (const int32_t number : {2, -1, std::numeric_limits<int32_t>::max()}) {
    expect_refused(
        "gptq-act-order",
        [&](Case& file) { std::memcpy(file.tensors.at("m.g_idx").bytes.data() + 4 * 5, &number, 4); },
        AllOf(HasSubstr("\"m.g_idx\" holds " + std::to_string(number) + " at 5"),
              HasSubstr("the number of a group, below 2")));
  }
}

TEST_F(DamagedFile, WithAScaleThatIsNotFiniteIsRefusedByItsTensor) {
  const auto with_bytes = [&](const std::string& name, const std::string& tensor, const std::string& bytes,
                              const std::string& named) {
    expect_refused(
        name, [&](Case& file) { file.tensors.at(tensor).bytes.replace(0, bytes.size(), bytes); },
        AllOf(HasSubstr('"' + named + '"'), HasSubstr("row 0 holds an infinite or NaN weight")));
  };
  const std::string nan_of_8_bits = "\x7f", infinity_of_f16 = std::string("\0\x7c", 2);
  const std::string nan_of_bf16 = std::string("\xc0\x7f", 2), nan_of_f32 = std::string("\0\0\xc0\x7f", 4);
  with_bytes("modelopt-nvfp4", "m.weight_scale", nan_of_8_bits, "m.weight_scale");
  with_bytes("modelopt-nvfp4", "m.weight_scale_2", nan_of_f32, "m.weight_scale");
  with_bytes("fp8-block", "m.weight", nan_of_8_bits, "m.weight");
  with_bytes("gptq-4bit", "m.scales", infinity_of_f16, "m.scales");
  with_bytes("awq", "m.scales", infinity_of_f16, "m.scales");
  with_bytes("mlx-8bit", "m.scales", nan_of_bf16, "m.scales");
  with_bytes("mlx-8bit", "m.biases", nan_of_bf16, "m.scales");
  with_bytes("compressed-tensors-int8", "m.weight_scale", nan_of_bf16, "m.weight_scale");
  with_bytes("bitsandbytes-int8", "m.SCB", nan_of_f32, "m.SCB");
  with_bytes("bitsandbytes-nf4", "m.weight.nested_absmax", nan_of_f32, "m.weight");
}

TEST_F(DamagedFile, ThatContradictsItsConfigIsRefused) {
  const auto with = [&](const std::string& name, const std::string& key, const json& value,
                        const std::string& text) {
    expect_refused(
        name,
        [&](Case& file) {
          file.config[file.config.contains("quantization") ? "quantization" : "quantization_config"][key] =
              value;
        },
        HasSubstr(text));
  };
  with("mlx-4bit", "bits", 8,
       "\"m.weight\" holds codes of 4 bits in groups of 32, and config.json says 8 bits");  // words: meant
  with("mlx-4bit", "group_size", 64, "config.json says 4 bits in groups of 64");
  with("mlx-4bit", "m", {{"bits", 8}, {"group_size", 32}}, "config.json says 8 bits in groups of 32");
  with("mlx-4bit", "m", false, "config.json says that \"m\" is not quantized");
  with("gptq-4bit", "bits", 8, "config.json says 8 bits");
  with("gptq-4bit", "group_size", 128, "config.json says 4 bits in groups of 128");
  with("awq", "group_size", 64, "config.json says 4 bits in groups of 64");
  with("compressed-tensors-int4", "ignore", {"m"}, "config.json says that \"m\" is not quantized");
}

TEST_F(DamagedFile, WithoutADescriptionIsRefused) {
  for (const char* const name : {"awq", "compressed-tensors-int4", "fp8-block", "bitsandbytes-nf4"}) {
    expect_refused(
        name, [](Case& file) { file.config = json::object(); },
        HasSubstr("is of quantized weights, and config.json has no \"quantization_config\""));
  }
}

TEST_F(DamagedFile, WhoseInputsAreScaledIsRefused) {
  expect_refused(
      "modelopt-nvfp4",
      [](Case& file) {
        file.tensors["m.pre_quant_scale"] = {"F32", {1}, std::string(4, '\0')};
      },
      HasSubstr("\"m.pre_quant_scale\" scales the inputs of a matrix"));
}

TEST(PublishedTensors, OfModulesThatStayedDenseAreReadAsTheyAre) {
  Case file("gptq-4bit");
  file.tensors["dense.weight"] = {"F32", {1, 2}, std::string("\0\0\x80\x3f\0\0\0\x40", 8)};
  const TemporaryFolder folder;
  file.write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(read_all(*checkpoint.matrix("dense", 1, 2), 1, 2), (std::vector<float>{1, 2}));
  EXPECT_TRUE(checkpoint.contains("m.weight"));
  EXPECT_FALSE(checkpoint.contains("n.weight"));
  EXPECT_EQ(checkpoint.dtype(), DType::kF32) << "scales do not count";
}

TEST(PublishedTensors, OfGptqMayHaveBiasesOfZerosThatDoNotCount) {
  Case file("gptq-4bit");
  file.tensors["m.bias"] = {"F16", {kRows}, std::string(2 * kRows, '\0')};
  const TemporaryFolder folder;
  file.write(folder);
  EXPECT_FALSE(Checkpoint::open(folder.path()).contains("m.bias"));
  file.tensors["m.bias"].bytes[3] = '\x3c';
  file.write(folder);
  EXPECT_TRUE(Checkpoint::open(folder.path()).contains("m.bias"));
}

TEST(PublishedTensors, OfStackedExpertsAreReadByNumber) {
  Case file("mlx-4bit");
  std::map<std::string, FileTensor> stacked;
  for (const auto& [name, tensor] : file.tensors) {
    const std::string to = "layer.switch_mlp.up_proj" + name.substr(1);
    stacked[to] = {tensor.type, {2, kRows / 2, tensor.shape[1]}, tensor.bytes};
  }
  file.tensors = stacked;
  const TemporaryFolder folder;
  file.write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const std::vector<float> all = golden_weights("mlx-4bit");
  for (int64_t e = 0; e < 2; ++e) {
    const std::string module = "layer.experts." + std::to_string(e) + ".up_proj";
    EXPECT_TRUE(checkpoint.contains(module + ".weight"));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(e * kRows / 2 * kInputs);
    const std::vector<float> expected(begin, begin + static_cast<std::ptrdiff_t>(kRows / 2 * kInputs));
    EXPECT_EQ(packed_as_stored(*checkpoint.matrix(module, kRows / 2, kInputs), kRows / 2, kInputs), expected);
  }
  EXPECT_THAT([&] { checkpoint.matrix("layer.experts.2.up_proj", kRows / 2, kInputs); },
              ThrowsMessage<InputError>(HasSubstr("holds 2 experts; expected one with the number 2")));
}

TEST(PublishedTensors, AreTheWeightsOfAModuleOrBelongToThem) {
  const Checkpoint checkpoint = Checkpoint::open(golden("modelopt-nvfp4"));
  const PublishedQuantization& quantization = *checkpoint.quantization();
  EXPECT_TRUE(is_published_module(checkpoint, quantization, "m"));
  EXPECT_FALSE(is_published_module(checkpoint, quantization, "n"));
  for (const char* const name : {"m.weight_scale", "m.weight_scale_2", "m.input_scale"})
    EXPECT_TRUE(is_partner_tensor(checkpoint, quantization, name)) << name;
  for (const char* const name : {"m.weight", "m.bias", "n.weight_scale"})
    EXPECT_FALSE(is_partner_tensor(checkpoint, quantization, name)) << name;
}

}  // namespace
}  // namespace lacuna::published_tensors_test
