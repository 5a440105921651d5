#include "constraint/schema_references.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/budget.h"

namespace lacuna::schema_references_test {
namespace {

using nlohmann::ordered_json;

ordered_json plain(const char* document) {
  const std::optional<ordered_json> found = with_plain_references(ordered_json::parse(document));
  return found ? *found : ordered_json();
}

TEST(SchemaReferences, ThatArePointersStay) {
  for (const char* document : {"true", R"({"$ref": "#/$defs/a", "$defs": {"a": {}}})",
                               R"({"$id": "http://a.org/b", "items": {"$ref": "#"}})"})
    EXPECT_TRUE(plain(document).is_null()) << document;
}

TEST(SchemaReferences, ToAnchorsBecomePointers) {
  EXPECT_EQ(plain(R"({"items": {"$ref": "#a"}, "$defs": {"x/y": {"$anchor": "a"}}})")["items"]["$ref"],
            "#/$defs/x~1y");
  EXPECT_EQ(plain(R"({"$ref": "#a", "definitions": {"b": {"$id": "#a"}}})")["$ref"], "#/definitions/b");
  EXPECT_EQ(plain(R"({"$ref": "#a", "$defs": {"b%25~": {"$anchor": "a"}}})")["$ref"], "#/$defs/b%2525~0");
}

TEST(SchemaReferences, AreRelativeToTheIdAroundThem) {
  const ordered_json found = plain(R"({
    "$id": "http://a.org/s/root.json",
    "properties": {
      "a": {"$ref": "item.json"}, "b": {"$ref": "/s/item.json#/$defs/n"}, "c": {"$ref": "../s/./item.json#"},
      "d": {"$ref": "http://a.org/s/item.json#n"}, "e": {"$ref": "root.json#/$defs/i"}, "f": {"$ref": "urn:x:y"}},
    "$defs": {
      "i": {"$id": "item.json", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"$anchor": "n"}}},
      "u": {"$id": "urn:x:y", "items": {"$ref": "#"}}}})");
  const ordered_json& properties = found["properties"];
  EXPECT_EQ(properties["a"]["$ref"], "#/$defs/i");
  EXPECT_EQ(properties["b"]["$ref"], "#/$defs/i/$defs/n");
  EXPECT_EQ(properties["c"]["$ref"], "#/$defs/i");
  EXPECT_EQ(properties["d"]["$ref"], "#/$defs/i/$defs/n");
  EXPECT_EQ(properties["e"]["$ref"], "#/$defs/i");
  EXPECT_EQ(properties["f"]["$ref"], "#/$defs/u");
  EXPECT_EQ(found["$defs"]["i"]["items"]["$ref"], "#/$defs/i/$defs/n");
  EXPECT_EQ(found["$defs"]["u"]["items"]["$ref"], "#/$defs/u");
}

TEST(SchemaReferences, ThatAreDynamicBecomePlainWhereTheyHaveOneTarget) {
  EXPECT_EQ(plain(R"({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}})")["items"],
            ordered_json::parse(R"({"$ref": "#"})"));
  EXPECT_EQ(plain(R"({"$defs": {"a": {"$anchor": "n"}}, "$dynamicRef": "#n"})")["$ref"], "#/$defs/a");
  EXPECT_EQ(plain(R"({"items": {"$recursiveRef": "#"}})")["items"]["$ref"], "#");
  EXPECT_EQ(
      plain(R"({"$id": "a", "$recursiveAnchor": true, "items": {"$recursiveRef": "#"}})")["items"]["$ref"],
      "#");
  EXPECT_EQ(plain(R"({"$recursiveAnchor": true, "items": {"$recursiveRef": "#"}})")["items"]["$ref"], "#");
  const ordered_json both =
      plain(R"({"$dynamicAnchor": "n", "items": {"$ref": "#/$defs/a", "$dynamicRef": "#n"}})");
  EXPECT_EQ(both["items"], ordered_json::parse(R"({"$ref": "#/$defs/a", "allOf": [{"$ref": "#"}]})"));
}

TEST(SchemaReferences, ThatDependOnTheWayOrLeadOutOfTheDocumentStay) {
  const ordered_json dynamic = plain(R"({
    "$id": "a", "$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"},
    "$defs": {"b": {"$id": "b", "$dynamicAnchor": "n"}}})");
  EXPECT_EQ(dynamic["items"], ordered_json::parse(R"({"$dynamicRef": "#n"})"));
  const ordered_json recursive = plain(R"({
    "$recursiveAnchor": true, "items": {"$recursiveRef": "#"}, "$defs": {"b": {"$id": "b"}}})");
  EXPECT_EQ(recursive["items"], ordered_json::parse(R"({"$recursiveRef": "#"})"));
  for (const char* target : {"#none", "other.json", "https://a.org/b#/c"})
    EXPECT_EQ(plain(("{\"$ref\": \"" + std::string(target) + "\"}").c_str())["$ref"], target);
}

TEST(SchemaReferences, StayWhereDraftsDisagreeAboutTheirBase) {
  const ordered_json found =
      plain(R"({"$id": "http://a.org/base/", "allOf": [{"$id": "http://a.org/", "$ref": "foo.json"},
    {"$id": "http://a.org/base/same.json", "$ref": "foo.json"}],
    "$defs": {"one": {"$id": "http://a.org/foo.json"}, "two": {"$id": "foo.json"}}})");
  EXPECT_EQ(found["allOf"][0]["$ref"], "foo.json");
  EXPECT_EQ(found["allOf"][1]["$ref"], "#/$defs/two");
}

TEST(SchemaReferences, AreNotSoughtInValuesAndNamesOfProperties) {
  const ordered_json found = plain(R"({
    "properties": {"$ref": {"type": "string"}, "enum": {"$ref": "#a"}}, "const": {"$ref": "#a"},
    "enum": [{"$anchor": "a"}], "$defs": {"b": {"$anchor": "a"}}, "x-word": {"c": {"$id": "z", "$ref": "#a"}}})");
  EXPECT_EQ(found["const"]["$ref"], "#a");
  EXPECT_EQ(found["properties"]["enum"]["$ref"], "#/$defs/b");
  EXPECT_EQ(found["x-word"]["c"]["$ref"], "#/$defs/b");
}

TEST(SchemaReferences, HaveABoundOnWorkAndMemory) {
  ordered_json document{{"$defs", ordered_json::object()}};
  ordered_json& named = document["$defs"][std::string(100'000, 'k')];
  for (int i = 0; i < 10'000; ++i) named["allOf"].push_back({{"$anchor", "a" + std::to_string(i)}});
  const Budget budget("schema", {.steps = 600'000'000, .bytes = int64_t{128} << 20});
  EXPECT_THROW((void)with_plain_references(document), BudgetSpent);
}

}  // namespace
}  // namespace lacuna::schema_references_test
