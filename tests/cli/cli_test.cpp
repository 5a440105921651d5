// The program as people and scripts meet it: what it prints, where, and with which exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace lacuna::cli_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kZoo = LACUNA_SOURCE_DIR "/models/";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string slurp(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Cli : public testing::Test {
 protected:
  Cli() {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / (std::string("lacuna_cli_") + info->name() + "_XXXXXX");
    std::string pattern = folder_.string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Cli() override { fs::remove_all(folder_); }

  /// Runs `lacuna ARGUMENTS` in a shell, with `environment` before it.
  Outcome lacuna(const std::string& arguments, const std::string& input = "",
                 const std::string& environment = "") const {
    write("stdin", input);
    const std::string command = "cd " + folder_.string() + " && " + environment + " " LACUNA_BINARY " " +
                                arguments + " <stdin >stdout 2>stderr";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder_ / "stdout"),
            slurp(folder_ / "stderr")};
  }

  /// Whether the kernels are those of no instruction set.
  bool is_scalar() { return lacuna("--version").out.find("scalar") != std::string::npos; }

  /// `lacuna run` on a golden checkpoint; on one thread, because on a busy machine waking another takes
  /// longer than these models.
  Outcome run(const std::string& family, const std::string& arguments,
              const std::string& environment = "") const {
    const bool sets_threads = arguments.find("--threads") != std::string::npos;
    return lacuna("run -m " + golden(family) + " --prompt-tokens 5,6,7 --gen-length 8 " +
                      (sets_threads ? "" : "--threads 1 ") + arguments,
                  "", environment);
  }

  std::vector<int> tokens_of(const std::string& family, const std::string& arguments,
                             const std::string& environment = "") const {
    const Outcome outcome = run(family, "--json " + arguments, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out).at("tokens").get<std::vector<int>>();
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  /// Output of `lacuna logits` for four tokens.
  ///   model  with flags after it
  std::string logits(const std::string& model) const {
    write("request.json", R"({"tokens": [1, 2, 3, 4]})");
    const Outcome run = lacuna("logits --threads 1 --request request.json --out out.npy -m " + model);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return slurp(folder_ / "out.npy");
  }

  /// A copy of the LLaDA checkpoint with a tokenizer whose tokens are single characters.
  std::string checkpoint_with_text() const {
    const fs::path copy = folder_ / "with_text";
    fs::copy(golden("llada"), copy);
    json vocabulary;
    for (int id = 0; id < 85; ++id) vocabulary[std::string(1, static_cast<char>('!' + id))] = id;
    vocabulary["\u0120"] = 85;  // the space, as byte-level tokenizers spell it
    std::ofstream(copy / "vocab.json") << vocabulary;
    std::ofstream(copy / "merges.txt") << "#version: 0.2\n";
    const json added = {{"<|endoftext|>", 89}, {"<|mdm_mask|>", 90}};
    std::ofstream(copy / "added_tokens.json") << added;
    const json config = {{"tokenizer_class", "Qwen2Tokenizer"},
                         {"eos_token", "<|endoftext|>"},
                         {"mask_token", "<|mdm_mask|>"}};
    std::ofstream(copy / "tokenizer_config.json") << config;
    return copy.string();
  }

  static std::string golden(const std::string& family) {
    return std::string(LACUNA_SOURCE_DIR "/tests/golden/") + family;
  }

  fs::path folder_;
};

std::vector<json> parse_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// Exit code 2, nothing on standard output, one line on standard error that contains `part`.
void expect_refused(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, AllOf(StartsWith("lacuna: "), HasSubstr(part)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(Cli, ExplainsEverySubcommand) {
  EXPECT_THAT(lacuna("--help").out, AllOf(HasSubstr("run"), HasSubstr("inspect"), HasSubstr("bench")));
  const std::vector<std::pair<std::string, std::vector<std::string>>> flags = {
      {"run",
       {"--model",
        "--prompt",
        "--prompt-file",
        "--prompt-tokens",
        "--prompts-file",
        "--batch",
        "--system",
        "--chat-template",
        "--raw",
        "--gen-length",
        "--steps",
        "--block-length",
        "--unmask",
        "--temperature",
        "--top-p",
        "--top-k",
        "--seed",
        "--alg-temp",
        "--eps",
        "--cfg-scale",
        "--logits-eos-inf",
        "--confidence-eos-eot-inf",
        "--suppress-mask",
        "--eos-exit",
        "--ignore-eos",
        "--json",
        "--trace",
        "--no-live",
        "--threads",
        "--dtype"}},
      {"logits", {"--model", "--request", "--out", "--dtype", "--threads"}},
      {"tokenize", {"--model", "--decode", "--special", "--skip-special"}},
      {"inspect", {"--model", "--canvas", "--json"}},
      {"plan", {"--model", "--machines", "--cores", "--link", "--rows", "--json"}},
      {"eval", {"--model",    "--guide", "--judge",     "--task",      "--samples", "--batch",
                "--raw",      "--json",  "--show",      "--out",       "--steps",   "--seed",
                "arithmetic", "stories", "programs",    "perplexity",  "gsm8k",     "--difficulty",
                "--data",     "--shots", "--run-tests", "--text-task", "--draws"}},
      {"compare", {"--task", "--length", "--depth", "--difficulty", "--samples", "--a", "--b"}},
      {"bench step", {"--model", "--canvas", "--rows", "--repeat", "--dtype", "--threads", "--json"}},
  };
  for (const auto& [command, names] : flags) {
    const Outcome outcome = lacuna(command + " --help-all");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.err, IsEmpty());
    for (const std::string& name : names) EXPECT_THAT(outcome.out, HasSubstr(name)) << command;
  }
}

TEST_F(Cli, TellsItsVersionAndInstructions) {
  EXPECT_THAT(lacuna("--version", "", "LACUNA_ISA=scalar").out,
              AllOf(StartsWith("lacuna "), HasSubstr("(scalar;")));
  expect_refused(lacuna("--version", "", "LACUNA_ISA=mmx"), "LACUNA_ISA");
}

TEST_F(Cli, RefusesWrongUsageInOneSentence) {
  expect_refused(lacuna("--no-such-flag"), "'--no-such-flag'");
  expect_refused(lacuna("rnu -m model"), "'rnu'");
  expect_refused(lacuna("run --prompt-tokens 1"), "no model is given");
  expect_refused(run("llada", "--frobnicate"), "'--frobnicate'");
  expect_refused(run("llada", "--steps"), "--steps");
  expect_refused(run("llada", "--steps many"), "'many' is not a whole number");
  expect_refused(run("llada", "--seed -1"), "'-1' is not a whole number from 0 to 18446744073709551615");
  expect_refused(run("llada", "--seed 18446744073709551616"), "is not a whole number");
  expect_refused(run("llada", "--temperature warm"), "'warm' is not a number");
  expect_refused(run("llada", "--threads -1"), "--threads");
  expect_refused(run("llada", "--dtype f8"), "--dtype");
  expect_refused(run("llada", "--steps 0"), "--steps is 0");
  expect_refused(run("llada", "--block-length 3"), "--block-length 3 does not divide --gen-length 8");
  expect_refused(run("llada", "--block-length 4 --steps 3"), "--steps 3 is not a multiple");
  expect_refused(run("llada", "--unmask best"), "--unmask is 'best'; expected low-confidence");
  expect_refused(run("llada", "--unmask threshold=2"), "threshold=2");
  expect_refused(run("llada", "--prompt hello"), "--prompt-tokens");
  expect_refused(run("llada", "--system terse"), "--system");
  expect_refused(run("llada", "--chat-template jinja"), "--chat-template is 'jinja'");
  expect_refused(lacuna("run -m " + golden("llada")), "--prompt");
  expect_refused(lacuna("run -m " + golden("llada") + " -p hello"), "--prompt-tokens");
  expect_refused(lacuna("bench"), "subcommand");
}

TEST_F(Cli, RefusesPromptsThatAreNotTokens) {
  const std::string model = "run -m " + golden("llada") + " --prompt-tokens ";
  expect_refused(lacuna(model + "abc"), "--prompt-tokens: 'abc'");
  expect_refused(lacuna(model + "1,,2"), "--prompt-tokens: '1,,2'");
  expect_refused(lacuna(model + "1.5"), "--prompt-tokens");
  expect_refused(lacuna(model + "-1"), "--prompt-tokens");
  expect_refused(lacuna(model + "99999999999"), "--prompt-tokens");
  expect_refused(lacuna(model + "1,97"),
                 "prompt token 97 at index 1 is outside the model's vocabulary of 97");
}

TEST_F(Cli, RefusesFlagsThatTheMethodWouldIgnore) {
  for (const char* flag :
       {"--steps 4", "--block-length 4", "--unmask random", "--cfg-scale 1", "--alg-temp 1", "--eps 0.1",
        "--eos-exit", "--suppress-mask", "--logits-eos-inf"}) {
    expect_refused(run("qwen3", flag), "has no effect here");
  }
  expect_refused(run("llada", "--ignore-eos"), "--ignore-eos has no effect here");
  expect_refused(run("llada", "--unmask threshold=0.9 --steps 4"), "--steps has no effect here");
}

TEST_F(Cli, NamesFilesThatItCannotUse) {
  expect_refused(lacuna("run -m no-such-model --prompt-tokens 1"), "no-such-model");
  expect_refused(lacuna("run -m " + folder_.string() + " --prompt-tokens 1"), "config.json");
  expect_refused(lacuna("run -m random:gpt-5 --prompt-tokens 1"), "gpt-5");
  expect_refused(lacuna("run -m " + golden("llada") + " --prompt-file missing.txt"), "missing.txt");
  expect_refused(lacuna("run -m " + golden("llada") + " --prompts-file missing.jsonl"), "missing.jsonl");
  expect_refused(run("llada", "--trace no/such/folder.jsonl"), "no/such/folder.jsonl");
  expect_refused(lacuna("logits -m " + golden("llada") + " --request missing.json --out o.npy"),
                 "missing.json");
  expect_refused(lacuna("logits -m " + golden("llada") + " --request " + golden("llada") +
                        "/tokens.json --out no/such/o.npy"),
                 "no/such/o.npy");

  fs::copy(golden("llada"), folder_ / "broken");
  write("broken/config.json", "{\"architectures\": [");
  expect_refused(lacuna("run -m broken --prompt-tokens 1"), "broken/config.json");
}

TEST_F(Cli, WritesTheLogitsOfACanvasThatReadsTheDistributionsOfAFile) {
  const std::string model = golden("diffusion_gemma");
  json request = json::parse(slurp(model + "/tokens.json"));
  request["self_conditioning"] = model + "/conditioning.npy";
  write("request.json", request.dump());
  const Outcome outcome =
      lacuna("logits --threads 1 --dtype f32 --request request.json --out out.npy -m " + model);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto numbers_of = [](const std::string& bytes) {
    const size_t begin = bytes.find('\n') + 1;
    std::vector<float> numbers((bytes.size() - begin) / sizeof(float));
    std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(),
              reinterpret_cast<char*>(numbers.data()));
    return numbers;
  };
  EXPECT_THAT(numbers_of(slurp(folder_ / "out.npy")),
              testing::Pointwise(testing::FloatNear(2e-3F), numbers_of(slurp(model + "/logits.npy"))));
}

TEST_F(Cli, SaysWhatIsWrongWithARequestForTheLogitsOfACanvas) {
  const std::string model = golden("diffusion_gemma");
  const auto refused = [&](const std::string& key, const json& value, const std::string& part) {
    json request = json::parse(slurp(model + "/tokens.json"));
    request[key] = value;
    if (value.is_null()) request.erase(key);
    if (key == "canvas_begin") request["self_conditioning"] = model + "/conditioning.npy";
    write("request.json", request.dump());
    expect_refused(lacuna("logits --threads 1 --request request.json --out out.npy -m " + model), part);
  };
  refused("self_conditioning", model + "/logits.npy",
          "of another shape; expected a NumPy file of float32 or float64 [32, 288]");
  refused("self_conditioning", model + "/config.json", "not a NumPy file");
  refused("self_conditioning", "missing.npy", "missing.npy");
  refused("self_conditioning", 5, "'self_conditioning' is 5; expected the name of a NumPy file");
  refused("self_conditioning", "", "expected the name of a NumPy file");
  refused("canvas_begin", nullptr, "'canvas_begin'");
  refused("canvas_begin", 44, "'canvas_begin' is 44; expected a whole number from 0 to 43");
  refused("canvas_begin", -1, "'canvas_begin' is -1");
  refused("canvas_begin", 13, "of another shape");
  refused("block_length", 4, "the key 'block_length' has no effect for DiffusionGemmaForBlockDiffusion");
  write("request.json", R"({"tokens": [1, 2, 3], "canvas_begin": 1})");
  expect_refused(lacuna("logits --request request.json --out out.npy -m " + golden("llada")),
                 "the key 'canvas_begin' has no effect for LLaDAModelLM");
}

TEST_F(Cli, NamesTheLineOfAPromptThatItCannotUse) {
  const auto refused = [&](const std::string& lines, const std::string& part) {
    write("prompts.jsonl", lines);
    expect_refused(lacuna("run -m " + golden("llada") + " --gen-length 8 --prompts-file prompts.jsonl"),
                   part);
  };
  refused("", "holds no prompt");
  refused("{\"prompt_tokens\": [1]}\nnonsense\n", "prompts.jsonl, line 2");
  refused("\n{\"prompt_tokens\": [1, \"x\"]}\n", "prompts.jsonl, line 2");
  refused("{\"prompt\": 5}\n", "prompts.jsonl, line 1");
  refused("{\"prompt_tokens\": [1], \"seed\": -1}\n", "prompts.jsonl, line 1");
}

TEST_F(Cli, PrintsWhatScriptsReadAsJson) {
  const Outcome outcome = run("llada", "--steps 4 --seed 7 --json");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  const json result = json::parse(outcome.out);
  EXPECT_THAT(keys_of(result),
              ElementsAre("prompt_tokens", "seed", "stats", "stop_reason", "text", "tokens"));
  EXPECT_THAT(keys_of(result["stats"]),
              ElementsAre("bytes", "bytes_baseline", "bytes_uncached", "canvas_tokens_per_second", "flops",
                          "flops_baseline", "flops_uncached", "forward_passes", "layer_flops",
                          "layer_flops_baseline", "layer_flops_uncached", "rows", "rows_baseline",
                          "rows_uncached", "seconds", "steps", "tokens_per_forward", "tokens_per_second"));
  EXPECT_EQ(result["prompt_tokens"], 3);
  EXPECT_EQ(result["seed"], 7);
  EXPECT_EQ(result["tokens"].size(), 8);
  EXPECT_EQ(result["stats"]["steps"], 4);
  EXPECT_EQ(result["stats"]["rows"], 4 * 11);
}

TEST_F(Cli, TracesEveryPass) {
  const std::vector<int> tokens = tokens_of("llada", "--block-length 4 --steps 4 --trace trace.jsonl");
  const std::vector<json> trace = parse_lines(slurp(folder_ / "trace.jsonl"));
  ASSERT_EQ(trace.size(), 1 + 4);
  std::vector<int> canvas = trace[0].at("canvas").get<std::vector<int>>();
  EXPECT_THAT(canvas, ElementsAre(5, 6, 7, 90, 90, 90, 90, 90, 90, 90, 90));
  for (size_t pass = 0; pass < 4; ++pass) {
    const json& line = trace[1 + pass];
    EXPECT_THAT(keys_of(line), ElementsAre("block", "bytes", "committed", "head_flops", "kind", "layer_flops",
                                           "locked", "pass", "request", "rows", "seconds", "step",
                                           "step_tokens_per_second", "unlocked"));
    EXPECT_EQ(line["pass"], pass);
    EXPECT_EQ(line["step"], pass);
    EXPECT_EQ(line["block"], pass / 2);
    EXPECT_EQ(line["rows"].size(), 11);
    for (const json& commit : line["committed"]) {
      EXPECT_THAT(keys_of(commit), ElementsAre("confidence", "position", "token"));
      canvas[commit["position"].get<size_t>()] = commit["token"].get<int>();
    }
  }
  EXPECT_EQ(std::vector<int>(canvas.begin() + 3, canvas.end()), tokens);
}

TEST_F(Cli, KnowsTheNamesThatPeopleType) {
  const std::vector<int> expected =
      tokens_of("llada", "--steps 4 --block-length 4 --temperature 0.5 --seed 3 --unmask low-confidence");
  EXPECT_EQ(
      tokens_of("llada", "--diffusion-steps 4 --block_length 4 --temp 0.5 -s 3 --remasking low_confidence"),
      expected);
  const Outcome outcome =
      lacuna("run -m " + golden("llada") + " --prompt_tokens '[5, 6, 7]' -n 8 --steps=4 " +
             "--diffusion_block_length=4 --temp 0.5 --seed 3 --alg low-confidence --json");
  EXPECT_EQ(json::parse(outcome.out)["tokens"], json(expected)) << outcome.err;
}

TEST_F(Cli, GivesTheSameTokensOnAnyThreadsAndInAnyBatch) {
  write("prompts.jsonl",
        "{\"prompt_tokens\": [5, 6, 7], \"seed\": 3}\n"
        "{\"prompt_tokens\": [40]}\n"
        "\n"
        "{\"prompt_tokens\": [1, 2, 3, 4, 5, 6], \"seed\": 9}\n");
  const auto run_lines = [&](const std::string& arguments) {
    const Outcome outcome = lacuna("run -m " + golden("llada") +
                                   " --prompts-file prompts.jsonl -n 8 --temp 1 --json " + arguments);
    std::vector<json> tokens;
    for (const json& line : parse_lines(outcome.out)) tokens.push_back(line["tokens"]);
    return tokens;
  };
  const std::vector<json> alone = run_lines("--threads 1");
  ASSERT_EQ(alone.size(), 3);
  EXPECT_EQ(alone[0], json(tokens_of("llada", "--temp 1 --seed 3")));
  EXPECT_EQ(run_lines("--threads 2"), alone);
  EXPECT_EQ(run_lines("--batch 4 --threads 1"), alone);
  EXPECT_EQ(run_lines("--batch 2 --threads 2"), alone);
}

TEST_F(Cli, GivesTheSameGreedyTokensWithAnyInstructions) {
  const std::vector<int> expected = tokens_of("llada", "--dtype f32", "LACUNA_ISA=scalar");
  for (const char* isa : {"avx2", "avx512-fma", "avx512", "amx", "neon", "neon-i8mm"}) {
    const std::string environment = std::string("LACUNA_ISA=") + isa;
    if (lacuna("--version", "", environment).exit_code != 0) continue;  // not on this machine
    EXPECT_EQ(tokens_of("llada", "--dtype f32", environment), expected) << isa;
  }
}

TEST_F(Cli, WritesTextAloneToAPipe) {
  const std::string model = checkpoint_with_text();
  const Outcome outcome = lacuna("run -m " + model + " -p Hi -n 8 -t 1 --raw");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(lacuna("run -m " + model + " -p Hi -n 8 -t 1").err, HasSubstr("has no chat template"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  const json result = json::parse(lacuna("run -m " + model + " -p Hi -n 8 -t 1 --json").out);
  EXPECT_EQ(outcome.out, result["text"].get<std::string>() + "\n");
  write("prompt.txt", "Hi");
  EXPECT_EQ(lacuna("run -m " + model + " -f prompt.txt -n 8 -t 1").out, outcome.out);
}

TEST_F(Cli, DrawsOnATerminalAndLetsNoModelControlIt) {
  if (std::system("command -v script >/dev/null") != 0) GTEST_SKIP() << "needs script(1) of util-linux";
  const fs::path model = checkpoint_with_text();
  json vocabulary;
  for (int id = 0; id < 85; ++id) vocabulary["\u011b[31m" + std::to_string(id)] = id;  // byte 27 and more
  write("with_text/vocab.json", vocabulary.dump());
  const auto screen = [&](const std::string& environment) {
    write("command", std::string("#!/bin/sh\n") + environment + " " LACUNA_BINARY " run -m " +
                         model.string() + " --prompt-tokens 5,6,7 -n 8 -t 1 --fps 100 >answer\n");
    const std::string command =
        "cd " + folder_.string() + " && script -qec 'sh command' screen </dev/null >log";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return slurp(folder_ / "screen");
  };
  const std::string drawn = screen("TERM=xterm");
  EXPECT_THAT(slurp(folder_ / "answer"), HasSubstr("\x1b[31m"));
  EXPECT_THAT(drawn, AllOf(HasSubstr("\u241b[31m"), Not(HasSubstr("\x1b[31m"))));
  EXPECT_THAT(drawn, AllOf(HasSubstr("\x1b[?25l"), HasSubstr("\x1b[?25h"), HasSubstr("masked")));
  EXPECT_THAT(screen("TERM=dumb"), AllOf(HasSubstr("8 steps"), Not(HasSubstr("\x1b"))));
  const std::string plain = screen("TERM=xterm NO_COLOR=1");
  EXPECT_THAT(plain, AllOf(HasSubstr("8 steps"), HasSubstr("\x1b[?2026h"), HasSubstr("masked")));
  EXPECT_THAT(plain, Not(ContainsRegex("\x1b\\[[0-9;]*m")));  // the canvas, without colours
}

TEST_F(Cli, TokenizesBothWays) {
  const std::string model = "tokenize -m " + checkpoint_with_text();
  EXPECT_EQ(lacuna(model, "Hi there").out, "[39,72,85,83,71,68,81,68]\n");
  EXPECT_EQ(lacuna(model + " --decode", "[39,72,85,83,71,68,81,68]").out, "Hi there");
  EXPECT_THAT(lacuna(model, "Hi <|endoftext|>").out, Not(HasSubstr("89")));
  EXPECT_EQ(lacuna(model + " --special", "Hi <|endoftext|>").out, "[39,72,85,89]\n");
  EXPECT_EQ(lacuna(model + " --decode", "[39, 72, 85, 89]").out, "Hi <|endoftext|>");
  EXPECT_EQ(lacuna(model + " --decode --skip-special", "[39, 72, 85, 89]").out, "Hi ");
  expect_refused(lacuna(model + " --decode", "{}"), "standard input");
  expect_refused(lacuna(model + " --skip-special", "x"), "--decode");
  expect_refused(lacuna("tokenize -m random:llada-8b"), "tokenizer");
}

TEST_F(Cli, TokenizesWithAFolderThatHoldsOnlyATokenizer) {
  const fs::path copy = checkpoint_with_text();
  fs::remove(copy / "config.json");
  fs::remove(copy / "model.safetensors");
  EXPECT_EQ(lacuna("tokenize -m " + copy.string(), "Hi").out, "[39,72]\n");
}

TEST_F(Cli, InspectsWithoutLoadingWeights) {
  const json report = json::parse(lacuna("inspect --json -m " + golden("dream")).out);
  EXPECT_EQ(report["family"], "dream");
  EXPECT_EQ(report["vocabulary"], 97);
  EXPECT_EQ(report["shifted_logits"], true);
  EXPECT_EQ(report["special_tokens"]["mask"]["id"], 93);
  EXPECT_EQ(report["checkpoint"]["dtype"], "f32");
  EXPECT_EQ(report["checkpoint"]["bytes"], 4 * report["parameters"].get<int64_t>());
  EXPECT_THAT(lacuna("inspect -m " + golden("qwen2")).out, HasSubstr("causal"));

  const std::string guided = "inspect -m " + kZoo + "mini-llada --canvas 64 --guide " + kZoo + "mini-qwen ";
  const json guide = json::parse(lacuna(guided + "--json").out);
  EXPECT_EQ(guide["guide"]["shares_vocabulary"], true);
  EXPECT_EQ(
      guide["guide"]["total_bytes"],
      json::parse(
          lacuna("inspect -m " + kZoo + "mini-qwen --canvas 64 --json").out)["memory"]["run"]["total_bytes"]);
  EXPECT_EQ(
      guide["guide"]["total_bytes_with_model"],
      guide["guide"]["total_bytes"].get<int64_t>() + guide["memory"]["run"]["total_bytes"].get<int64_t>());
  EXPECT_THAT(lacuna(guided).out, HasSubstr("\nmemory guide "));
  expect_refused(lacuna("inspect -m " + kZoo + "mini-llada --guide " + kZoo + "mini-llada"),
                 "expected an autoregressive model");
  expect_refused(lacuna("run -m " + kZoo + "mini-sdar --guide " + kZoo + "mini-sdar --focus 1.5 -p x"),
                 "--focus has no effect here: a guide drafts all masks of a block");

  const json random = json::parse(lacuna("inspect --json -m random:llada-8b --canvas 2048").out);
  EXPECT_EQ(random["parameters"], 8'015'581'184);
  EXPECT_EQ(random["memory"]["bf16"]["kv_bytes_canvas"],
            2048 * random["memory"]["bf16"]["kv_bytes_per_token"].get<int64_t>());
  EXPECT_LT(random["memory"]["bf16"]["kv_int8_bytes_canvas"],
            0.6 * random["memory"]["bf16"]["kv_bytes_canvas"].get<double>());
  EXPECT_TRUE(random["checkpoint"].is_null());
}

TEST_F(Cli, QuantizesAModelThatThenLoadsAsItIs) {
  const std::string out = (folder_ / "quantized").string();
  const Outcome outcome =
      lacuna("quantize -m " + golden("llada2") + " --to int8 --threads 1 --tokens 16 --json -o " + out);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_LT(report["relative_error"], 0.01);
  EXPECT_LT(report["kl_mean"], 0.01);
  EXPECT_EQ(logits(out), logits(golden("llada2") + " --weights int8"));
  EXPECT_NE(logits(out), logits(golden("llada2")));

  const json inspected = json::parse(lacuna("inspect --json -m " + out).out);
  const json loading = json::parse(lacuna("bench load --threads 1 --repeat 1 --json -m " + out).out);
  EXPECT_EQ(inspected["memory"]["run"]["weights_bytes"], loading["weight_bytes"]);
  EXPECT_EQ(inspected["memory"]["run"]["weights_bytes"], inspected["memory"]["int8"]["weights_bytes"]);

  const Outcome again = lacuna("quantize -m " + golden("llada2") + " --to int8 -o " + out);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  const Outcome twice = lacuna("quantize -m " + out + " --to int8 -o " + out + "2");
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("is quantized already"));
}

TEST_F(Cli, QuantizesBesideAModelOfTheSameName) {
  fs::create_directories(folder_ / "models");
  fs::copy(golden("llada2"), folder_ / "models" / "tiny", fs::copy_options::recursive);
  const auto quantize = [&](const std::string& flags) {
    const Outcome outcome = lacuna("quantize --to int4 --threads 1 --json " + flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json elsewhere = quantize("-m tiny -o copy");
  const json in_place = quantize("-m tiny -o tiny");
  EXPECT_GT(in_place["kl_mean"], 0);
  EXPECT_EQ(in_place["kl_mean"], elsewhere["kl_mean"]);
  fs::create_directories(folder_ / "long");
  write("long/model.safetensors.partial", "an interrupted run left this");
  EXPECT_EQ(quantize("-m " + kZoo + "mini-llada -o long --tokens 4096")["tokens"], 1024);  // its positions
}

TEST_F(Cli, PredictsTheMemoryOfARunWithItsFlags) {
  const auto memory = [&](const std::string& flags) {
    const Outcome outcome = lacuna("inspect --json -m random:llada-8b --canvas 64 " + flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["memory"];
  };
  const json plain = memory("");
  EXPECT_EQ(plain["run"]["weights_bytes"], plain["bf16"]["weights_bytes"]);
  EXPECT_EQ(plain["run"]["total_bytes"], plain["run"]["weights_bytes"].get<int64_t>() +
                                             plain["run"]["kv_bytes_canvas"].get<int64_t>() +
                                             plain["run"]["buffer_bytes_canvas"].get<int64_t>());
  const json small = memory("--weights int4 --head-weights int4 --kv-cache int8");
  EXPECT_LT(small["run"]["weights_bytes"], small["int4"]["weights_bytes"]);
  EXPECT_EQ(small["run"]["kv_bytes_canvas"], small["bf16"]["kv_int8_bytes_canvas"]);
  EXPECT_THAT(lacuna("inspect -m " + golden("llada") + " --canvas 100000").out, HasSubstr("warning"));
  expect_refused(lacuna("inspect -m " + golden("llada") + " --dtype f32 --weights bf16"), "--weights");
}

TEST_F(Cli, FailsWhereItsOutputCannotBeWritten) {
  for (const std::string& arguments :
       {"inspect -m " + golden("llada"), std::string("help"), std::string("--help"), std::string("--version"),
        std::string("run --help")}) {
    const std::string command =
        "cd " + folder_.string() + " && " LACUNA_BINARY " " + arguments + " >/dev/full 2>stderr";
    EXPECT_EQ(std::system(command.c_str()), 1 << 8) << arguments;
    EXPECT_THAT(slurp(folder_ / "stderr"), HasSubstr("standard output cannot be written")) << arguments;
  }
}

TEST_F(Cli, NoticesThatATraceCannotBeWritten) {
  const Outcome outcome =
      lacuna("run --threads 1 -n 4 --trace /dev/full --prompt-tokens 1,2 -m " + golden("llada"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "lacuna: /dev/full: cannot be written: No space left on device\n");
}

TEST_F(Cli, WritesNoTraceThroughALink) {
  write("victim", "precious");
  std::filesystem::create_symlink("victim", folder_ / "trace.jsonl");
  expect_refused(lacuna("run --threads 1 -n 4 --trace trace.jsonl --prompt-tokens 1,2 -m " + golden("llada")),
                 "trace.jsonl: is a symbolic link");
  EXPECT_EQ(slurp(folder_ / "victim"), "precious");
}

TEST_F(Cli, PrintsNoEscapeSequencesOfNamesInFiles) {
  const std::string hostile = "\x1b]0;title\x07\u202e";
  fs::copy(golden("llada"), folder_ / "hostile");
  nlohmann::json config = nlohmann::json::parse(slurp(folder_ / "hostile/config.json"));
  config["key" + hostile] = {{hostile, true}};
  config["architectures"] = {hostile};
  write("hostile/config.json", config.dump());
  config["architectures"] = nlohmann::json::parse(slurp(golden("llada") + "/config.json"))["architectures"];
  fs::copy(golden("llada"), folder_ / "unknown_key");
  write("unknown_key/config.json", config.dump());
  write("hostile" + hostile + ".txt", "");
  for (const std::string& arguments :
       {std::string("inspect -m hostile"), std::string("run --prompt-tokens 1 -n 4 -m unknown_key"),
        std::string("inspect -m unknown_key"), "run --prompt-tokens 1 -n 4 -m 'none" + hostile + "'",
        "run -m unknown_key -f 'hostile" + hostile + ".txt'", "replay 'none" + hostile + "'"}) {
    const Outcome outcome = lacuna(arguments);
    for (const char* const part : {"\x1b", "\x07", "\u202e"}) {
      EXPECT_THAT(outcome.err, Not(HasSubstr(part))) << arguments;
      EXPECT_THAT(outcome.out, Not(HasSubstr(part))) << arguments;
    }
  }
}

TEST_F(Cli, ReadsNoFileWithoutAnEnd) {
  expect_refused(lacuna("run -m " + kZoo + "mini-llada -f /dev/zero"), "/dev/zero: has more than");
}

TEST_F(Cli, RefusesLoopsOfLinks) {
  std::filesystem::create_symlink("b", folder_ / "a");
  std::filesystem::create_symlink("a", folder_ / "b");
  expect_refused(lacuna("inspect -m " + (folder_ / "a").string()), "no model");
  expect_refused(lacuna("run -m " + kZoo + "mini-llada -f " + (folder_ / "a").string()), "cannot be read");
}

TEST_F(Cli, RefusesWeightsThatAreNotFinite) {
  const std::filesystem::path copy = folder_ / "damaged";
  std::filesystem::copy(golden("llada"), copy);
  const auto size = std::filesystem::file_size(copy / "model.safetensors");
  std::fstream file(copy / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size - 64));
  file << std::string(64, '\xFF');  // NaN in a weight of the output head
  file.close();
  expect_refused(lacuna("run --threads 1 -n 8 --prompt-tokens 1,2 -m " + copy.string()),
                 "holds an infinite or NaN weight; expected finite ones");
  expect_refused(lacuna("pack --threads 1 -m " + copy.string() + " -o packed"), "infinite or NaN");
}

TEST_F(Cli, PacksAModelThatThenLoadsAsItIs) {
  const std::string source = golden("llada2");
  const std::string out = (folder_ / "packed").string();
  const Outcome outcome = lacuna("pack -m " + source + " --weights int8 --threads 1 --json -o " + out);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_GT(report["matrices"], 0);
  EXPECT_GT(report["bytes"], report["panel_bytes"]);
  EXPECT_EQ(logits(out), logits(source + " --weights int8"));
  EXPECT_NE(logits(out), logits(source));
  EXPECT_NE(logits(out + " --weights int4"), logits(out));

  const json inspected = json::parse(lacuna("inspect --json -m " + out).out);
  EXPECT_EQ(inspected["checkpoint"]["panel_bytes"].size(), 3U);  // its router is f32
  EXPECT_THAT(lacuna("inspect -m " + out).out, AllOf(HasSubstr("packed "), HasSubstr("activations bf16")));
  const json loading = json::parse(lacuna("bench load --threads 1 --repeat 1 --json -m " + out).out);
  EXPECT_GT(loading["mapped_bytes"], 0);
  EXPECT_GT(loading["first_use_seconds_median"], 0);

  const Outcome again = lacuna("pack -m " + source + " -o " + out);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  const Outcome quantized = lacuna("quantize -m " + out + " --to int8 -o " + out + "2");
  EXPECT_EQ(quantized.exit_code, 2);
  EXPECT_THAT(quantized.err, HasSubstr("is a packed copy; expected the original"));
}

TEST_F(Cli, KeepsAPackedCopyThatTheNextStartMaps) {
  const std::string model = golden("llada2") + " --weights int8";
  const std::string cache = " --pack-cache " + (folder_ / "copies").string();
  const auto copies = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "copies"))
      names.push_back(entry.path().filename().string());
    return names;
  };
  const std::string without = logits(model);
  EXPECT_EQ(logits(model + cache), without);
  const std::vector<std::string> first = copies();
  ASSERT_EQ(first.size(), 1U);
  const auto written = std::filesystem::last_write_time(folder_ / "copies" / first[0] / "config.json");
  EXPECT_EQ(logits(model + cache), without);
  EXPECT_EQ(copies(), first);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "copies" / first[0] / "config.json"), written);
  EXPECT_EQ(logits(golden("llada2") + cache), logits(golden("llada2")));
  EXPECT_EQ(copies().size(), 2U) << "another format has a copy of its own";

  write("file", "");
  const std::string nowhere = " --pack-cache " + (folder_ / "file").string();
  const Outcome outcome =
      lacuna("logits --threads 1 --request request.json --out out.npy -m " + model + nowhere);
  EXPECT_THAT(outcome.err, HasSubstr("no copy was written"));
}

TEST_F(Cli, RefusesToPackWhatIsNoCheckpoint) {
  const auto expect_refused = [&](const std::string& arguments, const std::string& text) {
    const Outcome outcome = lacuna("pack " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  expect_refused("-m " + golden("llada"), "--out is missing");
  expect_refused("-o out", "no model is given");
  expect_refused("-m random:llada-8b -o out", "expected a checkpoint folder or a .gguf file");
  expect_refused("-m " + golden("llada") + " -o out --weights int3", "--weights");
  expect_refused("-m " + golden("llada") + " -o out --dtype f32 --weights bf16",
                 "--weights is bf16, and rows are f32");
  write("file", "");
  expect_refused("-m " + golden("llada") + " -o file", "--out file");
}

TEST_F(Cli, KeepsKeysAndValuesInEightBitsOnRequest) {
  write("request.json", R"({"tokens": [1, 2, 3, 4]})");
  const auto logits = [&](const std::string& flags) {
    const Outcome run = lacuna("logits --threads 1 --request request.json --out out.npy -m " +
                               golden("llada") + " --dtype f32 --kv-cache " + flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return slurp(folder_ / "out.npy");
  };
  EXPECT_EQ(logits("auto"), logits("f32"));
  EXPECT_NE(logits("auto"), logits("int8"));

  const Outcome outcome = run("llada", "--dtype f32 --kv-cache bf16");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--kv-cache is bf16, and rows are f32; expected the same, or int8"));
}

TEST_F(Cli, RoundsActivationsToEightBitsOnRequest) {
  write("request.json", R"({"tokens": [1, 2, 3, 4]})");
  const auto logits = [&](const std::string& flags) {
    const Outcome run = lacuna("logits --threads 1 --request request.json --out out.npy -m " +
                               golden("llada") + " --dtype bf16 " + flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return slurp(folder_ / "out.npy");
  };
  EXPECT_EQ(logits("--activations int8"), logits(""));  // dense weights are multiplied with bf16
  if (!is_scalar()) {
    EXPECT_NE(logits("--weights int4 --activations int8"), logits("--weights int4"));
  }

  const Outcome outcome = run("llada", "--dtype f32 --weights int4 --activations int8");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--activations is int8, and rows are f32; expected --dtype bf16"));
}

TEST_F(Cli, RefusesWeightsThatRowsCannotMeet) {
  const Outcome outcome = run("llada", "--dtype f32 --weights bf16");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--weights is bf16, and rows are f32"));
}

TEST_F(Cli, RefusesFp8WeightsOnTheCpu) {
  for (const char* const flag : {"--weights", "--head-weights"}) {
    const Outcome refused = run("llada", std::string("--device cpu --dtype bf16 ") + flag + " fp8");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr(std::string(flag) + " is fp8, for which CUDA devices alone have kernels; "
                                              "expected auto, f32, bf16, int8, "));
  }
}

TEST_F(Cli, DecodesWithFp8WeightsOnTheSimulator) {
  if (lacuna("--version").out.find("simulator") == std::string::npos)
    GTEST_SKIP() << "this build has no simulator (LACUNA_SIMULATOR)";
  const Outcome decoded = lacuna("run -m " LACUNA_SOURCE_DIR
                                 "/models/mini-llada -p \"Mia has 3 apples.\" --gen-length 4 --steps 2 "
                                 "--threads 1 --device simulator --weights fp8 --head-weights fp8");
  EXPECT_EQ(decoded.exit_code, 0) << decoded.err;
  EXPECT_FALSE(decoded.out.empty());
}

TEST_F(Cli, WarnsAboutATokenizerThatDoesNotFit) {
  const std::string model = checkpoint_with_text();
  EXPECT_THAT(json::parse(lacuna("inspect --json -m " + model).out)["warnings"], IsEmpty());
  write("with_text/added_tokens.json", "{\"<|endoftext|>\": 89, \"<|mask|>\": 97}");
  const Outcome outcome = lacuna("inspect -m " + model);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the mask token 90 is not a special token"),
                                 HasSubstr("ids up to 97, the embedding only 97 rows")));
}

TEST_F(Cli, EvaluatesATask) {
  const std::string model = checkpoint_with_text();
  const Outcome outcome = lacuna(
      "eval -m " + model + " --threads 1 --task stories --samples 3 --batch 2 --json --out records.jsonl");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["task"], "stories");
  EXPECT_EQ(result["samples"], 3);
  EXPECT_EQ(result["correct"], 0);  // the weights are random
  EXPECT_EQ(result["steps_mean"], 32);
  EXPECT_EQ(result["forward_passes"], 64);
  EXPECT_EQ(result["settings"], json({{"gen-length", 32}, {"seed", 0}, {"batch", 2}}));
  const std::vector<json> records = parse_lines(slurp(folder_ / "records.jsonl"));
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records[2]["tokens"].size(), 32);
  EXPECT_EQ(records[2]["seed"], 2);

  expect_refused(lacuna("eval -m " + model + " --task chess"), "chess");
  expect_refused(lacuna("eval -m " + golden("llada") + " --task stories"), "tokenizer");
  expect_refused(lacuna("eval -m " + model + " --task stories --out no/such/file"), "no/such/file");
}

TEST_F(Cli, ReportsAllThatAnEvaluationCosts) {
  const Outcome outcome = lacuna(
      "eval -m " + kZoo + "mini-qwen3 --task arithmetic --difficulty 1 --samples 4 --threads 1 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  for (const char* key : {"accuracy", "accuracy_low", "accuracy_high", "correct", "samples", "steps_mean",
                          "passes_mean", "forward_passes", "rows", "rows_baseline", "flops", "flops_baseline",
                          "tokens_per_second", "canvas_tokens_per_second", "seconds"}) {
    EXPECT_TRUE(result[key].is_number()) << key;
  }
  EXPECT_LE(result["accuracy_low"], result["accuracy"]);
  EXPECT_GE(result["accuracy_high"], result["accuracy"]);
  EXPECT_EQ(result["settings"], json({{"gen-length", 32}, {"seed", 0}, {"batch", 8}, {"difficulty", 1}}));
  expect_refused(lacuna("eval -m " + kZoo + "mini-qwen3 --task arithmetic --difficulty 6"),
                 "--difficulty 6: expected 1 (easiest) to 5");
  expect_refused(lacuna("compare -m " + kZoo + "mini-qwen3 --task arithmetic --length 64 --b ''"),
                 "--length 64: task 'arithmetic' has no list of facts");
}

TEST_F(Cli, MeasuresHowLikelyTextsAre) {
  const std::string eval = "eval --task perplexity --samples 3 --json -m " + kZoo;
  const auto perplexity = [&](const std::string& arguments) {
    const Outcome outcome = lacuna(eval + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_GT(result["perplexity"], 1);
    EXPECT_LE(result["perplexity_low"], result["perplexity"]);
    EXPECT_GE(result["perplexity_high"], result["perplexity"]);
    return result;
  };
  // Far from 1,226, the perplexity of a uniform guess over the vocabulary.
  EXPECT_LT(perplexity("mini-qwen3")["perplexity"], 4);
  EXPECT_LT(perplexity("mini-llada --draws 4")["perplexity"], 4);
  EXPECT_LT(perplexity("mini-llada2 --draws 4 --text-task arithmetic --difficulty 2")["perplexity"], 6);
  const json exact = perplexity("mini-qwen3");
  EXPECT_EQ(exact["kind"], "exact, left to right");
  EXPECT_EQ(exact["settings"], json({{"seed", 0}}));
  json again = perplexity("mini-llada --draws 4 --threads 2");
  EXPECT_EQ(again["nats_per_token"], perplexity("mini-llada --draws 4 --threads 1")["nats_per_token"]);
  const std::string text = write("text.txt", "Mia has 12 shells. She finds 7 more. She gives 5 to Ben.");
  EXPECT_EQ(perplexity("mini-llada --draws 2 --length 6 --data " + text)["tokens"], 15);

  expect_refused(lacuna(eval + "mini-qwen3 --draws 4"), "--draws 4: has no effect with this model");
  expect_refused(lacuna(eval + "mini-llada --steps 4"), "--steps: has no effect with --task perplexity");
  expect_refused(lacuna(eval + "mini-llada --out f"), "--out: has no effect with --task perplexity");
  expect_refused(lacuna(eval + "mini-llada --text-task chess"), "task 'chess' is not known");
  expect_refused(lacuna(eval + "mini-llada --data nothing"), "nothing");
  expect_refused(lacuna(eval + "mini-llada --depth 0.5 --data " + text),
                 "--depth: has no effect with --data");
  expect_refused(lacuna(eval + "mini-llada --length 1 --data " + text), "--length 1");
  expect_refused(lacuna(eval + "mini-llada --data " + write("empty.txt", "")), "at least two tokens");
  expect_refused(lacuna("eval --task stories --draws 4 -m " + kZoo + "mini-llada"),
                 "--draws: has no effect with --task stories");
}

TEST_F(Cli, AnswersPublishedBenchmarks) {
  const std::string eval = "eval --threads 1 --gen-length 16 -m " + kZoo + "mini-qwen3 --task ";
  const std::string problems =
      write("gsm8k.jsonl", R"({"question": "Mia has 12 eggs. How many?", "answer": "12.\n#### 12"})"
                           "\n"
                           R"({"question": "Ben has 5 keys. How many?", "answer": "5.\n#### 5"})"
                           "\n");
  const Outcome gsm8k =
      lacuna(eval + "gsm8k --data gsm8k.jsonl --shots 1 --shots-data gsm8k.jsonl --json --out r.jsonl");
  EXPECT_EQ(gsm8k.exit_code, 0) << gsm8k.err;
  const json result = json::parse(gsm8k.out);
  EXPECT_EQ(result["samples"], 2);
  EXPECT_LE(result["strict"]["correct"], result["correct"]);
  const std::vector<json> records = parse_lines(slurp(folder_ / "r.jsonl"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1]["expected"], "5");
  EXPECT_THAT(records[1]["prompt"].get<std::string>(), StartsWith("Question: Mia has 12 eggs."));

  const Outcome turns = lacuna(
      eval +
      "gsm8k --data gsm8k.jsonl --prompts flashdlm --shots 1 --shots-data gsm8k.jsonl --json --out r.jsonl");
  EXPECT_EQ(json::parse(turns.out)["settings"]["prompts"], "flashdlm") << turns.err;
  EXPECT_THAT(parse_lines(slurp(folder_ / "r.jsonl"))[1]["prompt"].get<std::string>(),
              StartsWith("Given the following problem"));

  write("math.jsonl", R"({"problem": "Mia has 12 eggs. How many?", "solution": "\\boxed{12}"})");
  EXPECT_EQ(json::parse(lacuna(eval + "math --data math.jsonl --json").out)["samples"], 1);
  write("mbpp.jsonl", R"({"task_id": 11, "text": "Nothing.", "test_list": ["pass"]})");
  EXPECT_EQ(lacuna(eval + "mbpp --data mbpp.jsonl --out m.jsonl").exit_code, 0);
  EXPECT_EQ(parse_lines(slurp(folder_ / "m.jsonl"))[0]["task_id"], "11");

  write(
      "code.jsonl",
      R"json({"task_id": "T/0", "prompt": "def f():\n    ", "entry_point": "f", "test": "def check(f): f()"})json"
      "\n");
  EXPECT_EQ(lacuna(eval + "humaneval --data code.jsonl --out c.jsonl").exit_code, 0);
  const std::vector<json> completions = parse_lines(slurp(folder_ / "c.jsonl"));
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_THAT(keys_of(completions[0]), ElementsAre("completion", "task_id"));

  write("chat.jsonl", R"({"question_id": 81, "category": "writing", "turns": ["Tell a story.", "Again."]})");
  const Outcome chat = lacuna(eval + "mt-bench --data chat.jsonl --out a.jsonl --json");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_THAT(chat.out, Not(HasSubstr("accuracy")));
  const std::vector<json> answers = parse_lines(slurp(folder_ / "a.jsonl"));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0]["question_id"], 81);
  EXPECT_EQ(answers[0]["choices"][0]["turns"].size(), 2u);
  EXPECT_EQ(lacuna(eval + "mt-bench --turns 1 --data chat.jsonl --out a.jsonl").exit_code, 0);
  EXPECT_EQ(parse_lines(slurp(folder_ / "a.jsonl"))[0]["choices"][0]["turns"].size(), 1u);

  expect_refused(lacuna(eval + "gsm8k"), "--task gsm8k: expected --data");
  expect_refused(lacuna(eval + "gsm8k --data chat.jsonl"), "chat.jsonl line 1");
  expect_refused(lacuna(eval + "gsm8k --data gsm8k.jsonl --shots 3 --shots-data gsm8k.jsonl"), "--shots 3");
  expect_refused(lacuna(eval + "gsm8k --data gsm8k.jsonl --shots 1"), "--shots 1: expected --shots-data");
  expect_refused(lacuna(eval + "gsm8k --data gsm8k.jsonl --difficulty 2"), "--difficulty: has no effect");
  expect_refused(lacuna(eval + "humaneval --data code.jsonl"), "expected --out");
  expect_refused(lacuna(eval + "mbpp --data mbpp.jsonl"), "--task mbpp: expected --out");
  expect_refused(lacuna(eval + "math --data math.jsonl --turns 1"), "--turns: has no effect");
  expect_refused(lacuna(eval + "math --data math.jsonl --prompts flashdlm"), "--prompts: has no effect");
  expect_refused(lacuna(eval + "humaneval --data code.jsonl --run-tests /bin/false"),
                 "--run-tests /bin/false");
  expect_refused(lacuna(eval + "mt-bench --data chat.jsonl"), "expected --out");
  expect_refused(lacuna(eval + "stories --data chat.jsonl"), "--data: has no effect with --task stories");
}

TEST_F(Cli, ChoosesAmongOptionsByLikelihoodOrByGeneration) {
  const std::string eval = "eval --threads 1 -m " + kZoo + "mini-qwen3 --json --task ";
  write("piqa.jsonl", R"({"goal": "Dry a cup", "sol1": "use a towel", "sol2": "use a spoon", "label": 0})"
                      "\n"
                      R"({"goal": "Go", "sol1": "walk", "sol2": "sit", "label": 1})");
  const Outcome scored = lacuna(eval + "piqa --data piqa.jsonl --scoring likelihood --out r.jsonl");
  EXPECT_EQ(scored.exit_code, 0) << scored.err;
  const json likelihood = json::parse(scored.out);
  EXPECT_EQ(likelihood["scoring"], "likelihood");
  EXPECT_EQ(likelihood["kind"], "exact, left to right");
  EXPECT_EQ(likelihood["samples"], 2);
  const std::vector<json> records = parse_lines(slurp(folder_ / "r.jsonl"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["nats"].size(), 2u);
  EXPECT_EQ(records[1]["expected"], 1);
  EXPECT_EQ(likelihood["correct"], (records[0]["chosen"] == 0 ? 1 : 0) + (records[1]["chosen"] == 1 ? 1 : 0));
  // A model with a chat template is asked to explain, and this one knows no such thing.
  const Outcome asked = lacuna(eval + "piqa --data piqa.jsonl --samples 1 -n 16");
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  const json generation = json::parse(asked.out);
  EXPECT_EQ(generation["scoring"], "generation");
  EXPECT_EQ(generation["unanswered"], 1);
  EXPECT_EQ(json::parse(lacuna(eval + "piqa --data piqa.jsonl --raw").out)["scoring"], "likelihood");

  expect_refused(lacuna(eval + "gpqa --data piqa.jsonl"), "piqa.jsonl line 1");
  expect_refused(lacuna(eval + "mmlu-pro"), "--task mmlu-pro: expected --data");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --shots 1"), "expected --shots-data");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --shots 1 --shots-data piqa.jsonl"),
                 "with --scoring likelihood alone");
  expect_refused(
      lacuna(eval + "piqa --data piqa.jsonl --scoring likelihood --shots 3 --shots-data piqa.jsonl"),
      "--shots 3: piqa.jsonl holds 2 solved questions");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --scoring likelihood -n 8"),
                 "--gen-length: has no effect");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --scoring likelihood --show 1"),
                 "--show: has no effect");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --draws 4"), "--draws 4: has no effect");
  expect_refused(lacuna(eval + "piqa --data piqa.jsonl --scoring chance"), "--scoring");
  expect_refused(lacuna(eval + "stories --scoring likelihood"),
                 "--scoring: has no effect with --task stories");
}

TEST_F(Cli, ScoresAnswersAboutLongTexts) {
  const std::string eval = "eval --threads 1 -n 8 -m " + kZoo + "mini-qwen3 --json --task longbench --data ";
  write("qa.jsonl",
        R"({"context": "Mia has 3 eggs.", "input": "How many?", "answers": ["3"], "dataset": "qasper"})");
  write("prompts.json", R"({"qasper": "{context} {input}", "lcc": "{context}"})");
  const Outcome outcome = lacuna(eval + "qa.jsonl --templates prompts.json --length 4 --out r.jsonl");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["metric"], "token_f1");
  EXPECT_EQ(result["dataset"], "qasper");
  EXPECT_EQ(result["settings"]["length"], 4);
  EXPECT_LE(result["score_low"], result["score"]);
  EXPECT_FALSE(result.contains("accuracy"));
  const std::vector<json> records = parse_lines(slurp(folder_ / "r.jsonl"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0]["score"], result["score"]);
  EXPECT_LT(records[0]["prompt"].get<std::string>().size(), 25u);  // its middle is left out

  expect_refused(lacuna(eval + "prompts.json"), "prompts.json line 1");
  expect_refused(lacuna(eval + "qa.jsonl --length 1"), "--length 1: expected 2 to");
  expect_refused(lacuna(eval + "qa.jsonl --templates qa.jsonl"), "qa.jsonl");
  expect_refused(lacuna(eval + "qa.jsonl --templates " + write("one.json", R"({"lcc": "{context}"})")),
                 "expected a prompt for 'qasper'");
  expect_refused(lacuna(eval + "qa.jsonl --scoring likelihood"), "--scoring: has no effect");
}

TEST_F(Cli, JudgesTheAnswersOfATask) {
  const std::string eval =
      "eval -m " + kZoo + "mini-llada --task stories --samples 2 -n 32 --steps 16 --threads 1";
  const Outcome outcome = lacuna(eval + " --json --judge " + kZoo + "mini-qwen");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json judged = json::parse(outcome.out)["judge"];
  EXPECT_THAT(keys_of(judged), ElementsAre("bytes", "distinct_1", "distinct_2", "distinct_3", "nats_per_byte",
                                           "nats_per_byte_high", "nats_per_byte_low", "perplexity",
                                           "perplexity_high", "perplexity_low", "repetition", "tokens"));
  EXPECT_GE(judged["perplexity"], 1);
  EXPECT_LE(judged["tokens"], 64);
  EXPECT_THAT(lacuna(eval + " --judge " + kZoo + "mini-qwen").out, HasSubstr("\njudge      perplexity "));
  EXPECT_THAT(lacuna(eval).out, Not(HasSubstr("judge")));

  expect_refused(lacuna(eval + " --judge " + kZoo + "mini-llada"), "expected an autoregressive model");
  expect_refused(lacuna(eval + " --judge " + golden("qwen2")), "has no tokenizer");
  const fs::path other_text = checkpoint_with_text();
  fs::copy(golden("qwen2"), folder_ / "stranger");
  for (const char* file : {"vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json"}) {
    fs::copy(other_text / file, folder_ / "stranger" / file);
  }
  const Outcome retold = lacuna(eval + " --json --judge stranger");  // it reads the text
  EXPECT_EQ(retold.exit_code, 0) << retold.err;
  EXPECT_EQ(json::parse(retold.out)["judge"]["bytes"], judged["bytes"]);
  EXPECT_NE(json::parse(retold.out)["judge"]["tokens"], judged["tokens"]);
}

TEST_F(Cli, JudgesContinuationsOfPromptsFromAFile) {
  const std::string eval = "eval -m " + kZoo + "mini-llada -n 16 --threads 1 --json --task continuations ";
  const std::string judge = " --judge " + kZoo + "mini-qwen";
  write("p.txt", "Mia has 12 shells. She finds 7 more.\n\n = Stories = \n");
  const Outcome outcome = lacuna(eval + "--data p.txt --length 6 --out r.jsonl" + judge);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["samples"], 2);
  EXPECT_EQ(result["settings"]["length"], 6);
  EXPECT_FALSE(result.contains("accuracy"));
  EXPECT_LE(result["judge"]["perplexity_low"], result["judge"]["perplexity"]);
  const std::vector<json> records = parse_lines(slurp(folder_ / "r.jsonl"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0]["prompt"].get<std::string>(), StartsWith("Mia has 12"));
  EXPECT_LT(records[0]["prompt"].get<std::string>().size(), 30u);
  EXPECT_EQ(records[0]["judge"]["bytes"], records[0]["text"].get<std::string>().size());
  write("p.jsonl", R"({"text": "Mia has 12 shells."})");
  EXPECT_EQ(lacuna(eval + "--data p.jsonl" + judge).exit_code, 0);

  expect_refused(lacuna(eval + judge), "--task continuations: expected --data");
  expect_refused(lacuna(eval + "--data p.txt"), "--task continuations: expected --judge");
  expect_refused(lacuna(eval + "--data p.txt --length 0" + judge), "--length 0: expected 1 to 65536");
  expect_refused(lacuna(eval + "--data p.txt --difficulty 2" + judge), "--difficulty: has no effect");
  expect_refused(lacuna(eval + "--data " + write("q.jsonl", R"({"page": "x"})") + judge), "q.jsonl line 1");
}

TEST_F(Cli, MeasuresTheRecallOfAControl) {
  const std::string model = "analyze recall -m " LACUNA_SOURCE_DIR "/models/mini-qwen3 ";
  const std::string command = model +
                              "--prompt-length 40 --samples 1 --gen-length 8 --ignore-eos --threads 1 "
                              "--budgets 16,24 ";
  const Outcome outcome = lacuna(command + "--as-blocks 4 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<json> rows = parse_lines(outcome.out);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.front()["instrument"], "recall");
  EXPECT_EQ(rows.front()["budget"], 16);
  EXPECT_EQ(rows.back()["steps_per_block"], 4);
  expect_refused(lacuna(command), "--as-blocks N");
  expect_refused(lacuna(command + "--mask-token 90"), "--mask-token 90");
  expect_refused(lacuna(command + "--as-blocks 4 --mask-token 1226"), "--mask-token 1226");
  expect_refused(lacuna(command + "--as-blocks 4 --sparse mage=16"), "--sparse mage=16");
  expect_refused(lacuna(command + "--as-blocks 4 --length 64"), "--length 64");
  expect_refused(lacuna("analyze recall -m " + golden("llada2") + " --prompt-length 40 --as-blocks 4"),
                 "not an autoregressive model");
}

TEST_F(Cli, PrintsMapsOfDriftAndAttention) {
  const std::string requests = golden("llada") + " --prompt-length 6 --gen-length 8 --samples 2 --threads 1 ";
  for (const char* instrument : {"drift", "attention"}) {
    const std::string command = std::string("analyze ") + instrument + " -m " + requests;
    const Outcome outcome = lacuna(command + "--map step,position --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::vector<json> rows = parse_lines(outcome.out);
    const auto is_cell = [](const json& row) { return row.contains("position"); };
    // The first pass has nothing before it that could have moved.
    const int steps = instrument == std::string("drift") ? 7 : 8;
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(), is_cell), steps * (6 + 8));
    EXPECT_EQ(rows.back()["position"], 7);
    EXPECT_EQ(rows.back()["count"], 2 * 2);  // samples and layers
    const std::string layers = lacuna(command + "--map step,position --layers 1,0 --json").out;
    EXPECT_THAT(layers, AllOf(HasSubstr("\"layer\":0,"), HasSubstr("\"layer\":1,")));
    const std::string parts = lacuna(command + "--map step,layer --json").out;
    EXPECT_THAT(parts, AllOf(HasSubstr("\"part\":\"decoded\""), HasSubstr("\"part\":\"masked\"")));
    expect_refused(lacuna(command + "--map step,layer"), "--map step,layer: expected with --json");
    expect_refused(lacuna(command + "--map layer,step --json"), "--map layer,step: expected step,layer");
    expect_refused(lacuna(command + "--map step,position --layers 2 --json"), "--layers 2: expected 0 to 1");
    expect_refused(lacuna(command + "--map step,layer --layers 1 --json"), "--layers 1: expected with --map");
  }
}

TEST_F(Cli, ProfilesEveryModelAndItsGuide) {
  const auto kinds = [&](const std::string& flags) {
    const Outcome outcome =
        lacuna("analyze profile --prompt-length 8 -n 8 --samples 1 --threads 1 --json -m " + kZoo + flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::set<std::string> found;
    for (const json& row : parse_lines(outcome.out)) {
      if (row.contains("kind")) found.insert(row["kind"].get<std::string>());
    }
    return found;
  };
  EXPECT_EQ(kinds("mini-qwen"), (std::set<std::string>{"prefill", "decode"}));
  EXPECT_EQ(kinds("mini-dream --guide " + kZoo + "mini-qwen"), (std::set<std::string>{"draft", "verify"}));
  EXPECT_EQ(kinds("mini-sdar --guide " + kZoo + "mini-sdar"), (std::set<std::string>{"draft", "verify"}));
  EXPECT_TRUE(kinds("mini-refusion").contains("plan"));
  expect_refused(lacuna("analyze drift --prompt-length 8 -m " + kZoo + "mini-qwen"), "analyze profile takes");
}

TEST_F(Cli, SaysWhyALockWithAPromiseLocksNothing) {
  const std::string command =
      "run -m " LACUNA_SOURCE_DIR
      "/models/mini-llada -p \"Mia has 12 shells. She finds 7 more. How many shells does "
      "Mia have now?\" --gen-length 32 --threads 1 --lock ";
  EXPECT_THAT(lacuna(command + "delta=1,eps=0,gate=off").err, HasSubstr("divergences do not contract"));
  EXPECT_THAT(lacuna(command + "delta=1,eps=0,gate=1").err,
              AnyOf(HasSubstr("an estimate needs 64"), HasSubstr("do not contract")));
  EXPECT_THAT(lacuna(command + "delta=1,eps=1e-3,gate=off").err, Not(HasSubstr("--lock delta")));
  EXPECT_THAT(lacuna(command + "eps=1e-3").err, Not(HasSubstr("--lock delta")));
}

TEST_F(Cli, TriesALockOnARunWithoutOne) {
  const std::string command =
      "analyze lock -m " + golden("llada") + " --prompt-length 6 --gen-length 8 --samples 2 ";
  const Outcome outcome = lacuna(command + "--lock eps=1e5,gate=off --threads 1 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<json> rows = parse_lines(outcome.out);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.front()["instrument"], "lock");
  EXPECT_EQ(rows.front()["figure"], "divergence");
  const auto is_lock = [](const json& row) { return row.contains("lock_step"); };
  // The prompt's rows, and those of the answer but for the last token, which no pass reads.
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), is_lock), 2 * (6 + 8 - 1));
  EXPECT_THAT(lacuna(command).out, Not(HasSubstr("lock_step")));
  expect_refused(lacuna(command + "--cache dual"), "--cache dual");
  expect_refused(lacuna(command + "--cfg-scale 1"), "--cfg-scale 1");
  expect_refused(lacuna(command + "--lock delta=1"), "expected eps=E");
  expect_refused(lacuna(command + "--lock eps=1e-3,unlock-every=4"), "unlock-every=4");
  expect_refused(lacuna("analyze lock -m " + golden("qwen2") + " --prompt-length 6"), "lock");
}

TEST_F(Cli, TimesADecodeOfBlockDiffusionAndOfAGuidedModel) {
  const auto time = [&](const std::string& flags) {
    const Outcome outcome =
        lacuna("bench decode --prompt-length 8 -n 8 --timed-passes 1 --repeat 3 --threads 1 --json -m " +
               kZoo + flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json blocks = time("mini-sdar");
  EXPECT_EQ(blocks["row_ratio"], 1);
  EXPECT_LE(blocks["plain"]["seconds_min"], blocks["plain"]["seconds"]);
  EXPECT_LE(blocks["plain"]["seconds"], blocks["plain"]["seconds_max"]);
  EXPECT_LT(time("mini-llada --guide " + kZoo + "mini-qwen")["row_ratio"], 1);
}

TEST_F(Cli, TimesAttentionInEveryFormatOfCells) {
  const Outcome outcome = lacuna(
      "bench attention --heads 2 --kv-heads 1 --head-dim 16 --cells 70 --rows 1,5 --repeat 1 --threads 1 "
      "--json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  ASSERT_EQ(report["results"].size(), 6);
  EXPECT_EQ(report["results"][1]["rows"], 5);
  EXPECT_EQ(report["results"][5]["cells_as"], "int8");
  EXPECT_GT(report["results"][5]["seconds_median"], 0);
  expect_refused(lacuna("bench attention --heads 3 --kv-heads 2"), "--kv-heads is 2");
}

TEST_F(Cli, TimesTheLoadingOfAModelAndItsMemory) {
  const Outcome outcome = lacuna("bench load -m " + golden("llada") + " --repeat 2 --threads 1 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_GT(report["seconds_median"], 0);
  EXPECT_GT(report["file_bytes"], 0);
  EXPECT_EQ(report["weight_bytes"], report["predicted_bytes"]);
}

TEST_F(Cli, SaysWhichProductsTookRowsOfBytes) {
  const Outcome outcome = lacuna(
      "bench matmul --shape 64x64 --rows 2 --weights bf16,int4 --activations int8 --in-cache --repeat 1 "
      "--threads 1 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["activations"], "int8");
  ASSERT_EQ(report["results"].size(), 2);
  EXPECT_EQ(report["results"][0]["rows_of_bytes"], false);
  EXPECT_EQ(report["results"][1]["rows_of_bytes"], !is_scalar());
}

TEST_F(Cli, ComparesStepsByThreads) {
  const Outcome outcome = lacuna("bench step -m " + golden("llada") +
                                 " --canvas 64 --rows 64,16 --repeat 1 --by-threads 1,2 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json results = json::parse(outcome.out)["by_threads"];
  ASSERT_EQ(results.size(), 4);
  EXPECT_EQ(results[0]["speedup"], 1);
  EXPECT_EQ(results[3]["threads"], 2);
  EXPECT_GT(results[3]["speedup"], 0);
  expect_refused(lacuna("bench step -m " + golden("llada") + " --threads 1000 --pin"), "--pin binds 1000");
}

TEST_F(Cli, ComparesFormatsWithBf16) {
  const Outcome outcome = lacuna("bench formats --shape 64x64 --in-cache --repeat 1 --threads 1 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  ASSERT_EQ(report["formats"].size(), 10) << "five formats, with and without int8 activations";
  double last = report["formats"][0]["times"][1];
  for (const json& format : report["formats"]) {
    ASSERT_EQ(format["times"].size(), 3);
    EXPECT_GT(format["times"][0], 0);
    EXPECT_LE(format["times"][1], last) << "the fastest at 32 rows come first";
    last = format["times"][1];
  }
}

TEST_F(Cli, SpreadsMemoryOverNodesWhereItIsAsked) {
  const std::string step =
      "bench step -m " + golden("llada") + " --canvas 64 --rows 16 --repeat 1 --threads 1 --json";
  const Outcome outcome = lacuna(step + " --numa interleave");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(lacuna(step + " --numa off").exit_code, 0);
  expect_refused(lacuna(step + " --numa replicate"), "--numa");
}

TEST_F(Cli, TimesAStep) {
  const Outcome outcome =
      lacuna("bench step -m " + golden("llada") + " --canvas 64 --rows 64,16 --repeat 2 --threads 1 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["canvas"], 64);
  ASSERT_EQ(report["results"].size(), 2);
  EXPECT_EQ(report["results"][1]["rows"], 16);
  EXPECT_GT(report["results"][1]["seconds_median"], 0);
  expect_refused(lacuna("bench step -m " + golden("llada") + " --canvas 64 --rows 65"), "--rows");
  expect_refused(lacuna("bench step -m " + golden("llada") + " --rows few"), "'few' is not a whole number");
}

}  // namespace
}  // namespace lacuna::cli_test
