#include "constraint/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "random_schemas.h"
#include "random_texts.h"

namespace lacuna::json_schema_test {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::ThrowsMessage;

ByteAutomaton compiled(const std::string& schema, JsonSchemaOptions options = {}) {
  return compile_json_schema(ordered_json::parse(schema), options);
}

struct Example {
  const char* schema;
  std::vector<const char*> accepted, rejected;
};

class JsonSchemaKeywords : public testing::TestWithParam<Example> {};

TEST_P(JsonSchemaKeywords, AreHonoured) {
  const ByteAutomaton automaton = compiled(GetParam().schema);
  for (const char* text : GetParam().accepted)
    EXPECT_TRUE(automaton.accepts(text)) << GetParam().schema << " on " << text;
  for (const char* text : GetParam().rejected)
    EXPECT_FALSE(automaton.accepts(text)) << GetParam().schema << " on " << text;
}

INSTANTIATE_TEST_SUITE_P(
    Values, JsonSchemaKeywords,
    testing::Values(
        Example{"true", {"1", "null", "{}", "[[1]]", R"("x")"}, {"", "[[[1]]]", "[1,2]"}},
        Example{R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"1"}},
        Example{R"({"type": "integer"})",
                {"0", "-5", "999999999999999"},
                {"1.0", "1.5", "01", "-0", R"("1")", "1000000000000000"}},
        Example{R"({"type": "number"})", {"0", "-0.5", "3.25"}, {"1e5", ".5", "-0", "-0.0"}},
        Example{R"({"enum": [1, "a", null, {"b": [1, 2]}, 2.0]})",
                {"1", R"("a")", "null", R"({"b": [1, 2]})", "2"},
                {"2.0", R"({"b":[1,2]})"}},
        Example{R"({"const": "a\"b"})", {R"("a\"b")"}, {R"("a")"}},
        Example{R"({"enum": ["a", 1, 2.5, "b"], "type": "string"})", {R"("a")", R"("b")"}, {"1", "2.5"}},
        Example{R"({"enum": ["a", "abc", 7], "minLength": 2})", {R"("abc")", "7"}, {R"("a")"}},
        Example{R"({"enum": [1, 2, 3], "const": 2})", {"2"}, {"1"}},
        Example{R"({"enum": [1.0], "type": "integer"})", {"1"}, {"1.0"}},
        Example{R"({"type": "string", "minLength": 1, "maxLength": 2})",
                {R"("a")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\n\"")"},
                {R"("")", R"("abc")"}},
        Example{R"({"type": "string", "pattern": "b+"})", {R"("b")", R"("abc")"}, {R"("ac")"}},
        Example{R"({"type": "string", "pattern": "^a", "maxLength": 2})",
                {R"("a")", R"("ab")"},
                {R"("abc")", R"("b")"}},
        Example{R"({"pattern": "^a$"})", {R"("a")"}, {"1", R"("b")"}},
        Example{
            R"({"type": "string", "format": "date"})", {R"("2024-02-29")"}, {R"("2023-02-29")", R"("x")"}},
        Example{R"({"type": "string", "format": "color"})", {R"("x")"}, {"1"}},
        Example{R"({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 4})", {"1", "3"}, {"0", "4"}},
        Example{R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "0.25", "1"}, {"1.5", "-0.5"}},
        Example{R"({"type": "number", "multipleOf": 1.0})", {"3"}, {"3.5"}},
        Example{R"({"type": "integer", "minimum": -1e300, "maximum": 1e300})", {"3", "-3"}, {}},
        Example{R"({"minimum": 10, "maximum": 10})", {"10"}, {"9", "11", R"("x")"}}));

INSTANTIATE_TEST_SUITE_P(
    Lists, JsonSchemaKeywords,
    testing::Values(
        Example{R"({"items": {"type": "boolean"}})",
                {"[]", "[true]", "[true, false, true]"},
                {"[1]", "[true,false]", "[true, ]"}},
        Example{R"({"items": {"const": 1}, "minItems": 2, "maxItems": 3})",
                {"[1, 1]", "[1, 1, 1]"},
                {"[]", "[1]", "[1, 1, 1, 1]"}},
        Example{R"({"prefixItems": [{"const": 1}, {"const": 2}], "items": false})",
                {"[]", "[1]", "[1, 2]"},
                {"[2]", "[1, 2, 3]"}},
        Example{R"({"prefixItems": [{"const": 1}], "items": {"const": 3}, "minItems": 1})",
                {"[1]", "[1, 3, 3]"},
                {"[]", "[3]"}},
        Example{R"({"items": [{"const": 1}], "additionalItems": {"const": 3}})",
                {"[]", "[1]", "[1, 3]"},
                {"[3]"}},
        Example{R"({"items": false})", {"[]"}, {"[1]"}},
        Example{R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
        Example{R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[1]"}, {"[1, 1]"}},
        Example{R"({"prefixItems": [true, false], "maxItems": 1000})", {"[]", "[1]"}, {"[1, 1]"}},
        Example{R"({"allOf": [{"items": {"minimum": 3}}, {"prefixItems": [{"maximum": 5}], "maxItems": 2}]})",
                {"[]", "[4]", "[4, 9]"},
                {"[2]", "[6]", "[4, 2]"}}));

INSTANTIATE_TEST_SUITE_P(
    Objects, JsonSchemaKeywords,
    testing::Values(
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["b"]})",
            {R"({"b": 2})", R"({"a": 1, "b": 2})"},
            {"{}", R"({"a": 1})", R"({"b": 2, "a": 1})", R"({"a": 1, "b": 2, "c": 3})", R"({"a":1,"b":2})"}},
        Example{R"({"properties": {"z": {"const": 1}, "a": {"const": 2}}})",
                {"{}", R"({"z": 1, "a": 2})"},
                {R"({"a": 2, "z": 1})"}},
        Example{R"({"properties": {"a\"b\n": {"const": 1}, "__proto__": {"const": 2}}})",
                {R"({"a\"b\n": 1, "__proto__": 2})"},
                {}},
        Example{R"({"properties": {"a": false, "b": {"const": 1}}})", {"{}", R"({"b": 1})"}, {R"({"a": 1})"}},
        Example{
            R"({"properties": {"a": {"const": 1}}, "required": ["x"], "additionalProperties": {"const": 5}})",
            {R"({"a": 1, "x": 5})", R"({"x": 5})"},
            {R"({"a": 1})", R"({"x": 1})"}},
        Example{R"({"type": "object", "additionalProperties": {"type": "integer"}})",
                {"{}", R"({"k": 1, "l": 2})"},
                {R"({"k": true})"}},
        Example{R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1})",
                {"{}", R"({"k": 1})"},
                {R"({"k": 1, "l": 2})"}},
        Example{R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"k": 1})"}},
        Example{R"({"type": "object"})", {"{}", R"({"k": [1]})"}, {"[]", R"({"k": [[1]]})"}},
        Example{
            R"({"properties": {"a": {"const": 1}}, "required": ["a"], "minProperties": 1, "maxProperties": 4})",
            {R"({"a": 1})"},
            {"{}"}}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, JsonSchemaKeywords,
    testing::Values(
        Example{R"({"anyOf": [{"type": "integer"}, {"const": "x"}, false]})", {"1", R"("x")"}, {"null"}},
        Example{R"({"type": "string", "anyOf": [{"minLength": 3}, {"const": "x"}]})",
                {R"("x")", R"("abc")"},
                {R"("y")"}},
        Example{R"({"allOf": [{"minLength": 2}, {"maxLength": 3}, {"pattern": "^a"}]})",
                {R"("ab")", R"("abc")"},
                {R"("a")", R"("abcd")", R"("bb")"}},
        Example{
            R"({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 2}}}]})",
            {R"({"a": 1})", R"({"a": 1, "b": 2})"},
            {"{}", R"({"b": 2})"}},
        Example{
            R"({"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 4}}, "required": ["a"]}]})",
            {R"({"a": 3})", R"({"a": 4})"},
            {R"({"a": 2})", R"({"a": 5})"}},
        Example{
            R"({"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": false}, {"properties": {"a": {}, "b": {}}}]})",
            {"{}", R"({"a": 1})"},
            {R"({"a": 1, "b": 1})"}},
        Example{R"({"allOf": [{"type": "integer"}, {"type": ["number", "null"]}]})", {"1"}, {"1.5", "null"}},
        Example{R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"const": true}]})",
                {"1", R"("x")", "true"},
                {"1.5", "false"}},
        Example{R"({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
                    "$defs": {"cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "age": {"const": 1}}, "required": ["kind"]},
                              "dog": {"type": "object", "properties": {"kind": {"enum": ["dog", "puppy"]}}, "required": ["kind"]}}})",
                {R"({"kind": "cat"})", R"({"kind": "cat", "age": 1})", R"({"kind": "puppy"})"},
                {"{}", R"({"kind": "dog", "age": 1})"}},
        Example{
            R"({"type": "object", "oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}, {"properties": {"k": {"const": 2}}, "required": ["k"]}]})",
            {R"({"k": 1})", R"({"k": 2})"},
            {"{}"}},
        Example{R"({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}})", {"1"}, {"2"}},
        Example{R"({"$ref": "#/properties/x/anyOf/1", "properties": {"x": {"anyOf": [1, {"const": 5}]}}})",
                {"5"},
                {"1", "{}"}}));

TEST(JsonSchema, UnrollsRecursionToALimitedDepth) {
  const ByteAutomaton automaton = compiled(
      R"({"$defs": {"node": {"properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["next"]}}, "$ref": "#/$defs/node"})");
  std::string text = "null";
  for (int depth = 1; depth <= kRecursionDepth + 1; ++depth) {
    text = "{\"next\": " + text + "}";
    EXPECT_EQ(automaton.accepts(text), depth <= kRecursionDepth) << depth;
  }
}

TEST(JsonSchema, UnrollsRecursionLessWhereItWouldBeTooLarge) {
  std::string properties;
  for (char key = 'a'; key < 'k'; ++key)
    properties += std::string(key == 'a' ? "" : ", ") + "\"" + key + "\": {\"$ref\": \"#\"}";
  const ByteAutomaton automaton = compiled("{\"type\": \"object\", \"properties\": {" + properties + "}}");
  EXPECT_TRUE(automaton.accepts(R"({"a": {"b": {}}})"));
}

TEST(JsonSchema, WritesCompactly) {
  const ByteAutomaton automaton =
      compiled(R"({"properties": {"a": {"items": {"const": 1}}, "b": {"const": {"c": [1, 2]}}}})",
               {.layout = JsonLayout::kCompact});
  EXPECT_TRUE(automaton.accepts(R"({"a":[1,1],"b":{"c":[1,2]}})"));
  EXPECT_FALSE(automaton.accepts(R"({"a": [1, 1]})"));
}

TEST(JsonSchema, TakesNamesOfPropertiesThatMayBeAnyString) {
  for (const char* names :
       {R"({"type": "string"})", "true", "{}", R"({"type": ["string", "null"], "title": "Key"})"}) {
    const auto automaton =
        compiled(std::string(R"({"type": "object", "additionalProperties": {"type": "integer"},
                                                    "propertyNames": )") +
                 names + "}");
    EXPECT_TRUE(automaton.accepts(R"({"a": 1})")) << names;
    EXPECT_FALSE(automaton.accepts(R"({"a": "b"})")) << names;
  }
}

TEST(JsonSchema, RefusesWhatNarrowsAndIsNotSupportedWithItsPath) {
  const auto refusal = [](const std::string& schema, const std::string& message) {
    EXPECT_THAT([&] { compiled(schema); }, ThrowsMessage<InputError>(HasSubstr(message))) << schema;
  };
  for (const char* keyword :
       {"not", "if", "contains", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas"}) {
    refusal("{\"items\": {\"properties\": {\"a/b\": {\"" + std::string(keyword) +
                "\": {\"type\": \"string\"}}}}}",
            "schema: \"#/items/properties/a~1b/" + std::string(keyword) + "\" is not supported");
  }
  for (const char* names : {R"({"pattern": "a"})", R"({"type": "integer"})", R"({"maxLength": 3})", "false"})
    refusal(std::string(R"({"propertyNames": )") + names + "}", "\"#/propertyNames\" is not supported");
  refusal(R"({"patternProperties": {"a": true}})", "\"#/patternProperties\" is not supported");
  refusal(R"({"dependentRequired": {"a": ["b"]}})", "\"#/dependentRequired\" is not supported");
  refusal(R"({"$dynamicRef": "#a"})", "\"#/$dynamicRef\" is not supported");
  refusal(R"({"multipleOf": 5})", "\"#/multipleOf\" is not supported; only 1 is");
  refusal(R"({"type": "number", "minimum": 0.5})", "\"#/minimum\" is 0.5; expected an integer");
  refusal(R"({"type": "array", "uniqueItems": true})", "\"#/uniqueItems\" is not supported");
  refusal(R"({"type": "object", "minProperties": 1})", "\"#/minProperties\" is not supported");
  refusal(R"({"properties": {"a": {}, "b": {}}, "maxProperties": 1})",
          "\"#/maxProperties\" is not supported");
  refusal(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})",
          "\"#/oneOf\" is not supported; its schemas 0 and 1");
  refusal(R"({"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}]})",
          "\"#/oneOf\" is not supported");
  refusal(R"({"$ref": "http://example.org/schema"})",
          "\"#/$ref\" is \"http://example.org/schema\"; expected a JSON pointer");
  refusal(R"({"$ref": "#/$defs/none"})", "\"#/$ref\" is \"#/$defs/none\"; expected the place of a schema");
  refusal(R"({"$ref": "#anchor"})", "expected a JSON pointer");
  refusal(R"({"properties": {"a": {"$id": "b", "$ref": "#/$defs/c"}}})",
          "\"#/properties/a/$id\" is not supported");
  refusal(R"({"$ref": "#/$defs/a/x", "$defs": {"a": {"$id": "b", "x": {}}}})", "\"$id\" of its own");
  refusal(R"x({"pattern": "(?=a)"})x", "schema: \"#/pattern\": look-ahead");
  refusal(R"({"const": 100000000000000000000})",
          "\"#/const\" is 1e+20; expected numbers that 64 bits hold exactly");
  refusal(R"({"minLength": 501})", "expected an integer from 0 to 500");
  refusal(R"({"minItems": 65})", "expected an integer from 0 to 64");
}

TEST(JsonSchema, RefusesWhatIsMalformed) {
  const auto refusal = [](const std::string& schema, const std::string& message) {
    EXPECT_THAT([&] { compiled(schema); }, ThrowsMessage<InputError>(HasSubstr(message))) << schema;
  };
  refusal("5", "\"#\" is 5; expected an object, true or false");
  refusal(R"({"properties": {"a": "string"}})", "\"#/properties/a\" is \"string\"; expected an object");
  refusal(R"({"type": "text"})", "\"#/type\" is \"text\"; expected null, boolean");
  refusal(R"({"type": [["null"]]})", "\"#/type\" is a list of 1");
  refusal(R"({"minLength": -1})", "\"#/minLength\" is -1");
  refusal(R"({"minLength": 1.5})", "\"#/minLength\" is 1.5");
  refusal(R"({"maxItems": "3"})", "\"#/maxItems\" is \"3\"");
  refusal(R"({"required": "a"})", "\"#/required\" is \"a\"; expected a list");
  refusal(R"({"required": [1]})", "\"#/required\" is a list of 1");
  refusal(R"({"properties": []})", "\"#/properties\" is a list of 0");
  refusal(R"({"anyOf": {}})", "\"#/anyOf\" is an object; expected a list");
  refusal(R"({"enum": 1})", "\"#/enum\" is 1");
  refusal(R"({"minimum": true})", "\"#/minimum\" is true");
  refusal(R"({"exclusiveMinimum": true, "minimum": 1})", "\"#/exclusiveMinimum\" is true");  // draft 4
  refusal(R"({"pattern": 1})", "\"#/pattern\" is 1");
  refusal(R"({"$ref": 1})", "\"#/$ref\" is 1");
  refusal(R"({"uniqueItems": 1, "type": "array"})", "\"#/uniqueItems\" is 1");
  refusal(R"({"items": [true], "prefixItems": [true]})", "\"#/items\" is a list of 1");
}

TEST(JsonSchema, NamesTheFirstSchemaWithoutText) {
  const auto refusal = [](const std::string& schema, const std::string& path) {
    EXPECT_THAT([&] { compiled(schema); },
                ThrowsMessage<InputError>(HasSubstr("no text can be written for \"" + path + "\"")));
  };
  refusal("false", "#");
  refusal(R"({"required": ["a"], "properties": {"a": {"minLength": 3, "maxLength": 2}}})", "#/properties/a");
  refusal(R"({"required": ["a"], "properties": {}, "additionalProperties": false})",
          "#/additionalProperties");
  refusal(R"({"minItems": 1, "items": {"enum": []}})", "#/items");
  refusal(R"({"pattern": "\\u0001"})", "#");
  refusal(R"({"type": "integer", "minimum": 5, "exclusiveMaximum": 5})", "#");
  refusal(R"({"$ref": "#"})", "#");
}

TEST(JsonSchema, StrictSchemasAreThoseOfOpenAi) {
  const JsonSchemaOptions strict{.strict = true};
  const auto refusal = [&](const std::string& schema, const std::string& message) {
    EXPECT_THAT([&] { compiled(schema, strict); }, ThrowsMessage<InputError>(HasSubstr(message))) << schema;
  };
  EXPECT_NO_THROW(compiled(
      R"({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false})",
      strict));
  refusal(R"({"type": "array", "items": {}})",
          "\"#/type\" is \"array\"; expected \"object\" at the root of a strict schema");
  refusal(R"({"type": "object", "properties": {"a": {}}, "additionalProperties": false})",
          "\"#/required\" is missing; expected all properties in a strict schema, \"a\" too");
  refusal(
      R"({"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"], "additionalProperties": false})",
      "\"#/properties/a/additionalProperties\" is missing; expected false in a strict schema");
  refusal("true", "expected \"object\" at the root");
}

TEST(JsonSchema, NamesWhatHoldsIt) {
  EXPECT_THAT([] { compiled(R"({"not": {}})", {.name = "tools[0].function.parameters"}); },
              ThrowsMessage<InputError>("tools[0].function.parameters: \"#/not\" is not supported"));
}

TEST(JsonSchema, RefusesHostileSchemasWithinBounds) {
  const auto is_refused = [](const std::string& schema) {
    EXPECT_THROW(compiled(schema), AutomatonTooLarge) << schema.substr(0, 200);
  };
  std::string doubling = R"({"$defs": {"d0": {"type": "string"})";
  for (int i = 1; i < 60; ++i) {
    const std::string below = "{\"$ref\": \"#/$defs/d" + std::to_string(i - 1) + "\"}";
    doubling += ", \"d" + std::to_string(i) + "\": {\"prefixItems\": [" + below + ", " + below +
                "], \"minItems\": 2}";
  }
  is_refused(doubling + "}, \"$ref\": \"#/$defs/d59\"}");
  is_refused(
      R"({"items": {"items": {"items": {"const": 1, "minLength": 1}, "minItems": 60, "maxItems": 64}, "minItems": 60}, "minItems": 60})");
  is_refused(R"({"type": "string", "pattern": "^((a{1000}){1000}){1000}$"})");
  is_refused(
      R"x({"properties": {"a": {"minLength": 400, "maxLength": 500, "pattern": "(a|b)*a(a|b){12}"}, "b": {"pattern": "(a|b)*b(a|b){14}"}}})x");
  std::string nested = "{}";
  for (int i = 0; i < 70; ++i) nested = "{\"anyOf\": [" + nested + "]}";
  is_refused(nested);
  std::string patterns;  // each costs little, all of them much
  for (int i = 0; i < 3000; ++i)
    patterns += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": {\"pattern\": \"(a|b)*a(a|b){9}" +
                std::to_string(i) + "\"}";
  is_refused("{\"properties\": {" + patterns + "}}");
}

TEST(JsonSchema, AllTextsOfRandomSchemasAreValid) {
  RandomSchemas schemas(1);
  int num_compiled = 0;
  for (unsigned round = 0; round < 600; ++round) {
    const ordered_json schema = schemas.next();
    std::optional<ByteAutomaton> automaton;
    try {
      automaton = compile_json_schema(
          schema, {.layout = round % 2 == 0 ? JsonLayout::kSpaced : JsonLayout::kCompact});
    } catch (const InputError&) {
      continue;  // no text, or too large
    }
    ++num_compiled;
    const Validator validator(schema);
    RandomTexts texts(*automaton, round);
    for (int i = 0; i < 25; ++i) {
      const std::string text = texts.next(60);
      ASSERT_TRUE(validator.is_valid(nlohmann::json::parse(text))) << text << "\n" << schema.dump();
    }
  }
  EXPECT_GT(num_compiled, 300);
}

TEST(JsonSchema, AnyObjectIsAnObjectWithinItsDepth) {
  const ByteAutomaton automaton = ByteAutomaton::compile(any_json_object(), "object");
  RandomTexts texts(automaton, 1);
  for (int i = 0; i < 200; ++i) {
    const std::string text = texts.next(80);
    ASSERT_TRUE(nlohmann::json::parse(text).is_object()) << text;
  }
  std::string text = "1";
  for (int depth = 1; depth <= kJsonObjectDepth + 1; ++depth) {
    text = "{\"a\": " + text + "}";
    EXPECT_EQ(automaton.accepts(text), depth <= kJsonObjectDepth) << depth;
  }
  EXPECT_FALSE(automaton.accepts("[]"));
}

}  // namespace
}  // namespace lacuna::json_schema_test
