#include "lacuna/session.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/inference_session.h"
#include "lacuna/lacuna.hpp"
#include "model/fingerprint.h"
#include "options/assign.h"
#include "options/choose.h"
#include "options/sample_preset.h"
#include "options/saved_preset.h"
#include "temporary_folder.h"

namespace lacuna::session_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr const char* kQuestion = "Mia has 12 shells. She finds 5 more. How many shells does Mia have?";

std::string folder_of(const char* model) {
  return (std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / model).string();
}

Session load(const char* model) {
  LoadOptions options;
  options.threads = 1;
  return Session::load(folder_of(model), options);
}

/// Threshold 0.9, as a caller would write it.
std::vector<int32_t> surer_than_90_percent(const Candidates& candidates) {
  std::vector<int32_t> chosen;
  const auto best = std::max_element(candidates.probability.begin(), candidates.probability.end());
  for (size_t i = 0; i < candidates.position.size(); ++i) {
    const bool is_best = static_cast<std::ptrdiff_t>(i) == best - candidates.probability.begin();
    if (candidates.probability[i] >= 0.9 || is_best) chosen.push_back(candidates.position[i]);
  }
  return chosen;
}

TEST(Session, AnswersAQuestion) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  const Answer answer = session.generate(request);
  EXPECT_THAT(answer.text, HasSubstr("17"));
  EXPECT_EQ(answer.stop_reason, StopReason::kEndToken);
  EXPECT_GT(answer.statistics.rows_baseline, 0);
  EXPECT_LT(answer.answer_tokens, static_cast<int32_t>(answer.tokens.size()));
}

/// A preset as `lacuna tune --save` writes it, for the files of this model.
void save_preset_for(const char* model) {
  SavedPreset preset = sample_preset();
  preset.settings = {{"unmask", "threshold=0.9"}, {"cache", "dual"}};
  preset.tested_with = {{"gen-length", "32"}, {"block-length", "8"}};
  preset.model = model;
  preset.model_hash = fingerprint_of(folder_of(model));
  save_preset(preset);
}

TEST(Session, UsesASavedPresetOfItsModelAlone) {
  const TemporaryFolder config;
  setenv("XDG_CONFIG_HOME", config.path().c_str(), 1);
  save_preset_for("mini-llada");
  const Session session = load("mini-llada");
  Request by_name, by_hand;
  by_name.prompt = by_hand.prompt = kQuestion;
  by_name.options = {{"preset", "quick"}};
  by_hand.options = {{"unmask", "threshold=0.9"}, {"cache", "dual"}, {"gen_length", 32}, {"block_length", 8}};
  const Answer answer = session.generate(by_name);
  const Answer same = session.generate(by_hand);
  EXPECT_EQ(answer.tokens, same.tokens);
  EXPECT_EQ(answer.statistics.rows, same.statistics.rows);
  EXPECT_LT(answer.statistics.rows, answer.statistics.rows_baseline / 2);
  save_preset_for("mini-dream");
  EXPECT_THAT([&] { session.generate(by_name); },
              ThrowsMessage<Error>(HasSubstr("was tuned for other files than those of")));
  unsetenv("XDG_CONFIG_HOME");
}

TEST(Session, UsesASavedPresetOfItsFormatsAlone) {
  const TemporaryFolder config;
  setenv("XDG_CONFIG_HOME", config.path().c_str(), 1);
  SavedPreset preset = sample_preset();
  preset.model = "mini-llada";
  preset.model_hash = fingerprint_of(folder_of("mini-llada"));
  preset.loading = {{"weights", "int8"}};
  preset.formats.weights = "int8";
  save_preset(preset);
  Request request;
  request.prompt = kQuestion;
  request.options = {{"preset", "quick"}};
  EXPECT_THAT([&] { load("mini-llada").generate(request); },
              ThrowsMessage<Error>(HasSubstr("expected a model that is loaded with weights int8")));
  LoadOptions options;
  options.weights = "int8";
  const Session session = Session::load(folder_of("mini-llada"), options);
  EXPECT_FALSE(session.generate(request).text.empty());
  unsetenv("XDG_CONFIG_HOME");
}

TEST(Session, AnswersInTheFormThatIsAskedFor) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  request.options = {{"regex", "[0-9]{1,2}"}, {"gen_length", 16}};
  EXPECT_THAT(session.generate(request).text, ::testing::MatchesRegex("[0-9]+"));
  request.options = {{"choice", std::vector<std::string>{"yes", "no"}}, {"gen_length", 16}};
  EXPECT_THAT(session.generate(request).text, ::testing::AnyOf("yes", "no"));
  request.options = {{"regex", "a"}, {"json_object", true}};
  EXPECT_THAT([&] { session.generate(request); }, ThrowsMessage<Error>(HasSubstr("expected one of them")));
}

/// A request that may call one function.
Request request_with_tool() {
  Request request;
  request.messages = {{"user", kQuestion}};
  request.options = {{"gen_length", int64_t{96}}};
  request.tools = {{.name = "find",
                    .description = "Says where something is.",
                    .parameters = R"({"type": "object", "required": ["what"],
                                      "properties": {"what": {"enum": ["shells", "barn"]}}})"}};
  return request;
}

TEST(Session, CallsFunctionsAndTakesTheirResults) {
  for (const char* model : {"mini-llada", "mini-qwen"}) {
    const Session session = load(model);
    Request request = request_with_tool();
    request.tool_choice = "required";
    const ToolAnswer answer = read_tool_answer(session.generate(request));
    ASSERT_FALSE(answer.calls.empty()) << model;
    EXPECT_EQ(answer.content, "");
    for (const ToolCall& call : answer.calls) {
      EXPECT_EQ(call.name, "find");
      EXPECT_TRUE(call.arguments == R"({"what": "shells"})" || call.arguments == R"({"what": "barn"})")
          << call.arguments;
      EXPECT_THAT(call.id, testing::StartsWith("call_"));
    }
    EXPECT_EQ(read_tool_answer(session.generate(request)).calls, answer.calls);

    const std::vector<std::string> results(answer.calls.size(), "in the barn");
    request.messages.push_back(assistant_turn("", answer.calls));
    request.messages.push_back(tool_results(results));
    request.tool_choice = "find";
    const ToolAnswer next = read_tool_answer(session.generate(request));
    ASSERT_THAT(next.calls, SizeIs(1));
    EXPECT_NE(next.calls[0].id, answer.calls[0].id);
  }
}

TEST(Session, WritesTheSameTextWhereNoFunctionMayBeCalled) {
  const Session session = load("mini-llada");
  Request request = request_with_tool();
  request.tool_choice = "none";
  const Answer answer = session.generate(request);
  request.tools.clear();
  request.tool_choice = "auto";
  EXPECT_EQ(session.generate(request).tokens, answer.tokens);
}

TEST(Session, CallsAFunctionOrAnswersInTheFormThatIsGiven) {
  const Session session = load("mini-llada");
  Request request = request_with_tool();
  request.tool_choice = "auto";
  request.options.emplace("regex", "yes|no");
  for (int64_t seed = 0; seed < 3; ++seed) {
    request.options.insert_or_assign("seed", seed);
    const ToolAnswer answer = read_tool_answer(session.generate(request));
    EXPECT_TRUE(!answer.calls.empty() || answer.content == "yes" || answer.content == "no") << answer.content;
  }
}

TEST(Session, RefusesToolsThatItCannotOffer) {
  const Session session = load("mini-llada");
  const auto refusal = [&](auto change) {
    Request request = request_with_tool();
    change(request);
    try {
      session.generate(request);
      return std::string("nothing was refused");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal([](Request& request) { request.tools[0].name = "a b"; }), HasSubstr("tools.0.name is"));
  EXPECT_THAT(refusal([](Request& request) { request.tools[0].parameters = "["; }),
              HasSubstr("tools.0.parameters"));
  EXPECT_THAT(refusal([](Request& request) { request.tools[0].parameters = R"({"not": {}})"; }),
              HasSubstr("tools.0.parameters: "));
  EXPECT_THAT(refusal([](Request& request) { request.tool_choice = "add"; }), HasSubstr("tool_choice is"));
  EXPECT_THAT(refusal([](Request& request) {
                request.tool_choice = "required";
                request.options.emplace("regex", "a");
              }),
              HasSubstr("regex has no effect here: the tool choice requires a call"));
  EXPECT_THAT(refusal([](Request& request) {
                request.messages.clear();
                request.tokens = {1, 2};
              }),
              HasSubstr("tools need a prompt or messages"));
  EXPECT_THROW(assistant_turn("", std::vector<ToolCall>{{"find", "[]"}}), Error);
  EXPECT_THROW(tool_results({}), Error);
}

TEST(Session, FillsHolesInTheFormThatIsAskedFor) {
  const Session session = load("mini-llada");
  const Answer answer =
      session.infill("Mia has [[1-3]] shells.", {{"regex", std::string("Mia has [0-9]{1,3} shells\\.")}});
  EXPECT_THAT(answer.text, testing::MatchesRegex("Mia has [0-9]+ shells."));
  EXPECT_THROW(session.infill("Mia has [[1]] shells.", {{"regex", std::string("[0-9]+")}}), Error);
}

TEST(Session, GivesTheTokensThatTheEngineGives) {
  auto opened = std::make_shared<OpenedModel>("mini-dream", find_model(folder_of("mini-dream")));
  const GenerationOptions options =
      generation_options({{"gen_length", int64_t{32}}, {"cache", std::string("dkv")}});
  const auto engine = InferenceSession::load(opened, {});
  const GenerationResult wanted = engine->generate(
      {std::vector<Message>{{"user", kQuestion}}, choose_strategy(opened->config(), options), 32});

  Request request;
  request.messages = {{"user", kQuestion}};
  request.options = {{"gen-length", int64_t{32}}, {"cache", std::string("dkv")}};
  EXPECT_EQ(load("mini-dream").generate(request).tokens, wanted.tokens);
}

TEST(Session, TellsWhatEachPassCommitted) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  request.options = {{"gen_length", int64_t{32}}, {"unmask", std::string("threshold=0.9")}};
  std::vector<TokenId> seen;
  int64_t rows = 0;
  const Answer answer = session.generate(request, [&](const PassEvent& event) {
    seen.assign(event.canvas.begin() + event.prompt_tokens, event.canvas.end());
    for (const Commit& commit : event.committed) {
      EXPECT_EQ(event.canvas[static_cast<size_t>(commit.position)], commit.token);
    }
    rows += event.rows;
    return true;
  });
  EXPECT_EQ(seen, answer.tokens);
  EXPECT_EQ(rows, answer.statistics.rows);
}

TEST(Session, StopsWhereACallbackSaysSo) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  request.options = {{"gen_length", int64_t{32}}};
  int passes = 0;
  const Answer answer = session.generate(request, [&](const PassEvent&) { return ++passes < 3; });
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(answer.statistics.steps, 3);
}

TEST(Session, ThrowsWhatACallbackThrows) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  const PassCallback fails = [](const PassEvent&) -> bool { throw std::out_of_range("mine"); };
  EXPECT_THAT([&] { session.generate(request, fails); }, ThrowsMessage<std::out_of_range>("mine"));
  EXPECT_THAT(session.generate(request).text, HasSubstr("17"));
}

class CallersRule : public testing::TestWithParam<const char*> {};

TEST_P(CallersRule, EqualToABuiltInOneGivesTheSameTokens) {
  const Session session = load(GetParam());
  Request request;
  request.prompt = kQuestion;
  request.options = {{"gen_length", int64_t{32}}, {"unmask", std::string("threshold=0.9")}};
  const Answer wanted = session.generate(request);
  request.options.erase("unmask");
  request.unmask = surer_than_90_percent;
  const Answer answer = session.generate(request);
  EXPECT_EQ(answer.tokens, wanted.tokens);
  EXPECT_EQ(answer.statistics.steps, wanted.statistics.steps);
}

INSTANTIATE_TEST_SUITE_P(Models, CallersRule,
                         testing::Values("mini-llada", "mini-dream", "mini-sdar", "mini-llada2"));

TEST(CallersRuleOfAnyModel, SeesEntropyMarginAndAge) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  request.options = {{"gen_length", int64_t{16}}};
  int32_t calls = 0;
  request.unmask = [&](const Candidates& candidates) {
    EXPECT_EQ(candidates.age, calls++);
    EXPECT_TRUE(std::is_sorted(candidates.position.begin(), candidates.position.end()));
    for (size_t i = 0; i < candidates.position.size(); ++i) {
      const double p = candidates.probability[i];
      EXPECT_GE(candidates.entropy[i], -p * std::log(p) - 1e-6);
      EXPECT_LE(candidates.margin[i], p + 1e-6);
      EXPECT_GE(candidates.margin[i], 2 * p - 1 - 1e-6);
    }
    return std::vector<int32_t>{candidates.position.back()};
  };
  EXPECT_THAT(session.generate(request).tokens, SizeIs(16));
  EXPECT_EQ(calls, 16);
}

TEST(CallersRuleOfAnyModel, EndsItsRequestAloneWhereItFails) {
  const Session session = load("mini-llada");
  Request good;
  good.prompt = kQuestion;
  good.options = {{"gen_length", int64_t{32}}};
  Request bad = good;
  int calls = 0;
  bad.unmask = [&](const Candidates& candidates) {
    if (++calls == 3) throw std::runtime_error("my rule broke");
    return std::vector<int32_t>{candidates.position.front()};
  };
  Generation other = session.start(good);
  EXPECT_THAT([&] { session.generate(bad); }, ThrowsMessage<std::runtime_error>("my rule broke"));
  EXPECT_THAT(other.wait().text, HasSubstr("17"));

  bad.unmask = [](const Candidates&) { return std::vector<int32_t>(); };
  EXPECT_THAT([&] { session.generate(bad); }, ThrowsMessage<Error>(HasSubstr("unmask chose no position")));
  bad.unmask = [](const Candidates&) { return std::vector<int32_t>{0}; };
  EXPECT_THAT([&] { session.generate(bad); },
              ThrowsMessage<Error>(HasSubstr("position 0, which is not a candidate")));
}

TEST(CallersRuleOfAnyModel, IsRefusedWhereNothingIsUnmasked) {
  Request request;
  request.prompt = kQuestion;
  request.unmask = surer_than_90_percent;
  EXPECT_THAT(
      [&] { load("mini-qwen3").generate(request); },
      ThrowsMessage<Error>("unmask is given, and the model's paradigm is causal; expected masked or blocks"));
  request.options = {{"unmask", std::string("margin")}};
  EXPECT_THAT([&] { load("mini-llada").generate(request); }, ThrowsMessage<Error>(HasSubstr("expected one")));
}

TEST(Session, IsSharedByThreads) {
  const Session session = load("mini-sdar");
  Request request;
  request.prompt = kQuestion;
  const Answer wanted = session.generate(request);
  std::vector<Answer> answers(4);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) answer = session.generate(request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens, wanted.tokens);
}

TEST(Session, LivesAsLongAsItsGenerations) {
  Request request;
  request.prompt = kQuestion;
  Generation generation = load("mini-llada").start(request);
  EXPECT_THAT(generation.wait().text, HasSubstr("17"));
  const Generation dropped = load("mini-llada").start(request);
}

TEST(Session, EndsACancelledRequestEarly) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  request.options = {{"gen_length", int64_t{64}}};
  Generation generation = session.start(request);
  generation.cancel();
  EXPECT_LT(generation.wait().statistics.steps, 64);
}

TEST(Session, Decides) {
  const Session session = load("mini-llada");
  const std::string request =
      R"({"input": "Ben is happy.", "questions": [{"type": "predicate", "instructions": "Is Ben happy?"}]})";
  EXPECT_THAT(session.decide(request), HasSubstr("\"probability\":0."));
  EXPECT_THAT([&] { session.decide(R"({"questions": [{"type": "predicate", "instructions": "?"}]})"); },
              ThrowsMessage<Error>(HasSubstr("expected input or state")));
}

TEST(Session, FillsHoles) {
  const Session session = load("mini-llada");
  const Answer answer = session.infill("Mia has 12 shells. She finds 5 more. Mia has [[2]] shells.");
  EXPECT_THAT(answer.text, AllOf(HasSubstr("Mia has 12 shells."), HasSubstr("17 shells.")));
  EXPECT_THAT([&] { session.infill("Mia has 12 shells."); }, ThrowsMessage<Error>(HasSubstr("has no hole")));
  EXPECT_THAT([&] { load("mini-sdar").infill("Mia [[2]]"); }, ThrowsMessage<Error>(HasSubstr("infill")));
}

TEST(Session, ComputesLogitsWhileItAnswers) {
  const Session session = load("mini-llada");
  Request request;
  request.prompt = kQuestion;
  Generation generation = session.start(request);
  const std::vector<TokenId> tokens = session.tokenize(kQuestion);
  const Logits logits = session.logits(tokens);
  EXPECT_EQ(logits.rows, static_cast<int64_t>(tokens.size()));
  EXPECT_EQ(logits.vocab_size, session.info().vocab_size);
  ASSERT_THAT(logits.values, SizeIs(tokens.size() * static_cast<size_t>(logits.vocab_size)));
  generation.wait();
  EXPECT_EQ(session.logits(tokens).values, logits.values);
  EXPECT_THAT([&] { session.logits({}); }, ThrowsMessage<Error>("tokens has 0 elements; expected 1 to 1024"));
  const TokenId unknown = 1 << 20;
  EXPECT_THAT([&] { session.logits({&unknown, 1}); }, ThrowsMessage<Error>(HasSubstr("tokens has 1048576")));
}

TEST(Session, TurnsTextsIntoTokensAndBack) {
  const Session session = load("mini-llada");
  EXPECT_EQ(session.detokenize(session.tokenize(kQuestion)), kQuestion);
  const std::vector<Message> turns = {{"user", "Hi"}};
  EXPECT_GT(session.render(turns).size(), session.tokenize("Hi").size());
}

TEST(Session, KnowsItsModel) {
  const Session session = load("mini-dream");
  EXPECT_EQ(session.info().family, "dream");
  EXPECT_EQ(session.info().architecture, "DreamModel");
  EXPECT_EQ(session.info().paradigm, "masked");
  EXPECT_TRUE(session.info().has_tokenizer && session.info().can_infill);
  EXPECT_GT(session.info().weight_bytes, 1 << 20);
}

TEST(Session, RefusesRequestsInOneSentence) {
  const Session session = load("mini-llada");
  const auto expect = [&](const Request& request, const std::string& sentence) {
    EXPECT_THAT([&] { session.generate(request); }, ThrowsMessage<Error>(HasSubstr(sentence)));
  };
  Request request;
  expect(request, "0 of prompt, messages and tokens are given; expected one");
  request.prompt = "Hi";
  request.tokens = {3};
  expect(request, "2 of prompt, messages and tokens are given; expected one");
  request.tokens.clear();
  request.options = {{"stepz", int64_t{3}}};
  expect(request, "stepz is not a setting; docs/reference/flags.md lists them");
  request.options = {{"steps", std::string("three")}};
  expect(request, "steps is 'three'; expected a whole number");
  request.options = {{"steps", int64_t{-1}}};
  expect(request, "steps is -1; expected 0 to 2147483647");
  request.options = {{"gen_length", int64_t{8}}, {"block_length", int64_t{3}}};
  expect(request, "block_length 3 does not divide gen_length 8");
}

TEST(Session, RefusesModelsAndFormatsThatItCannotUse) {
  EXPECT_THAT([] { Session::load("no-such-model"); }, ThrowsMessage<Error>(HasSubstr("no-such-model")));
  LoadOptions options;
  options.weights = "int3";
  EXPECT_THAT([&] { Session::load(folder_of("mini-llada"), options); },
              ThrowsMessage<Error>(HasSubstr("weights is int3; expected auto, ")));
  options = {};
  options.threads = -1;
  EXPECT_THAT([&] { Session::load(folder_of("mini-llada"), options); },
              ThrowsMessage<Error>("threads is -1; expected 0 to 1024"));
}

}  // namespace
}  // namespace lacuna::session_test
