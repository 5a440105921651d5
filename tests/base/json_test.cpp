#include "base/json.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace lacuna::json_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void expect_refused(const std::string& text, const std::string& part) {
  EXPECT_THAT([&] { parse_json(text, "F"); }, ThrowsMessage<InputError>(HasSubstr(part)));
}

/// `count` copies of an element, separated by commas.
std::string list_of(size_t count, std::string_view element) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    text += element;
  }
  return text + "]";
}

TEST(ParseJson, BuildsTheValueOfTheText) {
  const std::string text = R"({"a": [1, -2, 2.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "e": ""})";
  EXPECT_EQ(parse_json(text, "F"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json("18446744073709551615", "F"), nlohmann::json(UINT64_MAX));
  EXPECT_EQ(parse_json(" \"text\" ", "F"), nlohmann::json("text"));
}

TEST(ParseJson, NamesThePlaceOfASyntaxError) {
  expect_refused("", "F: not valid JSON at line 1");
  expect_refused("{\"a\": 1,\n \"b\" 2}", "F: not valid JSON at line 2, column 6");
  expect_refused("[1] 2", "not valid JSON at line 1, column 5");
  expect_refused("[\"\xff\"]", "not valid JSON");
  expect_refused("[1e999]", "a number is too large");
}

TEST(ParseJson, RefusesTwoMembersWithOneKey) {
  expect_refused(R"({"x": {"a": 1, "b": 2, "a": 3}})", R"(key "a" appears twice)");
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 1}])", "F"));
}

TEST(ParseOrderedJson, KeepsTheOrderOfKeysWithinTheSameLimits) {
  const auto value = parse_ordered_json(R"({"z": {"b": [{"y": 1, "x": 2}], "a": null}, "c": true})", "F");
  EXPECT_EQ(value.dump(), R"({"z":{"b":[{"y":1,"x":2}],"a":null},"c":true})");
  const auto expect_ordered_refused = [](const std::string& text, const std::string& part) {
    EXPECT_THAT([&] { parse_ordered_json(text, "F"); }, ThrowsMessage<InputError>(HasSubstr(part)));
  };
  expect_ordered_refused(R"({"x": {"a": 1, "b": 2, "a": 3}})", R"(key "a" appears twice)");
  EXPECT_NO_THROW(parse_ordered_json(R"([{"a": 1, "b": {"a": 1}}, {"a": 1}])", "F"));
  expect_ordered_refused("{\"a\": 1,\n \"b\" 2}", "F: not valid JSON at line 2, column 6");
  expect_ordered_refused(std::string(33, '[') + std::string(33, ']'), "nests deeper than 32 levels");
  EXPECT_THAT([] { parse_ordered_json("[1, 2, 3]", "F", 3); },
              ThrowsMessage<InputError>(HasSubstr("more than 3 values")));
  std::string keys = "{";
  for (int i = 0; i < 100'000; ++i) keys += "\"" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(parse_ordered_json(keys + "\"last\": 1}", "F").size(), 100'001U);  // in less than quadratic time
}

TEST(ParseJson, RefusesNestingAndCountsBeyondItsLimits) {
  EXPECT_NO_THROW(parse_json(std::string(32, '[') + std::string(32, ']'), "F"));
  expect_refused(std::string(33, '[') + std::string(33, ']'), "nests deeper than 32 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_refused(objects, "nests deeper");
  expect_refused(list_of((size_t{1} << 22) + 1, "0"), "more than 4194304 values");
}

// A parser that looks at all elements of a list whenever one more ends takes hours for this text.
TEST(ParseJson, ParsesLongListsOfListsInLinearTime) {
  EXPECT_EQ(parse_json(list_of(4'000'000, "[]"), "F").size(), 4'000'000);
}

TEST(JsonObject, ListsTheKeysThatNobodyAskedFor) {
  const nlohmann::json json = {{"read", 1},
                               {"unread", 2},
                               {"null", nullptr},
                               {"object", {{"a", 1}, {"b", {{"c", 2}}}}},
                               {"unread_object", {{"d", 1}}}};
  JsonObject object(json, "file.json");
  EXPECT_THAT(object.unread(), testing::IsEmpty());  // nothing is tracked yet
  object.track_reads();
  object.integer("read", {0, 9});
  object.has("absent");
  const JsonObject inner = object.object("object");
  inner.integer("a", {0, 9});
  std::map<std::string, nlohmann::json> unread;
  for (const JsonObject::Unread& one : object.unread()) unread[one.path] = *one.value;
  const std::map<std::string, nlohmann::json> expected = {
      {"unread", 2}, {"object.b", {{"c", 2}}}, {"unread_object", {{"d", 1}}}};
  EXPECT_EQ(unread, expected);
  EXPECT_EQ(inner.path("a"), "object.a");
  EXPECT_EQ(*inner.value("a"), 1);
  EXPECT_EQ(object.value("null"), nullptr);
}

TEST(DumpJson, ReplacesTheRestOfACharacterThatIsCutOff) {
  const std::string cut = std::string("caf\xC3");
  EXPECT_EQ(dump_json(nlohmann::json{{"b", cut}, {"a", 1}}), "{\"a\":1,\"b\":\"caf\uFFFD\"}");
  EXPECT_EQ(dump_json(nlohmann::ordered_json{{"b", cut}, {"a", 1}}), "{\"b\":\"caf\uFFFD\",\"a\":1}");
  EXPECT_EQ(dump_json(nlohmann::json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}  // namespace
}  // namespace lacuna::json_test
