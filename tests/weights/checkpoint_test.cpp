#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/safetensors_bytes.h"

namespace lacuna::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A file with the one f32 tensor `name` = [value].
std::string one_tensor(const std::string& name, float value) {
  return safetensors_bytes(R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                           {reinterpret_cast<const char*>(&value), sizeof(value)});
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("checkpoint_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void write_index(const std::string& weight_map) const {
    write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }

  template <typename... Texts>
  void expect_refused(Texts... texts) const {
    EXPECT_THAT([&] { Checkpoint::open(folder_); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(folder_.string()), HasSubstr(texts)...)));
  }

  fs::path folder_;
};

float first_value(const Checkpoint& checkpoint, std::string_view name) {
  float value = 0;
  widen(checkpoint.tensor(name, {1}), 0, std::span(&value, 1));
  return value;
}

TEST_F(CheckpointTest, OpensOneFile) {
  write("model.safetensors", one_tensor("a", 1.5F));
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_TRUE(checkpoint.contains("a"));
  EXPECT_FALSE(checkpoint.contains("b"));
  EXPECT_THAT(checkpoint.names(), ElementsAre("a"));
  EXPECT_EQ(checkpoint.total_bytes(), 4);
  EXPECT_EQ(first_value(checkpoint, "a"), 1.5F);
}

TEST_F(CheckpointTest, FollowsTheIndexWhereverItPutsATensor) {
  write("model-00001-of-00002.safetensors", one_tensor("layers.0.q", 1));
  write("model-00002-of-00002.safetensors", one_tensor("layers.0.k", 2));
  write_index(
      R"({"layers.0.k":"model-00002-of-00002.safetensors","layers.0.q":"model-00001-of-00002.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_EQ(first_value(checkpoint, "layers.0.q"), 1);
  EXPECT_EQ(first_value(checkpoint, "layers.0.k"), 2);
  EXPECT_EQ(checkpoint.total_bytes(), 8);
}

TEST_F(CheckpointTest, TakesTheShardThatTheIndexNames) {
  write("one.safetensors", one_tensor("a", 1));
  write("two.safetensors", one_tensor("a", 2));
  write_index(R"({"a":"two.safetensors"})");
  EXPECT_EQ(first_value(Checkpoint::open(folder_), "a"), 2);
}

TEST_F(CheckpointTest, StaysValidWhenItMoves) {
  write("model.safetensors", one_tensor("a", 3));
  Checkpoint first = Checkpoint::open(folder_);
  const Checkpoint second = std::move(first);
  EXPECT_EQ(first_value(second, "a"), 3);
}

TEST_F(CheckpointTest, AcceptsOneFileUnderAnotherName) {
  write("weights.safetensors", one_tensor("a", 1));
  EXPECT_TRUE(Checkpoint::open(folder_).contains("a"));
}

TEST_F(CheckpointTest, RefusesSeveralFilesThatNoIndexJoins) {
  write("one.safetensors", one_tensor("a", 1));
  write("two.safetensors", one_tensor("b", 1));
  expect_refused("holds 2 *.safetensors files", "expected one file or an index");
}

TEST_F(CheckpointTest, RefusesAFolderWithoutWeights) {
  expect_refused("holds 0 *.safetensors files");
}

TEST_F(CheckpointTest, RefusesAFolderThatIsMissing) {
  fs::remove_all(folder_);
  expect_refused("cannot be listed", "No such file");
}

TEST_F(CheckpointTest, RefusesAnIndexThatLeadsOutOfTheFolder) {
  for (const std::string shard : {"../a.safetensors", "/a.safetensors", "a/b.safetensors", "a.bin",
                                  ".safetensors", "a\\u0000.safetensors"}) {
    write_index(R"({"a":")" + shard + R"("})");
    expect_refused("weight_map.a", "a *.safetensors file in the same folder");
  }
}

TEST_F(CheckpointTest, RefusesAnIndexWhoseShardIsMissing) {
  write_index(R"({"a":"model-00001-of-00001.safetensors"})");
  expect_refused(R"(places tensor "a" in "model-00001-of-00001.safetensors")", "expected all shards");
}

TEST_F(CheckpointTest, RefusesAnIndexThatMisplacesATensor) {
  write("one.safetensors", one_tensor("a", 1));
  write_index(R"({"b":"one.safetensors"})");
  expect_refused(R"(places tensor "b" in "one.safetensors", which does not hold it)");
}

TEST_F(CheckpointTest, RefusesABrokenIndex) {
  write_index("[]");
  expect_refused("index.json", R"("weight_map" is a list of 0; expected an object)");
  write_index(R"({"a":1})");
  expect_refused(R"("weight_map.a" is 1; expected text)");
  write_index(R"({"a":)");
  expect_refused("not valid JSON");
}

TEST_F(CheckpointTest, NamesTheShardThatIsDamaged) {
  write("one.safetensors", one_tensor("a", 1) + "x");
  write_index(R"({"a":"one.safetensors"})");
  expect_refused("one.safetensors: holds 5 bytes of data; expected 4");
}

TEST_F(CheckpointTest, ReturnsATensorOnlyInTheExpectedShape) {
  write("model.safetensors",
        safetensors_bytes(R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})", "012345678901"));
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_EQ(checkpoint.tensor("a", {2, 3}).num_elements(), 6);
  EXPECT_THAT(
      [&] {
        checkpoint.tensor("a", {3, 2});
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("model.safetensors"),
                                      HasSubstr(R"(tensor "a" has shape [2, 3]; expected [3, 2])"))));
  EXPECT_THROW(checkpoint.tensor("a", {6}), InputError);
  EXPECT_THROW(checkpoint.tensor("a", {}), InputError);
  EXPECT_THAT(
      [&] {
        checkpoint.tensor("b", {3, 2});
      },
      ThrowsMessage<InputError>(
          AllOf(HasSubstr(folder_.string()), HasSubstr(R"(tensor "b" is missing; expected shape [3, 2])"))));
}

TEST_F(CheckpointTest, ListsButNeverReturnsUnsupportedTypes) {
  write("model.safetensors",
        safetensors_bytes(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "01234567"));
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_TRUE(checkpoint.contains("a"));
  EXPECT_THAT([&] { checkpoint.tensor("a", {1}); },
              ThrowsMessage<InputError>(HasSubstr(R"(tensor "a" has type I64; expected F32, F16 or BF16)")));
}

template <typename Bits>
TensorView view_of(DType dtype, const std::vector<Bits>& values) {
  return {"t", dtype, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)), "file"};
}

TEST(Widen, GivesEachTypeExactly) {
  std::array<float, 3> out{};
  const std::vector<float> f32 = {0.1F, -2, 1e30F};
  widen(view_of(DType::kF32, f32), 0, out);
  EXPECT_THAT(out, ElementsAre(0.1F, -2, 1e30F));
  const std::vector<uint16_t> bits16 = {0x3f80, 0xc000, 0x0001};
  widen(view_of(DType::kBF16, bits16), 0, out);
  EXPECT_THAT(out, ElementsAre(1, -2, 0x1p-133F));
  const std::vector<uint16_t> half = {0x3c00, 0xc000, 0x0001};
  widen(view_of(DType::kF16, half), 0, out);
  EXPECT_THAT(out, ElementsAre(1, -2, 0x1p-24F));
}

TEST(Widen, CopiesAPartAtAnyAlignment) {
  const std::vector<float> values = {1, 2, 3, 4};
  std::vector<std::byte> shifted(1 + sizeof(float) * values.size());
  std::copy_n(std::as_bytes(std::span(values)).begin(), sizeof(float) * values.size(), shifted.begin() + 1);
  const TensorView tensor{"t", DType::kF32, {4}, std::span(shifted).subspan(1), "file"};
  std::array<float, 2> out{};
  widen(tensor, 2, out);
  EXPECT_THAT(out, ElementsAre(3, 4));
  EXPECT_NO_THROW(widen(tensor, 4, {}));
  EXPECT_THROW(widen(tensor, 3, out), std::logic_error);
  EXPECT_THROW(widen(tensor, -1, out), std::logic_error);
}

}  // namespace
}  // namespace lacuna::checkpoint_test
