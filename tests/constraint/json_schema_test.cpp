#include "constraint/json_schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "compiled_schema.h"
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
        Example{R"({"$ref": "#/properties/x/anyOf/1", "properties": {"x": {"anyOf": [true, {"const": 5}]}}})",
                {"5"},
                {"1", "{}"}}));

INSTANTIATE_TEST_SUITE_P(
    Names, JsonSchemaKeywords,
    testing::Values(
        Example{
            R"({"type": "object", "propertyNames": {"pattern": "^[a-z]$"}, "additionalProperties": {"const": 1}})",
            {"{}", R"({"a": 1})", R"({"a": 1, "b": 1})"},
            {R"({"A": 1})", R"({"ab": 1})", R"({"a": 2})"}},
        Example{
            R"({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"const": 1}})",
            {"{}", R"({"y": 1})", R"({"x": 1, "y": 1})"},
            {R"({"z": 1})", R"({"x": 1, "x": 1})"}},
        Example{
            R"({"properties": {"abc": {"const": 1}, "d": {"const": 2}}, "propertyNames": {"maxLength": 2}})",
            {"{}", R"({"d": 2})"},
            {R"({"abc": 1})"}},
        Example{
            R"({"properties": {"abc": true}, "required": ["d"], "propertyNames": {"type": "string", "minLength": 1}})",
            {R"({"d": 1})"},
            {"{}"}},
        Example{R"({"type": "object", "propertyNames": false})", {"{}"}, {R"({"a": 1})"}},
        Example{
            R"({"patternProperties": {"^a": {"const": 1}, "b$": {"const": 2}}, "additionalProperties": {"const": 3}})",
            {"{}", R"({"a": 1})", R"({"b": 2, "c": 3})"},
            {R"({"ab": 1})", R"({"ab": 2})", R"({"a": 3})"}},
        Example{
            R"({"properties": {"ax": {"maximum": 5}}, "patternProperties": {"^a": {"minimum": 3}}, "required": ["ax"]})",
            {R"({"ax": 3})", R"({"ax": 5, "ay": 9})"},
            {R"({"ax": 2})", R"({"ax": 6})", R"({"ax": 4, "ax": 9})", R"({"ax": 4, "b": 9})"}},
        Example{R"({"patternProperties": {"^x-": true}, "additionalProperties": false})",
                {"{}", R"({"x-a": null})"},
                {R"({"a": null})"}},
        Example{
            R"({"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"const": 1}})",
            {R"({"a": 1})", R"({"a": 1, "b": 1})"},
            {"{}", R"({"a": 1, "b": 1, "c": 1})"}},
        Example{R"({"type": "object", "minProperties": 2, "additionalProperties": {"const": 1}})",
                {R"({"a": 1, "bc": 1})", R"({"bc": 1, "a": 1, "a": 1})"},
                {"{}", R"({"a": 1})", R"({"a": 1, "a": 1})"}},
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2})",
            {R"({"a": 1, "b": 2})", R"({"a": 1, "c": 3})", R"({"a": 1, "b": 2, "c": 3})"},
            {"{}", R"({"b": 2})"}},
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"], "maxProperties": 2})",
            {R"({"b": 2})", R"({"a": 1, "b": 2})", R"({"b": 2, "c": 3})"},
            {R"({"a": 1, "b": 2, "c": 3})"}},
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": null})", {"{}"}, {"null"}},
        Example{
            R"({"properties": {"a": {"const": 1}}, "unevaluatedProperties": false, "allOf": [{"properties": {"b": {"const": 2}}}]})",
            {R"({"a": 1, "b": 2})"},
            {R"({"a": 1, "c": 2})"}},
        Example{
            R"({"allOf": [{"properties": {"a": {"const": 1}}, "unevaluatedProperties": false}, {"properties": {"b": {"const": 2}}}]})",
            {R"({"a": 1})"},
            {R"({"a": 1, "b": 2})"}}));

INSTANTIATE_TEST_SUITE_P(
    Conditions, JsonSchemaKeywords,
    testing::Values(
        Example{R"({"not": {"type": ["string", "number", "array", "object"]}})",
                {"null", "true"},
                {"1", "1.5", "[]"}},
        Example{R"({"type": "string", "not": {"pattern": "a"}})", {R"("b")"}, {R"("ba")"}},
        Example{R"({"type": "integer", "not": {"enum": [1, 2]}})", {"0", "3", "12"}, {"1", "2"}},
        Example{R"({"type": "number", "not": {"const": 1.5}})", {"1", "1.25"}, {"1.5", "1.50"}},
        Example{R"({"type": "number", "not": {"type": "integer"}})", {"1.5"}, {"1", "1.0"}},
        Example{R"({"type": "integer", "not": {"minimum": 3, "maximum": 5}})", {"2", "6"}, {"3", "4", "5"}},
        Example{R"({"type": "integer", "not": {"not": {"const": 7}}})", {"7"}, {"8"}},
        Example{R"({"type": "integer", "not": {"multipleOf": 3}})", {"1", "-2", "10"}, {"3", "0", "-6"}},
        Example{R"({"type": "array", "items": {"enum": [1, 2]}, "not": {"contains": {"const": 1}}})",
                {"[]", "[2, 2]"},
                {"[1]", "[2, 1]"}},
        Example{R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "not": {"required": ["a", "b"]}})",
                {"{}", R"({"a": 1})", R"({"b": 2})"},
                {R"({"a": 1, "b": 2})"}},
        Example{
            R"({"properties": {"k": {"enum": ["x", "y"]}, "v": {"enum": [1, "s"]}}, "required": ["k", "v"],
                    "if": {"properties": {"k": {"const": "x"}}}, "then": {"properties": {"v": {"type": "integer"}}},
                    "else": {"properties": {"v": {"type": "string"}}}})",
            {R"({"k": "x", "v": 1})", R"({"k": "y", "v": "s"})"},
            {R"({"k": "x", "v": "s"})", R"({"k": "y", "v": 1})"}},
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "dependentRequired": {"a": ["b"]}})",
            {"{}", R"({"b": 2})", R"({"a": 1, "b": 2})"},
            {R"({"a": 1})"}},
        Example{
            R"({"properties": {"a": {"const": 1}, "b": {"enum": [2, 3]}}, "dependentSchemas": {"a": {"properties": {"b": {"const": 3}}}}})",
            {R"({"b": 2})", R"({"a": 1, "b": 3})"},
            {R"({"a": 1, "b": 2})"}},
        Example{R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "dependencies": {"a": ["b"]}})",
                {"{}", R"({"a": 1, "b": 2})"},
                {R"({"a": 1})"}},
        Example{
            R"({"type": "integer", "oneOf": [{"minimum": 2}, {"maximum": 4}]})", {"1", "5"}, {"2", "3", "4"}},
        Example{R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})", {"1.5"}, {"1"}},
        Example{
            R"({"not": {"$ref": "#/$defs/a"}, "type": ["integer", "null"], "$defs": {"a": {"type": "integer"}}})",
            {"null"},
            {"1"}}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, JsonSchemaKeywords,
    testing::Values(
        Example{R"({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 30})",
                {"7", "14", "28"},
                {"0", "8", "35"}},
        Example{R"({"type": "integer", "multipleOf": 12345})", {"0", "-12345", "24690"}, {"12346"}},
        Example{R"({"type": "number", "multipleOf": 0.25})", {"0", "1", "0.5", "-1.75"}, {"0.3", "0.50"}},
        Example{R"({"type": "number", "multipleOf": 0.01, "minimum": 2})",
                {"2", "2.5", "19.98"},
                {"1.5", "2.505", "0.07"}},
        Example{R"({"type": "number", "minimum": 0.5, "maximum": 1.25})",
                {"0.5", "0.50", "1", "1.25", "0.75", "1.2"},
                {"0.49", "0", "1.251", "1.3", "-0.7"}},
        Example{R"({"type": "number", "exclusiveMinimum": -0.5, "exclusiveMaximum": 0.05})",
                {"0", "-0.49", "0.04", "0.049"},
                {"-0.5", "-0.50", "0.05", "0.050", "0.051", "-1"}},
        Example{R"({"minimum": 3, "exclusiveMinimum": true, "maximum": 9.5, "exclusiveMaximum": false})",
                {"3.5", "4", "9.5"},
                {"3", "9.51"}}));

INSTANTIATE_TEST_SUITE_P(
    DifferentItems, JsonSchemaKeywords,
    testing::Values(
        Example{R"({"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": true})",
                {"[]", R"(["a"])", R"(["b", "a"])", R"([1, "b", "a"])"},
                {R"(["a", "a"])", R"(["a", "b", "a"])"}},
        Example{
            R"({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 20}, "uniqueItems": true, "minItems": 2})",
            {"[1, 2]", "[3, 12, 20]"},
            {"[1]", "[1, 1]", "[2, 1, 2]"}},
        Example{R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true})",
                {"[]", R"(["red", "blue", "green"])"},
                {R"(["a", "a"])", R"(["a", "bc", "a"])"}},
        Example{R"({"type": "array", "items": {"type": "number"}, "uniqueItems": true})",
                {"[1, 2.5]"},
                {"[1, 1.0]", "[1.50]"}},
        Example{
            R"({"prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "uniqueItems": true, "items": false})",
            {"[true, false]", "[true]"},
            {"[true, true]"}},
        Example{R"({"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"const": 2}})",
                {"[2]", "[1, 2, 3]", "[2, 2]"},
                {"[]", "[1, 3]"}},
        Example{
            R"({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "minContains": 2, "maxContains": 3})",
            {"[2, 2]", "[1, 2, 1, 2, 2]"},
            {"[2]", "[2, 2, 2, 2]"}},
        Example{R"({"prefixItems": [{"const": 1}], "unevaluatedItems": {"const": 2}})",
                {"[1]", "[1, 2, 2]"},
                {"[1, 3]"}}));

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
  refusal(R"({"items": {"properties": {"a/b": {"$dynamicRef": "#a"}}}})",
          "schema: \"#/items/properties/a~1b/$dynamicRef\" is not supported");
  refusal(R"({"not": {"items": {"$recursiveRef": "#a"}}})", "$recursiveRef\" is not supported");
  refusal(R"({"$dynamicRef": "#a"})", "\"#/$dynamicRef\" is not supported");
  refusal(R"({"multipleOf": 1e-20})", "\"#/multipleOf\" is not supported; no multiple of it");
  refusal(R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "minItems": 9})",
          "\"#/uniqueItems\" is not supported; so many different items");
  refusal(R"({"type": "object", "minProperties": 9})", "\"#/minProperties\" is not supported");
  refusal(R"({"patternProperties": {"a": true, "b": true, "c": true, "d": true, "e": true, "f": true}})",
          "\"#/patternProperties\" is not supported; at most 5");
  refusal(R"({"$ref": "http://example.org/schema"})",
          "\"#/$ref\" is not supported; only places in the same document are read");
  refusal(R"({"$ref": "#/$defs/none"})", "\"#/$ref\" is \"#/$defs/none\"; expected the place of a schema");
  refusal(R"({"$ref": "#anchor"})", "expected a JSON pointer");
  refusal(R"({"properties": {"a": {"$id": "b", "$ref": "#/$defs/c"}}, "$defs": {"c": {}}})",
          "\"#/properties/a/$ref\" is \"#/properties/a/$defs/c\"; expected the place of a schema");
  refusal(R"x({"pattern": "(?i)a"})x", "schema: \"#/pattern\": the group or inline flag");
  refusal(R"({"const": 100000000000000000000})",
          "\"#/const\" is 1e+20; expected numbers that 64 bits hold exactly");
  refusal(R"({"minLength": 501})", "expected an integer from 0 to 500");
  refusal(R"({"minItems": 65})", "expected an integer from 0 to 64");
}

TEST(JsonSchema, TakesKeywordsThatAreNullAsAbsent) {
  for (const char* keyword : {"minLength", "maximum", "enum", "pattern", "format", "items", "properties",
                              "required", "anyOf", "$ref", "not", "additionalProperties", "uniqueItems",
                              "description", "default", "type", "$defs", "nullable"}) {
    const ByteAutomaton automaton = compiled(fmt::format(R"({{"{}": null, "maxItems": 0}})", keyword));
    EXPECT_TRUE(automaton.accepts("[]")) << keyword;
    EXPECT_FALSE(automaton.accepts("[1]")) << keyword;
  }
  EXPECT_TRUE(compiled(R"({"const": null})").accepts("null"));
  EXPECT_FALSE(
      compiled(R"({"not": {"enum": null, "type": "null"}, "type": ["null", "boolean"]})").accepts("null"));
}

TEST(JsonSchema, TakesTypesInUpperCaseAndNullWhereATypeIsNullable) {
  const ByteAutomaton automaton = compiled(
      R"({"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": true, "minimum": 7, "maximum": 8}},
          "required": ["a"]})");
  EXPECT_TRUE(automaton.accepts(R"({"a": 7})"));
  EXPECT_TRUE(automaton.accepts(R"({"a": null})"));
  EXPECT_FALSE(automaton.accepts(R"({"a": "7"})"));
  EXPECT_FALSE(compiled(R"({"nullable": true, "enum": [1]})").accepts("null"));
  EXPECT_FALSE(compiled(R"({"type": "boolean", "nullable": false})").accepts("null"));
  EXPECT_THROW(compiled(R"({"type": "boolean", "nullable": 1})"), InputError);
}

TEST(JsonSchema, FollowsReferencesByAnchorAndUri) {
  const ByteAutomaton automaton = compiled(
      R"({"$id": "http://a.org/root", "type": "object", "required": ["a", "b"],
          "properties": {"a": {"$ref": "item"}, "b": {"not": {"$ref": "#one"}, "enum": [1, 2]}},
          "$defs": {"x": {"$id": "item", "$ref": "#/$defs/two", "$defs": {"two": {"const": 2}}},
                    "y": {"$anchor": "one", "const": 1}}})");
  EXPECT_TRUE(automaton.accepts(R"({"a": 2, "b": 2})"));
  EXPECT_FALSE(automaton.accepts(R"({"a": 2, "b": 1})"));
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
  refusal(R"({"exclusiveMinimum": "1"})", "\"#/exclusiveMinimum\" is \"1\"");
  refusal(R"({"multipleOf": 0})", "\"#/multipleOf\" is 0; expected a number above 0");
  refusal(R"({"not": {"multipleOf": -1}})", "multipleOf\" is -1; expected a number above 0");
  refusal(R"({"dependentRequired": {"a": [1]}})",
          "\"#/dependentRequired\" is an object; expected lists of texts");
  refusal(R"({"not": 3})", "\"#/not\" is 3; expected an object");
  refusal(R"({"pattern": 1})", "\"#/pattern\" is 1");
  refusal(R"({"$ref": 1})", "\"#/$ref\" is 1");
  refusal(R"({"uniqueItems": 1, "type": "array"})", "\"#/uniqueItems\" is 1");
  refusal(R"({"items": [true], "prefixItems": [true]})", "\"#/items\" is a list of 1");
}

TEST(JsonSchema, RefusesMalformedKeywordsThatCannotMatterWithTheirPath) {
  const auto refused = [](const std::string& schema, const std::string& part) {
    EXPECT_THAT([&] { compiled(schema); }, ThrowsMessage<InputError>(HasSubstr(part))) << schema;
  };
  refused(R"({"type": "string", "minItems": -1})", "\"#/minItems\" is -1; expected an integer of at least 0");
  refused(R"({"type": "string", "maxItems": 1.5})", "#/maxItems");
  refused(R"({"type": "integer", "minLength": "2"})", "#/minLength");
  refused(R"({"type": "integer", "pattern": 3})", "#/pattern");
  refused(R"({"type": "string", "minimum": "1"})", "#/minimum");
  refused(R"({"type": "string", "multipleOf": 0})", "#/multipleOf");
  refused(R"({"type": "string", "uniqueItems": 1})", "#/uniqueItems");
  refused(R"({"type": "string", "required": "a"})", "#/required");
  refused(R"({"type": "string", "properties": ["a"]})", "#/properties");
  refused(R"({"type": "string", "properties": {"a": {"type": "strin"}}})", "#/properties/a/type");
  refused(R"({"type": "string", "items": 5})", "#/items");
  refused(R"({"type": "string", "dependentRequired": {"a": [1]}})", "#/dependentRequired");
  refused(R"({"const": 1, "allOf": {}})", "#/allOf");
  refused(R"({"enum": [1], "anyOf": [{"maxLength": -2}]})", "#/anyOf/0/maxLength");
  refused(R"({"type": "string", "$defs": {"a": {"minItems": -1}}})", "#/$defs/a/minItems");
  refused(R"({"type": "string", "items": {"$ref": "#/$defs/a"}, "$defs": {}})", "#/items/$ref");
  // Values that some generators write, and that say nothing here.
  for (const char* schema :
       {R"({"type": "string", "required": null})", R"({"type": "string", "required": true})",
        R"({"type": "string", "exclusiveMinimum": true})", R"({"type": "string", "minItems": 1.0})",
        R"({"type": "string", "minItems": 3, "x-hint": -1, "title": 5})"})
    EXPECT_TRUE(compiled(schema).accepts(R"("a")")) << schema;
}

TEST(JsonSchema, NamesTheUsersPathsInWhatMustNotHold) {
  const auto message = [](const std::string& schema) {
    try {
      compiled(schema);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(R"({"not": {"$ref": "#/$defs/none"}})"), HasSubstr("\"#/not/$ref\" is"));
  EXPECT_THAT(message(R"({"not": {"not": {"$ref": "other.json"}}})"), HasSubstr("\"#/not/not/$ref\" is"));
  EXPECT_THAT(message(R"({"type": "object", "properties": {"a": {"not": {"$ref": 3}}}})"),
              HasSubstr("\"#/properties/a/not/$ref\" is"));
  for (const char* schema :
       {R"({"not": {"pattern": "("}})", R"({"not": {"properties": {"a": {"pattern": "("}}}})",
        R"({"if": {"pattern": "("}, "then": {"const": 1}})", R"({"not": {"anyOf": [{"pattern": "("}]}})",
        R"({"not": {"allOf": [{"properties": {"a": {"not": {"pattern": "("}}}}]}})",
        R"({"not": {"multipleOf": 0.1}})", R"({"not": {"$dynamicRef": "#a"}})"}) {
    const std::string text = message(schema);
    EXPECT_EQ(text.find('\1'), text.npos) << text;
    EXPECT_EQ(text.find("\\u0001"), text.npos) << text;
    EXPECT_EQ(text.find("not/anyOf/0/pattern"), text.npos) << text;
  }
  EXPECT_THAT(message(R"({"not": {"pattern": "("}})"), HasSubstr("#/not/pattern"));
  EXPECT_THAT(message(R"({"not": {"properties": {"a": {"pattern": "("}}}})"),
              HasSubstr("#/not/properties/a/pattern"));
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
  EXPECT_THAT([] { compiled(R"({"$dynamicRef": "#a"})", {.name = "tools[0].function.parameters"}); },
              ThrowsMessage<InputError>("tools[0].function.parameters: \"#/$dynamicRef\" is not supported"));
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
