// Every reply is written again and again, each time with another allocation that fails: the failure is a
// std::bad_alloc, which the server answers, and nothing ends the process. Allocations that allocation_fails()
// spares do not fail here either: those of sizes that destructors of nlohmann::json ask for.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/inference_session.h"
#include "fault/faulty_calls.h"
#include "server/api_request.h"
#include "server/dialect.h"
#include "server/reply_format.h"
#include "wire/decision_json.h"

namespace lacuna::reply_faults_test {
namespace {

/// See fail_each_allocation(); on a thread that is not spared.
template <typename Made>
uint64_t fail_each_here(const std::function<Made()>& make, const std::function<void(Made&)>& write) {
  constexpr uint64_t kMax = 100'000;
  for (uint64_t nth = 1; nth < kMax; ++nth) {
    Made made = make();
    FaultPlan plan;
    plan.nth_allocation = nth;
    begin_faults(plan);
    bool has_thrown = false;
    try {
      write(made);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    const uint64_t num_failed = end_faults();
    EXPECT_EQ(has_thrown, num_failed != 0) << "allocation " << nth;
    if (num_failed == 0) return nth - 1;
  }
  ADD_FAILURE() << "it never ended without a failure";
  return kMax;
}

/// Calls `write` with each of its allocations failing in turn, until none does. Returns how many there were.
///   make  what `write` is called with, made anew before each call, while nothing fails
template <typename Made>
uint64_t fail_each_allocation(const std::function<Made()>& make, const std::function<void(Made&)>& write) {
  uint64_t count = 0;
  std::thread([&] { count = fail_each_here(make, write); }).join();
  return count;
}

ReplyModel small_model() {
  const std::filesystem::path folder = std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / "mini-llada";
  SessionOptions options;
  options.formats = DType::kF32;
  options.threads = 1;
  const auto opened = std::make_shared<const OpenedModel>("mini-llada", find_model(folder.string()));
  return {"mini-llada", "lacuna-test",
          std::shared_ptr<InferenceSession>(InferenceSession::load(opened, options))};
}

/// A request that asks for everything that a reply can hold.
AnswerHead head_of(const ReplyModel& model) {
  AnswerHead head{model, {}, 1};
  head.request.stream = true;
  head.request.include_usage = true;
  head.request.wants_logprobs = true;
  head.request.wants_step_map = true;
  head.request.num_alternatives = 1;
  head.request.events = true;
  return head;
}

Piece piece_of_two_tokens() {
  return {"2 more",
          {{.token = 40, .logprob = -0.5, .step = 0, .order = 0, .likeliest = {{41, -1.5}}},
           {.token = 42, .logprob = std::nullopt}}};
}

/// Writes a stream of one choice, and a whole reply.
///   calls  the text has calls of tools
void write_all(ReplyFormat& format, bool calls) {
  const AnswerUsage usage{10, 2, 2, 1.0, 1.0};
  AnswerChoice choice;
  choice.answer = piece_of_two_tokens();
  if (calls) choice.tools.emplace(1);
  const AnswerChoice* const choices[] = {&choice};
  format.begin_stream(usage);
  const std::string texts[] = {
      "2 more", "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1",
      "}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"};
  bool is_first = true;
  for (const std::string& text : texts) {
    const bool is_last = &text == &texts[2];
    if (is_last) choice.finish_reason = calls ? "tool_calls" : "stop";
    AnswerPart part{choice, choice.answer};
    part.event = {{"step", 1}};
    part.is_first = is_first;
    if (is_last) part.usage = usage;
    if (calls) part.tool_pieces = choice.tools->advance(text, is_last);
    format.part(part);
    is_first = false;
  }
  format.end_stream(choices, usage);
  format.whole(choices, usage);
}

TEST(ReplyFaults, EveryFormatBearsAFailedAllocation) {
  const ReplyModel model = small_model();
  struct Case {
    const char* name;
    const Dialect* dialect;
    bool calls;
  };
  const Case cases[] = {{"chat", &kOpenAiChat, false},
                        {"chat with calls", &kOpenAiChat, true},
                        {"completions", &kOpenAiCompletions, false},
                        {"infill", &kLacunaInfill, false},
                        {"responses", &kOpenAiResponses, false},
                        {"responses with calls", &kOpenAiResponses, true},
                        {"messages", &kAnthropicMessages, false},
                        {"messages with calls", &kAnthropicMessages, true},
                        {"Ollama's chat", &kOllamaChat, false},
                        {"Ollama's chat with calls", &kOllamaChat, true},
                        {"Ollama's generate", &kOllamaGenerate, false},
                        {"llama.cpp", &kLlamaCppCompletion, false}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const uint64_t allocations = fail_each_allocation<std::unique_ptr<ReplyFormat>>(
        [&] { return each.dialect->make_format(head_of(model)); },
        [&](std::unique_ptr<ReplyFormat>& format) { write_all(*format, each.calls); });
    EXPECT_GT(allocations, 10);
  }
}

TEST(ReplyFaults, DecisionsBearAFailedAllocation) {
  const std::string bodies[] = {
      R"({"input": "Ben is sad.", "questions": [
          {"type": "predicate", "instructions": "Is Ben sad?"},
          {"type": "choice", "instructions": "Who?", "choices": [{"value": "Ben"}, {"value": "Mia"}]},
          {"type": "score", "instructions": "How sad?", "levels": [{"label": "a little"}, {"label": "very"}]}]})",
      R"({"state": "Ben is sad.", "questions": {
          "sad": {"type": "noul", "instructions": "Is Ben sad?"},
          "who": {"type": "choice", "criteria": {"Ben": null, "Mia": "a friend"}},
          "how": {"type": "score", "instructions": "How sad?", "criteria": ["a little", "very"]}}})"};
  for (const std::string& text : bodies) {
    const uint64_t allocations = fail_each_allocation<DecideResult>(
        [] {
          DecideResult result;
          for (int i = 0; i < 3; ++i) result.answers.push_back({{0.25, 0.75}, 0.75, 0.125});
          return result;
        },
        [&](DecideResult& result) {
          const DecisionBody body = read_decision_body(parse_body(text), "the body");
          decision_reply(body, result, "mini-decide");
        });
    EXPECT_GT(allocations, 10) << text;
  }
}

}  // namespace
}  // namespace lacuna::reply_faults_test
