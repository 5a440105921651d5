// Files that nobody would give on purpose: pipes, devices and folders where a file is named, and values that
// are a million letters long.
#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <regex>

#include "gguf_bytes.h"
#include "program.h"
#include "weights/lora_files.h"

namespace lacuna::hostile_files_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AnyOf;
using testing::Le;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr size_t kMaxSentence = 1024 + 32;  // an error, "lacuna: " before it and a line break behind it

/// A flag of docs/reference/flags.md that takes a text.
struct Flag {
  std::string command, name, meaning;
};

std::vector<Flag> text_flags() {
  const std::regex heading("## lacuna (.*)"), row(R"(\| `(--[a-z0-9-]+)` \| TEXT \| (.*) \|.*\|)");
  std::ifstream page(LACUNA_SOURCE_DIR "/docs/reference/flags.md");
  std::vector<Flag> found;
  std::string command;
  std::smatch parts;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, parts, heading)) command = parts[1];
    if (std::regex_match(line, parts, row)) found.push_back({command, parts[1], parts[2]});
  }
  return found;
}

/// The arguments without which a command does not read a flag's file; by command, or command and flag.
std::string other_arguments(const Flag& flag) {
  static const std::string kModel = "-m " LACUNA_SOURCE_DIR "/models/mini-llada ";
  static const std::string kShort = "--task arithmetic --samples 1 --gen-length 8 ";
  static const std::map<std::string, std::string> kArguments = {
      {"batch", kModel + "in.jsonl out.jsonl"},
      {"batch --endpoint", "in.jsonl out.jsonl"},
      {"bench attention", ""},
      {"bench load", kModel},
      {"bench matmul", ""},
      {"compare", kModel + kShort + "--a '' --b '--steps 4'"},
      {"decide", kModel + "--state a --question b"},
      {"decide --file", kModel + "--question b"},
      {"decide --questions", kModel},
      {"decide --state", kModel + "--question b"},
      {"eval", kModel + kShort},
      {"eval --data", kModel + "--task gsm8k"},
      {"eval --shots-data", kModel + "--task gsm8k --data in.jsonl --shots 1"},
      {"eval --templates", kModel + "--task longbench --data in.jsonl"},
      {"infill", kModel + "--prompt 'a [[4]]'"},
      {"infill --file", kModel},
      {"infill --prompt", kModel},
      {"logits", kModel + "--request '{\"tokens\": [1]}' --out out.npy"},
      {"logits --out", kModel + "--request '{\"tokens\": [1]}'"},
      {"logits --request", kModel + "--out out.npy"},
      {"merge", kModel + "--lora style --out merged"},
      {"merge --lora", kModel + "--out merged"},
      {"merge --out", kModel + "--lora style"},
      {"pack", kModel + "--out packed"},
      {"pack --out", kModel},
      {"plan", kModel},
      {"quantize", kModel + "--out quantized --weights q8_0"},
      {"quantize --out", kModel + "--weights q8_0"},
      {"replay", "in.jsonl"},
      {"run", kModel + "--gen-length 8 --steps 2"},
      {"tune --prompts-file", kModel},
  };
  std::string arguments = kModel;
  for (const std::string& key : {flag.command, flag.command + ' ' + flag.name}) {
    if (const auto found = kArguments.find(key); found != kArguments.end()) arguments = found->second;
  }
  if (flag.name == "--model" && arguments.starts_with(kModel)) arguments.erase(0, kModel.size());
  return arguments;
}

class HostileFiles : public ProgramTest {
 protected:
  HostileFiles() {
    EXPECT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    fs::create_directory(path("empty"));
    folder_.write("in.jsonl", "{}\n");
    LoraFiles().write(path("style"));
  }

  /// Runs a command for at most half a minute, and expects an end with a sentence or none.
  std::string ends(const std::string& arguments, const std::string& shown) const {
    folder_.write("stdin", "hi\n");
    const ProgramResult result = run_line(
        "XDG_STATE_HOME=" + path("state") + " XDG_CACHE_HOME=" + path("cache") +
            " XDG_CONFIG_HOME=" + path("config") + " timeout 30 " LACUNA_BINARY " " + arguments + " <stdin",
        folder_.path(), folder_.path());
    EXPECT_THAT(result.exit_code, AnyOf(0, 1, 2)) << shown << result.err.substr(0, 2000);
    if (result.exit_code == 0) return "";
    EXPECT_THAT(result.err, StartsWith("lacuna: ")) << shown;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << shown << result.err.substr(0, 2000);
    EXPECT_THAT(result.err, SizeIs(Le(kMaxSentence))) << shown;
    return result.err;
  }

  void expect_sentences(const std::regex& meaning) const {
    size_t num_flags = 0;
    for (const Flag& flag : text_flags()) {
      // It asks the hub, and servers run until somebody ends them.
      if (flag.command == "pull" || !std::regex_search(flag.meaning, meaning)) continue;
      if (flag.command == "serve" && flag.name != "--api-key-file" && flag.name != "--model") continue;
      ++num_flags;
      for (const char* const name : {"pipe", "empty", "/dev/zero", "/dev/full"}) {
        const std::string file = name[0] == '/' ? name : path(name);
        const std::string line =
            fmt::format("{} {} {} {}", flag.command, other_arguments(flag), flag.name, file);
        ends(line, line + ": ");
      }
    }
    EXPECT_GT(num_flags, 10U);
  }

  /// A copy of a golden checkpoint with texts for its tokens.
  std::string model() const { return model_with_text("llada"); }
};

TEST_F(HostileFiles, ThatFlagsNameAreRefusedWithASentenceAndNeverWaitedFor) {
  expect_sentences(std::regex(" file|^File|JSON file|JSON lines|SVG|NumPy|older|Adapter"));
}

using HostileFilesSlow = HostileFiles;
TEST_F(HostileFilesSlow, ThatAnyTextNamesAreNeverWaitedFor) {
  expect_sentences(std::regex(""));
}

TEST_F(HostileFiles, ThatAreAnArgumentAreRefusedWithASentence) {
  const std::string model = " -m " LACUNA_SOURCE_DIR "/models/mini-llada ";
  for (const std::string& file : {path("pipe"), path("empty"), std::string("/dev/zero")}) {
    EXPECT_NE(ends("replay " + file, file), "");
    EXPECT_NE(ends("batch" + model + file + " out.jsonl", file), "");
    EXPECT_NE(ends("batch" + model + "in.jsonl " + file, file), "");
    EXPECT_NE(ends("run " + file + " hi", file), "");
  }
  const fs::path presets = path("config/lacuna/presets");
  fs::create_directories(presets / "folder.json");
  fs::create_symlink("/dev/zero", presets / "device.json");
  EXPECT_EQ(mkfifo((presets / "pipe.json").c_str(), 0600), 0);
  for (const std::string& name : std::vector<std::string>{"pipe", "folder", "device"})
    EXPECT_NE(ends("run" + model + "--prompt hi --preset " + name, name), "");
}

const std::string kLong(1'000'000, 'x');

/// A copy of `document` for each value in it: a long text in the value's place. Lists and objects count as
/// one value, and so do their members, up to 30 of them.
std::vector<json> with_long_values(const json& document) {
  std::vector<json> made;
  std::vector<json::json_pointer> open = {json::json_pointer()};
  while (!open.empty()) {
    const json::json_pointer place = open.back();
    open.pop_back();
    const json& value = document.at(place);
    if (!place.empty()) {
      for (const json& other : {json(kLong), json::array({kLong, kLong}), json{{kLong, kLong}}}) {
        if (other.type() == value.type() || made.size() % 3 == 0) {
          made.push_back(document);
          made.back()[place] = other;
        }
      }
    }
    if (value.is_structured() && value.size() <= 30) {
      for (const auto& [key, member] : value.items()) {
        if (value.is_array()) {
          open.push_back(place / static_cast<size_t>(std::stoul(key)));
        } else {
          open.push_back(place / key);
        }
      }
      if (value.is_object()) {
        made.push_back(document);
        made.back()[place][kLong] = kLong;
      }
    }
  }
  return made;
}

/// Errors about files of a model: each value of each file is replaced in turn.
TEST_F(HostileFiles, OfAModelWithLongValuesAreRefusedInAShortSentence) {
  const std::string folder = model();
  const json tokenizer = {
      {"added_tokens", {{{"id", 90}, {"content", "<|mdm_mask|>"}, {"special", true}, {"normalized", false}}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "a"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "b"}}}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", {"a b"}}}}};
  const std::map<std::string, json> files = {
      {"config.json", json::parse(file_text(fs::path(folder) / "config.json"))},
      {"generation_config.json", {{"eos_token_id", 89}, {"mask_token_id", 90}, {"max_length", 64}}},
      {"tokenizer.json", tokenizer},
      {"tokenizer_config.json",
       {{"tokenizer_class", "Qwen2Tokenizer"},
        {"eos_token", "<|endoftext|>"},
        {"chat_template", "{{ messages[0].content }}"},
        {"added_tokens_decoder", {{"90", {{"content", "<|mdm_mask|>"}, {"special", true}}}}}}},
      {"special_tokens_map.json", {{"eos_token", {{"content", "<|endoftext|>"}}}}},
      {"added_tokens.json", {{"<|mdm_mask|>", 90}}},
      {"model.safetensors.index.json", {{"metadata", {{"a", 1}}}, {"weight_map", {{"a", "b.safetensors"}}}}}};
  size_t num_refused = 0;
  for (const auto& [name, document] : files) {
    const fs::path file = fs::path(folder) / name;
    const std::string before = fs::exists(file) ? file_text(file) : "";
    for (const json& changed : with_long_values(document)) {
      std::ofstream(file) << changed;
      const std::string sentence = ends("tokenize -m " + folder + " --chat --prompt a", name);
      num_refused += sentence.empty() ? 0 : 1;
      if (name.starts_with("config") || name.starts_with("gen"))
        num_refused +=
            ends("run -t 1 -m " + folder + " --prompt-tokens 1 --gen-length 2", name).empty() ? 0 : 1;
    }
    fs::remove(file);
    if (!before.empty()) std::ofstream(file) << before;
  }
  EXPECT_GT(num_refused, 40U);
}

TEST_F(HostileFiles, WithLongValuesAreRefusedInAShortSentence) {
  const std::string run = "run -t 1 -m " + model() + " --gen-length 8 --prompt a ";
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& arguments) {
    folder_.write(name, text);
    EXPECT_NE(ends(arguments, name), "") << name << ": " << text.substr(0, 40);
  };
  const std::string quoted = '"' + kLong + '"';
  for (const std::string& text :
       {kLong, '{' + quoted + ":1}", R"({"type":)" + quoted + '}', R"({"$ref":)" + quoted + '}',
        R"({"type":"string","format":)" + quoted + '}', R"({"type":"string","pattern":"()" + kLong + "\"}"})
    refused("schema", text, run + "--json-schema-file schema");
  for (const std::string& text : {kLong, "root ::= " + kLong, kLong + " ::= " + kLong + '!'})
    refused("grammar", text, run + "--grammar-file grammar");
  for (const std::string& text :
       {"{{ raise_exception('" + kLong + "') }}", "{{ 1 | " + kLong + " }}", "{{ " + kLong + "() }}",
        "{% " + kLong + " %}", "{{ '" + kLong + "' + 1 }}"})
    refused("template", text, run + "--chat-template template");
  for (const std::string& text :
       {kLong, '{' + quoted + ":1}", R"({"prompt":)" + quoted + ",\"seed\":" + quoted + '}',
        R"({"prompt":"a","seed":)" + quoted + '}'})
    refused("prompts", text + '\n',
            "run -t 1 -m " + path("llada") + " --gen-length 8 --prompts-file prompts");
  for (const std::string& text : {kLong, '{' + quoted + ":1}", R"({"lacuna":)" + quoted + '}'})
    refused("trace", text + '\n', "replay trace");
  for (const std::string& text : {kLong, R"({"custom_id":)" + quoted + ",\"method\":" + quoted + '}',
                                  R"({"custom_id":"a","method":"POST","url":)" + quoted + ",\"body\":{}}"})
    refused("batch", text + '\n', "batch -m " + path("llada") + " batch out.jsonl");
  for (const std::string& text :
       {kLong, '[' + quoted + ']', '{' + quoted + ":1}", R"({"questions":)" + quoted + '}'})
    refused("questions", text, "decide -m " + path("llada") + " --state a --questions questions");
  for (const std::string& text : {kLong, '{' + quoted + ":1}", R"({"name":)" + quoted + '}'}) {
    fs::create_directories(path("config/lacuna/presets"));
    refused("config/lacuna/presets/mine.json", text, run + "--preset mine");
  }
}

TEST_F(HostileFiles, OfWeightsWithLongValuesAreRefusedInAShortSentence) {
  const std::string run = "run -t 1 --prompt-tokens 1 --gen-length 2 ";
  const fs::path folder = model();
  const auto write = [&](const json& header) {
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    const std::string text = header.dump();
    const uint64_t size = text.size();
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file << text << "1234";
  };
  for (const json& header :
       {json{{kLong, {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}}},
        json{{"a", {{"dtype", kLong}, {"shape", {1}}, {"data_offsets", {0, 4}}}}},
        json{{kLong, {{"dtype", kLong}, {"shape", kLong}, {"data_offsets", kLong}}}}, json{{kLong, kLong}}}) {
    write(header);
    EXPECT_NE(ends(run + "-m " + folder.string(), "safetensors"), "");
  }
  for (const char* const key : {"general.architecture", "tokenizer.ggml.model", "tokenizer.chat_template"}) {
    test::GgufBytes gguf;
    if (std::string_view(key) != "general.architecture") gguf.text("general.architecture", "llada");
    gguf.text(key, kLong);
    gguf.text(kLong, kLong);
    gguf.tensor(kLong, 0, {1}, "1234");
    gguf.write(path("model.gguf"));
    EXPECT_NE(ends(run + "-m model.gguf", key), "");
  }
  for (const char* const key : {"target_modules", "peft_type", "r", "bias", "lora_alpha", "rank_pattern"}) {
    LoraFiles adapter;
    adapter.config[key] = kLong;
    adapter.config[kLong] = kLong;
    adapter.write(path("hostile"));
    EXPECT_NE(ends(run + "-m " LACUNA_SOURCE_DIR "/tests/golden/llada --lora hostile", key), "");
  }
}

}  // namespace
}  // namespace lacuna::hostile_files_test
