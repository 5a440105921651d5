#include "server/request_log.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

namespace lacuna::request_log_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::chrono::system_clock::time_point kTime{std::chrono::milliseconds(1'795'680'980'123)};

RequestRecord record() {
  RequestRecord record{"req_1", "127.0.0.1", "POST", "/v1/completions", 200, 1.25};
  record.answer = AnswerRecord{"mini-llada", 12, 34};
  return record;
}

TEST(LogLine, TellsARequestInOneLine) {
  EXPECT_EQ(log_line(record(), LogFormat::kText, kTime),
            "2026-11-26T08:16:20.123Z 127.0.0.1 POST /v1/completions 200 1.250s req_1 model=mini-llada "
            "prompt_tokens=12 completion_tokens=34");
  const auto json = nlohmann::json::parse(log_line(record(), LogFormat::kJson, kTime));
  EXPECT_EQ(json["time"], "2026-11-26T08:16:20.123Z");
  EXPECT_EQ(json["request_id"], "req_1");
  EXPECT_EQ(json["seconds"], 1.25);
  EXPECT_EQ(json["completion_tokens"], 34);
}

TEST(LogLine, LetsNoClientWriteLinesOfItsOwn) {
  RequestRecord hostile = record();
  hostile.path = "/a\n2026 forged \x1b[31m\xff" + std::string(100'000, 'x');
  hostile.method = std::string(100'000, 'M');
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = log_line(hostile, format, kTime);
    EXPECT_LT(line.size(), 4096U);
    EXPECT_THAT(line, Not(HasSubstr("\n")));
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  }
}

TEST(LogLine, SaysThatAReplyWasCutOff) {
  RequestRecord cut = record();
  cut.is_whole = false;
  EXPECT_THAT(log_line(cut, LogFormat::kText, kTime), testing::EndsWith(" incomplete"));
}

TEST(RequestLog, WritesLinesInOrder) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    RequestLog log(LogFormat::kText, ends[1]);
    for (const char* id : {"first", "second"}) {
      RequestRecord each = record();
      each.id = id;
      log.add(each);
    }
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  EXPECT_LT(text.find("first"), text.find("second"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(RequestLog, HoldsNobodyUpWhereNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    RequestLog log(LogFormat::kText, ends[1]);
    for (size_t i = 0; i < 2 * RequestLog::kMaxLines; ++i) log.add(record());  // far more than a pipe holds
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace lacuna::request_log_test
