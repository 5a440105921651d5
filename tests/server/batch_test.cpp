#include "server/batch.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::batch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string request_line(const std::string& id, const std::string& body = R"({"prompt": "Mia"})") {
  return R"({"custom_id": ")" + id + R"(", "method": "POST", "url": "/v1/completions", "body": )" + body +
         "}\n";
}

class Batch : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() / name).rdbuf();
    return text.str();
  }
  BatchInput three() const {
    return BatchInput(write("in", request_line("a") + request_line("b") + request_line("c")));
  }
  std::string answer(const BatchInput& input, size_t index) const {
    return batch_answer_line(input.at(index), index, {200, R"({"id": "x"})"});
  }

  TemporaryFolder folder_;
};

TEST_F(Batch, ReadsARequestALine) {
  const BatchInput input(write("in", request_line("a") + "\r\n\n" + request_line("b", R"({"seed": 3})")));
  ASSERT_EQ(input.size(), 2U);
  EXPECT_EQ(input.at(1).custom_id, "b");
  EXPECT_EQ(input.at(1).path, "/v1/completions");
  EXPECT_EQ(input.at(1).body, R"({"seed":3})");
}

TEST_F(Batch, RefusesAFileBeforeTheFirstRequestRuns) {
  const auto refuses = [&](const std::string& text, const std::string& part) {
    const std::filesystem::path path = write("in", text);
    EXPECT_THAT([&] { BatchInput{path}; }, ThrowsMessage<InputError>(HasSubstr(part))) << text.substr(0, 100);
  };
  refuses("\n\n", "has no requests");
  refuses(request_line("a") + "{", "in, request 2");
  refuses("[]\n", "\"custom_id\" is missing");
  refuses("3\n", "\"custom_id\" is missing");
  refuses(request_line(""), "\"custom_id\" is \"\\\"\\\"\"; expected a text of 1 to 512 bytes");
  refuses(request_line(std::string(600, 'x')), "\"custom_id\" is");
  refuses(request_line("a") + request_line("a"), "request 2: \"custom_id\" is \"a\", as in an earlier line");
  refuses(R"({"custom_id": "a", "method": "GET", "url": "/v1/models", "body": {}})", "expected POST");
  refuses(R"({"custom_id": "a", "method": "POST", "url": "http://h/x", "body": {}})", "expected the path");
  refuses(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions"})", "\"body\" is missing");
  refuses(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": []})",
          "expected an object");
  refuses(request_line("a", R"({"stream": true})"), "\"body.stream\" is true");
  refuses(request_line("a", '"' + std::string(5 << 20, 'x') + '"'), "expected at most 4194304");
  refuses(request_line("a", std::string(100'000, '[')), "request 1");
}

TEST_F(Batch, LeavesOutWhatDependsOnTime) {
  const BatchInput input = three();
  const std::string line = batch_answer_line(input.at(1), 1, {200, R"({"id": "cmpl-17", "created": 5,
    "choices": [{"text": "x", "lacuna": {"tokens": [1], "stats": {"seconds": 1}}}],
    "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}, "timings": {}})"});
  EXPECT_EQ(
      line,
      R"({"id":"batch_req_2","custom_id":"b","response":{"status_code":200,"request_id":"batch_req_2","body":)"
      R"({"id":"batch_req_2","created":0,"choices":[{"text":"x","lacuna":{"tokens":[1]}}],)"
      R"("usage":{"prompt_tokens":3}}},"error":null})");
}

TEST_F(Batch, KeepsABodyThatIsNotJsonAsText) {
  const BatchInput input = three();
  const auto json = nlohmann::json::parse(batch_answer_line(input.at(0), 0, {502, "bad gateway\xff"}));
  EXPECT_EQ(json["response"]["status_code"], 502);
  EXPECT_THAT(json["response"]["body"], AllOf(HasSubstr("bad gateway")));
}

TEST_F(Batch, ContinuesAfterALineThatWasNotWrittenToItsEnd) {
  const BatchInput input = three();
  std::string whole;
  for (size_t i = 0; i < 3; ++i) whole += answer(input, i) + "\n";
  // Cut everywhere, as a process may be killed anywhere.
  for (size_t cut = 0; cut <= whole.size(); cut += 7) {
    write("out", whole.substr(0, cut));
    {
      BatchOutput output(folder_.path() / "out", input);
      for (size_t i = output.size(); i < 3; ++i) output.append(answer(input, i));
      EXPECT_EQ(output.size(), 3U);
    }
    EXPECT_EQ(read("out"), whole) << "cut at " << cut;
  }
}

TEST_F(Batch, RefusesAnswersToOtherRequests) {
  const BatchInput input = three();
  const auto refuses = [&](const std::string& text, const std::string& part) {
    write("out", text);
    EXPECT_THAT([&] { BatchOutput(folder_.path() / "out", input); },
                ThrowsMessage<InputError>(HasSubstr(part)));
    EXPECT_EQ(read("out"), text) << "nothing is lost";
  };
  refuses(answer(input, 1) + "\n", "out, request 1 answers \"b\"; expected \"a\"");
  refuses("{}\n", "answers \"\"; expected \"a\"");
  refuses("not JSON\n", "out, request 1");
  refuses(
      answer(input, 0) + "\n" + answer(input, 1) + "\n" + answer(input, 2) + "\n" + answer(input, 2) + "\n",
      "expected no more lines");
}

TEST_F(Batch, IsWrittenByOneProcess) {
  const BatchInput input = three();
  const BatchOutput output(folder_.path() / "out", input);
  EXPECT_THAT([&] { BatchOutput(folder_.path() / "out", input); },
              ThrowsMessage<InputError>(HasSubstr("is being written by another process")));
}

}  // namespace
}  // namespace lacuna::batch_test
