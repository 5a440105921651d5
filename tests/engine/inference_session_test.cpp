#include "engine/inference_session.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::inference_session_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::shared_ptr<const OpenedModel> open(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
  return std::make_shared<OpenedModel>(name, find_model(folder.string()));
}

std::unique_ptr<InferenceSession> load(const std::string& name, const SchedulerLimits& limits = {}) {
  SessionOptions options;
  options.formats = DType::kF32;
  options.threads = 1;
  options.limits = limits;
  return InferenceSession::load(open(name), options);
}

std::vector<Message> turn(const std::string& text) {
  return {{"user", text}};
}

/// A question, in 16 tokens, of which no two alike.
GenerateRequest question(int number) {
  GenerateRequest request;
  request.prompt = turn(fmt::format(
      "Mia has {} shells. She finds {} more. How many shells does Mia have now?", 10 + number, 3 + number));
  request.gen_length = 16;
  request.seed = static_cast<uint64_t>(number);
  MaskedStrategy strategy;
  strategy.sampling.temperature = number % 2 == 0 ? 0 : 0.7;
  if (number % 3 == 0) strategy.cache = DkvCache();
  request.strategy = strategy;
  return request;
}

/// Does what it is told after each pass.
class Follower final : public SessionListener {
 public:
  explicit Follower(std::function<bool(const StepEvent&)> step) : step_(std::move(step)) {}

  void accepted(size_t index, const Decoder& decoder) override {
    accepted_.push_back(index);
    EXPECT_FALSE(decoder.done());
  }
  bool stepped(size_t /*index*/, const StepEvent& event) override {
    ++passes_;
    return step_(event);
  }

  const std::vector<size_t>& accepted_requests() const { return accepted_; }
  int passes() const { return passes_; }

 private:
  std::function<bool(const StepEvent&)> step_;
  std::vector<size_t> accepted_;
  int passes_ = 0;
};

TEST(InferenceSession, AnswersAsAnEngineAlone) {
  const auto session = load("mini-llada");
  const OpenedModel& opened = session->opened();
  const GenerateRequest request = question(1);
  const GenerationResult answer = session->generate(request);
  Engine engine(session->parts().model);
  engine.add(opened.make_decoder(request));
  engine.run();
  const GenerationResult alone =
      make_result(engine.decoder(0), engine.statistics(0), opened.config(), opened.tokenizer(), 1);
  EXPECT_EQ(answer.text, alone.text);
  EXPECT_EQ(answer.tokens, alone.tokens);
  EXPECT_EQ(answer.seed, 1U);
  EXPECT_EQ(answer.statistics.cost.rows, alone.statistics.cost.rows);
}

TEST(InferenceSession, GivesThreadsThatShareItTheTextsTheyWouldGetAlone) {
  constexpr int kQuestions = 6;
  const auto session = load("mini-llada");
  std::vector<std::string> alone;
  for (int i = 0; i < kQuestions; ++i) alone.push_back(session->generate(question(i)).text);
  std::vector<std::string> together[2];
  std::vector<std::thread> threads;
  for (std::vector<std::string>& texts : together) {
    threads.emplace_back([&session, &texts] {
      for (int i = 0; i < kQuestions; ++i) texts.push_back(session->generate(question(i)).text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& texts : together) EXPECT_EQ(texts, alone);
}

TEST(InferenceSession, AnswersSeveralRequestsInTheirOrder) {
  const auto session = load("mini-llada", own_limits(2));
  const std::vector<GenerateRequest> requests = {question(0), question(1), question(2)};
  Follower follower([](const StepEvent&) { return true; });
  const std::vector<GenerationResult> answers = session->generate_all(requests, &follower);
  ASSERT_EQ(answers.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(answers[i].text, session->generate(requests[i]).text);
  EXPECT_THAT(follower.accepted_requests(), ElementsAre(0, 1, 2));
  EXPECT_GE(follower.passes(), 3 * 16);
  EXPECT_TRUE(session->generate_all({}).empty());
}

TEST(InferenceSession, FillsTheDefaultsOfItsModelIn) {
  const auto session = load("mini-dream");
  const GenerationResult answer = session->generate({.prompt = turn("Mia has 12 shells. She finds 7 more.")});
  EXPECT_FALSE(answer.text.empty());
  const Strategy defaults = choose_strategy(session->opened().config(), {});
  EXPECT_EQ(std::get<UnmaskRule>(std::get<MaskedStrategy>(defaults).commit),
            (UnmaskRule{{Threshold{1}}, ConfidenceMeasure::kProbability}));
}

TEST(InferenceSession, EndsAnAnswerWhereItsListenerSaysSo) {
  const auto session = load("mini-llada");
  Follower follower([](const StepEvent& event) { return event.statistics.steps < 3; });
  const GenerationResult answer = session->generate(question(0), &follower);
  EXPECT_EQ(follower.passes(), 3);
  EXPECT_EQ(answer.statistics.steps, 3);
}

TEST(InferenceSession, ThrowsWhatItsListenerThrows) {
  const auto session = load("mini-llada");
  Follower follower([](const StepEvent&) -> bool { throw InputError("the disk is full"); });
  EXPECT_THAT([&] { session->generate(question(0), &follower); },
              ThrowsMessage<InputError>(HasSubstr("the disk is full")));
  EXPECT_FALSE(session->generate(question(0)).text.empty()) << "others continue";
}

TEST(InferenceSession, CancelsACallWhoseStopTokenSaysSo) {
  const auto session = load("mini-llada");
  GenerateRequest longest = question(0);
  longest.gen_length = 512;
  std::stop_source source;
  Follower follower([&](const StepEvent& event) {
    if (event.statistics.steps == 2) source.request_stop();
    return true;
  });
  EXPECT_THROW(session->generate(longest, &follower, source.get_token()), Cancelled);
  EXPECT_LT(follower.passes(), 512);
  EXPECT_THROW(session->generate(longest, nullptr, source.get_token()), Cancelled) << "before it begins";
  EXPECT_FALSE(session->generate(question(0)).text.empty()) << "others continue";
  while (!session->scheduler().is_idle()) std::this_thread::yield();
}

TEST(InferenceSession, SaysWhatIsWrongBeforeAnythingRuns) {
  const auto session = load("mini-llada");
  std::vector<GenerateRequest> requests = {question(0), question(1)};
  requests[1].gen_length = 0;
  Follower follower([](const StepEvent&) { return true; });
  try {
    session->generate_all(requests, &follower);
    FAIL() << "an answer of no tokens";
  } catch (const SettingError& error) {
    EXPECT_EQ(error.problem().field, "gen_length");
    EXPECT_EQ(error.problem().value, "0");
  }
  EXPECT_TRUE(follower.accepted_requests().empty());
  requests[1] = question(1);
  requests[1].strategy = CausalStrategy();
  EXPECT_THAT([&] { session->generate(requests[1]); },
              ThrowsMessage<InputError>(HasSubstr("`paradigm` is causal; expected masked")));
  requests[1] = question(1);
  MaskedStrategy guided;
  guided.commit = GuideRule();
  requests[1].strategy = guided;
  EXPECT_THAT([&] { session->generate(requests[1]); },
              ThrowsMessage<InputError>(HasSubstr("`guide` is missing")));
  EXPECT_TRUE(session->scheduler().is_idle());
}

TEST(InferenceSession, EndsAnAnswerBeforeAStopText) {
  const auto session = load("mini-qwen");
  GenerateRequest request;
  request.prompt = turn("Mia has 12 shells. She finds 7 more. How many shells does Mia have now?");
  request.gen_length = 64;
  const std::string whole = session->generate(request).text;
  ASSERT_GT(whole.size(), 4U);
  request.stop = {whole.substr(whole.size() / 2, 2)};
  const GenerationResult answer = session->generate(request);
  EXPECT_EQ(answer.text, whole.substr(0, whole.find(request.stop[0])));
}

TEST(InferenceSession, FillsHolesWithTheBestOfTheirLengths) {
  const auto session = load("mini-llada");
  InfillRequest request;
  request.canvas = parse_marked_text("Mia has 12 shells. She [[1-3]] 5 of them. Now Mia has [[1]] shells.");
  const InfillResult together = session->infill(request);
  EXPECT_EQ(together.candidates, 3U);
  ASSERT_EQ(together.holes.size(), 2U);
  const auto at = static_cast<size_t>(together.holes[1].position);
  EXPECT_EQ(together.canvas[at], together.holes[1].tokens[0]);
  EXPECT_THAT(together.text, HasSubstr("Mia has 12 shells. She " + together.holes[0].text));
  request.one_at_a_time = true;
  Follower follower([](const StepEvent&) { return true; });
  const InfillResult apart = session->infill(request, &follower);
  EXPECT_EQ(apart.text, together.text);
  EXPECT_EQ(apart.mean_log_confidence, together.mean_log_confidence);
  EXPECT_THAT(follower.accepted_requests(), ElementsAre(0, 1, 2));
  request.canvas = parse_marked_text("no hole");
  EXPECT_THAT([&] { session->infill(request); }, ThrowsMessage<InputError>(HasSubstr("no hole")));
}

TEST(InferenceSession, LoadsRandomModelsAndTellsHowFarItIs) {
  SessionOptions options;
  options.threads = 1;
  int64_t last = 0;
  options.progress = [&](const std::string& model, int64_t done, int64_t total) {
    EXPECT_EQ(model, "tiny");
    EXPECT_LE(done, total);
    last = done;
  };
  const auto session = InferenceSession::load(
      std::make_shared<OpenedModel>("tiny", ModelSource{{}, tiny_configs()[0]}), options);
  EXPECT_GT(last, 0);
  GenerateRequest request;
  request.prompt = std::vector<TokenId>{1, 2};
  request.gen_length = 4;
  const GenerationResult answer = session->generate(request);
  EXPECT_EQ(answer.tokens.size(), 4U);
  EXPECT_TRUE(answer.text.empty()) << "it has no tokenizer";
}

}  // namespace
}  // namespace lacuna::inference_session_test
