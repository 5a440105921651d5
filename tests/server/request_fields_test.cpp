#include "server/request_fields.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/api_request.h"

namespace lacuna::request_fields_test {
namespace {

using json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::ThrowsMessage;

void read_n(const FieldValue& field, GenerationRequest& request) {
  request.num_choices = static_cast<int32_t>(field.integer(1, 9));
}

constexpr RequestField kFields[] = {
    {"n", R"({"type": "integer"})", "choices", read_n},
    {"ignored", R"({})", ""},
    {"seed", R"({"type": "integer"})", "of sampling", read_seed, true},
};

GenerationRequest read(const std::string& body) {
  GenerationRequest request;
  read_fields(json::parse(body), "inner.", kFields, request);
  return request;
}

TEST(RequestFields, AreReadByTheirList) {
  const GenerationRequest request = read(R"({"n": 3, "seed": 7, "ignored": [], "unknown": {}})");
  EXPECT_EQ(request.num_choices, 3);
  EXPECT_EQ(request.options.seed, 7U);
  EXPECT_EQ(request.keys.at("seed"), "inner.seed");
  EXPECT_FALSE(read(R"({"seed": -1})").options.seed);
}

TEST(RequestFields, NameWhatIsWrongAsTheRequestDoes) {
  const auto expect_error = [](const std::string& body, const std::string& part) {
    try {
      (void)read(body);
      ADD_FAILURE() << body;
    } catch (const FieldError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
      EXPECT_THAT(error.field(), testing::StartsWith("inner."));
    }
  };
  expect_error(R"({"n": 10, "seed": 1})", "inner.n is \"10\"; expected a whole number from 1 to 9");
  expect_error(R"({"n": 1.5, "seed": 1})", "inner.n is");
  expect_error(R"({"n": 18446744073709551615, "seed": 1})", "inner.n is");
  expect_error(R"({"seed": "x"})", "inner.seed is");
  expect_error(R"({})", "inner.seed is missing; expected of sampling");
}

TEST(RequestFields, RefuseWhatAsksForSomething) {
  GenerationRequest request;
  for (const char* nothing : {"false", "0", "\"\"", "[]", "{}"}) {
    EXPECT_NO_THROW(refuse_field({"tools", json::parse(nothing)}, request)) << nothing;
  }
  for (const char* something : {"true", "1", "\"a\"", "[1]", "{\"a\": 1}"}) {
    EXPECT_THROW(refuse_field({"tools", json::parse(something)}, request), FieldError) << something;
  }
}

TEST(RequestFields, OfHintsAreListsOfNames) {
  constexpr HintNames kHints[] = {{"a bc", "left out"}, {"d", "left out: why"}};
  const std::vector<RequestField> fields = fields_of(kHints);
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[1].name, "bc");
  EXPECT_EQ(fields[2].help, "left out: why");
  GenerationRequest request;
  read_fields(json::parse(R"({"a": 0, "bc": 1, "d": "x"})"), "", fields, request);
  EXPECT_THAT(request.left_out, testing::ElementsAre("bc", "d"));
}

TEST(RequestFields, ThatAreNotHeededAreNamedInABoundedLineWhichCountsTheRest) {
  GenerationRequest request;
  leave_out("user", request);
  const auto named = [&](int count) {
    for (int i = 0; i < count; ++i) add_unknown(std::string(80, 'x') + std::to_string(i), request);
    return ignored_names(request);
  };
  EXPECT_THAT(named(2), testing::EndsWith("x1 (unknown)"));
  const std::string names = named(1'000);
  EXPECT_LT(names.size(), 4'200U);
  const auto shown = std::count(names.begin(), names.end(), '(');
  EXPECT_THAT(names, testing::AllOf(testing::StartsWith("user, xx"),
                                    testing::EndsWith(", and " + std::to_string(1'000 - shown) + " more")));
}

TEST(RequestFields, AreDescribedByTheirList) {
  const nlohmann::ordered_json schema = schema_of_fields(kFields);
  EXPECT_EQ(schema["properties"]["n"]["type"], "integer");
  EXPECT_EQ(schema["properties"]["n"]["description"], "choices");
  EXPECT_EQ(schema["required"], nlohmann::ordered_json::array({"seed"}));
}

}  // namespace
}  // namespace lacuna::request_fields_test
