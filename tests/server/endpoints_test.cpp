#include "server/endpoints.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "running_server.h"

namespace lacuna::endpoints_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(PercentDecoded, DecodesPairsOfDigitsAlone) {
  EXPECT_EQ(percent_decoded("org%2Fname%20x"), "org/name x");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%zz%4"), "%zz%4");
}

TEST(QueryValue, FindsAKey) {
  EXPECT_EQ(query_value("a=1&model=org%2Fname&b", "model"), "org/name");
  EXPECT_EQ(query_value("models=1", "model"), std::nullopt);
  EXPECT_EQ(query_value("", "model"), std::nullopt);
}

TEST(Endpoints, HaveEachPathOnce) {
  std::set<std::string> seen;
  for (const Endpoint& endpoint : Endpoints::list()) {
    for (const std::string_view path : {endpoint.path, endpoint.alias}) {
      if (!path.empty()) {
        EXPECT_TRUE(seen.emplace(path).second) << path;
      }
    }
  }
}

TEST(Endpoints, SayWhichMethodAPathTakes) {
  RunningServer server("mini-llada");
  for (const Endpoint& endpoint : Endpoints::list()) {
    if (endpoint.answer == nullptr) continue;
    HttpRequest request{"PUT", std::string(endpoint.path), "", ""};
    Call call(server.service(), request);
    EXPECT_EQ(call.status(), 405) << endpoint.path;
    EXPECT_EQ(call.head().allow, endpoint.method);
  }
}

/// Bodies that no client of good will sends.
std::vector<std::string> hostile_bodies() {
  const std::string deep(100'000, '[');
  const std::string objects = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += R"({"a":)";
    return text;
  }();
  return {"",
          "null",
          "3",
          "[]",
          "\"text\"",
          "{",
          "{}",
          "{\"a\": }",
          deep,
          objects,
          std::string("\0\0", 2),
          "\xff\xfe{}",
          "{\"prompt\": \"\xff\", \"input\": \"\xff\", \"messages\": \"\xff\"}",
          R"({"model": "a", "model": "b"})"};
}

/// Values that stand in the place of every field.
std::vector<std::string> hostile_values() {
  return {"-1",
          "1e400",
          "-1e400",
          "NaN",
          "-9223372036854775809",
          "18446744073709551616",
          "99999999999999999999999999",
          "true",
          "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
          R"({"type": {"type": 3}})",
          R"([null, 3, {"role": 3, "content": [3, {"type": "text"}, {"type": "image", "text": 3}]}])",
          R"([{"role": "user", "content": {"a": 1}}])",
          R"([{"role": [], "content": "a"}])",
          "\"\\ud800\"",
          "\"\""};
}

TEST(Endpoints, AnswerHostileBodiesWithAnError) {
  RunningServer server("mini-llada");
  for (const Endpoint& endpoint : Endpoints::list()) {
    if (endpoint.method != "POST") continue;
    const std::string path(endpoint.path);
    for (const std::string& body : hostile_bodies()) {
      Call call = server.post_text(path, body);
      EXPECT_EQ(call.status(), 400) << path << " " << body.substr(0, 80);
      EXPECT_NO_THROW((void)call.json()) << path;
    }
  }
}

/// A body that is answered, of as few tokens as there can be.
json small_body(const std::string& path) {
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  if (path == "/v1/responses") return {{"input", "Hi"}, {"max_output_tokens", 1}};
  if (path == "/api/generate") return {{"prompt", "Hi"}, {"options", {{"num_predict", 1}}}};
  if (path == "/api/chat") return {{"messages", messages}, {"options", {{"num_predict", 1}}}};
  if (path == "/completion") return {{"prompt", "Hi"}, {"n_predict", 1}};
  if (path == "/v1/completions") return {{"prompt", "Hi"}, {"max_tokens", 1}};
  if (path == "/v1/infill") return {{"input", {"a", {{"hole", 1}}}}};
  return {{"messages", messages}, {"max_tokens", 1}};
}

TEST(Endpoints, AnswerHostileFieldsOrRefuseThem) {
  RunningServer server("mini-llada");
  for (const Endpoint& endpoint : Endpoints::list()) {
    if (endpoint.dialect == nullptr) continue;
    const std::string path(endpoint.path);
    ASSERT_EQ(server.post(path, small_body(path)).status(), 200) << path;
    for (const RequestField& field : endpoint.dialect->fields()) {
      json rest = small_body(path);
      rest.erase(std::string(field.name));
      for (const std::string& value : hostile_values()) {
        std::string body = rest.dump();
        body.insert(1, "\"" + std::string(field.name) + "\": " + value + (rest.empty() ? "" : ", "));
        Call call = server.post_text(path, body);
        EXPECT_TRUE(call.status() == 200 || call.status() == 400) << path << " " << call.status() << body;
        if (call.status() == 400) {
          EXPECT_NO_THROW((void)call.json()) << body;
        }
      }
    }
  }
}

TEST(Endpoints, ReplyToSmallRequests) {
  RunningServer server("mini-llada");
  const json props = server.get("/props").json();
  EXPECT_EQ(props["model"], "mini-llada");
  EXPECT_EQ(props["total_slots"], 32);
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["meta"]["loaded"], true);
}

/// A server of one model whose weights may be replaced by those of some names.
class ReloadingServer {
 public:
  ReloadingServer()
      : opened_(std::make_shared<OpenedModel>("mini-llada", find_model(zoo_folder("mini-llada").string()))),
        pool_({model()}, PoolLimits()),
        service_([] {
          ServiceSettings settings;
          settings.version = "test";
          return settings;
        }()) {
    pool_.load(0);
    service_.start(pool_);
  }

  Call post(const std::string& path, const std::string& body) {
    return Call(service_, {"POST", path, "", body});
  }
  std::string fingerprint() {
    return post("/v1/completions", R"({"prompt": "Mia", "max_tokens": 2})").json()["system_fingerprint"];
  }

 private:
  PoolModel::Load load(const std::string& version) const {
    return [opened = opened_, version]() -> std::shared_ptr<InferenceSession> {
      if (version == "broken") throw InputError("model.safetensors ends too soon");
      SessionOptions options;
      options.threads = 1;
      InferenceSession::Parts parts = InferenceSession::load(opened, options)->parts();
      parts.version = version;
      return std::make_shared<InferenceSession>(opened, std::move(parts), SchedulerLimits());
    };
  }
  PoolModel model() const {
    PoolModel model{"m", opened_, 1, load("one")};
    model.other_weights = [this](const std::string& folder) {
      if (folder != "two" && folder != "broken") throw InputError("there is no \"{}\"", folder);
      return load(folder);
    };
    return model;
  }

  std::shared_ptr<const OpenedModel> opened_;
  ModelPool pool_;
  Service service_;
};

TEST(Reload, GivesNewRequestsTheNewWeightsAndNamesThem) {
  ReloadingServer server;
  EXPECT_EQ(server.fingerprint(), "lacuna-test-one");
  Call call = server.post("/v1/reload", R"({"folder": "two"})");
  EXPECT_EQ(call.json(), (json{{"model", "m"}, {"weights", "two"}}));
  EXPECT_EQ(server.fingerprint(), "lacuna-test-two");
}

TEST(Reload, KeepsTheWeightsWhereOthersCannotBeUsed) {
  ReloadingServer server;
  for (const std::string value :
       {R"("broken")", R"("three")", R"("")", "3", "null", R"(["two"])", R"("../two")"}) {
    Call call = server.post("/v1/reload", R"({"folder": )" + value + "}");
    EXPECT_EQ(call.status(), 400) << value;
    EXPECT_EQ(call.json()["error"]["param"], "folder") << value;
  }
  EXPECT_THAT(server.post("/v1/reload", R"({"folder": "broken"})").body(), HasSubstr("ends too soon"));
  EXPECT_EQ(server.fingerprint(), "lacuna-test-one");
}

TEST(Reload, IsOffUnlessTheServerWasToldOtherwise) {
  RunningServer server("mini-llada");
  Call call = server.post("/v1/reload", {{"folder", "two"}});
  EXPECT_EQ(call.status(), 403);
  EXPECT_THAT(call.body(), HasSubstr("--reload-from"));
}

}  // namespace
}  // namespace lacuna::endpoints_test
