#include "constraint/tool_calls.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "toy.h"

namespace lacuna::tool_calls_test {
namespace {

using testing::HasSubstr;

const std::string kPoint =
    R"({"type": "object", "properties": {"y": {"type": "integer"}, "x": {"type": "integer"}}, "required": ["y", "x"]})";

ToolCallConstraint two_functions() {
  return {.functions = {{.name = "move", .parameters = kPoint}, {.name = "now", .parameters = ""}}};
}

const std::string kMove =
    "<tool_call>\n{\"name\": \"move\", \"arguments\": {\"y\": 1, \"x\": -2}}\n</tool_call>";
const std::string kNow = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

bool accepts(const ToolCallConstraint& constraint, const std::string& text) {
  return compile_constraint(constraint).accepts(text);
}

std::string error_of(const ToolCallConstraint& constraint) {
  try {
    compile_constraint(constraint);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ToolCalls, MayBeTextOrCallsOrTextAndThenCalls) {
  const ToolCallConstraint constraint = two_functions();
  for (const std::string& text : {std::string(), std::string("Hi <b> \xC3\xA9"), kMove, kMove + "\n" + kNow,
                                  "Let me see.\n" + kNow, std::string("<tool_calls>")}) {
    EXPECT_TRUE(accepts(constraint, text)) << text;
  }
  for (const std::string& text : {kMove + "\n", kMove + "x", kNow + kNow, std::string("<tool_call>"),
                                  std::string("a <tool_call> b"), "<tool_call>" + kNow}) {
    EXPECT_FALSE(accepts(constraint, text)) << text;
  }
}

TEST(ToolCalls, AreOfTheGivenFunctionsWithArgumentsForTheirSchemas) {
  const ToolCallConstraint constraint = two_functions();
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  EXPECT_TRUE(accepts(constraint, call("move", R"({"y": 3, "x": 4})")));
  EXPECT_FALSE(accepts(constraint, call("move", R"({"x": 3, "y": 4})"))) << "the order of the schema";
  EXPECT_FALSE(accepts(constraint, call("move", R"({"y": 3})")));
  EXPECT_FALSE(accepts(constraint, call("move", "{}")));
  EXPECT_FALSE(accepts(constraint, call("now", R"({"a": 1})")));
  EXPECT_FALSE(accepts(constraint, call("later", "{}")));
}

TEST(ToolCalls, AreThereWhereTheyAreRequiredAndOneWhereTheyAreNotParallel) {
  ToolCallConstraint constraint = two_functions();
  constraint.is_required = true;
  EXPECT_TRUE(accepts(constraint, kNow + "\n" + kNow + "\n" + kMove));
  EXPECT_FALSE(accepts(constraint, ""));
  EXPECT_FALSE(accepts(constraint, "Hi\n" + kNow));
  constraint.is_parallel = false;
  EXPECT_TRUE(accepts(constraint, kNow));
  EXPECT_FALSE(accepts(constraint, kNow + "\n" + kNow));
  constraint.is_required = false;
  EXPECT_TRUE(accepts(constraint, "Hi\n" + kNow));
  EXPECT_FALSE(accepts(constraint, "Hi\n" + kNow + "\n" + kNow));
}

TEST(ToolCalls, OrAnAnswerInAFormMayBeThereAndNothingElse) {
  ToolCallConstraint constraint = two_functions();
  constraint.answer = JsonSchemaConstraint{R"({"type": "string"})"};
  for (const std::string& text :
       {kMove, kMove + "\n" + kNow, std::string(R"("Hi")"), std::string(R"("<tool")")})
    EXPECT_TRUE(accepts(constraint, text)) << text;
  for (const std::string& text :
       {std::string(), std::string("Hi"), "\"Hi\"\n" + kNow, std::string(R"("<tool_call>")")})
    EXPECT_FALSE(accepts(constraint, text)) << text;
  constraint.is_required = true;
  EXPECT_FALSE(accepts(constraint, R"("Hi")"));
  EXPECT_TRUE(accepts(constraint, kNow));
}

TEST(ToolCalls, OrAnAnswerInAFormAreToldApartWhereACallIsAWholeAnswer) {
  ToolCallConstraint constraint = two_functions();
  constraint.form = &kBareCalls;
  constraint.answer = JsonObjectConstraint{};
  EXPECT_TRUE(accepts(constraint, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(accepts(constraint, R"({"name": "other", "parameters": {}})"));
  EXPECT_TRUE(accepts(constraint, R"({"name": "other", "size": 5})"));
  EXPECT_FALSE(accepts(constraint, "Hi"));
}

TEST(ToolCalls, NameAnAnswersFormThatIsWrong) {
  ToolCallConstraint constraint = two_functions();
  constraint.answer = RegexConstraint{"("};
  EXPECT_THAT(error_of(constraint), testing::StartsWith("regex: "));
  constraint.answer = JsonSchemaConstraint{"true"};
  EXPECT_NE(hash_value(constraint), hash_value(two_functions()));
  EXPECT_NE(Constraint(constraint), Constraint(two_functions()));
}

TEST(ToolCalls, TakeTheTagsAsTokensWhereTheVocabularyHasThem) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("<tool_call>");
  tokens.emplace_back("</tool_call>");
  Toy toy(tokens);
  ToolCallConstraint constraint = two_functions();
  constraint.is_required = true;
  const auto written = [&](bool with_tags) {
    std::vector<TokenId> ids;
    const std::string inner = "\n{\"name\": \"now\", \"arguments\": {}}\n";
    const std::string text = with_tags ? inner : "<tool_call>" + inner + "</tool_call>";
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    if (with_tags) {
      ids.insert(ids.begin(), 256);
      ids.push_back(257);
    }
    return ids;
  };
  const auto accepted = [](const TokenAutomaton& automaton, const std::vector<TokenId>& ids) {
    StateId state = TokenAutomaton::start();
    for (const TokenId id : ids) {
      state = automaton.next(state, id);
      if (state == kNoState) return false;
    }
    return automaton.accepting().contains(state);
  };
  const TokenAutomaton as_text(compile_constraint(constraint), toy.vocabulary());
  EXPECT_TRUE(accepted(as_text, written(true)));
  EXPECT_TRUE(accepted(as_text, written(false)));
  toy.table.specials = {256, 257};
  constraint.has_tag_tokens = true;
  const TokenAutomaton as_tokens(compile_constraint(constraint), toy.vocabulary());
  EXPECT_TRUE(accepted(as_tokens, written(true)));
  EXPECT_FALSE(accepted(as_tokens, written(false)));
}

TEST(ToolCalls, LeaveTheTypeOfArgumentsOut) {
  ToolCallConstraint constraint{.functions = {{.name = "f", .parameters = "{}"}}, .is_required = true};
  const std::string begin = "<tool_call>\n{\"name\": \"f\", \"arguments\": ", end = "}\n</tool_call>";
  EXPECT_TRUE(accepts(constraint, begin + R"({"any": [1]})" + end));
  EXPECT_FALSE(accepts(constraint, begin + "3" + end));
  constraint.functions[0].parameters =
      R"({"$ref": "#/$defs/p", "$defs": {"p": {"type": ["object", "null"], "properties": {"a": {"const": 1}}, "required": ["a"]}}})";
  EXPECT_TRUE(accepts(constraint, begin + R"({"a": 1})" + end));
  EXPECT_FALSE(accepts(constraint, begin + "null" + end));
}

TEST(ToolCalls, MayHaveAnyArgumentsWhereTheirSchemaIsNotSupported) {
  const std::string supported = R"({"properties": {"a": {"type": "integer"}}})";
  std::vector<CallableFunction> functions{
      {.name = "f", .parameters = supported, .place = "first"},
      {.name = "g", .parameters = R"({"properties": {"a": {"$dynamicRef": "#a"}}})", .place = "second"},
      {.name = "h",
       .parameters = R"({"properties": {"a": {"$dynamicRef": "#a"}}})",
       .strict = true,
       .place = "third"},
      {.name = "i", .parameters = "", .place = "fourth"}};
  EXPECT_THAT(relax_schemas(functions), testing::ElementsAre("second"));
  EXPECT_EQ(functions[0].parameters, supported);
  EXPECT_EQ(functions[1].parameters, R"({"type": "object"})");
  EXPECT_NE(functions[2].parameters, R"({"type": "object"})");
  functions[0].parameters = R"({"type": "string"})";
  EXPECT_THROW(relax_schemas(functions), InputError);
}

TEST(ToolCalls, AreRefusedByThePlaceOfTheirSchema) {
  const auto with = [](const std::string& parameters, bool strict = false) {
    return error_of(
        {.functions = {{.name = "f", .parameters = parameters, .strict = strict, .place = "here"}}});
  };
  EXPECT_THAT(with(R"({"properties": {"a": {"$dynamicRef": "#a"}}})"),
              HasSubstr("here: \"#/properties/a/$dynamicRef\" is not"));
  EXPECT_THAT(with(R"({"type": "string"})"), HasSubstr("here.type is"));
  EXPECT_THAT(with("[1]"), HasSubstr("here is \"[1]\"; expected the JSON schema of an object"));
  EXPECT_THAT(with("{"), HasSubstr("here"));
  EXPECT_THAT(with(R"({"properties": {"a": {}}})", true), HasSubstr("here"));
  EXPECT_THAT(with(std::string(kMaxSchemaBytes + 1, ' ')), HasSubstr("here: has 262145 bytes"));
  EXPECT_THAT(error_of({}), HasSubstr("tools: there are 0 functions"));
  EXPECT_THAT(error_of({.functions = {{.name = "a b", .parameters = ""}}}), HasSubstr("\"a b\""));
  EXPECT_THAT(error_of({.functions = {{.name = "a", .parameters = ""}, {.name = "a", .parameters = ""}}}),
              HasSubstr("two functions are named \"a\""));
}

TEST(ToolCalls, ShareTheWorkThatTheirSchemasMayTake) {
  // Each alone is compiled, with a good part of what one schema may take.
  const std::string many =
      R"({"properties": {"a": {"type": "string", "allOf": [{"pattern": "^(a|b)*a(a|b){11}$"}, {"pattern": "^(a|b)*b(a|b){10}$"}]}}})";
  ToolCallConstraint constraint;
  constraint.functions.push_back({.name = "f0", .parameters = many});
  EXPECT_EQ(error_of(constraint), "no error");
  for (size_t i = 1; i < kMaxFunctions; ++i)
    constraint.functions.push_back({.name = "f" + std::to_string(i), .parameters = many});
  EXPECT_THAT(error_of(constraint), HasSubstr("too large"));
}

TEST(ToolCallForms, AreFoundInTheTextThatATemplateWrites) {
  EXPECT_EQ(&tool_call_form_of("x<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "f"),
            &kTaggedCalls);
  EXPECT_EQ(&tool_call_form_of("<|tool_call>call:f{}<tool_call|>", "f"), &kQuotedCalls);
  EXPECT_EQ(&tool_call_form_of("<|end_header_id|>\n\n{\"name\": \"f\", \"parameters\": {}}<|eot_id|>", "f"),
            &kBareCalls);
  for (const char* other : {"", "[TOOL_CALLS] [{\"name\": \"f\"}]", "<function=f>{}</function>",
                            "{\"name\": \"g\", \"parameters\": {}}", "{\"name\": \"f\", \"parameters\": 1"})
    EXPECT_EQ(&tool_call_form_of(other, "f"), &kTaggedCalls) << other;
}

TEST(ToolCallForms, MayBeAWholeAnswerInPlaceOfText) {
  ToolCallConstraint constraint = two_functions();
  constraint.form = &kBareCalls;
  const std::string move = R"({"name": "move", "parameters": {"y": 1, "x": -2}})";
  const std::string now = R"({"name": "now", "parameters": {}})";
  for (const std::string& text :
       {std::string(), std::string("Hi {\"name\"}"), move, now, "<|python_tag|>" + now})
    EXPECT_TRUE(accepts(constraint, text)) << text;
  for (const std::string& text : {now + now, now + " ", " " + now, std::string("{}"), std::string("\n{"),
                                  std::string(R"({"name": "later", "parameters": {}})"),
                                  std::string(R"({"name": "move", "parameters": {"y": 1}})"),
                                  std::string(R"({"name": "now", "arguments": {}})")}) {
    EXPECT_FALSE(accepts(constraint, text)) << text;
  }
  constraint.is_required = true;
  EXPECT_TRUE(accepts(constraint, now));
  EXPECT_FALSE(accepts(constraint, ""));
  EXPECT_FALSE(accepts(constraint, "Hi"));
}

TEST(ToolCallForms, MayHaveQuotedArguments) {
  ToolCallConstraint constraint = two_functions();
  constraint.form = &kQuotedCalls;
  const std::string move = "<|tool_call>call:move{x:-2,y:1}<tool_call|>";
  const std::string now = "<|tool_call>call:now{}<tool_call|>";
  for (const std::string& text : {std::string("Hi <|tool_call"), move, "Hi" + now + move})
    EXPECT_TRUE(accepts(constraint, text)) << text;
  for (const std::string& text :
       {now + "x", std::string("<|tool_call>"), std::string("<|tool_call>call:now{a:1}<tool_call|>"),
        std::string("<|tool_call>call:move{y:1,x:-2}<tool_call|>"),
        std::string("<|tool_call>call:move{x:1}<tool_call|>"),
        std::string("<|tool_call>call:move{x:<|\"|>1<|\"|>,y:1}<tool_call|>")}) {
    EXPECT_FALSE(accepts(constraint, text)) << text;
  }
  constraint.is_required = true;
  constraint.is_parallel = false;
  EXPECT_TRUE(accepts(constraint, now));
  EXPECT_FALSE(accepts(constraint, now + now));
  EXPECT_FALSE(accepts(constraint, "Hi" + now));
}

TEST(ToolCallForms, AreTokensWhereTheVocabularyHasThem) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::string_view tag : tag_texts(kQuotedCalls)) tokens.emplace_back(tag);
  Toy toy(tokens);
  toy.table.specials = {256, 257, 258};
  ToolCallConstraint constraint{
      .functions = {{.name = "f", .parameters = R"({"properties": {"a": {"type": "string"}}})"}},
      .is_required = true};
  constraint.form = &kQuotedCalls;
  constraint.has_tag_tokens = true;
  const TokenAutomaton automaton(compile_constraint(constraint), toy.vocabulary());
  const auto accepts_tokens = [&](std::string text) {
    for (size_t i = 0; i < 3; ++i) {
      const std::string tag(tag_texts(kQuotedCalls)[i]);
      for (size_t at = text.find(tag); at != std::string::npos; at = text.find(tag))
        text.replace(at, tag.size(), 1, static_cast<char>(i + 1));
    }
    StateId state = TokenAutomaton::start();
    for (const char byte : text) {
      const auto value = static_cast<TokenId>(static_cast<unsigned char>(byte));
      state = automaton.next(state, value >= 1 && value <= 3 ? 255 + value : value);
      if (state == kNoState) return false;
    }
    return automaton.accepting().contains(state);
  };
  EXPECT_TRUE(accepts_tokens("<|tool_call>call:f{a:<|\"|>\"}, {\xC3\xA9\n<|\"|>}<tool_call|>"));
  EXPECT_TRUE(accepts_tokens("<|tool_call>call:f{}<tool_call|>"));
  EXPECT_FALSE(accepts_tokens("<|tool_call>call:f{a:<|\"|>a<|\"|><|\"|>}<tool_call|>"));
  EXPECT_FALSE(accepts_tokens("<|tool_call>call:f{a:\"a\"}<tool_call|>"));
}

TEST(TextWithout, IsEveryTextInWhichTheTagDoesNotOccur) {
  const std::string tag = "<ab>";
  const ByteAutomaton automaton = ByteAutomaton::compile(text_without(tag), "text");
  std::string text;
  const std::function<void()> visit = [&] {
    ASSERT_EQ(automaton.accepts(text), text.find(tag) == std::string::npos) << text;
    if (text.size() == 7) return;
    for (const char next : std::string("<ab>x")) {
      text.push_back(next);
      visit();
      text.pop_back();
    }
  };
  visit();
  EXPECT_TRUE(automaton.accepts("\xC3\xA9<a\xE2\x82\xAC"));
  EXPECT_FALSE(automaton.accepts("\xC3")) << "a character that is cut off";
}

}  // namespace
}  // namespace lacuna::tool_calls_test
