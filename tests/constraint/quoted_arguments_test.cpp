#include "constraint/quoted_arguments.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "constraint/byte_automaton.h"

namespace lacuna::quoted_arguments_test {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

ByteAutomaton arguments(const char* schema) {
  return ByteAutomaton::compile(
      quoted_arguments(ordered_json::parse(schema), "<q>", Expression::text("<q>"), "here"), "arguments");
}

/// Whether a text with ' for the quote is accepted.
bool accepts(const ByteAutomaton& automaton, std::string text) {
  for (size_t at = text.find('\''); at != std::string::npos; at = text.find('\'')) text.replace(at, 1, "<q>");
  return automaton.accepts(text);
}

TEST(QuotedArguments, HoldTypesRequiredKeysAndListedValues) {
  const ByteAutomaton automaton = arguments(R"({"properties": {
      "place": {"type": "string"}, "days": {"type": "integer"}, "Exact": {"type": ["boolean", "null"]},
      "unit": {"enum": ["c", "f", 3]}, "tags": {"type": "array", "items": {"type": "string"}},
      "at": {"type": "object", "properties": {"y": {"type": "number"}}, "required": ["y"]}},
      "required": ["place"]})");
  for (const char* text : {"{place:'Z\u00FCrich'}", "{place:''}", "{days:3,place:'a, {b}'}",
                           "{at:{y:-1.5},days:3,Exact:true,place:'a',tags:['a','b'],unit:3}",
                           "{Exact:null,place:'a',tags:[],unit:'c'}"})
    EXPECT_TRUE(accepts(automaton, text)) << text;
  for (const char* text : {"{}", "{place:a}", "{place:'a',days:3}", "{days:1.5,place:'a'}",
                           "{place:'a',unit:'k'}", "{place:'a',tags:[1]}", "{at:{},place:'a'}",
                           "{place:'a',other:1}", "{place: 'a'}", "{Exact:1,place:'a'}", "{place:'a',}"})
    EXPECT_FALSE(accepts(automaton, text)) << text;
}

TEST(QuotedArguments, AreFreeWhereTheSchemaSaysNothing) {
  for (const char* schema : {"{}", R"({"type": "object", "properties": {}})", R"({"properties": 3})"}) {
    const ByteAutomaton automaton = arguments(schema);
    EXPECT_TRUE(automaton.accepts("{}")) << schema;
    EXPECT_TRUE(accepts(automaton, "{a_b:1,c:['x',{d:null}]}")) << schema;
    EXPECT_FALSE(automaton.accepts("{a b:1}")) << schema;
  }
  const ByteAutomaton automaton =
      arguments(R"({"properties": {"a": {}, "b": {"type": "string", "pattern": "^x$"}}})");
  EXPECT_TRUE(accepts(automaton, "{a:[1],b:'y'}"));
}

TEST(QuotedArguments, RefuseKeysThatTheNotationCannotHave) {
  for (const char* schema : {R"({"properties": {"a b": {}}})", R"({"properties": {"": {}}})",
                             R"({"properties": {"a": {"type": "object", "properties": {"x:y": {}}}}})"}) {
    try {
      arguments(schema);
      ADD_FAILURE() << schema;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("here.properties has the key"));
    }
  }
}

}  // namespace
}  // namespace lacuna::quoted_arguments_test
