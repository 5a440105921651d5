#include "engine/decision_temperatures.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::decision_temperatures_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DecisionTemperatures, AreOneWithoutAFile) {
  const TemporaryFolder folder;
  const DecisionTemperatures temperatures = load_decision_temperatures(folder.path());
  EXPECT_FALSE(temperatures.is_fitted);
  EXPECT_EQ(temperatures.of(QuestionKind::kScore), 1);
  EXPECT_FALSE(load_decision_temperatures({}).is_fitted);
}

TEST(DecisionTemperatures, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  save_decision_temperatures(folder.path(), {{1.5, 0.25, 2}, true}, {{"seed", 3}});
  const DecisionTemperatures temperatures = load_decision_temperatures(folder.path());
  EXPECT_TRUE(temperatures.is_fitted);
  EXPECT_EQ(temperatures.of(QuestionKind::kPredicate), 1.5);
  EXPECT_EQ(temperatures.of(QuestionKind::kChoice), 0.25);
  EXPECT_EQ(temperatures.of(QuestionKind::kScore), 2);
  std::ifstream file(decision_sidecar(folder.path()));
  EXPECT_EQ(nlohmann::json::parse(file)["seed"], 3);
}

TEST(DecisionTemperatures, KeepThatAModelWritesNoText) {
  const TemporaryFolder folder;
  EXPECT_TRUE(load_decision_temperatures(folder.path()).writes_text);
  save_decision_temperatures(folder.path(), {{1, 1, 1}, true}, nlohmann::ordered_json::object());
  EXPECT_TRUE(load_decision_temperatures(folder.path()).writes_text);
  save_decision_temperatures(folder.path(), {{1, 1, 1}, true, false}, nlohmann::ordered_json::object());
  EXPECT_FALSE(load_decision_temperatures(folder.path()).writes_text);
}

TEST(DecisionTemperatures, OfADamagedFileAreRefused) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& text, const std::string& part) {
    std::ofstream(decision_sidecar(folder.path())) << text;
    EXPECT_THAT([&] { load_decision_temperatures(folder.path()); },
                ThrowsMessage<InputError>(HasSubstr(part)));
  };
  expect_refused("{", "decisions.json");
  expect_refused("{}", "temperatures");
  expect_refused(R"({"temperatures": {"choice": 0}})", "choice");
  expect_refused(R"({"temperatures": {"choice": 1e9}})", "choice");
  expect_refused(R"({"temperatures": {}, "writes_text": "no"})", "writes_text");
}

}  // namespace
}  // namespace lacuna::decision_temperatures_test
