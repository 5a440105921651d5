// `lacuna mcp`.
#include <algorithm>

#include "program.h"

namespace lacuna::mcp_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Mcp : public ProgramTest {
 protected:
  /// Replies to lines of standard input, each a JSON object.
  std::vector<json> replies(const std::string& input, const std::string& flags = "") const {
    const ProgramResult result =
        lacuna("mcp --threads 1 -m " LACUNA_SOURCE_DIR "/models/mini-llada " + flags, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<json> list;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
    return list;
  }
  static std::string call(int id, const std::string& tool, const json& arguments) {
    return json{{"jsonrpc", "2.0"},
                {"id", id},
                {"method", "tools/call"},
                {"params", {{"name", tool}, {"arguments", arguments}}}}
               .dump() +
           "\n";
  }
};

TEST_F(Mcp, IntroducesItselfAndListsItsTools) {
  const auto list = replies(
      R"({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
{"jsonrpc": "2.0", "method": "notifications/initialized"}

{"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
{"jsonrpc": "2.0", "id": 3, "method": "ping"}
)");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["result"]["protocolVersion"], "2025-06-18");
  EXPECT_EQ(list[0]["result"]["serverInfo"]["name"], "lacuna");
  EXPECT_EQ(list[1]["id"], "two");
  std::vector<std::string> names;
  for (const json& tool : list[1]["result"]["tools"]) {
    names.push_back(tool["name"]);
    EXPECT_EQ(tool["inputSchema"]["type"], "object");
    EXPECT_FALSE(tool["description"].get<std::string>().empty());
  }
  EXPECT_THAT(names, testing::ElementsAre("generate", "infill", "decide", "tokenize"));
  EXPECT_EQ(list[2]["result"], json::object());
}

TEST_F(Mcp, CallsItsTools) {
  const auto list = replies(
      call(1, "generate",
           {{"prompt", "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?"},
            {"regex", "[0-9]{1,3}"},
            {"max_tokens", 16}}) +
      call(2, "infill", {{"text", "Mia has 12 shells. She finds 7 more. Now she has [[1-3]] shells."}}) +
      call(3, "decide",
           {{"state", "Ben is happy."},
            {"questions", {{"happy", {{"type", "noul"}, {"instructions", "Is Ben happy?"}}}}}}) +
      call(4, "tokenize", {{"text", "Mia"}}));
  ASSERT_EQ(list.size(), 4U);
  for (const json& reply : list) EXPECT_EQ(reply["result"]["isError"], false) << reply;
  const std::string number = list[0]["result"]["content"][0]["text"];
  EXPECT_TRUE(!number.empty() && number.find_first_not_of("0123456789") == std::string::npos) << number;
  EXPECT_THAT(list[1]["result"]["structuredContent"]["text"].get<std::string>(),
              testing::StartsWith("Mia has 12 shells. She finds 7 more. Now she has "));
  const double probability = list[2]["result"]["structuredContent"]["answers"]["happy"]["noul"];
  EXPECT_TRUE(probability >= 0 && probability <= 1);
  const json tokens = list[3]["result"]["structuredContent"]["tokens"];
  const auto back = replies(call(1, "tokenize", {{"tokens", tokens}}));
  EXPECT_EQ(back[0]["result"]["content"][0]["text"], "Mia");
}

TEST_F(Mcp, SaysWhatIsWrong) {
  const auto list = replies(
      "{\n[]\n"
      R"({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
{"jsonrpc": "2.0", "id": 2, "method": "initialize"}
{"jsonrpc": "2.0", "id": null, "method": "ping"}
{"jsonrpc": "2.0", "id": 4}
)" + call(5, "none", json::object()) +
      call(6, "generate", {{"prompt", 3}}) + call(7, "generate", {{"prompt", "a"}, {"temprature", 1}}) +
      call(8, "infill", {{"text", "no hole"}}) + call(9, "tokenize", {{"tokens", {-1}}}));
  ASSERT_EQ(list.size(), 11U);
  EXPECT_EQ(list[0]["error"]["code"], -32700);
  EXPECT_EQ(list[0]["id"], nullptr);
  EXPECT_EQ(list[1]["error"]["code"], -32600);
  EXPECT_EQ(list[2]["error"]["code"], -32601);
  EXPECT_EQ(list[3]["error"]["code"], -32602);
  EXPECT_EQ(list[4]["error"]["code"], -32600);
  EXPECT_EQ(list[5]["error"]["code"], -32600);
  EXPECT_EQ(list[6]["error"]["code"], -32602);
  const auto sentence = [&](size_t i) {
    EXPECT_EQ(list[i]["result"]["isError"], true) << list[i];
    return list[i]["result"]["content"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(sentence(7), "prompt is \"3\"; expected a string");
  EXPECT_THAT(sentence(8), HasSubstr("temprature"));
  EXPECT_THAT(sentence(9), HasSubstr("no hole"));
  EXPECT_THAT(sentence(10), AllOf(HasSubstr("tokens is"), HasSubstr("expected a list of ids below")));
}

TEST_F(Mcp, RefusesFlagsThatNoAnswerCouldHave) {
  for (const char* flags : {"--min-p 2", "-n 0", "--json-schema '{\"type\": 5}'", "--regex '('",
                            "--temperature -1", "--block-length 7 -n 32"}) {
    const ProgramResult result =
        lacuna(std::string("mcp -m ") + LACUNA_SOURCE_DIR "/models/mini-llada " + flags, "");
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_EQ(result.out, "") << flags;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(Mcp, NamesUnknownArgumentsAndContradictionsAndFitsLimits) {
  const json question{{"happy", {{"type", "noul"}}}};
  const auto list =
      replies(call(1, "decide", {{"state", "a"}, {"questions", question}, {"temperatur", 1}}) +
              call(2, "infill", {{"text", "a [[1]]"}, {"temperatur", 1}}) +
              call(3, "generate", {{"prompt", "a"}, {"max_tokens", 4}, {"gen_length", 5}}) +
              call(4, "generate",
                   {{"prompt", "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?"},
                    {"max_tokens", 32000}}));
  ASSERT_EQ(list.size(), 4U);
  const auto sentence = [&](size_t i) {
    EXPECT_EQ(list[i]["result"]["isError"], true) << list[i];
    return list[i]["result"]["content"][0]["text"].get<std::string>();
  };
  EXPECT_THAT(sentence(0), HasSubstr("\"temperatur\" is no argument of decide"));
  EXPECT_THAT(sentence(1), HasSubstr("temperatur"));
  EXPECT_THAT(sentence(2), AllOf(HasSubstr("max_tokens"), HasSubstr("gen_length")));
  EXPECT_EQ(list[3]["result"]["isError"], false) << list[3];
  EXPECT_THAT(list[3]["result"]["structuredContent"]["ignored"][0].get<std::string>(),
              testing::StartsWith("max_tokens ("));
}

TEST_F(Mcp, CancelledRequestsEndWithoutAReply) {
  const std::string cancel =
      R"({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})"
      "\n";
  // Thousands of passes, which are not waited for; and one that has not begun.
  const json long_answer{{"prompt", "Mia"}, {"gen_length", 900}, {"ignore_eos", false}};
  const auto list =
      replies(call(1, "generate", long_answer) + call(2, "tokenize", {{"text", "a"}}) + cancel +
              call(3, "generate", long_answer) +
              R"({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})"
              "\n" +
              R"({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})"
              "\n" +
              call(4, "tokenize", {{"text", "b"}}));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["id"], 2);
  EXPECT_EQ(list[1]["id"], 4);
}

TEST_F(Mcp, FlagsOfAnswersLeaveInfillsAlone) {
  const ProgramResult result =
      lacuna(std::string("mcp -n 64 --block-length 8 -m ") + LACUNA_SOURCE_DIR "/models/mini-llada",
             call(1, "infill", {{"text", "I have [[2]] cats"}}));
  EXPECT_EQ(json::parse(result.out)["result"]["isError"], false) << result.out << result.err;
}

TEST_F(Mcp, LinesThatAreTooLongAreRefusedAndOthersAnswered) {
  const auto list =
      replies(std::string(5'000'000, 'a') + "\n" + call(2, "tokenize", {{"text", "a"}, {"x", 1}}));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["error"]["code"], -32600);
  EXPECT_THAT(list[1]["result"]["content"][0]["text"].get<std::string>(), HasSubstr("\"x\" is no argument"));
}

}  // namespace
}  // namespace lacuna::mcp_test
