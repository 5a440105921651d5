// Files that earlier versions wrote (tests/formats): each is read, and gives what it gave then, or is refused
// in a sentence.
#include "program.h"

namespace lacuna::formats_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const fs::path kFormats = LACUNA_SOURCE_DIR "/tests/formats";

/// The versions of which there are samples.
std::vector<fs::path> versions() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(kFormats)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  return folders;
}

class Formats : public ProgramTest {
 protected:
  /// A copy of a file of JSON with another value at a key.
  std::string changed(const fs::path& file, const json::json_pointer& key, const json& value) const {
    json document = json::parse(file_text(file));
    document[key] = value;
    folder_.write(file.filename().string(), document.dump());
    return path(file.filename().string());
  }
};

TEST_F(Formats, PackedAndQuantizedCopiesAnswerAsTheirOriginal) {
  const std::string run = "run -t 1 --prompt-tokens 1,2,3 --gen-length 8 -m ";
  const std::string answer = lacuna(run + LACUNA_SOURCE_DIR "/tests/golden/llada").out;
  EXPECT_THAT(answer, StartsWith("["));
  int num_seen = 0;
  for (const fs::path& version : versions()) {
    for (const char* kind : {"packed", "quantized"}) {
      if (!fs::exists(version / kind)) continue;
      ++num_seen;
      const ProgramResult result = lacuna(run + (version / kind).string());
      EXPECT_EQ(result.out, answer) << version << " " << kind << ": " << result.err;
    }
  }
  EXPECT_GE(num_seen, 2);
}

TEST_F(Formats, CopiesOfALaterVersionAreRefused) {
  for (const char* kind : {"packed", "quantized"}) {
    const fs::path sample = kFormats / "0.2" / kind;
    fs::copy(sample, folder_.path() / kind);
    json config = json::parse(file_text(sample / "config.json"));
    config["quantization_config"]["version"] = 99;
    folder_.write(std::string(kind) + "/config.json", config.dump());
    const ProgramResult result = lacuna("run --prompt-tokens 1,2,3 -m " + path(kind));
    EXPECT_EQ(result.exit_code, 2) << kind;
    EXPECT_THAT(result.err, AllOf(HasSubstr("version"), HasSubstr("99"))) << kind;
  }
}

TEST_F(Formats, TracesEndWithTheAnswerOfTheirRun) {
  int num_seen = 0;
  for (const fs::path& version : versions()) {
    const fs::path trace = version / "trace.jsonl";
    if (!fs::exists(trace)) continue;
    ++num_seen;
    const ProgramResult result = lacuna("replay " + trace.string());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    // Texts were not known: the model has no tokenizer.
    EXPECT_EQ(result.out, "<31><31><31><11><1><31><31><31>\n") << version;
  }
  EXPECT_GE(num_seen, 1);
  std::string later = file_text(kFormats / "0.2" / "trace.jsonl");
  later.replace(later.find("\"v\":2"), 5, "\"v\":9");
  folder_.write("later.jsonl", later);
  const ProgramResult refused = lacuna("replay later.jsonl");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("later.jsonl, line 1"), HasSubstr("\"v\"")));
}

TEST_F(Formats, SavedChatsContinue) {
  const std::string chat = "chat -t 1 --gen-length 4 -m " LACUNA_SOURCE_DIR "/models/mini-llada";
  const ProgramResult result = lacuna(chat, "/load " + (kFormats / "0.2" / "chat.json").string() + "\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string later = changed(kFormats / "0.2" / "chat.json", json::json_pointer("/version"), 9);
  const ProgramResult refused = lacuna(chat, "/load " + later + "\n");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("\"version\""), HasSubstr("9")));
}

TEST_F(Formats, SavedPresetsAreRead) {
  const fs::path presets = folder_.path() / "config" / "lacuna" / "presets";
  fs::create_directories(presets);
  fs::copy(kFormats / "0.2" / "preset.json", presets / "quick.json");
  const std::string run = "run -m " LACUNA_SOURCE_DIR "/models/mini-llada -p Hi --preset quick";
  // It is read, and made for other files.
  EXPECT_THAT(lacuna(run).err, AllOf(HasSubstr("quick"), testing::Not(HasSubstr("\"version\""))));
  json later = json::parse(file_text(presets / "quick.json"));
  later["version"] = 9;
  folder_.write("config/lacuna/presets/quick.json", later.dump());
  const ProgramResult refused = lacuna(run);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("\"version\""));
}

}  // namespace
}  // namespace lacuna::formats_test
