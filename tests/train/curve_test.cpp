#include "train/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "temporary_folder.h"

namespace lacuna::train::curve_test {
namespace {

using ::testing::HasSubstr;

class CurvesTest : public ::testing::Test {
 protected:
  void draw(const std::string& log) const {
    folder_.write("log.csv", log);
    plot_curves(folder_.path() / "log.csv");
  }
  std::string read(const char* name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
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

TEST_F(CurvesTest, AreNotPlottedWithoutALine) {
  draw("step,tokens,loss\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "loss.svg"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "accuracy.svg"));
}

}  // namespace
}  // namespace lacuna::train::curve_test
