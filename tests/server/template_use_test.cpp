#include "server/template_use.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/api_error.h"
#include "tokenizer/template_of.h"

namespace lacuna::template_use_test {
namespace {

using json = nlohmann::ordered_json;
using testing::ElementsAre;

constexpr const char* kProgram =
    "{% for m in messages %}{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}: {{ m.content }}{% endfor %}"
    "{% if enable_thinking %}think{% endif %}{% set tool = {'title': ''} %}{{ tool.title }}";

GenerationRequest noted(const std::string& text, const char* program = kProgram) {
  const json body = parse_body(text);
  GenerationRequest request = kOpenAiChat.parse(body, {});
  request.left_out.clear();
  note_members(kOpenAiChat, body, template_of(program), request);
  return request;
}

TEST(TemplateUse, NamesMembersOfMessagesThatChangeNoPrompt) {
  const GenerationRequest request = noted(
      R"({"messages": [{"role": "user", "content": "a", "name": "Ann", "title": "x", "refusal": "no"}]})");
  EXPECT_THAT(request.unknown, ElementsAre("messages.0.title"));
  EXPECT_THAT(request.left_out, ElementsAre("refusal"));
}

TEST(TemplateUse, NamesVariablesThatTheTemplateDoesNotRead) {
  const std::string body = R"({"messages": [{"role": "user", "content": "a"}], "reasoning_effort": "low",
      "chat_template_kwargs": {"enable_thinking": true, "enable_thinkng": true, "thinking": true}})";
  const GenerationRequest request = noted(body);
  EXPECT_THAT(request.unknown, ElementsAre("chat_template_kwargs.enable_thinkng"));
  EXPECT_THAT(request.left_out,
              testing::UnorderedElementsAre("reasoning_effort", "chat_template_kwargs.thinking"));
  EXPECT_THAT(
      noted(R"({"messages": [{"role": "user", "content": "a"}], "enable_thinking": false})", "{{ messages }}")
          .left_out,
      ElementsAre());  // it does not think, as was asked for
}

TEST(TemplateUse, RefusesDocumentsThatNobodyWouldSee) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "a"}], "documents": [{"title": "t", "text": "b"}]})";
  EXPECT_THROW(noted(body), FieldError);
  EXPECT_NO_THROW(noted(body, "{{ documents }}{{ messages }}"));
}

}  // namespace
}  // namespace lacuna::template_use_test
