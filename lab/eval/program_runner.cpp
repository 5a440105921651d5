#include "eval/program_runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#elif defined(__FreeBSD__)
#include <sys/procctl.h>
#endif

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/written_file.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

// Exit code of a program that ran to its end, unlikely for a program that exits early.
constexpr int kPassed = 97;

class EmptyFolder {
 public:
  EmptyFolder() : path_((fs::temp_directory_path() / "lacuna-program-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw InputError("{}: cannot be made", path_);
  }
  ~EmptyFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::absolute(name).string();
  for (const char* const folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return name;
}

template <typename Resource>  // glibc has a special type, other systems int
void limit(Resource resource, int64_t value) {
  const rlimit both{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  setrlimit(resource, &both);
}

/// Makes the calling process end with its parent and run without network, if the system supports that.
void isolate() {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  unshare(CLONE_NEWUSER | CLONE_NEWNET);  // on failure the network stays available
#elif defined(__FreeBSD__)
  int signal = SIGKILL;
  procctl(P_PID, 0, PROC_PDEATHSIG_CTL, &signal);
#endif
}

/// Runs in the child between fork and exec, so it uses only async-signal-safe functions.
[[noreturn]] void become(const char* python, const char* folder, const ProgramLimits& limits) {
  setsid();
  isolate();
  limit(RLIMIT_CPU, limits.time.count() / 1000 + 1);
#ifndef __APPLE__  // macOS ignores RLIMIT_AS
  limit(RLIMIT_AS, limits.memory);
#endif
  limit(RLIMIT_FSIZE, limits.file_size);
  limit(RLIMIT_NOFILE, 64);
  limit(RLIMIT_CORE, 0);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) dup2(nothing, stream);
  for (int file = 3; file < 1024; ++file) close(file);
  if (chdir(folder) == 0) {
    const char* const arguments[] = {python, "-I", "-B", "program.py", nullptr};
    const char* const environment[] = {"PATH=/usr/bin:/bin", nullptr};
    execve(python, const_cast<char* const*>(arguments), const_cast<char* const*>(environment));
  }
  _exit(127);
}

}  // namespace

bool passes(const std::string& python, std::string_view program, const ProgramLimits& limits) {
  const EmptyFolder folder;
  write_whole_file(folder.path() + "/program.py",
                   fmt::format("{}\nraise SystemExit({})\n", program, kPassed));
  const std::string path = find_program(python);
  const pid_t child = fork();
  if (child < 0) throw InputError("--run-tests {}: no process can be started", python);
  if (child == 0) become(path.c_str(), folder.path().c_str(), limits);

  const auto deadline = std::chrono::steady_clock::now() + limits.time;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(-child, SIGKILL);  // including processes that it started
  if (ended == 0) {
    kill(child, SIGKILL);  // in case it does not lead its group yet
    waitpid(child, &status, 0);
    return false;
  }
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == kPassed;
}

std::string limits_that_are_missing() {
#if defined(__linux__)
  return {};
#elif defined(__APPLE__)
  return "macOS neither limits the memory of tested programs nor cuts them off from the network";
#else
  return "this system does not cut tested programs off from the network";
#endif
}

void check_python(const std::string& python) {
  if (!passes(python, "")) {
    throw InputError("--run-tests {}: cannot run an empty program; expected a Python interpreter", python);
  }
}

}  // namespace lacuna
