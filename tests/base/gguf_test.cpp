#include "base/gguf.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "gguf_bytes.h"

namespace lacuna::gguf_test {
namespace {

using test::GgufBytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

GgufContent parse(const std::string& bytes) {
  return GgufContent::parse(std::as_bytes(std::span(bytes)), "model.gguf");
}

template <typename... Texts>
void expect_refused(const std::string& bytes, Texts... texts) {
  EXPECT_THAT([&] { parse(bytes); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("model.gguf"), HasSubstr(texts)...)));
}

GgufBytes small_file() {
  GgufBytes file;
  file.text("general.architecture", "llada");
  file.number("llada.block_count", 7);
  file.real("llada.rope.freq_base", 10000);
  file.flag("llada.attention.causal", false);
  file.texts("words", {"a", "", "longer"});
  file.numbers("types", {1, -3});
  file.tensor("first", kGgmlF32, {2, 3}, std::string(24, 'x'));
  file.tensor("second", kGgmlQ8_0, {1, 64}, std::string(68, 'y'));
  return file;
}

class GgufFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(GgufContent, HoldsKeysAndTensors) {
  const std::string bytes = small_file().bytes();
  const GgufContent content = parse(bytes);
  EXPECT_EQ(std::get<int64_t>(content.metadata.at("llada.block_count")), 7);
  EXPECT_EQ(std::get<double>(content.metadata.at("llada.rope.freq_base")), 10000);
  EXPECT_FALSE(std::get<bool>(content.metadata.at("llada.attention.causal")));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(content.metadata.at("words")),
              ElementsAre("a", "", "longer"));
  EXPECT_THAT(std::get<std::vector<int64_t>>(content.metadata.at("types")), ElementsAre(1, -3));
  ASSERT_EQ(content.tensors.size(), 2U);
  EXPECT_THAT(content.tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(content.tensors[1].bytes.size(), 68U);
  EXPECT_EQ(content.tensors[1].bytes[0], std::byte{'y'});
}

TEST(GgufContent, IsRefusedWhereverTheFileEnds) {
  const std::string whole = small_file().bytes();
  const size_t needed = whole.size() - 28;  // padding after the last tensor
  for (size_t length = 0; length < needed; ++length) {
    EXPECT_THROW(parse(whole.substr(0, length)), InputError) << length << " bytes";
  }
  EXPECT_NO_THROW(parse(whole.substr(0, needed)));
}

TEST(GgufContent, ThatIsAnotherFormatIsRefused) {
  expect_refused("PK\x03\x04 and so on", "begin with \"GGUF\"");
  std::string old = small_file().bytes();
  old[4] = 1;
  expect_refused(old, "version 1", "expected 2 or 3");
}

TEST(GgufContent, WithImpossibleClaimsIsRefused) {
  std::string bytes = small_file().bytes();
  bytes[15] = 0x7f;  // the tensor count's highest byte
  expect_refused(bytes, "tensors", "bytes follow");
  GgufBytes twice = small_file();
  twice.number("llada.block_count", 8);
  expect_refused(twice.bytes(), "\"llada.block_count\" twice");
  GgufBytes same = small_file();
  same.tensor("first", kGgmlF32, {1}, "1234");
  expect_refused(same.bytes(), "\"first\" twice");
  GgufBytes odd_row;
  odd_row.tensor("odd", kGgmlQ8_0, {2, 33}, std::string(100, 'x'));
  expect_refused(odd_row.bytes(), "\"odd\"", "blocks of 32");
  GgufBytes huge;
  huge.tensor("huge", kGgmlF32, {uint64_t{1} << 40, uint64_t{1} << 40}, "1234");
  expect_refused(huge.bytes(), "\"huge\"", "2^48");
  GgufBytes empty;
  empty.tensor("empty", kGgmlF32, {0}, "");
  expect_refused(empty.bytes(), "\"empty\"", "dimension of 0");
  GgufBytes many;
  many.tensor("many", kGgmlF32, {1, 1, 1, 1, 1}, "1234");
  expect_refused(many.bytes(), "5 dimensions");
  GgufBytes long_tensor;
  long_tensor.tensor("long", kGgmlF32, {1000}, "1234");
  expect_refused(long_tensor.bytes(), "\"long\"", "4000 bytes");
  GgufBytes alignment;
  alignment.number("general.alignment", 33);
  expect_refused(alignment.bytes(), "general.alignment", "power of two");
}

TEST(GgufContent, WithMoreValuesInListsThanMemoryShouldHoldIsRefused) {
  // Values of one byte, as a sparse file has them for nothing, become eight bytes each.
  std::string bytes = "GGUF";
  const auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(uint32_t{3});
  append(uint64_t{0});
  append(uint64_t{1});
  append(uint64_t{1});
  bytes += "k";
  append(uint32_t{9});
  append(uint32_t{0});
  append(uint64_t{5'000'000});
  bytes.resize(bytes.size() + 5'000'000);
  expect_refused(bytes, "more than 4194304 values");
}

TEST(GgufContent, MayHoldTensorsOfUnsupportedTypes) {
  GgufBytes file;
  file.tensor("exotic", 28, {1, 256}, std::string(84, 'x'));
  const std::string bytes = file.bytes();
  EXPECT_TRUE(parse(bytes).tensors[0].bytes.empty());
}

TEST_F(GgufFiles, AreReadByKey) {
  small_file().write(folder_ / "model.gguf");
  const GgufFile file = GgufFile::open(folder_ / "model.gguf");
  EXPECT_EQ(file.integer("llada.block_count", {1, 10}), 7);
  EXPECT_EQ(file.integer("absent", {1, 10}, 3), 3);
  EXPECT_EQ(file.text("general.architecture"), "llada");
  EXPECT_THAT(
      [&] {
        file.integer("llada.block_count", {1, 6});
      },
      ThrowsMessage<InputError>(HasSubstr("\"llada.block_count\" is 7; expected a whole number")));
  EXPECT_THAT([&] { file.texts("llada.block_count"); },
              ThrowsMessage<InputError>(HasSubstr("list of texts")));
  EXPECT_THAT([&] { file.number("absent"); }, ThrowsMessage<InputError>(HasSubstr("\"absent\" is missing")));
  EXPECT_EQ(file.find("second")->bytes.size(), 68U);
  EXPECT_EQ(file.find("third"), nullptr);
}

TEST_F(GgufFiles, WithAnEndlessKeyIsRefused) {
  GgufBytes bytes;
  bytes.number(std::string(1025, 'k'), 3);
  bytes.write(folder_ / "key.gguf");
  EXPECT_THAT([&] { GgufFile::open(folder_ / "key.gguf"); },
              ThrowsMessage<InputError>(HasSubstr("has 1025 bytes; expected at most 1024")));
}

TEST_F(GgufFiles, MayBeSplit) {
  for (int part = 1; part <= 3; ++part) {
    GgufBytes bytes;
    bytes.number("split.count", 3);
    if (part == 1) bytes.text("only", "here");
    bytes.tensor("tensor" + std::to_string(part), kGgmlF32, {1}, "1234");
    bytes.write(folder_ / ("big-0000" + std::to_string(part) + "-of-00003.gguf"));
  }
  for (const char* named : {"big-00001-of-00003.gguf", "big-00003-of-00003.gguf"}) {
    const GgufFile file = GgufFile::open(folder_ / named);
    EXPECT_EQ(file.num_files(), 3);
    EXPECT_EQ(file.tensors().size(), 3U);
    EXPECT_EQ(file.text("only"), "here");
  }
  std::filesystem::remove(folder_ / "big-00002-of-00003.gguf");
  EXPECT_THAT([&] { GgufFile::open(folder_ / "big-00001-of-00003.gguf"); },
              ThrowsMessage<InputError>(HasSubstr("big-00002-of-00003.gguf")));
  std::filesystem::rename(folder_ / "big-00001-of-00003.gguf", folder_ / "other.gguf");
  EXPECT_THAT([&] { GgufFile::open(folder_ / "other.gguf"); },
              ThrowsMessage<InputError>(HasSubstr("-00001-of-00003.gguf")));
}

}  // namespace
}  // namespace lacuna::gguf_test
