#include "engine/trace.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/dispatch.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::trace_test {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr const char* kStart =
    R"({"request": 0, "prompt_tokens": 1, "canvas": [5, 90, 90], "v": 1, "mask": 90,
 "ends": [89], "pieces": {"5": "five"}})";

std::string start_line() {
  std::string line = kStart;
  std::erase(line, '\n');
  return line + "\n";
}

void expect_trace_refused(const std::string& text, const std::string& part) {
  std::istringstream stream(text);
  const auto play = [&] {
    TraceReplay replay(stream, "t.jsonl", 0);
    while (replay.next()) {
    }
  };
  EXPECT_THAT(play, ThrowsMessage<InputError>(AllOf(StartsWith("t.jsonl"), HasSubstr(part)))) << text;
}

TEST(TraceReplay, FollowsTheCanvasOfEveryFamily) {
  ThreadPool threads(1);
  for (const ModelConfig& config : tiny_configs()) {
    Engine engine(on_cpu(tiny_model(config), default_table(), threads));
    GenerationOptions options;
    options.gen_length = 16;
    if (!config.causal) options.block_length = 8;
    engine.add(make_decoder(config, options, {1, 2, 3}));
    TraceLog log(config, nullptr);
    std::string trace = log.start(0, engine.decoder(0)).dump() + "\n\n";
    std::vector<std::vector<TokenId>> canvases;
    engine.run([&](const StepEvent& event) {
      trace += log.step(event).dump() + "\n";
      canvases.emplace_back(event.decoder.canvas().begin(), event.decoder.canvas().end());
    });
    std::istringstream stream(trace);
    TraceReplay replay(stream, "t.jsonl", 0);
    EXPECT_EQ(replay.prompt_length(), 3);
    EXPECT_EQ(replay.end_ids(), config.end_ids);
    for (const std::vector<TokenId>& canvas : canvases) {
      ASSERT_TRUE(replay.next());
      EXPECT_THAT(replay.canvas(), ElementsAreArray(canvas));
    }
    EXPECT_FALSE(replay.next());
  }
}

TEST(TraceLog, NamesTheTextsOfDraftsThatNeverStandInTheCanvas) {
  ThreadPool threads(1);
  const ModelConfig config = tiny_refusion_config();
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  Engine engine(on_cpu(tiny_model(config), default_table(), threads));
  GenerationOptions options;
  options.gen_length = 64;
  options.temperature = 1;
  engine.add(make_decoder(config, options, {1, 2, 3}));
  TraceLog log(config, &tokenizer);
  nlohmann::json pieces = log.start(0, engine.decoder(0))["pieces"];
  std::set<TokenId> drafted, written;
  engine.run([&](const StepEvent& event) {
    const nlohmann::json line = log.step(event);
    if (line.contains("pieces")) pieces.update(line["pieces"]);
    for (const SlotReport& slot : event.report.slots) drafted.insert(slot.tokens.begin(), slot.tokens.end());
    written.insert(event.decoder.canvas().begin(), event.decoder.canvas().end());
  });
  EXPECT_FALSE(std::includes(written.begin(), written.end(), drafted.begin(), drafted.end()));
  for (const TokenId token : drafted) EXPECT_TRUE(pieces.contains(std::to_string(token))) << token;
}

TEST(TraceReplay, AppliesCommitsThenChanges) {
  std::istringstream stream(
      start_line() + R"({"request": 1, "step": 0, "committed": [{"position": 1, "token": 7}]})" +
      "\n"
      R"({"request": 0, "step": 4, "rows": [1, 2], "seconds": 0.5, "length": 4, "changed": [[2, 8]], )"
      R"("pieces": {"8": "eight"}, "committed": [{"position": 1, "token": 6, "confidence": 0.25}, )"
      R"({"position": 2, "token": 9}]})");
  TraceReplay replay(stream, "t.jsonl", 0);
  ASSERT_TRUE(replay.next());
  EXPECT_THAT(replay.canvas(), ElementsAreArray({5, 6, 8, 90}));
  EXPECT_EQ(replay.step(), 4);
  EXPECT_EQ(replay.num_rows(), 2);
  EXPECT_EQ(replay.seconds(), 0.5);
  EXPECT_EQ(replay.committed().front(), (Commit{1, 6, 0.25}));
  EXPECT_EQ(replay.piece(5), "five");
  EXPECT_EQ(replay.piece(8), "eight");
  EXPECT_EQ(replay.piece(6), "<6>");
  EXPECT_FALSE(replay.next());
}

TEST(TraceReplay, AppliesEditsBeforeWhatIsWrittenAfterThem) {
  std::istringstream stream(
      start_line() + R"({"step": 0, "drop": [0, 2], "insert": [[0, 1], [2, 2]], "length": 5, "committed": )"
                     R"([{"position": 3, "token": 7}], "changed": [[4, 8]]})");
  TraceReplay replay(stream, "t.jsonl", 0);
  ASSERT_TRUE(replay.next());
  EXPECT_THAT(replay.canvas(), ElementsAreArray({90, 90, 90, 7, 8}));
  EXPECT_THAT(replay.edits().dropped, ElementsAreArray({0, 2}));
}

TEST(TraceReplay, RefusesEditsThatMoveMorePositionsThanItsLimit) {
  // Each of the short lines moves a million positions.
  const std::vector<TokenId> canvas(TraceReplay::kMaxPositions, 1);
  const std::string start =
      nlohmann::json{{"request", 0}, {"prompt_tokens", 0}, {"canvas", canvas}}.dump() + "\n";
  constexpr size_t kFew = TraceReplay::kMaxMoved / TraceReplay::kMaxPositions;
  for (const std::string line : {R"({"request":0,"step":0,"drop":[7],"insert":[[7,1]]})",
                                 "{\"request\":0,\"step\":0,\"length\":0}\n"
                                 "{\"request\":0,\"step\":0,\"length\":1048576}"}) {
    std::string trace = start;
    for (size_t i = 0; i <= kFew; ++i) trace += line + "\n";
    std::istringstream stream(trace);
    TraceReplay replay(stream, "t.jsonl", 0);
    EXPECT_THAT(
        [&] {
          while (replay.next()) {
          }
        },
        ThrowsMessage<InputError>(HasSubstr("move more than 268435456 positions")));
    EXPECT_GE(replay.num_passes(), static_cast<int64_t>(kFew));
  }
}

TEST(TraceReplay, FollowsCanvasesThatChangeTheirLength) {
  ThreadPool threads(1);
  ModelConfig dreamon = tiny_configs()[4];
  dreamon.expand_id = 1;
  dreamon.delete_id = 2;
  for (const bool has_tokens : {true, false}) {
    const ModelConfig config = has_tokens ? dreamon : tiny_configs()[0];
    int32_t num_edits = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Engine engine(on_cpu(tiny_model(config), default_table(), threads));
      GenerationOptions options;
      options.gen_length = 24;
      options.seed = seed;
      options.temperature = 50;  // any token is about as likely as any other
      options.top_p = 1;
      options.grow = has_tokens ? "tokens" : "end-mass,start=4,by=3,tail=2,enough=0,unsure=0.9";
      engine.add(make_decoder(config, options, {3, 4, 5}));
      TraceLog log(config, nullptr);
      std::string trace = log.start(0, engine.decoder(0)).dump() + "\n";
      std::vector<std::vector<TokenId>> canvases;
      engine.run([&](const StepEvent& event) {
        trace += log.step(event).dump() + "\n";
        num_edits += event.report.edits.empty() ? 0 : 1;
        canvases.emplace_back(event.decoder.canvas().begin(), event.decoder.canvas().end());
      });
      std::istringstream stream(trace);
      TraceReplay replay(stream, "t.jsonl", 0);
      for (const std::vector<TokenId>& canvas : canvases) {
        ASSERT_TRUE(replay.next());
        EXPECT_THAT(replay.canvas(), ElementsAreArray(canvas));
      }
    }
    EXPECT_GT(num_edits, 0);
  }
}

TEST(TraceReplay, RefusesWhatIsNoTrace) {
  expect_trace_refused("", "holds no request 0");
  expect_trace_refused("{\n", "line 1: not valid JSON");
  expect_trace_refused("3\n", "line 1: not a JSON object");
  expect_trace_refused(R"({"request": 1, "canvas": []})", "holds no request 0");
  expect_trace_refused(R"({"canvas": [1], "prompt_tokens": 2})", "prompt_tokens");
  expect_trace_refused(R"({"canvas": [-1], "prompt_tokens": 0})", "canvas");
  expect_trace_refused(R"({"canvas": "x", "prompt_tokens": 0})", "canvas");
  expect_trace_refused(R"({"canvas": [], "prompt_tokens": 0, "v": 3})", "\"v\" is 3");
  expect_trace_refused(R"({"canvas": [], "prompt_tokens": 0, "pieces": {"x": "y"}})", "pieces");
  expect_trace_refused(R"({"canvas": [], "prompt_tokens": 0, "pieces": []})", "line 1");
  const std::vector<std::pair<std::string, std::string>> steps = {
      {R"({})", "step"},
      {R"({"step": -1})", "step"},
      {R"({"step": 0, "committed": 3})", "committed"},
      {R"({"step": 0, "committed": [3]})", "expected a JSON object"},
      {R"({"step": 0, "committed": [{"position": 1048576, "token": 1}]})", "committed.position"},
      {R"({"step": 0, "committed": [{"position": -1, "token": 1}]})", "committed.position"},
      {R"({"step": 0, "committed": [{"position": 1, "token": 3000000000}]})", "committed.token"},
      {R"({"step": 0, "committed": [], "length": 0})", "length"},
      {R"({"step": 0, "committed": [], "length": 99999999})", "length"},
      {R"({"step": 0, "committed": [], "changed": [[1]]})", "changed"},
      {R"({"step": 0, "committed": [], "changed": [[1048576, 1]]})", "changed"},
      {R"({"step": 0, "committed": [], "seconds": "long"})", "seconds"},
      {R"({"step": 0, "drop": [3]})", "drop"},
      {R"({"step": 0, "drop": [1, 1]})", "drop"},
      {R"({"step": 0, "insert": [[4, 1]]})", "insert"},
      {R"({"step": 0, "insert": [[1, 0]]})", "insert"},
      {R"({"step": 0, "insert": [[1, 2], [2, 1]]})", "insert"},
      {R"({"step": 0, "insert": [[0, 1048574]]})", "insert"},
      {R"({"step": 0, "insert": [1, 2]})", "insert"},
  };
  for (const auto& [step, part] : steps) expect_trace_refused(start_line() + step, part);
  for (const auto& [step, part] : steps) expect_trace_refused(start_line() + step, "line 2");
}

}  // namespace
}  // namespace lacuna::trace_test
