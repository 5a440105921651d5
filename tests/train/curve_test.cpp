#include "train/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lacuna::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CurvesTest : public ::testing::Test {
 protected:
  CurvesTest() {
    std::string pattern = fs::temp_directory_path() / "lacuna_curve_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~CurvesTest() override { fs::remove_all(folder_); }

  void draw(const std::string& log) const {
    std::ofstream(folder_ / "log.csv") << log;
    draw_curves(folder_ / "log.csv");
  }
  std::string read(const char* name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(CurvesTest, ShowLossesAndTheAccuraciesThatWereMeasured) {
  draw(
      "step,tokens,loss,accuracy_arithmetic,accuracy_records\n"
      "50,1000,3.5,,\n"
      "100,2000,2.25,0.25,0.5\n");
  EXPECT_THAT(read("loss.svg"), HasSubstr("<svg"));
  EXPECT_THAT(read("accuracy.svg"), HasSubstr("records"));
  const std::string before = read("loss.svg");
  draw("step,tokens,loss,accuracy_arithmetic,accuracy_records\n50,1000,3.5,,\n");
  EXPECT_NE(read("loss.svg"), before);
}

TEST_F(CurvesTest, AreNotDrawnWithoutALine) {
  draw("step,tokens,loss\n");
  EXPECT_FALSE(fs::exists(folder_ / "loss.svg"));
  EXPECT_FALSE(fs::exists(folder_ / "accuracy.svg"));
}

}  // namespace
}  // namespace lacuna::train
