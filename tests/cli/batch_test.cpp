// `lacuna batch` as a program: interrupted and continued, with a model of its own and with servers.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "program.h"

namespace lacuna::batch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Beginning of a line of bash: the program, which a signal can end, and how many lines a file has.
const std::string kCount = "program='" LACUNA_BINARY "'; count() { cat $1 2>/dev/null | wc -l; }";

class BatchCommand : public ProgramTest {
 protected:
  /// Requests with ids "0", "1", ..., each with a seed of its own.
  void write_requests(int32_t count, int32_t max_tokens) const {
    std::string text;
    for (int32_t i = 0; i < count; ++i) {
      text +=
          nlohmann::json{{"custom_id", std::to_string(i)},
                         {"method", "POST"},
                         {"url", i % 2 == 0 ? "/v1/chat/completions" : "/v1/completions"},
                         {"body",
                          {{"messages", {{{"role", "user"}, {"content", "Mia has " + std::to_string(i)}}}},
                           {"prompt", "Tom has " + std::to_string(i)},
                           {"max_tokens", max_tokens},
                           {"temperature", 1},
                           {"seed", i}}}}
              .dump() +
          "\n";
    }
    folder_.write("in.jsonl", text);
  }
};

TEST_F(BatchCommand, AnswersEachRequestAsTheServerDoes) {
  write_requests(3, 8);
  const ProgramResult result =
      shell("lacuna batch -m mini-llada in.jsonl out.jsonl --threads 1 --json && cat out.jsonl");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["answered"], 3);
  for (int32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto answer = nlohmann::json::parse(line);
    EXPECT_EQ(answer["custom_id"], std::to_string(i));
    EXPECT_EQ(answer["response"]["status_code"], 200);
    EXPECT_EQ(answer["response"]["body"]["object"], i % 2 == 0 ? "chat.completion" : "text_completion");
  }
  EXPECT_THAT(result.err, HasSubstr("3 answers in out.jsonl"));
}

TEST_F(BatchCommand, NamesWhatIsIgnoredOnce) {
  std::string text;
  for (const char* id : {"a", "b"}) {
    const nlohmann::json body{{"prompt", "Mia"}, {"max_tokens", 1}, {"tempratur", 1}};
    const nlohmann::json line{
        {"custom_id", id}, {"method", "POST"}, {"url", "/v1/completions"}, {"body", body}, {"boyd", 1}};
    text += line.dump() + "\n";
  }
  folder_.write("in.jsonl", text);
  const ProgramResult result =
      shell("lacuna batch -m mini-llada in.jsonl out.jsonl --threads 1 --concurrency 1");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("ignored in request \"a\": tempratur (unknown)\n"));
  EXPECT_THAT(result.err, HasSubstr("ignored in request \"a\": \"boyd\"\n"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("request \"b\"")));
}

TEST_F(BatchCommand, GivesTheSameFileHoweverOftenItIsKilled) {
  write_requests(40, 24);
  const ProgramResult result = shell(kCount + R"sh(
lacuna batch -m mini-llada in.jsonl whole.jsonl --threads 1 --concurrency 3 || exit 1
for i in 1 2 3 4 5; do
  $program batch -m mini-llada in.jsonl out.jsonl --threads 1 --concurrency $i & pid=$!
  lines=$(count out.jsonl)
  for wait in $(seq 400); do
    [ "$(count out.jsonl)" -ge $((lines + 5)) ] && break
    sleep 0.02
  done
  kill -9 $pid; wait $pid 2>/dev/null
done
lacuna batch -m mini-llada in.jsonl out.jsonl --threads 1 || exit 1
cmp whole.jsonl out.jsonl && wc -l <out.jsonl)sh");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("40"));
  EXPECT_THAT(result.err, HasSubstr("answers already"));
}

TEST_F(BatchCommand, AsksServersAndGoesOnWhereOneEnds) {
  write_requests(30, 16);
  const ProgramResult result = shell(kCount + R"sh(
for i in 1 2; do
  $program serve -m mini-llada --threads 1 --port 0 2>log$i & eval server$i=$!
  for wait in $(seq 600); do grep -q http:// log$i && break; sleep 0.05; done
  eval "url$i=$(sed -n 's|.*\(http://[0-9.:]*\)$|\1|p' log$i)"
done
lacuna batch --endpoint $url1 --endpoint $url2/v1/ in.jsonl remote.jsonl --concurrency 4 & batch=$!
for wait in $(seq 600); do [ "$(count remote.jsonl)" -ge 5 ] && break; sleep 0.02; done
kill -9 $server1
wait $batch || exit 1
kill $server2; wait $server2
lacuna batch -m mini-llada in.jsonl local.jsonl --threads 1 || exit 1
cmp local.jsonl remote.jsonl && echo equal)sh");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("equal"));
}

TEST_F(BatchCommand, StopsWhereNoServerCanBeReached) {
  write_requests(2, 4);
  const ProgramResult result =
      shell("lacuna batch --endpoint http://127.0.0.1:1 in.jsonl out.jsonl --retries 1");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("http://127.0.0.1:1"), HasSubstr("onnect")));
}

TEST_F(BatchCommand, RefusesWrongUsageInOneSentence) {
  write_requests(1, 4);
  const auto refuses = [&](const std::string& arguments, const std::string& part) {
    const ProgramResult result = shell("lacuna batch " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  refuses("in.jsonl out.jsonl", "OUTPUT is missing");  // the first word is the model
  refuses("in.jsonl out.jsonl -m mini-llada --endpoint http://h", "needs either --model or --endpoint");
  refuses("none.jsonl out.jsonl -m mini-llada", "none.jsonl");
  refuses("in.jsonl no/folder/out.jsonl -m mini-llada", "no/folder/out.jsonl: cannot be written");
  refuses("in.jsonl out.jsonl --endpoint 127.0.0.1:80", "expected a URL");
  refuses("in.jsonl out.jsonl -m mini-llada --concurrency 0", "--concurrency");
}

}  // namespace
}  // namespace lacuna::batch_test
