#include "weights/safetensors_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "weights/safetensors.h"
#include "weights/safetensors_bytes.h"

namespace lacuna::safetensors_writer_test {
namespace {

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / name;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const std::array<float, 6> matrix = {0, 1, -2, 3.5F, 1e-30F, -1e30F};
  const std::vector<bf16> vector = to_bf16(std::array<float, 3>{1, 2, 3});
  const std::array<f16, 1> scalar = {f16{0x3c00}};
  const std::vector<TensorToWrite> tensors = {
      {"matrix", DType::kF32, {2, 3}, std::as_bytes(std::span(matrix))},
      {"vector", DType::kBF16, {3}, std::as_bytes(std::span(vector))},
      {"scalar", DType::kF16, {}, std::as_bytes(std::span(scalar))},
      {"nothing", DType::kF32, {0, 4}, {}},
  };
  const auto path = temporary_file("round_trip.safetensors");
  write_safetensors(path, tensors, {{"format", "pt"}});

  const std::string file = read_file(path);
  const std::vector<SafetensorsEntry> entries = parse_safetensors(as_bytes_of(file), "round_trip");
  ASSERT_EQ(entries.size(), tensors.size());
  for (const SafetensorsEntry& entry : entries) {
    const auto written =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == entry.name; });
    ASSERT_NE(written, tensors.end()) << entry.name;
    EXPECT_EQ(entry.dtype, written->dtype);
    EXPECT_EQ(entry.shape, written->shape);
    EXPECT_TRUE(
        std::equal(entry.bytes.begin(), entry.bytes.end(), written->bytes.begin(), written->bytes.end()));
  }
  std::filesystem::remove(path);
}

TEST(SafetensorsWriter, BeginsTheDataAtAPage) {
  const std::array<float, 1> value = {1};
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    const auto path = temporary_file("aligned.safetensors");
    const TensorToWrite tensor{name, DType::kF32, {1}, std::as_bytes(std::span(value))};
    write_safetensors(path, {&tensor, 1}, {});
    EXPECT_EQ((std::filesystem::file_size(path) - sizeof(float)) % 4096, 0U) << name;
    std::filesystem::remove(path);
  }
}

TEST(SafetensorsWriter, RefusesAWrongByteCountAndARepeatedName) {
  const std::array<float, 2> values = {1, 2};
  const auto path = temporary_file("refused.safetensors");
  const TensorToWrite short_one{"a", DType::kF32, {3}, std::as_bytes(std::span(values))};
  EXPECT_THROW(write_safetensors(path, {&short_one, 1}, {}), std::logic_error);
  const TensorToWrite good{"a", DType::kF32, {2}, std::as_bytes(std::span(values))};
  const std::array twice = {good, good};
  EXPECT_THROW(write_safetensors(path, twice, {}), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SafetensorsWriter, SaysWhichFileItCannotWrite) {
  try {
    write_safetensors(temporary_file("no_such_folder") / "model.safetensors", {}, {});
    FAIL() << "wrote into a folder that does not exist";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_folder"), std::string::npos) << error.what();
  }
}

TEST(ToBf16, RoundsToNearestEven) {
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie halfway between neighbours, whose last bits are 0, 1 and 2.
  const std::vector<bf16> rounded =
      to_bf16(std::array<float, 4>{1 + 0x1p-8F, 1 + 0x1.8p-7F, 1 + 0x1.02p-8F, -2});
  EXPECT_EQ(static_cast<float>(rounded[0]), 1);
  EXPECT_EQ(static_cast<float>(rounded[1]), 1 + 0x1p-6F);
  EXPECT_EQ(static_cast<float>(rounded[2]), 1 + 0x1p-7F);
  EXPECT_EQ(static_cast<float>(rounded[3]), -2);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(to_bf16(std::array{infinity})[0]), infinity);
}

}  // namespace
}  // namespace lacuna::safetensors_writer_test
