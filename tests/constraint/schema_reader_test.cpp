// Work and memory that a schema takes, counted. Attacks are refused within the limits or cost little; what
// honest schemas cost grows with their size.
#include "constraint/schema_reader.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/budget.h"
#include "constraint/constraint.h"

namespace lacuna::schema_reader_test {
namespace {

using nlohmann::ordered_json;

struct Cost {
  int64_t steps, bytes;
  std::string error;
};

Cost cost_of(const Constraint& constraint) {
  const Budget budget("test", {});
  std::string error;
  try {
    compile_constraint(constraint);
  } catch (const InputError& refusal) {
    error = refusal.what();
  }
  return {budget.steps_spent(), budget.bytes_spent(), error};
}

Cost cost_of(const ordered_json& schema, bool strict = false) {
  return cost_of(JsonSchemaConstraint{schema.dump(), strict});
}

ordered_json copies(const ordered_json& value, int count) {
  return std::vector<ordered_json>(static_cast<size_t>(count), value);
}

ordered_json reference(const std::string& name) {
  return {{"$ref", "#/$defs/" + name}};
}

/// Any of `count` references to one definition.
ordered_json repeated(const ordered_json& definition, int count, const char* keyword = "anyOf") {
  return {{keyword, copies(reference("d"), count)}, {"$defs", {{"d", definition}}}};
}

ordered_json names(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(fmt::format("{:x}", i));
  return texts;
}

ordered_json properties(int count, const ordered_json& schema) {
  ordered_json all = ordered_json::object();
  for (int i = 0; i < count; ++i) all[fmt::format("p{}", i)] = schema;
  return all;
}

/// A schema that asks for much more work than it has bytes.
struct Attack {
  const char* name;
  ordered_json schema;
  bool strict = false;
};

std::vector<Attack> attacks() {
  const ordered_json strict_object = {{"type", "string"},
                                      {"properties", properties(4000, ordered_json::object())},
                                      {"required", std::vector<ordered_json>()},
                                      {"additionalProperties", false}};
  ordered_json all_required = strict_object;
  for (int i = 3999; i >= 0; --i) all_required["required"].push_back(fmt::format("p{}", i));
  ordered_json many_keywords = {{"type", "string"}};
  for (int i = 0; i < 12000; ++i) many_keywords[fmt::format("x{}", i)] = 1;
  ordered_json same_enum = {{"oneOf", ordered_json::array()}, {"$defs", {{"e", {{"enum", names(12000)}}}}}};
  for (int i = 0; i < 1500; ++i) {
    same_enum["oneOf"].push_back(reference(fmt::format("b{}", i)));
    same_enum["$defs"][fmt::format("b{}", i)] = reference("e");
  }
  const auto self = [](int count) {
    return ordered_json{{"oneOf", {reference("a"), {{"type", "null"}}}},
                        {"$defs", {{"a", {{"allOf", copies(reference("a"), count)}}}}}};
  };
  return {
      {"outline of 140 references to itself", self(140)},
      {"outline of 300 references to itself", self(300)},
      {"strict at every visit",
       {{"type", "object"},
        {"properties", {{"a", {{"anyOf", copies(reference("d"), 2000)}}}}},
        {"required", {"a"}},
        {"additionalProperties", false},
        {"$defs", {{"d", all_required}}}},
       true},
      {"enum at every visit", repeated({{"enum", names(20000)}}, 4000)},
      {"const at every visit", repeated({{"enum", names(15000)}, {"const", std::string(60000, 'y')}}, 1000)},
      {"required at every visit", repeated({{"type", "object"}, {"required", names(20000)}}, 4000)},
      {"any value at every visit", {{"anyOf", copies(true, 4000)}}},
      {"any item", {{"type", "array"}, {"prefixItems", copies(true, 9000)}, {"minItems", 64}}},
      {"a long key above many patterns",
       {{"properties",
         {{std::string(100000, 'k'),
           {{"properties", properties(3000, {{"type", "string"}, {"pattern", "a"}})}}}}}}},
      {"many unknown keywords at every visit", repeated(many_keywords, 4000)},
      {"one enum for many branches", same_enum},
      {"a long pattern at every visit",
       repeated({{"type", "string"}, {"pattern", "[" + std::string(16000, 'a') + "]"}}, 4000)},
      {"bounds at every visit",
       repeated({{"type", "number"}, {"minimum", -123456789012}, {"maximum", 99999999999}}, 9000)},
      {"a format at every visit", repeated({{"type", "string"}, {"format", "date-time"}}, 9000)},
      {"impossible branches next to many others",
       {{"allOf", {{{"anyOf", copies({{"minLength", 1}}, 10000)}}, {{"anyOf", copies(false, 9000)}}}}}},
      {"patterns of properties at every visit",
       repeated({{"type", "object"},
                 {"patternProperties", {{"^a", {{"type", "null"}}}, {"^b", {{"type", "integer"}}}}}},
                9000)},
      {"a pattern within a length at every visit",
       repeated({{"type", "string"}, {"pattern", "^[ab]+$"}, {"maxLength", 9}}, 9000)},
      {"types at every visit", repeated({{"type", copies("string", 12000)}}, 4000)},
  };
}

TEST(SchemaReaderSlow, BoundsTheWorkAndMemoryOfAttacksAndNamesTheLimit) {
  for (const Attack& attack : attacks()) {
    SCOPED_TRACE(attack.name);
    ASSERT_LE(attack.schema.dump().size(), kMaxSchemaBytes);
    const Cost cost = cost_of(attack.schema, attack.strict);
    EXPECT_LE(cost.steps, kMaxConstraintSteps / 3);
    EXPECT_LE(cost.bytes, kMaxConstraintBytes + (1 << 20));
  }
}

TEST(SchemaReader, RefusesAnEnumThatIsWrittenAtEveryVisitWithOneSentence) {
  EXPECT_EQ(cost_of(repeated({{"enum", names(20000)}}, 4000)).error,
            "the schema is too large: it repeats into more than 400000 parts");
}

TEST(SchemaReader, RefusesMoreSingleItemsThanAnExpressionMayNest) {
  EXPECT_EQ(cost_of({{"type", "array"}, {"prefixItems", copies(true, 40'000)}}).error,
            "schema: \"#/prefixItems\" is a list of 40000; expected at most 1000 schemas");
}

TEST(SchemaReader, LooksAtEachPlaceOnceForAnOutline) {
  const auto steps = [](int count) {
    return cost_of({{"oneOf", {reference("a"), {{"type", "null"}}}},
                    {"$defs", {{"a", {{"allOf", copies(reference("a"), count)}}}}}})
        .steps;
  };
  EXPECT_LT(steps(200), 3 * steps(100));
}

TEST(SchemaReader, BoundsTheSchemasOfManyTools) {
  ToolCallConstraint tools;
  const std::string parameters =
      ordered_json{{"type", "object"}, {"properties", properties(150, true)}}.dump();
  for (int i = 0; i < 128; ++i)
    tools.functions.push_back({.name = fmt::format("f{}", i), .parameters = parameters});
  const Cost cost = cost_of(tools);
  EXPECT_EQ(cost.error, "the set of tools is too large: it repeats into more than 400000 parts");
  EXPECT_LE(cost.bytes, 32 << 20);
}

/// Ten schemas in the style of published interfaces, `size` parts each.
std::vector<ordered_json> honest(int size) {
  const ordered_json text = {{"type", "string"}, {"description", "A text that says what this is for."}};
  const ordered_json address = {{"type", "object"},
                                {"properties",
                                 {{"street", text},
                                  {"zip", {{"type", "string"}, {"pattern", "^[0-9]{5}$"}}},
                                  {"country", {{"enum", {"de", "fr", "jp", "us"}}}}}},
                                {"required", {"street", "zip"}},
                                {"additionalProperties", false}};
  const auto object = [](const ordered_json& members) {
    ordered_json schema = {{"type", "object"}, {"properties", members}};
    for (const auto& [key, member] : members.items()) schema["required"].push_back(key);
    return schema;
  };
  const auto numbered = [&](const char* key, const std::function<ordered_json(int)>& make) {
    ordered_json all = ordered_json::object();
    for (int i = 0; i < size; ++i) all[fmt::format("{}_{}", key, i)] = make(i);
    return all;
  };
  std::vector<ordered_json> schemas;
  schemas.push_back(object(properties(2 * size, text)));
  schemas.push_back(object(properties(size, {{"type", "integer"}, {"minimum", 0}, {"maximum", 65535}})));
  schemas.push_back(object(properties(size, {{"type", "boolean"}, {"description", "Whether it is on."}})));
  schemas.push_back({{"enum", names(4 * size)}});
  schemas.push_back(object(numbered("resource", [&](int) { return reference("address"); })));
  schemas.back()["$defs"] = {{"address", address}};
  schemas.push_back(object(numbered("event", [&](int i) {
    return ordered_json{{"type", "object"},
                        {"properties", {{"kind", {{"const", fmt::format("kind {}", i)}}}, {"note", text}}},
                        {"required", {"kind"}}};
  })));
  ordered_json branches = ordered_json::array();
  for (int i = 0; i < size; ++i) {
    branches.push_back(
        {{"type", "object"},
         {"properties", {{"type", {{"const", fmt::format("command_{}", i)}}}, {"argument", text}}},
         {"required", {"type", "argument"}}});
  }
  schemas.push_back({{"oneOf", branches}});
  schemas.push_back(object(properties(size, {{"anyOf", {text, {{"type", "null"}}}}})));
  schemas.push_back(
      object(properties(size, {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 1}})));
  schemas.push_back(object(numbered("part", [&](int) {
    return ordered_json{{"allOf", {reference("base")}}, {"properties", {{"tag", text}}}};
  })));
  schemas.back()["$defs"] = {{"base", object({{"id", {{"type", "string"}, {"format", "uuid"}}}})}};
  return schemas;
}

TEST(SchemaReader, ReadsHonestSchemasInProportionToTheirSize) {
  constexpr int kSize = 25;
  const std::vector<ordered_json> small = honest(kSize), large = honest(2 * kSize);
  for (size_t i = 0; i < small.size(); ++i) {
    SCOPED_TRACE(fmt::format("schema {} of {} bytes", i, large[i].dump().size()));
    const Cost half = cost_of(small[i]), whole = cost_of(large[i]);
    EXPECT_EQ(half.error, "");
    EXPECT_EQ(whole.error, "");
    EXPECT_LT(whole.steps, 3 * half.steps);
    EXPECT_LT(whole.bytes, 3 * half.bytes);
    RecordProperty(fmt::format("steps_{}", i), std::to_string(whole.steps));
  }
}

TEST(SchemaReader, KeepsThePlacesOfErrorsBelowReferences) {
  EXPECT_EQ(cost_of({{"properties", {{"a/b", {{"items", {{"$recursiveRef", "#a"}}}}}}}}).error,
            "schema: \"#/properties/a~1b/items/$recursiveRef\" is not supported");
  EXPECT_EQ(cost_of({{"anyOf", {true, reference("x")}}, {"$defs", {{"x", {{"extends", true}}}}}}).error,
            "schema: \"#/$defs/x/extends\" is not supported");
}

}  // namespace
}  // namespace lacuna::schema_reader_test
