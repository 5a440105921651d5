// `lacuna chat`, for scripts and for people.
#include <algorithm>

#include "program.h"

namespace lacuna::chat_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Chat : public ProgramTest {
 protected:
  ProgramResult chat(const std::string& family, const std::string& arguments,
                     const std::string& input) const {
    return lacuna("chat --threads 1 -n 8 -m " + path(family) + " " + arguments, input);
  }

  std::string on_terminal(const std::string& family) const {
    return "chat --threads 1 -m " + model_with_text(family) + " ";
  }
  std::string environment() const { return "TERM=xterm-256color XDG_STATE_HOME=" + path("state"); }

  /// Messages of the chat that the input saves to c.json.
  json saved(const ProgramResult& result) const {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(file_text(path("c.json"))).at("messages");
  }
};

TEST_F(Chat, AnswersEachLineOfAScript) {
  model_with_text("llada");
  const ProgramResult one = chat("llada", "", "Hi\n");
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(one.out, lacuna("run --threads 1 -n 8 -p Hi -m " + path("llada")).out);
  const ProgramResult two = chat("llada", "", "Hi\n\n  \nAnd?");
  EXPECT_EQ(std::count(two.out.begin(), two.out.end(), '\n'), 2);
  EXPECT_THAT(two.out, AllOf(testing::StartsWith(one.out), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(two.err, IsEmpty());
}

TEST_F(Chat, AsksAModelAboutAllTurns) {
  model_with_text("qwen2");
  const json messages =
      saved(chat("qwen2", "--chat-template chatml --system Be", "Hi\nAnd?\n/save c.json\n"));
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[3]["content"], "And?");
  // The second answer is that of a run over the whole transcript.
  std::string prompt;
  for (size_t i = 0; i < 4; ++i) {
    prompt += "<|im_start|>" + messages[i]["role"].get<std::string>() + "\n" +
              messages[i]["content"].get<std::string>() + "<|im_end|>\n";
  }
  const std::string tokens =
      lacuna("tokenize --special -m " + path("qwen2"), prompt + "<|im_start|>assistant\n").out;
  folder_.write("tokens", tokens);
  const ProgramResult run =
      lacuna("run --threads 1 -n 8 --json --prompt-tokens \"$(cat tokens)\" -m " + path("qwen2"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["text"], messages[4]["content"]);
}

TEST_F(Chat, ObeysCommands) {
  model_with_text("llada");
  const std::string plain = chat("llada", "", "Hi\n").out;
  EXPECT_EQ(chat("llada", "", "/set seed 5\n/set temp 0\n/set seed default\nHi\n/quit\nHi\n").out, plain);
  EXPECT_EQ(chat("llada", "", "Hi\n/regenerate\n").out, plain + plain);
  EXPECT_EQ(chat("llada", "", "Hi\n/clear\nHi\n").out, plain + plain);
  EXPECT_NE(chat("llada", "-s 1 --temperature 5", "Hi\n/regenerate\n").out,
            chat("llada", "-s 1 --temperature 5", "Hi\n/clear\nHi\n").out);
  EXPECT_THAT(chat("llada", "", "/help\n").err, HasSubstr("/regenerate"));
  const json messages = saved(chat("llada", "", "//set\n/save c.json\n"));
  EXPECT_EQ(messages[0]["content"], "/set");
}

TEST_F(Chat, ContinuesASavedChat) {
  model_with_text("llada");
  const std::string both = chat("llada", "", "Hi\nAnd?\n").out;
  const std::string first = chat("llada", "", "Hi\n/save c.json\n").out;
  EXPECT_EQ(first + chat("llada", "", "/load c.json\nAnd?\n").out, both);
}

TEST_F(Chat, EndsAScriptAtWhatItDoesNotUnderstand) {
  model_with_text("llada");
  expect_program_refuses(chat("llada", "", "/frobnicate\n"), "\"/frobnicate\" is not a command");
  expect_program_refuses(chat("llada", "", "/set\n"), "expected a flag and its value");
  expect_program_refuses(chat("llada", "", "/set frobs 3\n"), "there is no flag \"frobs\"");
  expect_program_refuses(chat("llada", "", "/set steps many\n"), "'many'");
  expect_program_refuses(chat("llada", "", "/set frobs default\n"), "\"frobs\"");
  expect_program_refuses(chat("llada", "", "/set slot-size 4\n"), "slot-size");
  expect_program_refuses(chat("llada", "", "/regenerate\n"), "nothing was answered");
  expect_program_refuses(chat("llada", "", "/save\n"), "name of a file");
  expect_program_refuses(chat("llada", "", "/load none.json\n"), "none.json: cannot be read");
  expect_program_refuses(chat("llada", "", "/system Be brief.\n"), "chat template");
  expect_program_refuses(chat("llada", "--system x", ""), "--system needs a chat template");
  expect_program_refuses(lacuna("chat -m random:llada-8b,layers=1"), "has no tokenizer");
}

TEST_F(Chat, ForgetsTheFirstTurnsWhereTheContextIsFull) {
  model_with_text("qwen2");
  const std::string config = file_text(path("qwen2/config.json"));
  json small = json::parse(config);
  small["max_position_embeddings"] = 64;
  folder_.write("qwen2/config.json", small.dump());
  const std::string turn = "0123456789012345678901234567\n";
  const ProgramResult result = chat("qwen2", "", turn + turn + turn);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("The context of 64 tokens is full: the first 1 of 2 turns"),
                                HasSubstr("the first 2 of 3 turns")));
  expect_program_refuses(chat("qwen2", "", std::string(60, 'a') + "\n"), "the model has 64");
}

TEST_F(Chat, KeepsKeysAndValuesOfEarlierTurns) {
  TerminalProgram program(environment(), on_terminal("qwen2") + "-n 8 --no-live");
  program.wait_for("ready");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("0123456789012345678901234567890123456789\n");
  EXPECT_THAT(program.wait_for("tokens/s"), Not(HasSubstr("kept")));
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("And?\n");
  EXPECT_THAT(program.wait_for("kept]"), testing::ContainsRegex(", (16|32|48) of [0-9]+ prompt tokens kept"));
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("\x04");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, DrawsTheCanvasAndLetsLinesBeEdited) {
  TerminalProgram program(environment(), on_terminal("llada") + "-n 8 --fps 50");
  program.wait_for("> ");
  program.type("Hix\x7f\n");
  const std::string drawn = program.wait_for("tokens/s]");
  EXPECT_THAT(
      drawn, AllOf(HasSubstr("\x1b[?2026h"), HasSubstr("\x1b[?25l"), HasSubstr("\x1b[?25h"), HasSubstr("░")));
  program.wait_for("> ");    // keys before the prompt would be lost
  program.type("\x1b[A\n");  // the last line again
  program.wait_for("tokens/s]");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("/save " + path("c.json") + "\n");
  program.wait_for("2 turns saved");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("\x04");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
  const json messages = json::parse(file_text(path("c.json")))["messages"];
  EXPECT_EQ(messages[0]["content"], "Hi");
  EXPECT_EQ(messages[2]["content"], "Hi");
  EXPECT_THAT(file_text(path("state/lacuna/chat_history")), HasSubstr("Hi"));
}

TEST_F(Chat, StopsAnAnswerAndNotTheProgramAtCtrlC) {
  TerminalProgram program(environment(), on_terminal("llada") + "-n 64 --fps 5");
  program.wait_for("> ");
  program.type("Hi\n");
  program.wait_for("masked");
  program.type("\x03");
  program.wait_for("Stopped");
  program.wait_for("> ");
  program.type("half a line\x03");
  program.wait_for("Ctrl-D");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("/quit\n");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, GoesOnAfterAWrongCommandOfAPerson) {
  TerminalProgram program(environment(), on_terminal("llada") + "-n 8");
  program.wait_for("> ");
  program.type("/frobnicate\n");
  program.wait_for("is not a command");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("/quit\n");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, ConfirmsWhatACommandChanged) {
  TerminalProgram program(environment(), on_terminal("llada") + "-n 8");
  const auto after = [&](const std::string& line) {
    program.wait_for("> ");  // keys before the prompt would be lost
    program.type(line + "\n");
  };
  after("/set temperature 0.7");
  program.wait_for("temperature is 0.7");
  after("/set temperature default");
  program.wait_for("temperature is the default again");
  after("/set steps 3");
  program.wait_for("steps is 3");
  after("/system Be brief.");
  program.wait_for("/system needs a chat template");  // which this model lacks
  after("/set temprature 1");
  program.wait_for("did you mean --temperature?");
  after("/clear");
  program.wait_for("The chat is forgotten");
  after("/quit");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, StartsWhereRunIsGivenNoPromptOnATerminal) {
  const std::string model = model_with_text("llada");
  TerminalProgram program(environment(), "run --threads 1 -n 8 -m " + model);
  program.wait_for("/help lists commands");
  program.wait_for("> ");  // keys before the prompt would be lost
  program.type("/quit\n");
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, LetsNoModelControlTheTerminal) {
  const std::string model = model_with_text("llada");
  json vocabulary;
  for (int id = 0; id < 85; ++id) vocabulary["\u011b[31m" + std::to_string(id)] = id;  // byte 27 and more
  for (char byte = '!'; byte <= '~'; ++byte) vocabulary.erase(std::string(1, byte));
  folder_.write("llada/vocab.json", vocabulary.dump());
  TerminalProgram program(environment(), "run --threads 1 -n 8 --prompt-tokens 5,6,7 --fps 100 -m " + model);
  int status = -1;
  EXPECT_THAT(program.finish(status), AllOf(HasSubstr("␛[31m"), Not(HasSubstr("\x1b[31m"))));
}

TEST_F(Chat, ShowsTheCursorAgainWhereASignalEndsARun) {
  const std::string model = model_with_text("llada");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    TerminalProgram program(environment(), "run --threads 1 -n 64 --fps 2 -p Hi -m " + model);
    program.wait_for("masked");
    program.send(signal);
    int status = -1;
    EXPECT_THAT(program.finish(status), HasSubstr("\x1b[?25h"));
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
  }
}

TEST_F(Chat, DrawsForTheWidthThatATerminalHas) {
  const std::string model = model_with_text("llada");
  TerminalProgram program(environment(), "run --threads 1 -n 32 --fps 20 -p Hi -m " + model, 200);
  program.wait_for("masked");
  program.resize(20);
  program.wait_for("\x1b[J");  // lines drawn at the other width are cleared
  int status = -1;
  program.finish(status);
  EXPECT_EQ(status, 0);
}

TEST_F(Chat, DrawsNothingWhereItIsNotWanted) {
  const std::string model = model_with_text("llada");
  const auto screen = [&](const std::string& setting, const std::string& flags) {
    TerminalProgram program(setting, "run --threads 1 -n 8 -p Hi -m " + model + " " + flags);
    int status = -1;
    return program.finish(status);
  };
  EXPECT_THAT(screen("TERM=dumb", ""), Not(HasSubstr("\x1b")));
  EXPECT_THAT(screen("TERM=xterm NO_COLOR=1", ""),
              AllOf(HasSubstr("\x1b[?2026h"), Not(testing::ContainsRegex("\x1b\\[[0-9;]*m"))));
  EXPECT_THAT(screen("TERM=xterm", "--no-live"), Not(HasSubstr("\x1b[?25l")));
  EXPECT_THAT(screen("TERM=xterm NO_COLOR=1", "--color always"), HasSubstr("\x1b[0;2m"));
  EXPECT_THAT(screen("TERM=xterm", "--color never"),
              AllOf(HasSubstr("\x1b[?2026h"), Not(HasSubstr("\x1b[0;2m"))));
}

}  // namespace
}  // namespace lacuna::chat_test
