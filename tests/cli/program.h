// The program in a test's folder: with pipes, and on a terminal of its own.
#pragma once

#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace lacuna {

struct ProgramResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Runs a line of the shell in a folder of the test; `out` and `err` are files in `output`.
inline ProgramResult run_line(const std::string& line, const std::filesystem::path& folder,
                              const std::filesystem::path& output) {
  const std::string command = "cd " + folder.string() + " && { " + line + "\n} >" +
                              (output / "stdout").string() + " 2>" + (output / "stderr").string();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(output / "stdout"),
          file_text(output / "stderr")};
}

/// A test's folder, with a model whose tokens are single characters.
class ProgramTest : public testing::Test {
 protected:
  /// Runs `lacuna ARGUMENTS` in the folder.
  ProgramResult lacuna(const std::string& arguments, const std::string& input = "") const {
    folder_.write("stdin", input);
    const std::string environment = "XDG_STATE_HOME=" + path("state") + " XDG_CACHE_HOME=" + path("cache") +
                                    " XDG_CONFIG_HOME=" + path("config");
    return run_line(environment + " " LACUNA_BINARY " " + arguments + " <stdin", folder_.path(),
                    folder_.path());
  }

  /// Runs a line of bash in which `lacuna` is the program and the models of the repository have their names.
  ProgramResult shell(const std::string& line) const {
    folder_.write("line.sh", "export XDG_CACHE_HOME=" + path("cache") + " XDG_CONFIG_HOME=" + path("config") +
                                 "\nlacuna() { '" LACUNA_BINARY "' \"$@\"; }\n" + line);
    return run_line("ln -sfn " LACUNA_SOURCE_DIR "/models models && bash line.sh </dev/null", folder_.path(),
                    folder_.path());
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// A copy of a golden checkpoint with a tokenizer of single characters and ChatML's tokens.
  ///   first_token  text of token 0, in place of "!"
  std::string model_with_text(const std::string& family, const std::string& first_token = "!") const {
    namespace fs = std::filesystem;
    const fs::path copy = folder_.path() / family;
    fs::remove_all(copy);
    fs::copy(LACUNA_SOURCE_DIR "/tests/golden/" + family, copy);
    nlohmann::json vocabulary;
    for (int id = 0; id < 83; ++id) vocabulary[std::string(1, static_cast<char>('!' + id))] = id;
    vocabulary.erase("!");
    vocabulary[first_token] = 0;
    vocabulary["\u0120"] = 83;  // the space and the newline, as byte-level tokenizers spell them
    vocabulary["\u010a"] = 84;
    std::ofstream(copy / "vocab.json") << vocabulary;
    std::ofstream(copy / "merges.txt") << "#version: 0.2\n";
    const nlohmann::json added = {
        {"<|im_start|>", 85}, {"<|im_end|>", 86}, {"<|endoftext|>", 89}, {"<|mdm_mask|>", 90}};
    std::ofstream(copy / "added_tokens.json") << added;
    const nlohmann::json config = {{"tokenizer_class", "Qwen2Tokenizer"}, {"eos_token", "<|endoftext|>"}};
    std::ofstream(copy / "tokenizer_config.json") << config;
    return copy.string();
  }

  TemporaryFolder folder_;
};

/// The program on a pseudo terminal, as somebody who types sees it.
class TerminalProgram {
 public:
  /// `environment` as the shell takes it: "TERM=xterm".
  TerminalProgram(const std::string& environment, const std::string& arguments, int columns = 80) {
    winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    process_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (process_ == 0) {
      const std::string command = "exec env " + environment + " " LACUNA_BINARY " " + arguments;
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  ~TerminalProgram() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(terminal_);
  }
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& keys) const {
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), ssize_t(keys.size()));
  }
  void send(int signal) const { kill(process_, signal); }
  void resize(int columns) const {
    winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }

  /// Output since the last call, up to and with `part`; a test fails where it does not come.
  std::string wait_for(const std::string& part) {
    size_t found = screen_.find(part, seen_);
    while (found == std::string::npos && read_more()) found = screen_.find(part, seen_);
    EXPECT_NE(found, std::string::npos) << "expected " << part << " in " << screen_.substr(seen_);
    const size_t end = found == std::string::npos ? screen_.size() : found + part.size();
    const std::string shown = screen_.substr(seen_, end - seen_);
    seen_ = end;
    return shown;
  }

  /// The rest of what is shown; the status is that of waitpid().
  std::string finish(int& status) {
    while (read_more()) {
    }
    pid_t ended = 0;
    for (int i = 0; i < 100 && (ended = waitpid(process_, &status, WNOHANG)) == 0; ++i) usleep(100'000);
    if (ended == 0) {  // it shows nothing more and does not end
      kill(process_, SIGKILL);
      waitpid(process_, &status, 0);
    }
    process_ = 0;
    return screen_.substr(seen_);
  }

 private:
  /// False at the end, or where nothing comes for 20 s.
  bool read_more() {
    pollfd waiting{terminal_, POLLIN, 0};
    if (poll(&waiting, 1, 20'000) <= 0) return false;
    std::array<char, 4096> bytes{};
    const ssize_t count = read(terminal_, bytes.data(), bytes.size());
    if (count <= 0) return false;
    screen_.append(bytes.data(), static_cast<size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t process_ = 0;
  std::string screen_;
  size_t seen_ = 0;
};

/// Exit code 2, nothing on standard output, one line on standard error that contains `part`.
inline void expect_program_refuses(const ProgramResult& result, const std::string& part) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.out, testing::IsEmpty());
  EXPECT_THAT(result.err, testing::AllOf(testing::StartsWith("lacuna: "), testing::HasSubstr(part)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

}  // namespace lacuna
