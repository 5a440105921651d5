// Words without flags, as other programs have trained people to type them: `lacuna run MODEL "prompt"`.
#include <gmock/gmock.h>

#include <string>

#include "program.h"

namespace lacuna::words_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = ProgramTest;

const std::string kQuestion = "Tom has 9 coins. He loses 4. How many coins does Tom have now?";
const std::string kAnswer = "9-4=5. The answer is 5.\n";

TEST_F(Words, NameTheModelAndThePromptOfARun) {
  const std::string prompt = " '" + kQuestion + "'";
  for (const std::string& arguments :
       {"mini-llada" + prompt, "-m mini-llada" + prompt, prompt + " -m mini-llada",
        prompt + " --model=mini-llada", "mini-llada -p" + prompt, "-p" + prompt + " mini-llada",
        "mini-llada --seed 3" + prompt + " --no-live", "mini-llada --stop xyzzy" + prompt,
        "mini-llada -- " + prompt, "mini-llada " + kQuestion}) {
    const ProgramResult run = shell("lacuna run " + arguments);
    EXPECT_EQ(run.out, kAnswer) << arguments << run.err;
  }
  EXPECT_EQ(shell("echo '" + kQuestion + "' | lacuna run mini-llada").out, kAnswer);
  EXPECT_EQ(shell("echo '" + kQuestion + "' | lacuna run mini-llada -").out, kAnswer);
  EXPECT_EQ(shell("echo '" + kQuestion + "' | lacuna chat mini-llada").out, kAnswer);
}

TEST_F(Words, NameTheModelOfEveryCommand) {
  folder_.write("request.json", R"({"tokens": [1, 2, 3]})");
  for (const char* line :
       {"inspect mini-llada", "eval mini-llada --task arithmetic --samples 1 --gen-length 24",
        "quantize mini-llada --to int8 -o out-quantized", "pack mini-llada -o out-packed",
        "logits mini-llada --request request.json --out logits.npy",
        "bench step mini-llada --canvas 8 --rows 8",
        "compare mini-llada --task arithmetic --samples 1 --b '--gen-length 24'",
        "plan mini-llada --machines 2 --link 10Gb"}) {
    const ProgramResult run = shell(std::string("lacuna ") + line);
    EXPECT_EQ(run.exit_code, 0) << line << ": " << run.err;
  }
  EXPECT_EQ(shell("echo -n Mia | lacuna tokenize mini-llada | lacuna tokenize mini-llada --decode").out,
            "Mia");
  // Brackets around a text are a part of it.
  EXPECT_EQ(
      shell("lacuna infill mini-llada '[[1]] has 12 shells. She finds 7 more. Now she has [[1]]'").exit_code,
      0);
  EXPECT_THAT(shell("lacuna decide mini-decide 'Ben is very sad.' -q 'Is Ben sad?' --json").out,
              HasSubstr(R"("probability":0.99)"));
}

TEST_F(Words, OfABatchAreFilesBehindTheModel) {
  folder_.write(
      "in.jsonl",
      R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Hi", "max_tokens": 8}})"
      "\n");
  EXPECT_EQ(shell("lacuna batch mini-llada in.jsonl one.jsonl").exit_code, 0);
  EXPECT_EQ(shell("lacuna batch in.jsonl two.jsonl -m mini-llada").exit_code, 0);
  EXPECT_EQ(file_text(path("one.jsonl")).empty(), false);
  EXPECT_THAT(shell("lacuna batch --endpoint http://127.0.0.1:1 --retries 0 missing.jsonl out.jsonl").err,
              HasSubstr("missing.jsonl"));
}

TEST_F(Words, WinOverTheEnvironment) {
  expect_program_refuses(shell("LACUNA_MODEL=no-such-model '" LACUNA_BINARY "' serve neither-this --port 0"),
                         "neither-this");
  expect_program_refuses(shell("LACUNA_MODEL=no-such-model '" LACUNA_BINARY "' serve --port 0"),
                         "no-such-model");
  expect_program_refuses(lacuna("serve --api-key secret no-such-model --port 0"), "no-such-model");
  expect_program_refuses(lacuna("serve a=no-such-model b=nor-this -m c=neither --port 0"), "no");
}

TEST_F(Words, AreRefusedWhereTheyMeanNothing) {
  expect_program_refuses(shell("lacuna run"), "no model is given; expected lacuna run MODEL [PROMPT]");
  expect_program_refuses(shell("lacuna inspect"), "no model is given");
  expect_program_refuses(shell("lacuna pull"), "MODEL");
  expect_program_refuses(shell("lacuna run '" + kQuestion + "'"),
                         "is not the name of a model; expected lacuna run MODEL");
  expect_program_refuses(shell("lacuna run mini-llada 'a question' -p 'another one'"), "are both given");
  expect_program_refuses(shell("lacuna inspect mini-llada mini-dream"), "'mini-dream'");
  expect_program_refuses(shell("lacuna inspect mini-dream -m mini-llada"), "mini-dream");
  expect_program_refuses(shell("lacuna chat mini-llada 'a question'"), "'a question'");
  expect_program_refuses(shell("lacuna run mini-lada 'a question'"), "did you mean \"mini-llada\"?");
  // The words that were not understood are told first.
  expect_program_refuses(shell("lacuna run mini-llada -p Hi --gen-lenght 8"), "did you mean --gen-length?");
  expect_program_refuses(shell("lacuna inspect -m mini-llada --dtpe f32"), "did you mean --dtype?");
}

TEST_F(Words, AreInTheUsageOfHelpManualAndCompletion) {
  EXPECT_THAT(shell("lacuna run --help").out, HasSubstr("\nUsage: lacuna run MODEL [PROMPT] [FLAGS]\n"));
  EXPECT_THAT(shell("lacuna infill --help").out, HasSubstr("\nUsage: lacuna infill MODEL [TEXT] [FLAGS]\n"));
  EXPECT_THAT(shell("lacuna pull --help").out, HasSubstr("\nUsage: lacuna pull MODEL [FLAGS]\n"));
  EXPECT_THAT(shell("lacuna batch --help").out,
              HasSubstr("\nUsage: lacuna batch [MODEL] INPUT OUTPUT [FLAGS]\n"));
  EXPECT_THAT(shell("lacuna list --help").out, HasSubstr("\nUsage: lacuna list [FLAGS]\n"));
  EXPECT_THAT(shell("lacuna man").out, HasSubstr("lacuna run MODEL [PROMPT] [FLAGS]"));
}

TEST_F(Words, AreExplainedWhereAFlagIsWrong) {
  const auto refuses = [&](const std::string& arguments, const std::string& part) {
    const ProgramResult run = shell("lacuna " + arguments);
    expect_program_refuses(run, part);
    EXPECT_THAT(run.err, AllOf(Not(HasSubstr(" required")), Not(HasSubstr("Could not")),
                               Not(HasSubstr("not in {")), Not(HasSubstr("arguments were not expected"))))
        << arguments;
  };
  refuses("run -m mini-llada -p a -p b", "--prompt is given 2 times; expected it once");
  refuses("run -m mini-llada -p a --temperature 0 --temperature 1", "--temperature is given 2 times");
  refuses("run -m mini-llada -m mini-dream -p a", "--model is given 2 times");
  refuses("run -m mini-llada -p a --steps", "--steps has no value; expected one after it");
  refuses("run -m mini-llada -p", "--prompt has no value");
  refuses("run -m mini-llada -p a --dtype bf61",
          "--dtype is 'bf61'; expected auto, f32 or bf16; did you mean bf16?");
  refuses("run -m mini-llada -p a --threads 5000", "--threads is '5000'; expected a number from 0 to 1024");
  refuses("run -m mini-llada -p a --batch many", "--batch is 'many'");
  refuses("run -m mini-llada -p a --json=maybe", "--json");
  refuses("run -m mini-llada -p a --json-schema {} --json-schema-file " LACUNA_SOURCE_DIR
          "/models/mini-llada/config.json",
          "are both given; expected one of them");
  refuses("tokenize -m mini-llada --skip-special", "--skip-special has no effect without --decode");
  refuses("eval -m mini-llada", "--task is missing");
  refuses("serve -m mini-llada --requests-per-minute -1", "--requests-per-minute is '-1'");
  refuses("serve -m mini-llada --max-per-client 0", "--max-per-client is '0'");
  refuses("bench", "no subcommand is given; expected");
  refuses("compare -m mini-llada --task arithmetic --b '--cahce dual'",
          "--b \"--cahce dual\": unknown argument '--cahce'; did you mean --cache?");
  refuses("compare -m mini-llada --task arithmetic --a '--steps' --b ''",
          "--a \"--steps\": --steps has no value");
  refuses("compare -m mini-llada --task arithmetic --b '--steps 4 --steps 5'", "--steps is given 2 times");
}

TEST_F(Words, OfAModelThatOnlyDecidesLeadToDecide) {
  for (const char* line :
       {"run mini-decide 'Is Ben happy?'", "chat mini-decide", "infill mini-decide 'Ben is [[1]].'"}) {
    expect_program_refuses(shell(std::string("lacuna ") + line),
                           "was made for decisions and writes no text; expected a question about a text: "
                           "lacuna decide mini-decide");
  }
}

TEST_F(Words, OfAPromptMayNotBeMissing) {
  folder_.write("empty.txt", "\n");
  folder_.write("prompts.jsonl", "{\"prompt\": \"\"}\n");
  for (const char* arguments :
       {"-p ''", "''", "-p ' '", "-p '\n'", "-f empty.txt", "--prompts-file prompts.jsonl", "-p -", ""}) {
    expect_program_refuses(shell(std::string("lacuna run -m mini-llada ") + arguments), "no prompt: ");
  }
}

TEST_F(Words, EndAnAnswerBeforeTheTextOfStop) {
  for (const char* model : {"mini-llada", "mini-dream", "mini-sdar", "mini-gidd", "mini-refusion",
                            "mini-gemma", "mini-qwen", "mini-fast-dllm", "mini-llada2"}) {
    const std::string run = std::string("lacuna run -m ") + model + " -p '" + kQuestion + "' --json --seed 2";
    const nlohmann::json whole = nlohmann::json::parse(shell(run).out);
    const auto text = whole["text"].get<std::string>();
    const std::string stop = text.substr(text.size() / 2, 3);
    const nlohmann::json cut = nlohmann::json::parse(shell(run + " --stop xyzzy --stop '" + stop + "'").out);
    EXPECT_EQ(cut["text"], text.substr(0, text.find(stop))) << model;
    EXPECT_EQ(cut["stop_reason"], "stop") << model;
    EXPECT_EQ(nlohmann::json::parse(shell(run + " --stop xyzzy").out)["stop_reason"], whole["stop_reason"])
        << model;
  }
  EXPECT_EQ(shell("echo '" + kQuestion + "' | lacuna chat mini-llada --stop ' The'").out, "9-4=5.\n");
  EXPECT_THAT(shell("lacuna run mini-llada '" + kQuestion + "' --stop 9").err,
              HasSubstr("it begins with a text of --stop"));
  expect_program_refuses(shell("lacuna infill mini-llada 'Mia has [[1]] shells.' --stop x"),
                         "--stop has no effect here");
}

}  // namespace
}  // namespace lacuna::words_test
