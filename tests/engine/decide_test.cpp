#include "engine/decide.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/fake_device.h"
#include "base/error.h"
#include "decode/decision.h"
#include "kernels/dispatch.h"

namespace lacuna::decide_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::shared_ptr<const OpenedModel> open(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
  return std::make_shared<OpenedModel>(name, find_model(folder.string()));
}

std::unique_ptr<InferenceSession> load(const std::string& name) {
  SessionOptions options;
  options.formats = DType::kF32;
  options.threads = 1;
  options.limits = own_limits(4);
  return InferenceSession::load(open(name), options);
}

DecideRequest request_about(int number) {
  DecideRequest request;
  request.state = fmt::format("Mia has {} shells. Ben the fox lives in the barn. Ben is very happy.", number);
  request.questions = {make_predicate("Is Ben happy?"),
                       {QuestionKind::kChoice,
                        "Where does Ben live?",
                        {{"in the barn", ""}, {"by the lake", ""}, {"near the sea", ""}}},
                       {QuestionKind::kScore, "How many shells?", {{"few", ""}, {"some", ""}, {"many", ""}}}};
  return request;
}

const std::vector<std::string> kModels = {"mini-llada", "mini-dream",     "mini-qwen",     "mini-sdar",
                                          "mini-gidd",  "mini-fast-dllm", "mini-refusion", "mini-gidd-mask"};

TEST(Decide, GivesProbabilitiesThatAddUpToOneForEveryFamily) {
  for (const std::string& name : kModels) {
    const auto session = load(name);
    DecideRequest request = request_about(12);
    if (name.starts_with("mini-gidd")) request.questions.resize(1);  // its context is short
    const DecideResult result = decide(*session, request);
    ASSERT_EQ(result.answers.size(), request.questions.size()) << name;
    for (const DecisionAnswer& answer : result.answers) {
      EXPECT_NEAR(std::accumulate(answer.probabilities.begin(), answer.probabilities.end(), 0.0), 1, 1e-9)
          << name;
      EXPECT_GT(answer.label_mass, 0) << name;
      EXPECT_LE(answer.label_mass, 1) << name;
      EXPECT_EQ(answer.standard_error.has_value(), name == "mini-gidd") << name;
    }
    EXPECT_GT(result.prompt_tokens, 50) << name;
  }
}

TEST(Decide, GivesTheSameAnswersAloneAndInCompany) {
  for (const std::string name : {"mini-llada", "mini-sdar", "mini-qwen"}) {
    const auto session = load(name);
    std::vector<DecideRequest> requests;
    for (int number = 0; number < 5; ++number) requests.push_back(request_about(10 + number));
    size_t done = 0;
    const std::vector<DecideResult> together =
        decide_all(*session, requests, [&](size_t so_far) { done = so_far; });
    EXPECT_EQ(done, requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(decide(*session, requests[i]).logprobs, together[i].logprobs) << name;
  }
}

TEST(Decide, OfBothOrdersIsTheSameForReversedOptions) {
  const auto session = load("mini-llada");
  DecideRequest request = request_about(12);
  request.both_orders = true;
  const DecisionAnswer given = decide(*session, request).answers[1];
  std::reverse(request.questions[1].options.begin(), request.questions[1].options.end());
  const DecisionAnswer reversed = decide(*session, request).answers[1];
  request.both_orders = false;
  EXPECT_NE(decide(*session, request).answers[1].probabilities, reversed.probabilities);
  ASSERT_EQ(given.probabilities.size(), reversed.probabilities.size());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(given.probabilities[i], reversed.probabilities[2 - i], 1e-12);
}

TEST(Decide, AsksIndependentQuestionsAsIfTheyWereAlone) {
  const auto session = load("mini-llada");
  DecideRequest request = request_about(12);
  request.independent = true;
  const DecideResult apart = decide(*session, request);
  for (size_t i = 0; i < request.questions.size(); ++i) {
    DecideRequest alone = request;
    alone.questions = {request.questions[i]};
    EXPECT_EQ(decide(*session, alone).logprobs[0], apart.logprobs[i]);
  }
}

TEST(Decide, ReadsTheSameOnADeviceThatShowsNothing) {
  for (const std::string name : {"mini-llada", "mini-sdar", "mini-refusion"}) {
    const auto opened = open(name);
    ThreadPool threads(1);
    const auto cpu =
        on_cpu(Model::load(opened->source().folder, DType::kF32, threads), default_table(), threads);
    const auto fake = std::make_shared<FakeDevice>(cpu);
    InferenceSession here(opened, {cpu}, own_limits(2));
    InferenceSession there(opened, {fake}, own_limits(2));
    EXPECT_EQ(decide(there, request_about(12)).logprobs, decide(here, request_about(12)).logprobs) << name;
  }
}

TEST(Decide, TakesThePromptsKeysAndValuesFromARequestThatHadThem) {
  for (const std::string name : {"mini-qwen", "mini-sdar", "mini-refusion"}) {
    SessionOptions options;
    options.formats = DType::kF32;
    options.threads = 1;
    const auto session = InferenceSession::load(open(name), options);
    const DecideResult first = decide(*session, request_about(12));
    const DecideResult second = decide(*session, request_about(12));
    EXPECT_EQ(first.statistics.shared_tokens, 0) << name;
    EXPECT_GT(second.statistics.shared_tokens, 64) << name;
    EXPECT_EQ(second.logprobs, first.logprobs) << name;
  }
}

TEST(Decide, RefusesBeforeTheFirstPass) {
  const auto session = load("mini-llada");
  DecideRequest request = request_about(12);
  request.state = std::string(10'000, 'x');
  EXPECT_THAT([&] { decide(*session, request); }, ThrowsMessage<InputError>(HasSubstr("do not fit")));
  const auto random = std::make_shared<OpenedModel>("random:llada-8b", find_model("random:llada-8b"));
  EXPECT_THAT([&] { PreparedDecision(*random, request_about(1)); },
              ThrowsMessage<InputError>(HasSubstr("has no tokenizer")));
}

TEST(Decide, AveragesDrawsOfEachOrderWithTheirStandardError) {
  const DecisionQuestion question = make_predicate("?");
  const auto logs = [](double yes) { return std::vector{std::log(yes / 2), std::log((1 - yes) / 2)}; };
  const DecisionAnswer draws = answer_of(question, std::vector{logs(0.2), logs(0.4)}, false, 1);
  EXPECT_NEAR(draws.probabilities[0], 0.3, 1e-12);
  EXPECT_NEAR(draws.label_mass, 0.5, 1e-12);
  EXPECT_NEAR(draws.standard_error.value(), 0.1, 1e-12);
  const DecisionAnswer orders = answer_of(question, std::vector{logs(0.2), logs(0.4)}, true, 1);
  EXPECT_NEAR(orders.probabilities[0], 0.3, 1e-12);
  EXPECT_FALSE(orders.standard_error.has_value());
  const DecisionAnswer both =
      answer_of(question, std::vector{logs(0.2), logs(0.4), logs(0.6), logs(0.6)}, true, 1);
  EXPECT_NEAR(both.probabilities[0], 0.45, 1e-12);
  EXPECT_NEAR(both.standard_error.value(), 0.05, 1e-12);
  EXPECT_GT(answer_of(question, std::vector<std::vector<double>>{logs(0.2)}, false, 2).probabilities[0], 0.2);
}

}  // namespace
}  // namespace lacuna::decide_test
