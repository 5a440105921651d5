// `lacuna serve` as a program: how it starts, what it refuses, and how it ends.
#include <gmock/gmock.h>

#include "program.h"

namespace lacuna::serve_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

class Serve : public ProgramTest {
 protected:
  /// Runs a line of bash next to a server with these flags. `ask BODY` posts to /v1/completions and prints
  /// the reply, $port and $server are the server's; its messages are in the file log.
  ProgramResult beside_server(const std::string& flags, const std::string& line) const {
    return shell(R"(
ask() {
  exec 3<>/dev/tcp/127.0.0.1/$port
  printf 'POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s' ${#1} "$1" >&3
  cat <&3
}
get() { exec 4<>/dev/tcp/127.0.0.1/$port; printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&4; cat <&4; }

)" LACUNA_BINARY " serve --threads 1 --port 0 " +
                 flags + R"( 2>log &
server=$!
for i in $(seq 600); do
  port=$(sed -n 's|.*http://[^:]*:||p' log)
  [ -n "$port" ] && break
  sleep 0.05
done
)" + line);
  }
};

TEST_F(Serve, EndsStreamsWithAnEventWhenItIsTerminated) {
  const ProgramResult result = beside_server("-m mini-llada --drain 0", R"(
ask '{"prompt":"Mia","max_tokens":900,"steps":900,"stream":true,"lacuna":{"events":true}}' >answer &
for i in $(seq 600); do grep -q step answer && break; sleep 0.05; done
kill -TERM $server; wait $server; echo "status $?"; wait; cat answer)");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("status 0"), HasSubstr("the server was stopped"), EndsWith("data: [DONE]\n\n")))
      << result.err;
}

TEST_F(Serve, LetsRequestsFinishWhenItIsTerminated) {
  const ProgramResult result = beside_server("-m mini-llada --drain 600", R"(
ask '{"prompt":"Mia","max_tokens":240,"steps":240,"stream":true,"lacuna":{"events":true}}' >answer &
for i in $(seq 600); do grep -q step answer && break; sleep 0.05; done
kill -TERM $server; sleep 0.05; get /health | head -1; wait $server; echo "status $?"; wait; cat answer)");
  EXPECT_THAT(result.out, AllOf(HasSubstr("503"), HasSubstr("status 0"),
                                HasSubstr("\"finish_reason\":\"stop\""), EndsWith("data: [DONE]\n\n")))
      << result.err;
}

TEST_F(Serve, NoticesThatItsModelWasWrittenTo) {
  ASSERT_EQ(shell("lacuna pack -m mini-llada -o packed --threads 1").exit_code, 0);
  const ProgramResult result = beside_server("-m packed", R"(
ask '{"prompt":"Mia","max_tokens":4}' | head -1
printf x | dd of=packed/$(ls packed | grep -m1 safetensors) bs=1 seek=100000 conv=notrunc 2>dd_log
ask '{"prompt":"Mia","max_tokens":4}'
kill -TERM $server; wait $server; echo "status $?")");
  EXPECT_THAT(result.out, AllOf(HasSubstr("200 OK"), HasSubstr("was changed while the server ran"),
                                HasSubstr("status 0")))
      << result.err;
}

TEST_F(Serve, NoticesThatItsModelWasWrittenToWhileItAnswered) {
  ASSERT_EQ(shell("lacuna pack -m mini-llada -o packed --threads 1").exit_code, 0);
  const ProgramResult result = beside_server("-m packed", R"(
ask '{"prompt":"Mia","max_tokens":400,"steps":400,"stream":true,"lacuna":{"events":true}}' >answer &
for i in $(seq 600); do grep -q step answer && break; sleep 0.05; done
printf x | dd of=packed/$(ls packed | grep -m1 safetensors) bs=1 seek=100000 conv=notrunc 2>dd_log
wait $!; cat answer
kill -TERM $server; wait $server; echo "status $?")");
  EXPECT_THAT(result.out, AllOf(HasSubstr("was changed while the server ran"), HasSubstr("data: [DONE]\n\n"),
                                HasSubstr("status 0")))
      << result.err;
}

TEST_F(Serve, NeedsAKeyToServeOtherMachines) {
  const std::string serve = "serve -m " LACUNA_SOURCE_DIR "/models/mini-llada --host 0.0.0.0 --port 0 ";
  expect_program_refuses(lacuna(serve), "--insecure");
  expect_program_refuses(lacuna(serve + "--api-key ''"), "--api-key is empty");
  folder_.write("keys", "# none\n");
  expect_program_refuses(lacuna(serve + "--api-key-file keys"), "holds no key");
  EXPECT_EQ(shell("LACUNA_API_KEY= lacuna serve -m mini-llada --port 0").exit_code, 2);
}

TEST_F(Serve, LoadsTheModelsThatRequestsAskFor) {
  const ProgramResult result = beside_server("-m mini-llada -m quick=mini-qwen --kv-memory 64", R"(
get /v1/models | tail -1
ask '{"model":"quick","prompt":"Mia","max_tokens":4}' | tail -1
ask '{"model":"mini-llada","prompt":"Mia","max_tokens":4}' | tail -1
ask '{"model":"other","prompt":"Mia","max_tokens":4}' | head -1
ask '{"prompt":"Mia","max_tokens":4}' | tail -1
kill -TERM $server; wait $server; echo "status $?"; cat log)");
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"loaded\":false"), HasSubstr("\"model\":\"quick\""),
                                HasSubstr("\"model\":\"mini-llada\""), HasSubstr("404 Not Found"),
                                HasSubstr("model is missing; expected one of"), HasSubstr("status 0"),
                                HasSubstr("loaded mini-qwen in"), HasSubstr("POST /v1/completions 200")))
      << result.err;
}

TEST_F(Serve, RefusesModelsThatCannotBeToldApartOrDoNotFit) {
  const std::string serve = "serve --port 0 -m " LACUNA_SOURCE_DIR "/models/mini-llada -m ";
  const std::string other = LACUNA_SOURCE_DIR "/models/mini-qwen";
  expect_program_refuses(lacuna(serve + LACUNA_SOURCE_DIR "/models/mini-llada/"), "two models mini-llada");
  expect_program_refuses(lacuna(serve + other + " --name both"), "--name has no effect here");
  expect_program_refuses(lacuna(serve + other + " --guide " + other), "--guide has no effect here");
  expect_program_refuses(lacuna(serve + other + " --models-memory 32"), "--models-memory is 32");
}

}  // namespace
}  // namespace lacuna::serve_test
