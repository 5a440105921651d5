#include "server/openapi.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "options/options.h"
#include "running_server.h"

namespace lacuna::openapi_test {
namespace {

using nlohmann::json;

TEST(DescribeApi, HasEveryEndpointWithItsFields) {
  const json api = json::parse(describe_api(Endpoints::list(), "1.2"));
  EXPECT_EQ(api["info"]["version"], "1.2");
  for (const Endpoint& endpoint : Endpoints::list()) {
    const std::string path(endpoint.path);
    const json& described = api["paths"][path][endpoint.method == "GET" ? "get" : "post"];
    EXPECT_TRUE(described.is_object()) << path;
    EXPECT_EQ(described["summary"], endpoint.summary);
    const RequestFields fields = endpoint.dialect != nullptr ? endpoint.dialect->fields() : endpoint.fields;
    EXPECT_EQ(described.contains("requestBody"), endpoint.method == "POST") << path;
    for (const RequestField& field : fields) {
      const json& schema = described["requestBody"]["content"]["application/json"]["schema"];
      EXPECT_TRUE(schema["properties"].contains(std::string(field.name))) << path << " " << field.name;
    }
  }
  const json& chat = api["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]
                        ["application/json"]["schema"]["properties"];
  EXPECT_EQ(chat["max_tokens"]["type"], "integer");
  EXPECT_TRUE(chat["block_length"].is_object());
  EXPECT_FALSE(chat.contains("lock")) << "settings of this name stand in lacuna alone";
}

TEST(DescribeApi, HasEverySetting) {
  const json api = json::parse(describe_api(Endpoints::list(), "1.2"));
  const json& own = api["components"]["schemas"]["Lacuna"]["properties"];
  GenerationOptions options;
  visit_options(options, [&](const Setting& setting, auto&) {
    EXPECT_TRUE(own.contains(std::string(setting.name))) << setting.name;
  });
  EXPECT_TRUE(own.contains("step_map"));
}

TEST(DescribeApi, IsServedToAnyone) {
  ServiceSettings settings;
  settings.access.keys = {"secret"};
  RunningServer server("mini-llada", {}, std::move(settings));
  EXPECT_EQ(server.get("/openapi.json").json()["openapi"], "3.1.0");
}

}  // namespace
}  // namespace lacuna::openapi_test
