// `lacuna pull` against a hub on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hub/fake_hub.h"
#include "program.h"

namespace lacuna::pull_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class PullCli : public testing::Test {
 protected:
  PullCli() {
    for (const char* const name : {"config.json", "model.safetensors"}) {
      files_[name] = file_text(fs::path(LACUNA_SOURCE_DIR "/tests/golden/llada") / name);
    }
  }

  FakeHub& hub(FakeHub::Fault fault = {}) {
    hub_.reset();
    hub_ = std::make_unique<FakeHub>(std::move(fault));
    for (const auto& [name, content] : files_) hub_->add(name, content, name.ends_with(".safetensors"));
    return *hub_;
  }

  std::string environment() const {
    return "env -u HF_TOKEN -u HF_HUB_OFFLINE HF_HOME=" + folder_.path().string() +
           " HF_HUB_CACHE=" + (folder_.path() / "hub").string() + " HF_ENDPOINT=" + hub_->endpoint() + " ";
  }

  ProgramResult lacuna(const std::string& arguments, const std::string& more = "") const {
    return run_line(environment() + more + " " LACUNA_BINARY " " + arguments + " </dev/null", folder_.path(),
                    folder_.path());
  }

  /// Starts a pull from a hub that holds_weights_back, waits until some of their bytes are there, sends the
  /// signal, and returns the wait status.
  int interrupt(int signal) const {
    const std::string command = "exec " + environment() + LACUNA_BINARY + " pull org/name >/dev/null 2>&1";
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    while (partial_size() < 60'000 && waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  uintmax_t partial_size() const {
    std::error_code error;
    const auto size = fs::file_size(
        folder_.path() / "hub/models--org--name/blobs" / (hub_->blob_of("model.safetensors") + ".incomplete"),
        error);
    return error ? 0 : size;
  }

  /// Where the last request for the weights began.
  int64_t first_byte_of_weights() const {
    int64_t first = -1;
    for (const FakeHub::Request& request : hub_->requests()) {
      if (request.target == "/cdn/model.safetensors") first = request.first_byte();
    }
    return first;
  }

  void expect_whole() const {
    const fs::path snapshot = folder_.path() / "hub/models--org--name/snapshots" / hub_->commit;
    for (const auto& [name, content] : files_) EXPECT_TRUE(file_text(snapshot / name) == content) << name;
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> files_;
  std::unique_ptr<FakeHub> hub_;
};

/// The first 100,000 bytes of a large file come, the others never do.
void holds_weights_back(const FakeHub::Request& request, FakeHub::Reply& reply) {
  if (request.target.starts_with("/cdn/")) reply.hold_after = 100'000;
}

void slowly(const FakeHub::Request& request, FakeHub::Reply& reply) {
  if (request.target.starts_with("/cdn/")) reply.pause = std::chrono::milliseconds(30);
}

TEST_F(PullCli, DownloadsAModelThatThenRuns) {
  hub();
  const ProgramResult outcome = lacuna("pull org/name");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, (folder_.path() / "hub/models--org--name/snapshots" / hub_->commit).string() + "\n");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("2 files of"), HasSubstr("model.safetensors ("),
                                 HasSubstr("Ready: lacuna run -m org/name"), Not(HasSubstr("\r"))));
  expect_whole();
  EXPECT_EQ(lacuna("run -m org/name --prompt-tokens 5,6,7 --gen-length 4 --threads 1").exit_code, 0);
  EXPECT_THAT(lacuna("list").out, HasSubstr("org/name"));
  EXPECT_THAT(lacuna("pull org/name").err, HasSubstr("all here already"));
}

TEST_F(PullCli, GoesOnAfterCtrlCWithTheRightChecksums) {
  files_["model.safetensors"] = noise(400'000);
  hub(holds_weights_back);
  const int status = interrupt(SIGINT);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_GT(partial_size(), 0U);
  EXPECT_EQ(lacuna("run -m org/name --prompt-tokens 1").exit_code, 2);
  EXPECT_THAT(file_text(folder_.path() / "stderr"), HasSubstr("`lacuna pull org/name` completes it"));
  hub();
  const ProgramResult outcome = lacuna("pull org/name");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("here already"));
  EXPECT_GT(first_byte_of_weights(), 0);
  expect_whole();
}

TEST_F(PullCli, GoesOnAfterBeingKilledWithTheRightChecksums) {
  files_["model.safetensors"] = noise(400'000);
  for (int round = 0; round < 3; ++round) {
    hub(holds_weights_back);
    EXPECT_TRUE(WIFSIGNALED(interrupt(SIGKILL)));
  }
  hub();
  EXPECT_EQ(lacuna("pull org/name").exit_code, 0);
  EXPECT_GT(first_byte_of_weights(), 0);
  expect_whole();
}

TEST_F(PullCli, LetsTwoDownloadsOfOneModelShareTheWork) {
  files_["model.safetensors"] = noise(300'000);
  hub(slowly);
  std::vector<std::thread> both;
  std::vector<int> codes(2, -1);
  for (size_t i = 0; i < 2; ++i) {
    both.emplace_back([this, i, &codes] {
      codes[i] = std::system((environment() + LACUNA_BINARY + " pull org/name >/dev/null 2>&1").c_str());
    });
  }
  for (std::thread& one : both) one.join();
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  expect_whole();
  const std::vector<FakeHub::Request> requests = hub_->requests();
  EXPECT_EQ(
      std::count_if(requests.begin(), requests.end(),
                    [](const FakeHub::Request& request) { return request.target.starts_with("/cdn/"); }),
      1);
}

TEST_F(PullCli, RefusesWithOneSentence) {
  hub();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"pull mini-llada", "expected ORG/NAME"},
      {"pull ../../etc", "expected ORG/NAME"},
      {"pull org/name/x", "expected ORG/NAME"},
      {"pull org/name --revision ../x", "--revision is \"../x\"; expected a branch"},
      {"pull org/other", "There is no model org/other at http://127.0.0.1:"},
      {"pull org/name:Q4_0", "org/name holds no .gguf file"},
  };
  for (const auto& [arguments, part] : cases) {
    const ProgramResult outcome = lacuna(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << ": " << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr(part));
    const bool asks = outcome.err.starts_with("Asking http://127.0.0.1:");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), asks ? 2 : 1) << outcome.err;
  }
  EXPECT_THAT(lacuna("pull org/name", "HF_HUB_OFFLINE=1").err, HasSubstr("HF_HUB_OFFLINE is set"));
  EXPECT_THAT(lacuna("pull org/name", "HF_ENDPOINT=file:///etc").err,
              HasSubstr("HF_ENDPOINT is \"file:///etc\""));
}

TEST_F(PullCli, GivesUpAfterOneRetryWhereTheHubCannotBeReached) {
  hub();
  const std::string direct = "http_proxy= HTTP_PROXY= https_proxy= HTTPS_PROXY= all_proxy= ALL_PROXY= ";
  for (const std::string& setting :
       {direct + "HF_ENDPOINT=http://no-such-host.invalid", direct + "HF_ENDPOINT=https://127.0.0.1:1",
        std::string("no_proxy= NO_PROXY= http_proxy=http://no-such-proxy.invalid:3128 "
                    "HF_ENDPOINT=http://no-such-host.invalid")}) {
    const ProgramResult outcome = lacuna("pull org/name", setting);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("Asking http")) << outcome.err;
    const std::string again = "another attempt in ";
    const size_t first = outcome.err.find(again);
    EXPECT_NE(first, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find(again, first + 1), std::string::npos) << outcome.err;
    for (const char* part : {"lacuna: ", "HTTPS_PROXY", "HF_ENDPOINT", "lacuna list"})
      EXPECT_THAT(outcome.err.substr(first), HasSubstr(part)) << setting;
  }
}

TEST_F(PullCli, FailsWithoutWaitingLongWhereNobodyListens) {
  hub();
  const ProgramResult outcome = lacuna("pull org/name --revision main", "HF_ENDPOINT=http://");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, Not(IsEmpty()));
}

/// Lines that a terminal of this width shows: lines as they are when they are overwritten or ended.
std::vector<std::string> terminal_lines(const std::string& command, unsigned short columns) {
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  waitpid(child, nullptr, 0);
  close(terminal);
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "\033[K") == 0) {
      i += 2;
    } else if (text[i] == '\r' || text[i] == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += text[i];
    }
  }
  return lines;
}

TEST_F(PullCli, ShowsProgressInOneLineOfTheTerminal) {
  files_["model.safetensors"] = noise(600'000);
  for (const unsigned short columns : {20, 40, 80, 200}) {
    hub(slowly);
    fs::remove_all(folder_.path() / "hub");
    const std::vector<std::string> lines =
        terminal_lines(environment() + LACUNA_BINARY + " pull org/name >/dev/null", columns);
    size_t bars = 0;
    for (const std::string& line : lines) {
      if (!line.starts_with("Pulling org/n")) continue;
      ++bars;
      EXPECT_LT(line.size(), columns) << line;
      EXPECT_THAT(line, HasSubstr("%"));
      if (columns >= 80) {
        EXPECT_THAT(line, HasSubstr(" of 60"));
      }
    }
    EXPECT_GT(bars, 2U) << columns;
    expect_whole();
  }
}

}  // namespace
}  // namespace lacuna::pull_test
