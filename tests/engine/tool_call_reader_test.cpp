#include "engine/tool_call_reader.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "constraint/tool_calls.h"
#include "engine/tools.h"

namespace lacuna::tool_call_reader_test {
namespace {

struct Read {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;
  bool is_complete = false;
  bool operator==(const Read&) const = default;
};

/// Reads a text in pieces that random numbers cut.
Read read(const std::string& text, uint64_t seed, const ToolCallForm& form) {
  ToolCallReader reader(form);
  Read result;
  const RngStream random(seed);
  for (size_t begin = 0, i = 0; begin <= text.size(); ++i) {
    const size_t size = seed == 0 ? text.size() + 1 : random.below(i, 4);
    const bool is_all = begin + size > text.size();
    for (const ToolCallReader::Piece& piece :
         reader.advance(std::string_view(text).substr(begin, size), is_all)) {
      if (!piece.call) {
        EXPECT_FALSE(piece.text.empty());
        result.text += piece.text;
        continue;
      }
      if (!piece.name.empty()) result.calls.emplace_back(piece.name, "");
      EXPECT_EQ(*piece.call + 1, result.calls.size());
      result.calls.back().second += piece.text;
    }
    begin += size;
    if (is_all) break;
  }
  result.is_complete = reader.has_complete_calls();
  EXPECT_EQ(reader.num_calls(), result.calls.size());
  return result;
}

/// The same, whatever the pieces.
Read read(const std::string& text, const ToolCallForm& form = kTaggedCalls) {
  Read whole = read(text, 0, form);
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(read(text, seed, form), whole) << text << " " << seed;
  return whole;
}

const std::vector<ToolCall> kCalls = {{"add", R"({"a": 1, "b": "}]\" \\</tool_call>"})"},
                                      {"now", "{}"},
                                      {"list", R"({"of": [{"x": [1, 2]}, "["]})"}};

TEST(ToolCallReader, ReadsCallsAfterText) {
  const Read both = read(with_tool_calls("Let me see.", kCalls));
  EXPECT_EQ(both.text, "Let me see.");
  ASSERT_EQ(both.calls.size(), kCalls.size());
  for (size_t i = 0; i < kCalls.size(); ++i) {
    EXPECT_EQ(both.calls[i], std::pair(kCalls[i].name, kCalls[i].arguments));
  }
  EXPECT_TRUE(both.is_complete);
  EXPECT_EQ(read(with_tool_calls("", kCalls)).text, "");
  EXPECT_EQ(read(with_tool_calls("a \n ", std::span(kCalls).first(1))).text, "a");
}

TEST(ToolCallReader, GivesTextThatCallsNothing) {
  for (const char* text : {"", "Hi", " a <b> \n", "a <tool_cal", "<", "<tool_call", "<tool_<tool_cal l>"}) {
    EXPECT_EQ(read(text), (Read{text, {}, false}));
  }
}

TEST(ToolCallReader, TakesWhatIsNoCallAsText) {
  for (const std::string& text :
       {std::string("<tool_call>"), std::string("<tool_call>\n{\"name\": \"a"), std::string("<tool_call> {}"),
        std::string("<tool_call>\n{\"name\": \"a b\", \"arguments\": {}}"),
        std::string("<tool_call>\n{\"name\": \"a\", \"arguments\": 3}\n</tool_call>"),
        "<tool_call>\n{\"name\": \"" + std::string(kMaxFunctionName + 1, 'a') + "\", \"arguments\": {"}) {
    EXPECT_EQ(read(text), (Read{text, {}, false}));
  }
  const std::string call = with_tool_calls("", std::span(kCalls).subspan(1, 1));
  EXPECT_EQ(read(call + " and"), (Read{" and", {{"now", "{}"}}, true}));
}

TEST(ToolCallReader, KnowsACallThatIsCutOff) {
  const std::string call = with_tool_calls("", std::span(kCalls).subspan(1, 1));
  for (size_t size = call.find('{', 12) + 1; size < call.size(); ++size) {
    const Read cut = read(call.substr(0, size));
    EXPECT_FALSE(cut.is_complete) << size;
    EXPECT_LE(cut.calls.size(), 1U);
  }
  EXPECT_TRUE(read(call).is_complete);
  EXPECT_TRUE(read(call + "\n").is_complete);
  EXPECT_FALSE(read(call + "\n<tool_call>\n{\"na").is_complete);
}

TEST(ToolCallReader, ReadsACallThatIsTheWholeAnswer) {
  const auto bare = [](const std::string& text) { return read(text, kBareCalls); };
  const Read call{"", {{"add", R"({"a": "}\"", "b": [{}]})"}}, true};
  EXPECT_EQ(bare(R"({"name": "add", "parameters": {"a": "}\"", "b": [{}]}})"), call);
  EXPECT_EQ(bare(R"(<|python_tag|>{"name": "add", "parameters": {"a": "}\"", "b": [{}]}})"), call);
  for (const char* text : {"", "Hi", "{", "{}", R"({"name": "a)", R"({"name": "a b", "parameters": {}})",
                           R"(See {"name": "add", "parameters": {}})", "<tool_call>\n{\"name\": \"add\"",
                           R"({"name": "add", "arguments": {}})", "<|py"})
    EXPECT_EQ(bare(text), (Read{text, {}, false})) << text;
  EXPECT_FALSE(bare(R"({"name": "add", "parameters": {"a": 1)").is_complete);
}

TEST(ToolCallReader, ReadsQuotedArgumentsAsJson) {
  const auto quoted = [](const std::string& text) { return read(text, kQuotedCalls); };
  const std::string call =
      "<|tool_call>call:get_weather{days:2,exact:true,in:{at:[1.5,null]},place:<|\"|>Z\u00FCrich "
      "\"x\"\n}<|\"|>}<tool_call|>";
  const std::pair<std::string, std::string> wanted{"get_weather",
                                                   "{\"days\": 2, \"exact\": true, \"in\": {\"at\": [1.5, "
                                                   "null]}, \"place\": \"Z\u00FCrich \\\"x\\\"\\n}\"}"};
  EXPECT_EQ(quoted(call), (Read{"", {wanted}, true}));
  EXPECT_EQ(quoted("See.\n" + call + call + "<|tool_call>call:now{}<tool_call|>"),
            (Read{"See.", {wanted, wanted, {"now", "{}"}}, true}));
  EXPECT_EQ(quoted("<|tool_call>call:f{a: word ,b:[x, 1 ]}<tool_call|>"),
            (Read{"", {{"f", R"({"a": "word", "b": ["x", 1]})"}}, true}));
  for (const char* text : {"Hi <b>", "<|tool_call", "<|tool_call>", "<|tool_call>call:",
                           "<|tool_call>call:now", "<|tool_call>now{}", "<|tool_call>call:a b{}"})
    EXPECT_EQ(quoted(text), (Read{text, {}, false})) << text;
  EXPECT_FALSE(quoted(call.substr(0, call.size() - 1)).is_complete);
}

}  // namespace
}  // namespace lacuna::tool_call_reader_test
