// Files that the program writes while its disk fills, its calls fail or it is killed: faulty_calls.cpp is
// loaded before the C library. A file under its final name is whole or as it was before; a failure is one
// sentence and exit code 1, and interrupted and short calls are not failures.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "temporary_folder.h"

namespace lacuna::program_faults_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTiny = LACUNA_SOURCE_DIR "/tests/golden/llada";
constexpr int kKilled = 128 + SIGKILL;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int exit_code = -1;
  std::string errors;
};

/// Runs `lacuna ARGUMENTS` in a folder. Its standard streams are pipes, which never fail.
///   fault  CALL:FAILURE:N (faulty_calls.h); empty: none
Outcome lacuna(const fs::path& folder, const std::string& arguments, const std::string& fault = "") {
  std::string environment;
  if (!fault.empty()) {
    environment = "LACUNA_FAULT=" + fault + " LD_PRELOAD=" LACUNA_FAULTY_CALLS " ";
  }
  const std::string command = "cd " + folder.string() + " && XDG_CONFIG_HOME=" + folder.string() + " " +
                              environment + LACUNA_BINARY " " + arguments +
                              " 2>&1 >/dev/null | cat; exit ${PIPESTATUS[0]}";
  std::ofstream(folder / "command") << command;
  FILE* const pipe = ::popen(("bash " + (folder / "command").string()).c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (size_t size = 0; (size = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    outcome.errors.append(buffer, size);
  const int status = ::pclose(pipe);
  fs::remove(folder / "command");
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Output of a command: the bytes of each file below a folder, by its path.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder).string()] = text_of(entry.path());
  }
  return files;
}

bool is_partial(const std::string& name) {
  return name.ends_with(".partial");
}

/// One command and the calls that it makes.
struct Command {
  std::string name;
  std::string arguments;
  /// The file that makes the result complete: it has to be written last.
  std::string last;
  std::map<std::string, std::string> before = {};  ///< files that are there
};

std::vector<Command> commands() {
  return {{"pack", "pack -t 1 -m " + kTiny + " -o out", "out/config.json"},
          {"quantize", "quantize -t 1 -m " + kTiny + " --to int8 -o out", "out/config.json"},
          {"logits",
           "logits -t 1 -m " + kTiny + " --request request.json --out out.npy",
           "out.npy",
           {{"request.json", R"({"tokens": [1, 2, 3]})"}, {"out.npy", "what was there before"}}}};
}

/// Calls with a fault after which the program did not even notice it: the last one has been passed.
constexpr int kMaxCalls = 200;

/// Checks one run. Returns whether the program came to its end.
bool check(const Command& command, const std::map<std::string, std::string>& whole,
           const std::string& fault) {
  SCOPED_TRACE(command.name + " with LACUNA_FAULT=" + fault);
  const TemporaryFolder folder;
  for (const auto& [name, text] : command.before) folder.write(name, text);
  const Outcome outcome = lacuna(folder.path(), command.arguments, fault);
  const std::map<std::string, std::string> files = files_in(folder.path());
  for (const auto& [name, bytes] : files) {
    if (is_partial(name)) continue;
    const auto before = command.before.find(name);
    const bool is_old = before != command.before.end() && before->second == bytes;
    EXPECT_TRUE(is_old || bytes == whole.at(name))
        << name << " is neither the old file nor the whole new one";
  }
  const auto last = files.find(command.last);
  const bool is_there = last != files.end() && last->second == whole.at(command.last);
  if (is_there) {
    for (const auto& [name, bytes] : whole) EXPECT_TRUE(files.contains(name)) << name << " is missing";
  }
  if (outcome.exit_code == 0) {
    EXPECT_TRUE(is_there);
    EXPECT_EQ(
        std::count_if(files.begin(), files.end(), [](const auto& each) { return is_partial(each.first); }),
        0);
    return true;
  }
  if (fault.find(":kill:") != std::string::npos) {
    EXPECT_EQ(outcome.exit_code, kKilled) << outcome.errors;
    return false;
  }
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, StartsWith("lacuna: "));
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  return false;
}

/// Lets the first call fail, then the second, and so on, until the program makes fewer.
///   stride  1: every call; more: some of them
void check_calls(const Command& command, const std::string& call, const std::string& failure, int stride) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : command.before) folder.write(name, text);
  ASSERT_EQ(lacuna(folder.path(), command.arguments).exit_code, 0);
  const std::map<std::string, std::string> whole = files_in(folder.path());
  const bool is_failure = failure != "EINTR" && failure != "short";
  int nth = 1;
  while (nth < kMaxCalls) {
    const bool went_well = check(command, whole, call + ":" + failure + ":" + std::to_string(nth));
    if (testing::Test::HasFailure()) return;
    if (!is_failure) {
      EXPECT_TRUE(went_well);
      if (nth > 8) return;
    } else if (went_well) {
      break;
    }
    nth += stride;
  }
  EXPECT_GT(nth, 1) << "no call failed";
  EXPECT_LT(nth, kMaxCalls);
}

int stride() {
  return std::getenv("LACUNA_FAULT_ALL") != nullptr ? 1 : 15;
}

TEST(ProgramFaults, AFullDiskLeavesNoHalfFile) {
  for (const Command& command : commands()) check_calls(command, "write", "ENOSPC", stride());
}

TEST(ProgramFaults, ADiskThatFailsLeavesNoHalfFile) {
  for (const Command& command : commands()) {
    check_calls(command, "write", "EIO", 2 * stride());
    check_calls(command, "fsync", "EIO", 1);
    check_calls(command, "rename", "EIO", 1);
  }
}

TEST(ProgramFaults, AKilledProgramLeavesNoHalfFile) {
  for (const Command& command : commands()) {
    check_calls(command, "write", "kill", 2 * stride());
    check_calls(command, "rename", "kill", 1);
  }
}

TEST(ProgramFaults, InterruptedAndShortCallsAreNoFailures) {
  for (const Command& command : commands()) {
    check_calls(command, "write", "EINTR", 3);
    check_calls(command, "write", "short", 3);
    check_calls(command, "fsync", "EINTR", 3);
  }
}

/// Files that cannot be opened are named with the reason; the exit code is that of bad input.
TEST(ProgramFaults, ATableOfFilesThatIsFullIsASentence) {
  const TemporaryFolder folder;
  int num_failed = 0;
  for (int nth = 1; nth < 60; nth += stride()) {
    const Outcome outcome = lacuna(folder.path(), "pack -t 1 -m " + kTiny + " -o out" + std::to_string(nth),
                                   "open:EMFILE:" + std::to_string(nth));
    if (outcome.exit_code == 0) continue;  // nothing that the program needs
    ++num_failed;
    EXPECT_THAT(outcome.exit_code, testing::AnyOf(1, 2)) << outcome.errors;
    EXPECT_THAT(outcome.errors, StartsWith("lacuna: "));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }
  EXPECT_GT(num_failed, 0);
}

/// A run that reads the files of a model and a request.
struct Reading {
  std::string arguments;
  std::map<std::string, std::string> before = {};
};

std::vector<Reading> readings() {
  const std::string mini = LACUNA_SOURCE_DIR "/models/mini-llada";
  return {{"tokenize -m " + mini + " < text", {{"text", "Mia has 3 shells."}}},
          {"logits -t 1 -m " + kTiny + " --request request.json --out out.npy",
           {{"request.json", R"({"tokens": [1, 2, 3]})"}}},
          {"replay trace.jsonl --fps 1000",
           {{"trace.jsonl", R"({"request": 0, "canvas": [1, 2], "prompt_tokens": 1})"}}}};
}

/// The error names the file, and nothing is made of the part of it that was read.
TEST(ProgramFaults, AFileThatCannotBeReadIsASentence) {
  for (const Reading& reading : readings()) {
    int num_failed = 0;
    for (int nth = 1; nth < 20; ++nth) {
      SCOPED_TRACE(reading.arguments + " with LACUNA_FAULT=read:EIO:" + std::to_string(nth));
      const TemporaryFolder folder;
      for (const auto& [name, text] : reading.before) folder.write(name, text);
      const Outcome outcome = lacuna(folder.path(), reading.arguments, "read:EIO:" + std::to_string(nth));
      if (outcome.exit_code == 0) continue;  // nothing that the program needs
      ++num_failed;
      EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
      EXPECT_THAT(outcome.errors, AllOf(StartsWith("lacuna: "), HasSubstr(": cannot be read")));
      EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    }
    EXPECT_GT(num_failed, 0) << reading.arguments;
  }
}

TEST(ProgramFaults, InterruptedAndShortReadsAreNoFailures) {
  for (const Reading& reading : readings()) {
    for (const char* const failure : {"EINTR", "short"}) {
      for (int nth = 1; nth < 10; ++nth) {
        const TemporaryFolder folder;
        for (const auto& [name, text] : reading.before) folder.write(name, text);
        const Outcome outcome =
            lacuna(folder.path(), reading.arguments, fmt::format("read:{}:{}", failure, nth));
        EXPECT_EQ(outcome.exit_code, 0) << reading.arguments << ": " << outcome.errors;
      }
    }
  }
}

TEST(ProgramFaults, ATraceOnAFullDiskHasWholeLinesBeforeTheLast) {
  const std::string run =
      "run -t 1 -m " + kTiny + " --prompt-tokens 1,2,3 --gen-length 8 --trace trace.jsonl";
  for (const char* const failure : {"ENOSPC", "EIO", "kill"}) {
    const TemporaryFolder folder;
    const Outcome outcome = lacuna(folder.path(), run, std::string("write:") + failure + ":5");
    EXPECT_EQ(outcome.exit_code, failure == std::string_view("kill") ? kKilled : 1) << outcome.errors;
    const std::string trace = text_of(folder.path() / "trace.jsonl");
    EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 4);
    EXPECT_EQ(lacuna(folder.path(), "replay trace.jsonl --fps 1000").exit_code, 0);
  }
  const TemporaryFolder folder;
  EXPECT_EQ(lacuna(folder.path(), run, "write:EINTR:3").exit_code, 0);
  EXPECT_EQ(lacuna(folder.path(), run, "write:short:3").exit_code, 0);
}

TEST(ProgramFaults, AnInterruptedBatchIsContinuedToTheSameBytes) {
  std::string requests;
  for (int i = 0; i < 6; ++i) {
    requests += nlohmann::json{{"custom_id", std::to_string(i)},
                               {"method", "POST"},
                               {"url", "/v1/completions"},
                               {"body", {{"prompt", {1, 2, 3 + i}}, {"max_tokens", 4}}}}
                    .dump() +
                "\n";
  }
  const std::string batch = "batch in.jsonl out.jsonl -t 1 -m " + kTiny;
  const TemporaryFolder whole;
  whole.write("in.jsonl", requests);
  ASSERT_EQ(lacuna(whole.path(), batch).exit_code, 0);
  for (const char* const fault :
       {"write:ENOSPC:3", "write:EIO:2", "write:kill:4", "write:short:2", "write:EINTR:2"}) {
    SCOPED_TRACE(fault);
    const TemporaryFolder folder;
    folder.write("in.jsonl", requests);
    const Outcome outcome = lacuna(folder.path(), batch, fault);
    const bool is_failure = std::string_view(fault).find("short") == std::string_view::npos &&
                            std::string_view(fault).find("EINTR") == std::string_view::npos;
    EXPECT_EQ(outcome.exit_code != 0, is_failure) << outcome.errors;
    EXPECT_EQ(lacuna(folder.path(), batch).exit_code, 0);
    EXPECT_EQ(text_of(folder.path() / "out.jsonl"), text_of(whole.path() / "out.jsonl"));
  }
}

/// /save replaces a chat only by a whole one.
TEST(ProgramFaults, ASavedChatSurvivesAFullDisk) {
  const std::string chat = R"({"format": "lacuna-chat", "version": 1, "model": "x", "messages": []})";
  const std::string command = "chat -m " LACUNA_SOURCE_DIR "/models/mini-llada --gen-length 4 < input";
  const TemporaryFolder folder;
  folder.write("chat.json", chat);
  folder.write("input", "Hello\n/save chat.json\n");
  const Outcome outcome = lacuna(folder.path(), command, "write:ENOSPC:1");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("No space left on device"));
  EXPECT_EQ(text_of(folder.path() / "chat.json"), chat);
}

}  // namespace
}  // namespace lacuna::program_faults_test
