#include "server/answer_format.h"

#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/error.h"
#include "server/api_request.h"

namespace lacuna::answer_format_test {
namespace {

using testing::HasSubstr;

std::optional<AnswerFormat> format_of(const std::string& body,
                                      std::span<const std::string_view> keys = kAnswerFormatKeys) {
  return parse_answer_format(parse_body(body), keys);
}

Constraint constraint_of(const std::string& body) {
  return format_of(body).value().constraint;
}

std::string error_of(const std::string& body) {
  try {
    format_of(body);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AnswerFormat, IsFreeWhereNothingIsAsked) {
  EXPECT_FALSE(format_of("{}"));
  EXPECT_FALSE(format_of(R"({"response_format": {"type": "text"}, "format": "", "regex": null})"));
}

TEST(AnswerFormat, KnowsASchemaByTheNamesOfEveryServerAndKeepsTheOrderOfItsKeys) {
  const std::string schema = R"({"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"}}})";
  for (const std::string& body : {
           R"({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": )" + schema +
               "}}}",
           R"({"response_format": {"type": "json_object", "schema": )" + schema + "}}",
           R"({"structured_outputs": {"json": )" + schema + "}}",
           R"({"guided_json": )" + schema + "}",
           R"({"json_schema": )" + schema + "}",
           R"({"format": )" + schema + "}",
           nlohmann::json({{"json_schema", schema}}).dump(),
       }) {
    EXPECT_EQ(constraint_of(body), Constraint(JsonSchemaConstraint{schema})) << body;
  }
}

TEST(AnswerFormat, TakesOpenAisStrictness) {
  const std::string body =
      R"({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {}}}})";
  EXPECT_EQ(constraint_of(body), Constraint(JsonSchemaConstraint{"{}", true}));
}

TEST(AnswerFormat, KnowsObjectsExpressionsAndChoices) {
  for (const char* body : {R"({"response_format": {"type": "json_object"}})", R"({"format": "json"})",
                           R"({"structured_outputs": {"json_object": true, "regex": null}})"}) {
    EXPECT_EQ(constraint_of(body), Constraint(JsonObjectConstraint{})) << body;
  }
  for (const char* body : {R"({"regex": "a+"})", R"({"response_format": {"type": "regex", "pattern": "a+"}})",
                           R"({"guided_regex": "a+"})", R"({"structured_outputs": {"regex": "a+"}})"}) {
    EXPECT_EQ(constraint_of(body), Constraint(RegexConstraint{"a+"})) << body;
  }
  for (const char* body :
       {R"({"guided_choice": ["yes", "no"]})", R"({"structured_outputs": {"choice": ["yes", "no"]}})"}) {
    EXPECT_EQ(constraint_of(body), Constraint(ChoiceConstraint{{"yes", "no"}})) << body;
  }
}

TEST(AnswerFormat, KnowsGrammarsByAllTheirNames) {
  for (const char* body :
       {R"({"response_format": {"type": "grammar", "grammar": "root ::= a"}})", R"({"ebnf": "root ::= a"})",
        R"({"guided_grammar": "root ::= a"})", R"({"grammar": "root ::= a"})",
        R"({"structured_outputs": {"grammar": "root ::= a"}})"}) {
    EXPECT_EQ(constraint_of(body), Constraint(GrammarConstraint{"root ::= a"})) << body;
  }
  EXPECT_FALSE(format_of(R"({"grammar": ""})"));
  EXPECT_THAT(error_of(R"({"structured_outputs": {"structural_tag": "x"}})"),
              HasSubstr("structured_outputs.structural_tag is not supported"));
}

TEST(AnswerFormat, RefusesWhatIsNoneAndMoreThanOne) {
  EXPECT_THAT(error_of(R"({"response_format": "json"})"), HasSubstr("response_format is"));
  EXPECT_THAT(error_of(R"({"response_format": {"type": "json_schema"}})"),
              HasSubstr("response_format.json_schema is missing"));
  EXPECT_THAT(error_of(R"({"response_format": {"type": "json_schema", "json_schema": {}}})"),
              HasSubstr("response_format.json_schema.schema is missing"));
  EXPECT_THAT(error_of(R"({"response_format": {"type": "regex"}})"),
              HasSubstr("response_format.pattern is missing"));
  EXPECT_THAT(error_of(R"({"guided_json": 3})"), HasSubstr("guided_json is \"3\"; expected a JSON schema"));
  EXPECT_THAT(error_of(R"({"regex": 3})"), HasSubstr("regex is \"3\"; expected a string"));
  EXPECT_THAT(error_of(R"({"guided_choice": "yes"})"), HasSubstr("expected a list of strings"));
  EXPECT_THAT(error_of(R"({"structured_outputs": {}})"), HasSubstr("names 0 constraints"));
  EXPECT_THAT(error_of(R"({"structured_outputs": {"regex": "a", "json_object": true}})"),
              HasSubstr("names 2 constraints"));
  EXPECT_THAT(error_of(R"({"regex": "a", "guided_json": {}})"),
              HasSubstr("guided_json and regex are both given"));
}

TEST(AnswerFormat, KnowsTheFormsOfResponsesAndMessages) {
  constexpr std::array<std::string_view, 3> kKeys = {"text", "output_config", "output_format"};
  const auto format = [&](const std::string& body) { return format_of(body, kKeys); };
  const auto responses = format(
      R"({"text": {"format": {"type": "json_schema", "name": "a", "strict": true, "schema": {"type": "null"}}}})");
  ASSERT_TRUE(responses);
  EXPECT_EQ(responses->key, "text.format");
  EXPECT_TRUE(std::get<JsonSchemaConstraint>(responses->constraint).strict);
  EXPECT_FALSE(format(R"({"text": {"format": {"type": "text"}}})"));
  EXPECT_FALSE(format(R"({"text": {"verbosity": "low"}})"));
  const std::string anthropic = R"({"type": "json_schema", "schema": {"type": "null"}})";
  EXPECT_EQ(format(R"({"output_format": )" + anthropic + "}")->key, "output_format");
  EXPECT_EQ(format(R"({"output_config": {"format": )" + anthropic + "}}")->key, "output_config.format");
  for (const char* wrong : {R"({"text": 3})", R"({"text": {"format": {"type": "grammar"}}})",
                            R"({"output_format": {"type": "json_schema"}})", R"({"output_format": []})"}) {
    EXPECT_THROW(format(wrong), InputError) << wrong;
  }
}

}  // namespace
}  // namespace lacuna::answer_format_test
