#include "server/api_error.h"

#include <gmock/gmock.h>

namespace lacuna::api_error_test {
namespace {

TEST(ErrorJson, HasTheShapeThatOpenAiClientsRead) {
  EXPECT_EQ(error_json(404, "no such model"),
            nlohmann::ordered_json::parse(
                R"({"error":{"message":"no such model","type":"not_found_error","param":null,"code":404}})"));
}

TEST(ErrorJson, NamesTheField) {
  EXPECT_EQ(error_json(400, "n is 0", "n")["error"]["param"], "n");
  EXPECT_EQ(FieldError("n", "n is 0").field(), "n");
}

TEST(ErrorJson, NamesTheTypeOfEachStatus) {
  const auto type = [](int status) { return error_json(status, "")["error"]["type"]; };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "server_error");
  EXPECT_EQ(type(503), "unavailable_error");
}

TEST(ErrorJson, CanBeWrittenWhateverBytesTheMessageHolds) {
  EXPECT_NO_THROW((void)error_json(400, "bad \xff byte").dump());
}

}  // namespace
}  // namespace lacuna::api_error_test
