#include "constraint/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::constraint_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Constraint, CompilesEveryKind) {
  EXPECT_TRUE(
      compile_constraint(JsonSchemaConstraint{R"({"properties": {"b": {"const": 1}, "a": {"const": 2}}})"})
          .accepts(R"({"b": 1, "a": 2})"));
  EXPECT_TRUE(compile_constraint(JsonObjectConstraint{}).accepts(R"({"a": [1]})"));
  EXPECT_TRUE(compile_constraint(JsonObjectConstraint{JsonLayout::kCompact}).accepts(R"({"a":[1,2]})"));
  EXPECT_TRUE(compile_constraint(RegexConstraint{"a|b"}).accepts("b"));
  const ByteAutomaton choice = compile_constraint(ChoiceConstraint{{"yes", "no", "yes and no"}});
  for (const char* text : {"yes", "no", "yes and no"}) EXPECT_TRUE(choice.accepts(text));
  EXPECT_FALSE(choice.accepts("yes and"));
  const ByteAutomaton grammar = compile_constraint(GrammarConstraint{"root ::= [a-c]+ \"!\""});
  EXPECT_TRUE(grammar.accepts("abc!") && !grammar.accepts("abc"));
}

TEST(Constraint, SaysWhatIsWrong) {
  const auto refusal = [](const Constraint& constraint, const std::string& message) {
    EXPECT_THAT([&] { compile_constraint(constraint); }, ThrowsMessage<InputError>(HasSubstr(message)));
  };
  refusal(JsonSchemaConstraint{"{"}, "schema: not valid JSON");
  refusal(JsonSchemaConstraint{R"({"a": 1, "a": 2})"}, "key \"a\" appears twice");
  refusal(JsonSchemaConstraint{R"({"$dynamicRef": "#a"})"}, "schema: \"#/$dynamicRef\"");
  refusal(JsonSchemaConstraint{R"({"not": {}})"}, "schema: no text can be written for \"#\"");
  refusal(GrammarConstraint{"root ::= a"}, "grammar: line 1: the rule \"a\" is not defined");
  refusal(GrammarConstraint{"root ::= [^\\x00-\\U0010FFFF]"}, "grammar: no text matches it");
  refusal(JsonSchemaConstraint{std::string(kMaxSchemaBytes + 1, ' ')}, "schema: has 262145 bytes");
  refusal(RegexConstraint{"("}, "regex: expected ')'");
  refusal(RegexConstraint{"[]"}, "regex: no text matches it");
  refusal(ChoiceConstraint{}, "choice: has 0 texts");
  refusal(ChoiceConstraint{std::vector<std::string>(1001, "a")}, "choice: has 1001 texts");
  refusal(ChoiceConstraint{{"a", ""}}, "choice: \"\" has 0 bytes");
  refusal(ChoiceConstraint{{std::string(5000, 'a')}}, "has 5000 bytes");
}

TEST(Constraint, EqualOnesHashAlikeAndOthersDoNot) {
  const std::vector<Constraint> constraints{
      JsonSchemaConstraint{"{}"},
      JsonSchemaConstraint{"{}", true},
      JsonSchemaConstraint{"{}", false, JsonLayout::kCompact},
      JsonSchemaConstraint{"true"},
      JsonObjectConstraint{},
      JsonObjectConstraint{JsonLayout::kCompact},
      RegexConstraint{"{}"},
      RegexConstraint{"a"},
      ChoiceConstraint{{"a"}},
      ChoiceConstraint{{"a", "b"}},
      ChoiceConstraint{{"b", "a"}},
      ChoiceConstraint{{"ab"}},
      ToolCallConstraint{{{.name = "f", .parameters = ""}}},
      ToolCallConstraint{{{.name = "f", .parameters = "{}"}}},
      ToolCallConstraint{{{.name = "f", .parameters = ""}}, true},
      ToolCallConstraint{.functions = {{.name = "f", .parameters = ""}}, .answer = RegexConstraint{"a"}}};
  std::set<size_t> hashes;
  for (size_t i = 0; i < constraints.size(); ++i) {
    hashes.insert(hash_value(constraints[i]));
    EXPECT_EQ(hash_value(constraints[i]), hash_value(Constraint(constraints[i])));
    for (size_t k = 0; k < constraints.size(); ++k) EXPECT_EQ(constraints[i] == constraints[k], i == k);
  }
  EXPECT_EQ(hashes.size(), constraints.size());
}

TEST(Constraint, OfAnAnswersFormIsThatForm) {
  for (const Constraint& constraint :
       {Constraint(JsonSchemaConstraint{"{}", true}), Constraint(JsonObjectConstraint{}),
        Constraint(RegexConstraint{"a"}), Constraint(ChoiceConstraint{{"a"}}),
        Constraint(GrammarConstraint{"a"})})
    EXPECT_EQ(as_constraint(answer_form_of(constraint).value()), constraint);
  EXPECT_FALSE(answer_form_of(ToolCallConstraint{}));
}

}  // namespace
}  // namespace lacuna::constraint_test
