#include "model/fingerprint.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <string>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::fingerprint_test {
namespace {

class Fingerprint : public testing::Test {
 protected:
  Fingerprint() {
    folder_.write("config.json", "{}");
    folder_.write("model.safetensors", std::string(1 << 20, 'w'));
    before_ = now();
  }
  std::string now() const { return fingerprint_of(folder_.path()); }

  TemporaryFolder folder_;
  std::string before_;
};

TEST_F(Fingerprint, IsTheSameForTheSameFiles) {
  EXPECT_EQ(now(), before_);
  EXPECT_EQ(before_.size(), 16U);
  EXPECT_EQ(before_.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST_F(Fingerprint, RefusesAPipeWithoutWaitingForItsWriter) {
  for (const char* const name : {"more.safetensors", "notes.json"}) {
    const std::string pipe = (folder_.path() / name).string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_THAT([&] { (void)now(); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("is not a regular file")));
    std::filesystem::remove(pipe);
  }
}

TEST_F(Fingerprint, ChangesWithConfigTokenizerAndWeights) {
  folder_.write("config.json", "{ }");
  EXPECT_NE(now(), before_);
  folder_.write("config.json", "{}");
  EXPECT_EQ(now(), before_);
  folder_.write("tokenizer.json", "{}");
  EXPECT_NE(now(), before_);
  std::filesystem::remove(folder_.path() / "tokenizer.json");
  folder_.write("model.safetensors", std::string(1 << 20, 'v'));
  EXPECT_NE(now(), before_);
  folder_.write("model.safetensors", std::string((1 << 20) + 1, 'w'));
  EXPECT_NE(now(), before_);
}

TEST_F(Fingerprint, NoticesAnotherBeginningAndAnotherEnd) {
  std::string weights(1 << 20, 'w');
  weights.front() = 'v';
  folder_.write("model.safetensors", weights);
  EXPECT_NE(now(), before_);
  weights.front() = 'w';
  weights[weights.size() - 100] = 'v';
  folder_.write("model.safetensors", weights);
  EXPECT_NE(now(), before_);
}

TEST_F(Fingerprint, IgnoresWhatDecidesNoAnswer) {
  folder_.write("README.md", "notes");
  folder_.write("decisions.json", "{}");
  EXPECT_EQ(now(), before_);
}

TEST_F(Fingerprint, IsTakenOfOneFileAsWell) {
  EXPECT_NE(fingerprint_of(folder_.path() / "model.safetensors"), before_);
  EXPECT_THROW(fingerprint_of(folder_.path() / "absent.gguf"), InputError);
}

}  // namespace
}  // namespace lacuna::fingerprint_test
