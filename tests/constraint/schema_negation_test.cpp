#include "constraint/schema_negation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "compiled_schema.h"

namespace lacuna::schema_negation_test {
namespace {

using nlohmann::ordered_json;

ordered_json negated(const char* schema) {
  static const std::string kName = "schema";
  const ordered_json document = ordered_json::parse(schema);
  return negation(SchemaReader(document, kName));
}

TEST(SchemaNegation, HasAPartForEachKeywordThatCanBeViolated) {
  EXPECT_EQ(
      negated(R"({"minimum": 3, "maxLength": 2})"),
      ordered_json::parse(
          R"({"anyOf": [{"type": "string", "minLength": 3}, {"type": "number", "exclusiveMaximum": 3}]})"));
  EXPECT_EQ(negated(R"({"required": ["a"], "properties": {"b": {"type": "null"}}})"),
            ordered_json::parse(R"({"anyOf": [{"type": "object", "properties": {"a": false}},
              {"type": "object", "properties": {"b": {"not": {"type": "null"}}}, "required": ["b"]}]})"));
  EXPECT_EQ(negated("true"), false);
  EXPECT_EQ(negated("false"), true);
  EXPECT_EQ(negated("{}"), false);
}

TEST(SchemaNegation, SaysNothingWhereItCannotBeExact) {
  EXPECT_EQ(negated(R"({"format": "email"})"), false);
  EXPECT_EQ(negated(R"({"uniqueItems": true})"), false);
}

// No value is valid against a schema and against its negation.
TEST(SchemaNegation, ExcludesWhatTheSchemaAllows) {
  const char* schemas[] = {
      R"({"type": "integer", "minimum": 2, "maximum": 7, "multipleOf": 2})",
      R"({"type": "string", "pattern": "^a", "minLength": 2})",
      R"({"enum": ["a", 1, null]})",
      R"({"properties": {"a": {"const": 1}}, "required": ["a"]})",
      R"({"anyOf": [{"const": 1}, {"type": "string"}]})",
      R"({"oneOf": [{"minimum": 1}, {"maximum": 3}], "type": "integer"})",
      R"({"if": {"const": 1}, "then": {"minimum": 2}, "else": {"type": "integer"}})",
      R"({"prefixItems": [{"const": 1}], "items": {"const": 2}, "type": "array"})",
      R"({"dependentRequired": {"a": ["b"]}, "properties": {"a": {"const": 1}, "b": {"const": 1}}})"};
  const char* values[] = {"1",
                          "2",
                          "4",
                          "8",
                          "1.5",
                          R"("a")",
                          R"("ab")",
                          R"("b")",
                          "null",
                          "true",
                          "[]",
                          "[1]",
                          "[2]",
                          "[1, 2]",
                          "[1, 3]",
                          "{}",
                          R"({"a": 1})",
                          R"({"a": 2})",
                          R"({"a": 1, "b": 1})",
                          R"({"b": 1})"};
  int num_both = 0;
  for (const char* schema : schemas) {
    const ByteAutomaton allowed = compile_json_schema(ordered_json::parse(schema));
    const ByteAutomaton others = compile_json_schema({{"not", ordered_json::parse(schema)}});
    for (const char* value : values) {
      EXPECT_FALSE(allowed.accepts(value) && others.accepts(value)) << schema << " and " << value;
      num_both += (allowed.accepts(value) ? 1 : 0) + (others.accepts(value) ? 1 : 0);
    }
  }
  EXPECT_GT(num_both, 100);
}

}  // namespace
}  // namespace lacuna::schema_negation_test
