// Adapters that the program merges into weights, in memory and in a copy.
#include "program.h"
#include "weights/lora_files.h"

namespace lacuna::adapters_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kModel = LACUNA_SOURCE_DIR "/tests/golden/llada";
const std::string kRun = "run -t 1 --dtype f32 --prompt-tokens 1,2,3 --gen-length 8 --steps 8 ";

class Adapters : public ProgramTest {
 protected:
  Adapters() {
    LoraFiles adapter;
    adapter.config["target_modules"] = {"q_proj", "ff_out"};
    adapter.config["lora_alpha"] = 64;
    for (int layer = 0; layer < 2; ++layer) {
      const std::string block = "model.transformer.blocks." + std::to_string(layer) + '.';
      adapter.add_update(block + "q_proj", 32, 32);
      adapter.add_update(block + "ff_out", 32, 45);
    }
    adapter.write(path("style"));
  }

  /// The tokens that a model gives, as printed.
  std::string tokens(const std::string& flags) const {
    const ProgramResult result = lacuna(kRun + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
};

TEST_F(Adapters, ChangeAnAnswerInProportionToTheirScale) {
  const std::string plain = tokens("-m " + kModel);
  EXPECT_NE(tokens("-m " + kModel + " --lora style"), plain);
  EXPECT_EQ(tokens("-m " + kModel + " --lora style=0"), plain);
  EXPECT_EQ(tokens("-m " + kModel + " --lora style=0.5 --lora style=-0.5"), plain);
}

TEST_F(Adapters, AreWrittenIntoACopyThatGivesTheSameTokens) {
  const ProgramResult merged = lacuna("merge -m " + kModel + " --lora style -o merged --dtype f32");
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(tokens("-m merged"), tokens("-m " + kModel + " --lora style"));

  const ProgramResult again = lacuna("merge -m " + kModel + " --lora style -o merged");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("merged"));
}

TEST_F(Adapters, AreInThePackedCopyThatTheNextStartMaps) {
  LoraFiles head;  // which the model shares with its embedding, until an adapter changes it
  head.config["target_modules"] = {"lm_head"};
  head.config["lora_alpha"] = 64;
  head.add_update("lm_head", 97, 32);
  head.write(path("head"));
  const std::string tied =
      "run -t 1 --dtype f32 --prompt-tokens 1,2,3 -n 8 -m " LACUNA_SOURCE_DIR "/tests/golden/qwen2";
  const std::string plain = lacuna(tied).out, changed = lacuna(tied + " --lora head").out;
  EXPECT_NE(changed, plain);
  const std::string flags = "-m " + kModel + " --lora style --rope-scale 2";
  const std::string merged = tokens(flags);
  for (const char* start : {"first", "next"}) {
    EXPECT_EQ(tokens(flags + " --pack-cache copies"), merged) << start;
    EXPECT_EQ(tokens("-m " + kModel + " --pack-cache copies"), tokens("-m " + kModel)) << start;
    EXPECT_EQ(lacuna(tied + " --lora head --pack-cache copies").out, changed) << start;
    EXPECT_EQ(lacuna(tied + " --pack-cache copies").out, plain) << start;
  }
}

TEST_F(Adapters, ThatDoNotFitAreRefusedInASentence) {
  const auto refusal = [&](const std::string& flags) {
    const ProgramResult result = lacuna(kRun + flags);
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.out, IsEmpty()) << flags;
    return result.err;
  };
  EXPECT_THAT(refusal("-m " + kModel + " --lora nowhere"), AllOf(HasSubstr("--lora"), HasSubstr("nowhere")));
  EXPECT_THAT(refusal("-m " + kModel + " --lora style=much"), HasSubstr("--lora"));
  EXPECT_THAT(refusal("-m " LACUNA_SOURCE_DIR "/tests/golden/qwen2 --lora style"),
              HasSubstr("model.transformer.blocks.0"));
  const ProgramResult missing = lacuna("merge -m " + kModel + " -o merged");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--lora"));
}

}  // namespace
}  // namespace lacuna::adapters_test
