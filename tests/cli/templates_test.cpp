// Prompts as a model's chat template writes them: `lacuna tokenize --chat` shows what `run` and `serve` send.
#include "program.h"

namespace lacuna::templates_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Templates : public ProgramTest {
 protected:
  /// A model whose folder holds this template.
  std::string model_with(const std::string& chat_template) const {
    const std::string model = model_with_text("llada");
    std::ofstream(fs::path(model) / "chat_template.jinja") << chat_template;
    return model;
  }
  /// The program's output for a conversation.
  json prompt(const std::string& flags, const json& messages) const {
    const ProgramResult result = lacuna("tokenize --json --chat " + flags, messages.dump());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
};

const json kTalk = {{{"role", "system"}, {"content", "Be_brief"}}, {{"role", "user"}, {"content", "Hi"}}};

TEST_F(Templates, AreEvaluatedAsTheFileSays) {
  const std::string model = model_with(
      "{%- for m in messages %}[{{ m.role | upper }}]{{ m.content }}{% endfor -%}\n"
      "{%- if add_generation_prompt %}[ANSWER{% if mood is defined %}:{{ mood }}{% endif %}]{% endif %}");
  EXPECT_EQ(prompt("-m " + model, kTalk)["prompt"], "[SYSTEM]Be_brief[USER]Hi[ANSWER]");
  EXPECT_EQ(prompt("-m " + model + " --chat-template-kwargs '{\"mood\": \"calm\"}'", kTalk)["prompt"],
            "[SYSTEM]Be_brief[USER]Hi[ANSWER:calm]");
}

TEST_F(Templates, OfTheFolderComeBeforeThoseOfTheConfiguration) {
  const std::string model = model_with("file:{{ messages[0].content }}");
  json config = json::parse(file_text(fs::path(model) / "tokenizer_config.json"));
  config["chat_template"] = "config:{{ messages[0].content }}";
  std::ofstream(fs::path(model) / "tokenizer_config.json") << config;
  EXPECT_EQ(prompt("-m " + model, kTalk)["prompt"], "file:Be_brief");
  fs::remove(fs::path(model) / "chat_template.jinja");
  EXPECT_EQ(prompt("-m " + model, kTalk)["prompt"], "config:Be_brief");
}

TEST_F(Templates, ThatRefuseAConversationSayWhyAndRunNothing) {
  const std::string model =
      model_with("{% if messages | length != 3 %}{{ raise_exception('three turns, please') }}{% endif %}ok");
  const ProgramResult shown = lacuna("tokenize --chat -m " + model, kTalk.dump());
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_THAT(shown.err, HasSubstr("three turns, please"));
  const ProgramResult run = lacuna("run -m " + model + " -p Hi --gen-length 8");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("three turns, please"));
}

TEST_F(Templates, ThatAreBrokenAreNamedWithTheirLine) {
  const std::string model = model_with("{{ messages[0].content }}\n{% if %}");
  const ProgramResult result = lacuna("tokenize --chat -m " + model, kTalk.dump());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("chat_template.jinja"), HasSubstr("line 2")));
}

TEST_F(Templates, KeywordsThatAreNoObjectAreRefused) {
  const std::string model = model_with("{{ messages[0].content }}");
  const ProgramResult result =
      lacuna("tokenize --chat --chat-template-kwargs '[1]' -m " + model, kTalk.dump());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--chat-template-kwargs"));
}

}  // namespace
}  // namespace lacuna::templates_test
