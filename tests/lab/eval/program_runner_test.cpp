#include "eval/program_runner.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace lacuna::program_runner_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PythonPrograms : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no /usr/bin/python3";
  }
  static bool runs(const std::string& program) {
    ProgramLimits limits;
    limits.memory = int64_t{512} << 20;
    return passes("python3", program, limits);
  }
};

TEST_F(PythonPrograms, PassWhenTheyRunToTheirEnd) {
  check_python("python3");
  EXPECT_TRUE(runs("def f(x):\n    return x + 1\nassert f(1) == 2"));
  EXPECT_FALSE(runs("assert False"));
  EXPECT_FALSE(runs("this is no program"));
  EXPECT_FALSE(runs("raise SystemExit(0)"));  // leaves before its end
  EXPECT_FALSE(runs("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"));
}

TEST_F(PythonPrograms, EndAtTheirLimits) {
  ProgramLimits brief;
  brief.time = std::chrono::milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(passes("python3", "while True: pass", brief));
  EXPECT_FALSE(passes("python3", "import time\ntime.sleep(600)", brief));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_FALSE(runs("x = bytearray(1 << 30)"));
  EXPECT_FALSE(runs("open('f', 'wb').write(b'x' * (32 << 20))"));
}

TEST_F(PythonPrograms, SeeAnEmptyFolderAndNothingOfTheEnvironment) {
  EXPECT_TRUE(
      runs("import os, sys\n"
           "assert os.listdir('.') == ['program.py']\n"
           "assert set(os.environ) <= {'PATH', 'LC_CTYPE'}\n"
           "assert sys.stdin.read() == ''\n"
           "assert set(os.listdir('/proc/self/fd')) <= {'0', '1', '2', '3'}"));
}

TEST(CheckPython, RefusesWhatIsNoInterpreter) {
  EXPECT_THAT([] { check_python("/bin/false"); },
              ThrowsMessage<InputError>(HasSubstr("--run-tests /bin/false: cannot run an empty program")));
  EXPECT_THROW(check_python("no-such-python"), InputError);
}

}  // namespace
}  // namespace lacuna::program_runner_test
