// `lacuna serve` as a program: how it starts, what it refuses, and how it ends.
#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "program.h"

namespace lacuna::serve_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class Serve : public ProgramTest {
 protected:
  /// Runs a line of bash next to a server with these flags. `ask BODY` posts to /v1/completions and prints
  /// the reply, $port and $server are the server's; its messages are in the file log.
  ProgramResult beside_server(const std::string& flags, const std::string& line,
                              const std::string& before = "") const {
    return shell(before + R"(
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

/// `spoil KIND FILE` puts a pipe, a folder or an endless device in the place of a file.
constexpr const char* kSpoil = R"sh(
spoil() {
  rm -rf "$2"
  case $1 in pipe) mkfifo "$2";; folder) mkdir "$2";; device) ln -s /dev/zero "$2";; esac
}
)sh";

TEST_F(Serve, RefusesAModelOfWhichAFileIsNoRegularOneWithoutWaiting) {
  const ProgramResult result =
      shell(std::string(kSpoil) +
            R"sh(
start() { timeout 60 ')sh" LACUNA_BINARY
            R"sh(' serve --threads 1 --port 0 "$@" 2>error; echo "$? $kind $file $(cat error)"; }
for kind in pipe folder device; do
  for file in config.json tokenizer.json tokenizer_config.json special_tokens_map.json generation_config.json \
      chat_template.jinja model.safetensors more.safetensors added_tokens.json; do
    rm -rf copy; cp -rL models/mini-llada copy; chmod -R u+w copy; spoil $kind copy/$file
    [ $kind-$file = folder-more.safetensors ] || start -m copy
  done
  for file in model.gguf; do spoil $kind $file; start -m $file; done
  for file in adapter_config.json adapter_model.safetensors; do
    rm -rf lora; mkdir lora; echo '{"peft_type":"LORA","r":1,"lora_alpha":1}' >lora/adapter_config.json
    echo none >lora/adapter_model.safetensors; spoil $kind lora/$file; start -m models/mini-llada --lora lora
  done
done)sh");
  std::istringstream lines(result.out);
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines) {
    EXPECT_TRUE(line.starts_with("2 ")) << line;  // 124: it waited
    std::istringstream words(line);
    std::string status, kind, file, sentence;
    words >> status >> kind >> file;
    std::getline(words, sentence);
    EXPECT_THAT(sentence, HasSubstr(file)) << line;
  }
  EXPECT_EQ(num_lines, 3 * 12 - 1) << result.err;
}

TEST_F(Serve, RefusesToReloadFromAFolderOfWhichAFileIsNoRegularOneWithoutWaiting) {
  const std::string golden = LACUNA_SOURCE_DIR "/tests/golden/";
  const ProgramResult result = beside_server("-m steps/0 --reload-from steps --kv-memory 64", R"sh(
for kind in pipe folder device; do
  for file in config.json model.safetensors more.safetensors; do
    [ $kind-$file = folder-more.safetensors ] && continue
    rm -rf steps/1; cp -r steps/0 steps/1; spoil $kind steps/1/$file
    body='{"folder":"1"}'
    exec 3<>/dev/tcp/127.0.0.1/$port
    printf 'POST /v1/reload HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
    echo "$kind $file $(timeout 60 cat <&3 | tail -1)"
  done
done
ask '{"prompt":[5,6,7],"max_tokens":8}' | head -1
kill -TERM $server; wait $server; echo "status $?")sh",
                                             kSpoil + ("mkdir steps; cp -r " + golden + "llada steps/0\n"));
  for (const std::string kind : {"pipe", "folder", "device"}) {
    for (const std::string file : {"config.json", "model.safetensors", "more.safetensors"}) {
      if (kind == "folder" && file == "more.safetensors") continue;  // it is no weights
      EXPECT_THAT(result.out, HasSubstr(kind + " " + file + " {\"error\":{\"message\":\"folder: "))
          << result.err;
    }
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr(" 200 "), HasSubstr("status 0")));
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

TEST_F(Serve, EndsWithASentenceWhereItsModelIsCutOffWhileItAnswers) {
  ASSERT_EQ(shell("lacuna pack -m mini-llada -o packed --threads 1").exit_code, 0);
  const ProgramResult result = beside_server("-m packed", R"(
for i in 1 2 3; do
  ask '{"prompt":"Mia","max_tokens":400,"steps":400,"stream":true,"lacuna":{"events":true}}' >answer$i &
done
for i in $(seq 600); do grep -q step answer1 && break; sleep 0.05; done
truncate -s 4096 packed/$(ls packed | grep -m1 safetensors)
wait $server; echo "status $?"; wait; tail -n 1 log)");
  EXPECT_THAT(result.out, AllOf(HasSubstr("status 1\nlacuna: "), HasSubstr("safetensors: was shortened"),
                                EndsWith("start again\n")))
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

TEST_F(Serve, LogsNeitherKeysNorTexts) {
  folder_.write("keys", "hidden-key\n");
  for (const char* format : {"text", "json"}) {
    const ProgramResult result =
        beside_server(std::string("-m mini-llada --api-key-file keys --log-format ") + format, R"(
body='{"prompt":"hidden prompt","max_tokens":4,"stop":"hidden stop","unknown":"hidden value"}'
for key in hidden-key hidden-guess; do
  exec 3<>/dev/tcp/127.0.0.1/$port
  printf 'POST /v1/completions?a=hidden HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' \
    $key ${#body} "$body" >&3
  head -n 1 <&3
done
kill -TERM $server; wait $server; cat log)");
    EXPECT_THAT(result.out, AllOf(HasSubstr("200 OK"), HasSubstr("401 Unauthorized"),
                                  HasSubstr("/v1/completions"), Not(HasSubstr("hidden"))))
        << result.err;
  }
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

TEST_F(Serve, LoadsOtherWeightsOfTheSameModelAndNoOthers) {
  const std::string golden = LACUNA_SOURCE_DIR "/tests/golden/";
  const ProgramResult result =
      beside_server("-m steps/0 --reload-from steps --kv-memory 64", R"(
reload() {
  exec 3<>/dev/tcp/127.0.0.1/$port
  printf 'POST /v1/reload HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s' ${#1} "$1" >&3
  cat <&3; echo
}
ask '{"prompt":[5,6,7],"max_tokens":8}' | grep -i x-lacuna-weights >before
for folder in 1 ../outside /etc link other 2; do reload "{\"folder\":\"$folder\"}"; done
ask '{"prompt":[5,6,7],"max_tokens":8}' | grep -i x-lacuna-weights >after
cmp -s before after && echo "the same weights" || echo "other weights"
kill -TERM $server; wait $server; echo "status $?")",
                    "mkdir steps outside; cp -r " + golden + "llada steps/0; cp -r " + golden +
                        "llada steps/1; cp -r " + golden + "dream steps/other; cp -r " + golden +
                        "llada outside/in; ln -s ../outside/in steps/link; "
                        "printf '\\1' | dd of=steps/1/model.safetensors bs=1 "
                        "seek=$(($(stat -c %s steps/1/model.safetensors) - 1)) conv=notrunc "
                        "2>dd_log\n");
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"weights\":"), HasSubstr("other weights"), HasSubstr("status 0"),
                                HasSubstr("no \\\"../outside\\\" below"), HasSubstr("is not a relative path"),
                                HasSubstr("no \\\"link\\\" below"),
                                HasSubstr("has another config.json than the served model"),
                                HasSubstr("no \\\"2\\\" below")))
      << result.err << result.out;
}

/// Waits, after a rank got a signal, until the server says so and until it is well again.
constexpr const char* kHeals = R"sh(
for i in $(seq 600); do get /ready >ready; grep -q ' 503 ' ready && break; sleep 0.05; done
tail -1 ready; echo; get /live | head -1
for i in $(seq 600); do get /ready | grep -q ' 200 ' && break; sleep 0.05; done
tokens() { grep -o '"tokens":[^]]*' "$1"; }
ask '{"prompt":[5,6,7],"max_tokens":8}' | tail -1 >again
[ "$(tokens first)" = "$(tokens again)" ] && echo "the same answer"
kill -TERM $server; wait $server; echo "status $?"
pgrep -f "connect=lacuna-$server-" >left && echo "processes are left"
)sh";

class ServeOnRanks : public Serve {
 protected:
  /// Kills or stops rank 0 or a rank after it, while nothing is computed or in a stream.
  ProgramResult after(const std::string& signal, bool is_rank_0, bool is_in_stream) const {
    const std::string stream = is_in_stream ? R"(
ask '{"prompt":[5,6,7],"max_tokens":2000,"steps":2000,"stream":true,"lacuna":{"events":true}}' >answer &
client=$!
for i in $(seq 600); do grep -q step answer && break; sleep 0.05; done
)"
                                            : "";
    return beside_server("-m " LACUNA_SOURCE_DIR
                         "/tests/golden/llada --shard outputs --ranks 2 --rank-timeout 3 --kv-memory 64",
                         R"(
ask '{"prompt":[5,6,7],"max_tokens":8}' | tail -1 >first
ranks=$(pgrep -f "connect=lacuna-$server-"); set -- $ranks
)" + stream + "kill -" + signal +
                             (is_rank_0 ? " $1" : " $2") + kHeals +
                             (is_in_stream ? "wait $client; cat log answer" : "cat log"));
  }
};

TEST_F(ServeOnRanks, OutlivesARankThatIsKilledWhileNothingIsComputed) {
  for (const bool is_rank_0 : {true, false}) {
    const ProgramResult result = after("KILL", is_rank_0, false);
    EXPECT_THAT(result.out, AllOf(HasSubstr(is_rank_0 ? "rank 0 has ended" : "rank 1 has ended"),
                                  HasSubstr("200 OK"), HasSubstr("the same answer"), HasSubstr("status 0"),
                                  testing::Not(HasSubstr("processes are left"))))
        << result.out << result.err;
  }
}

TEST_F(ServeOnRanks, OutlivesARankThatIsStoppedWhileNothingIsComputed) {
  for (const bool is_rank_0 : {true, false}) {
    const ProgramResult result = after("STOP", is_rank_0, false);
    EXPECT_THAT(result.out, AllOf(HasSubstr("has not responded for 3 seconds"), HasSubstr("the same answer"),
                                  HasSubstr("status 0"), testing::Not(HasSubstr("processes are left"))))
        << result.out << result.err;
  }
}

TEST_F(ServeOnRanks, EndsStreamsOfARankThatIsKilledOrStoppedWithAnEvent) {
  for (const char* signal : {"KILL", "STOP"}) {
    for (const bool is_rank_0 : {true, false}) {
      const ProgramResult result = after(signal, is_rank_0, true);
      EXPECT_THAT(result.out, AllOf(HasSubstr("\"error\""), HasSubstr("the model computes nothing more"),
                                    HasSubstr("the same answer"), EndsWith("data: [DONE]\n\n")))
          << signal << result.out << result.err;
    }
  }
}

}  // namespace
}  // namespace lacuna::serve_test
