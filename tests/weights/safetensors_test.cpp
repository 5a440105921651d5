#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "weights/safetensors_bytes.h"

namespace lacuna::safetensors_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

void parse(const std::string& file) {
  parse_safetensors(as_bytes_of(file), "w.safetensors");
}

/// The message starts with the file's name and holds each of the texts.
template <typename... Texts>
void expect_refused(const std::string& file, Texts... texts) {
  EXPECT_THAT([&] { parse(file); },
              ThrowsMessage<InputError>(AllOf(testing::StartsWith("w.safetensors: "), HasSubstr(texts)...)));
}

/// One tensor "a" with this description, over eight bytes of data.
std::string file_of(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return safetensors_bytes(
      R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
      "01234567");
}

TEST(Safetensors, ListsTensorsInTheOrderOfTheirBytes) {
  const std::string file =
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},)"
                        R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
                        R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                        R"("nothing":{"dtype":"F16","shape":[0,5],"data_offsets":[4,4]},)"
                        R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[12,20]}}   )",
                        "bbbbaaaaaaaassssssss");
  const auto entries = parse_safetensors(as_bytes_of(file), "w.safetensors");
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_EQ(entries[0].dtype, DType::kBF16);
  EXPECT_EQ(static_cast<char>(entries[0].bytes.front()), 'b');
  EXPECT_EQ(entries[1].name, "nothing");
  EXPECT_THAT(entries[1].bytes, IsEmpty());
  EXPECT_EQ(entries[2].name, "a");
  EXPECT_THAT(entries[2].shape, ElementsAre(1, 2));
  EXPECT_EQ(entries[2].bytes.size(), 8U);
  EXPECT_EQ(entries[3].name, "scalar");
  EXPECT_EQ(entries[3].dtype_name, "I64");
  EXPECT_FALSE(entries[3].dtype.has_value());
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  EXPECT_THAT(parse_safetensors(as_bytes_of(safetensors_bytes("{}", "")), "w.safetensors"), IsEmpty());
}

TEST(Safetensors, RefusesAFileTooShortForItsLength) {
  expect_refused("1234567", "has 7 bytes", "8 bytes of header");
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFile) {
  expect_refused(safetensors_bytes(3, "{}", ""), "a header of 3 bytes", "only 2 follow",
                 "expected a complete file");
}

TEST(Safetensors, RefusesAHeaderLengthThatWouldOverflow) {
  expect_refused(safetensors_bytes(UINT64_MAX, "{}", ""), "a header of 18446744073709551615 bytes",
                 "at most 100000000");
}

TEST(Safetensors, RecognisesAGitLfsPointer) {
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer");
}

TEST(Safetensors, RefusesBrokenJson) {
  expect_refused(safetensors_bytes(R"({"a":)", ""), "not valid JSON at line 1, column 6");
  expect_refused(safetensors_bytes("", ""), "not valid JSON at line 1, column 1");
  expect_refused(safetensors_bytes("[1]", ""), "is a list of 1; expected a JSON object");
  expect_refused(safetensors_bytes("{\"\xff\":1}", ""), "not valid JSON");
}

TEST(Safetensors, RefusesDeepJsonWithoutFollowingIt) {
  expect_refused(safetensors_bytes(std::string(1'000'000, '['), ""), "nests deeper than");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  expect_refused(safetensors_bytes(objects, ""), "nests deeper than");
}

TEST(SafetensorsSlow, RefusesMoreValuesThanAnyCheckpointNeeds) {
  std::string header = R"({"a":{"shape":[0)";
  for (int i = 0; i < 4'200'000; ++i) header += ",0";
  expect_refused(safetensors_bytes(header, ""), "JSON holds more than");
}

TEST(Safetensors, RefusesANameThatAppearsTwice) {
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                   "01234567"),
                 R"("a" appears twice)");
}

TEST(Safetensors, RefusesATensorWithoutOneOfItsKeys) {
  expect_refused(safetensors_bytes(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "0123"),
                 R"("a.dtype" is missing)");
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "0123"),
                 R"("a.shape" is missing)");
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1]}})", "0123"),
                 R"("a.data_offsets" is missing)");
  expect_refused(safetensors_bytes(R"({"a":7})", "0123"), R"("a" is 7; expected an object)");
}

TEST(Safetensors, RefusesATypeThatTheFormatDoesNotDefine) {
  expect_refused(file_of(R"("F31")", "[2]", "[0,8]"), R"("a.dtype" is "F31")", "such as BF16");
  expect_refused(file_of("4", "[2]", "[0,8]"), R"("a.dtype" is 4; expected text)");
}

TEST(Safetensors, RefusesAShapeThatIsNotAListOfCounts) {
  expect_refused(file_of(R"("F32")", "2", "[0,8]"), R"("a.shape" is 2; expected a list of integers)");
  expect_refused(file_of(R"("F32")", "[-2]", "[0,8]"), R"("a.shape" is -2)", "expected an integer from 0");
  expect_refused(file_of(R"("F32")", "[2.0]", "[0,8]"), R"("a.shape" is 2.0)");
  expect_refused(file_of(R"("F32")", "[1e400]", "[0,8]"), "a number is too large");
  expect_refused(file_of(R"("F32")", "[18446744073709551615]", "[0,8]"),
                 R"("a.shape" is 18446744073709551615)");
  expect_refused(file_of(R"("F32")", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), R"("a.shape" is a list of 9)",
                 "at most 8");
}

TEST(Safetensors, RefusesAShapeThatItsBytesContradict) {
  expect_refused(file_of(R"("F32")", "[3]", "[0,8]"), R"(tensor "a" has 8 bytes; expected 12 for F32 [3])");
  expect_refused(file_of(R"("BF16")", "[1,2]", "[0,8]"),
                 R"(tensor "a" has 8 bytes; expected 4 for BF16 [1, 2])");
  expect_refused(file_of(R"("F4")", "[3]", "[0,8]"), "a number that fits a file for F4 [3]");
}

TEST(Safetensors, RefusesAShapeWhoseProductOverflows) {
  // 2^32 * 2^32 elements are 0 modulo 2^64; 2^61 elements of 8 bytes are 2^64 bytes.
  expect_refused(file_of(R"("F32")", "[4294967296,4294967296]", "[0,0]"), R"(tensor "a" has 0 bytes)",
                 "a number that fits a file");
  expect_refused(file_of(R"("F64")", "[2305843009213693952]", "[0,0]"), "a number that fits a file");
}

TEST(Safetensors, RefusesOffsetsOutsideTheData) {
  expect_refused(file_of(R"("F32")", "[4]", "[0,16]"), R"(tensor "a" ends at byte 16)",
                 "holds 8 bytes of data");
  expect_refused(file_of(R"("F32")", "[2]", "[8,0]"), R"(tensor "a" begins at byte 8 and ends before that)");
  expect_refused(file_of(R"("F32")", "[2]", "[0]"), R"("a.data_offsets" is a list of 1)", "begin and end");
  expect_refused(file_of(R"("F32")", "[2]", "[-8,0]"), R"("a.data_offsets" is -8)");
  expect_refused(file_of(R"("F32")", "[2]", "[9223372036854775800,9223372036854775807]"),
                 "holds 8 bytes of data");
}

TEST(Safetensors, RefusesTensorsThatOverlap) {
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                                   "012345"),
                 R"(tensor "b" begins at byte 2)", R"(overlaps "a")", "expected byte 4");
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                   "0123"),
                 "overlaps");
}

TEST(Safetensors, RefusesAHoleBetweenTensors) {
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[6,10]}})",
                                   "0123456789"),
                 R"(tensor "b" begins at byte 6)", R"(leaves a hole after "a")", "expected byte 4");
  expect_refused(file_of(R"("F32")", "[1]", "[4,8]"), "leaves a hole after the header");
}

TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  expect_refused(file_of(R"("F32")", "[1]", "[0,4]"), "holds 8 bytes of data; expected 4");
}

TEST(Safetensors, KeepsMessagesToOneShortPrintableLine) {
  const std::string name = "\\n\\u001b[31m" + std::string(5000, 'x');
  try {
    parse(
        safetensors_bytes(R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "0123"));
    FAIL() << "a name of 5000 bytes was accepted";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_LT(message.size(), 300U);
    EXPECT_EQ(message.find_first_of("\n\x1b"), message.npos);
  }
}

TEST(Safetensors, RefusesEveryTruncationOfAFile) {
  const std::string file = file_of(R"("F32")", "[2]", "[0,8]");
  EXPECT_NO_THROW(parse(file));
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_THROW(parse(file.substr(0, size)), InputError) << size;
  EXPECT_THROW(parse(file + "x"), InputError);
}

}  // namespace
}  // namespace lacuna::safetensors_test
