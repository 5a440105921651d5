#include "weights/gguf.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "gguf_bytes.h"
#include "temporary_folder.h"

namespace lacuna::gguf_test {
namespace {

using test::GgufBytes;
using testing::HasSubstr;
using testing::ThrowsMessage;

class GgufWeightsTest : public testing::Test {
 protected:
  GgufFile written(const GgufBytes& bytes) const {
    bytes.write(path_);
    return GgufFile::open(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "weights.gguf";
};

TEST_F(GgufWeightsTest, StackMatricesAndUndoTheOrderOfRotation) {
  GgufBytes bytes;
  std::string values;
  for (int i = 0; i < 16; ++i) GgufBytes::append(values, static_cast<float>(i));
  bytes.tensor("experts.weight", kGgmlF32, {2, 4, 2}, values);
  bytes.tensor("q.weight", kGgmlF32, {8, 2}, values);
  const GgufFile file = written(bytes);
  const GgufWeights weights(file, {{"q", 2}});
  float row[2];
  weights.matrix("experts", 8, 2)->read(5, row);
  EXPECT_EQ(row[0], 10);
  // Heads of 4 rows: model rows 0, 1, 2, 3 are the file's 0, 2, 1, 3.
  const std::vector<float> expected = {0, 4, 2, 6, 8, 12, 10, 14};
  const auto q = weights.matrix("q", 8, 2);
  for (int64_t n = 0; n < 8; ++n) {
    q->read(n, row);
    EXPECT_EQ(row[0], expected[static_cast<size_t>(n)]) << "row " << n;
  }
}

TEST_F(GgufWeightsTest, NameWhatIsMissingOrDiffers) {
  GgufBytes bytes;
  bytes.tensor("a.weight", kGgmlF32, {2, 2}, std::string(16, 'x'));
  bytes.tensor("b.weight", 28, {1, 256}, std::string(84, 'x'));
  const GgufFile file = written(bytes);
  const GgufWeights weights(file);
  EXPECT_THAT([&] { weights.matrix("a", 2, 3); },
              ThrowsMessage<InputError>(HasSubstr("\"a.weight\" has shape [2, 2]; expected [2, 3]")));
  EXPECT_THAT([&] { weights.matrix("b", 1, 256); },
              ThrowsMessage<InputError>(HasSubstr("has type F64; expected one of F32, F16, BF16, Q8_0")));
  EXPECT_THAT([&] { weights.matrix("c", 1, 1); },
              ThrowsMessage<InputError>(HasSubstr("\"c.weight\" is missing")));
}

}  // namespace
}  // namespace lacuna::gguf_test
