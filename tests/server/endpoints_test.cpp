#include "server/endpoints.h"

#include <gmock/gmock.h>

#include <algorithm>
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
      const bool loads = endpoint.dialect == &kOllamaChat || endpoint.dialect == &kOllamaGenerate;
      if (loads && body == "{}") continue;  // a request to load the model
      Call call = server.post_text(path, body);
      EXPECT_EQ(call.status(), 400) << path << " " << body.substr(0, 80);
      EXPECT_NO_THROW((void)call.json()) << path;
    }
  }
}

/// A body that is answered, of as few tokens as there can be.
json small_body(const std::string& path) {
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  if (path.starts_with("/v1/responses")) return {{"input", "Hi"}, {"max_output_tokens", 1}};
  if (path == "/api/generate") return {{"prompt", "Hi"}, {"options", {{"num_predict", 1}}}};
  if (path == "/api/chat") return {{"messages", messages}, {"options", {{"num_predict", 1}}}};
  if (path == "/completion") return {{"prompt", "Hi"}, {"n_predict", 1}};
  if (path == "/v1/completions") return {{"prompt", "Hi"}, {"max_tokens", 1}};
  if (path == "/v1/infill") return {{"input", {"a", {{"hole", 1}}}}};
  if (path == "/v1/decisions")
    return {{"input", "Hi"}, {"questions", {{{"type", "predicate"}, {"instructions", "Is it?"}}}}};
  if (path == "/v1/systemone") return {{"state", "Hi"}, {"questions", {{"a", {{"type", "noul"}}}}}};
  if (path == "/tokenize") return {{"content", "Hi"}};
  if (path == "/detokenize") return {{"tokens", {5}}};
  if (path == "/apply-template") return {{"messages", messages}};
  if (path == "/v1/reload") return {{"folder", "two"}};
  if (path == "/api/show") return {{"model", "m"}};
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

/// A value of a type that the schema of a field does not have.
json bad_value(const json& schema) {
  const bool takes_numbers = schema.contains("type") && schema["type"] == "number";
  return takes_numbers ? json("nonsense") : json(7.5);
}

/// The small body with another value of a field; of an infill, which names its canvas once, with that one.
json body_with(const std::string& path, const std::string& field, json value) {
  json body = small_body(path);
  const bool is_canvas = field == "tokens" || field == "diffusion_seed_canvas" || field == "input_prefix" ||
                         field == "input_suffix" || field == "mask" || field == "diffusion_pinned" ||
                         field == "prompt";
  if (path == "/v1/infill" && is_canvas) body.erase("input");
  if (field == "mask" || field == "diffusion_pinned") body["tokens"] = {5, 6};
  body[field] = std::move(value);
  return body;
}

/// Whether an error names a field, or a part of its value.
bool names_field(const json& reply, const std::string& field) {
  const json& error = reply.at("error");
  if (!error.is_object() || !error.contains("param")) {  // of Ollama and Anthropic
    return reply.dump().find(field) != std::string::npos;
  }
  const std::string param = error["param"].is_string() ? error["param"].get<std::string>() : "";
  return param == field || param.starts_with(field + ".") || param.starts_with(field + "[");
}

/// The names in X-Lacuna-Ignored.
std::set<std::string> names_in(const std::string& ignored) {
  std::set<std::string> names;
  for (size_t begin = 0; begin < ignored.size();) {
    const size_t end = std::min(ignored.find(", ", begin), ignored.size());
    names.insert(ignored.substr(begin, end - begin));
    begin = end + 2;
  }
  return names;
}

TEST(Endpoints, NameEveryHintAndEveryUnknownFieldThatChangesNothing) {
  RunningServer server("mini-llada");
  for (const Endpoint& endpoint : Endpoints::list()) {
    if (endpoint.dialect == nullptr) continue;
    const std::string path(endpoint.path);
    json body = small_body(path);
    EXPECT_EQ(server.post(path, body).ignored(), "") << path;
    body["tempratur"] = 0.5;
    std::set<std::string> expected = {"tempratur (unknown)"};
    for (const RequestField& field : endpoint.dialect->fields()) {
      if (field.read != leave_out_field) continue;
      body[std::string(field.name)] = {{"a", 1}};
      expected.insert(std::string(field.name));
      for (const ObjectFields& row : endpoint.dialect->objects) {
        if (row.path == field.name) expected.insert(std::string(field.name) + ".a (unknown)");
      }
    }
    EXPECT_EQ(names_in(server.post(path, body).ignored()), expected) << path;
  }
}

TEST(Endpoints, RefuseUnknownFieldsWhereTheyAreToBeStrict) {
  ServiceSettings settings;
  settings.refuses_unknown_fields = true;
  RunningServer server("mini-llada", {}, std::move(settings));
  json body = small_body("/v1/chat/completions");
  body["user"] = "u";  // a hint is no unknown field
  EXPECT_EQ(server.post("/v1/chat/completions", body).status(), 200);
  body["tempratur"] = 0.5;
  Call call = server.post("/v1/chat/completions", body);
  EXPECT_EQ(call.status(), 400);
  EXPECT_EQ(call.json()["error"]["param"], "tempratur");
}

TEST(Endpoints, CountTheTokensThatAnAnswerWouldRead) {
  RunningServer server("mini-llada");
  const json messages = {{{"role", "user"}, {"content", "Mia has 12 shells."}}};
  const json tools = {{{"name", "add"}, {"input_schema", {{"type", "object"}}}}};
  for (const json& rest : {json::object(), json{{"system", "Be brief."}}, json{{"tools", tools}}}) {
    json body = rest;
    body["messages"] = messages;
    const json count = server.post("/v1/messages/count_tokens", body).json();
    body["max_tokens"] = 1;
    EXPECT_EQ(count["input_tokens"], server.post("/v1/messages", body).json()["usage"]["input_tokens"])
        << rest;
  }
  const json body = {{"input", "Mia has 12 shells."}, {"max_output_tokens", 1}};
  EXPECT_EQ(server.post("/v1/responses/input_tokens", body).json()["input_tokens"],
            server.post("/v1/responses", body).json()["usage"]["input_tokens"]);
}

TEST(Endpoints, HaveErrorsInTheFormOfTheApiThatAPathBelongsTo) {
  RunningServer server("mini-llada");
  for (const char* path : {"/v1/messages/batches", "/v1/messages/count_tokens/x"}) {
    EXPECT_EQ(server.post(path, json::object()).status(), 404);
    EXPECT_EQ(server.post(path, json::object()).json()["error"]["type"], "not_found_error") << path;
  }
  EXPECT_TRUE(server.post("/api/copy", json::object()).json()["error"].is_string());
  EXPECT_TRUE(server.post("/v1/audio", json::object()).json()["error"].is_object());
  EXPECT_EQ(server.get("/v1/messages").status(), 405);
  EXPECT_EQ(server.get("/v1/messages").json()["type"], "error");
  const json embeddings = server.post("/v1/embeddings", {{"input", "a"}}).json()["error"];
  EXPECT_THAT(embeddings["message"].get<std::string>(), testing::HasSubstr("no embeddings"));
  EXPECT_EQ(embeddings["param"], "model");
  EXPECT_TRUE(server.post("/api/embed", {{"input", "a"}}).json()["error"].is_string());
}

TEST(Endpoints, NameEveryDocumentedFieldWhoseValueHasAnotherType) {
  RunningServer server("mini-llada");
  const json api = server.get("/openapi.json").json();
  for (const Endpoint& endpoint : Endpoints::list()) {
    if (endpoint.method != "POST") continue;
    const std::string path(endpoint.path);
    const auto is_ignored = [&](const std::string& name) {
      if (endpoint.dialect == nullptr) return false;
      const RequestFields fields = endpoint.dialect->fields();
      const auto found = std::find_if(fields.begin(), fields.end(),
                                      [&](const RequestField& field) { return field.name == name; });
      return found != fields.end() && found->read == nullptr;
    };
    const json& content = api["paths"][path]["post"]["requestBody"]["content"]["application/json"];
    for (const auto& [name, schema] : content["schema"]["properties"].items()) {
      Call call = server.post(path, body_with(path, name, bad_value(schema)));
      if (call.status() == 200 && is_ignored(name)) continue;
      if (call.status() == 200 && names_in(call.ignored()).count(name) == 1) continue;
      EXPECT_EQ(call.status(), 400) << path << " " << name;
      if (call.status() == 400) {
        EXPECT_TRUE(names_field(call.json(), name)) << path << " " << name << " " << call.body();
      }
    }
  }
}

TEST(Endpoints, NameEveryDocumentedMemberOfLacunaWhoseValueHasAnotherType) {
  RunningServer server("mini-llada");
  const json api = server.get("/openapi.json").json();
  for (const auto& [name, schema] : api["components"]["schemas"]["Lacuna"]["properties"].items()) {
    const std::string path = "/v1/chat/completions";
    Call call = server.post(path, body_with(path, "lacuna", {{name, bad_value(schema)}}));
    EXPECT_EQ(call.status(), 400) << name;
    EXPECT_EQ(call.json()["error"]["param"], "lacuna." + name) << call.body();
  }
}

TEST(Endpoints, ThatGenerateNothingNameUnknownFieldsAsWell) {
  struct Case {
    std::string path;
    json body;
    std::string unknown = "contnet";
  };
  const json turns = json::array({{{"role", "user"}, {"content", "a"}}});
  const json predicate{{"type", "predicate"}, {"instructions", "a"}};
  json misspelt = predicate;
  misspelt["cirteria"] = 1;
  const Case kCases[] = {
      {"/tokenize", {{"content", "a"}, {"contnet", "b"}}},
      {"/detokenize", {{"tokens", {5}}, {"contnet", "b"}}},
      {"/apply-template", {{"messages", turns}, {"contnet", "b"}}},
      {"/v1/decisions", {{"input", "a"}, {"questions", {predicate}}, {"contnet", "b"}}},
      {"/v1/decisions", {{"input", "a"}, {"questions", {misspelt}}}, "questions[0].cirteria"},
      {"/v1/systemone", {{"state", "a"}, {"questions", {{"q", {{"type", "noul"}}}}}, {"contnet", "b"}}},
      {"/v1/messages/count_tokens", {{"messages", turns}, {"contnet", "b"}}},
      {"/v1/responses/input_tokens", {{"input", "a"}, {"contnet", "b"}}},
      {"/api/show", {{"model", "mini-llada"}, {"contnet", "b"}}},
  };
  ServiceSettings strict;
  strict.refuses_unknown_fields = true;
  RunningServer server("mini-llada"), strict_server("mini-llada", {}, std::move(strict));
  for (const Case& each : kCases) {
    Call call = server.post(each.path, each.body);
    EXPECT_EQ(call.status(), 200) << each.path << call.body();
    EXPECT_EQ(call.ignored(), each.unknown + " (unknown)") << each.path;
    Call refused = strict_server.post(each.path, each.body);
    EXPECT_EQ(refused.status(), 400) << each.path << refused.body();
    EXPECT_THAT(refused.body(), HasSubstr("--strict-fields")) << each.path;
    json known = each.body;
    known.erase("contnet");
    if (each.unknown == "contnet") {
      EXPECT_EQ(strict_server.post(each.path, known).status(), 200) << each.path;
    }
  }
  EXPECT_EQ(server.post("/tokenize", {{"content", "a"}, {"add_special", true}, {"keep_alive", 5}}).ignored(),
            "add_special, keep_alive");
  EXPECT_EQ(server.post("/api/show", {{"model", "a"}, {"name", "b"}}).status(), 400);
}

TEST(Endpoints, NameTheFieldWhoseValueCannotBeUsed) {
  struct Case {
    std::string path, body, field;
  };
  const Case kCases[] = {
      {"/v1/chat/completions", R"({"messages": [{"role": 5, "content": "a"}]})", "messages"},
      {"/apply-template", R"({"messages": [{"role": 5, "content": "a"}]})", "messages"},
      {"/apply-template", R"({"messages": [{"role": "user"}], "chat_template_kwargs": {"tools": 1}})",
       "chat_template_kwargs"},
      {"/v1/completions", R"({"prompt": [5, 100000]})", "prompt"},
      {"/v1/completions", R"({"prompt": "a", "max_tokens": 0})", "max_tokens"},
      {"/v1/completions", R"({"prompt": ["a", "b"], "n": 100})", "n"},
      {"/v1/completions", R"({"prompt": ["a", "b"], "suffix": "c"})", "suffix"},
      {"/v1/completions", R"({"prompt": "", "max_tokens": 0, "echo": true, "logprobs": 0})", "prompt"},
      {"/v1/infill", R"({"input": ["a"]})", "input"},
      {"/v1/infill", R"({"tokens": [5, 100000, null]})", "tokens"},
      {"/v1/infill", R"({"input": ["a", {"hole": 0}]})", "hole"},
      {"/v1/infill", R"({"input": ["a", {"hole": 1}], "stop": ["b"]})", "stop"},
      {"/v1/infill", R"({"tokens": [5], "mask": [3]})", "mask"},
      {"/v1/infill", R"({"input_prefix": "a", "gen_length": 5000})", "gen_length"},
      {"/v1/decisions", R"({"questions": [{"type": "predicate", "instructions": "a"}]})", "input"},
      {"/v1/decisions", R"({"input": "a", "questions": [{"type": "noul", "instructions": "a"}]})",
       "questions[0]"},
      {"/v1/decisions", R"({"input": "a", "questions": []})", "questions"},
      {"/v1/decisions", R"({"input": [{"role": "x", "content": "a"}], "questions": [{"type": "predicate",
       "instructions": "a"}]})",
       "input"},
      {"/v1/decisions", R"({"input": "a", "questions": [{"type": "predicate", "instructions": "a"}],
       "lacuna": {"draws": 0}})",
       "lacuna.draws"},
      {"/v1/decisions", R"({"input": "a", "questions": [{"type": "predicate", "instructions": "a"}],
       "lacuna": {"steps": 2}})",
       "lacuna.steps"},
      {"/v1/systemone", R"({"questions": {"a": {"type": "noul"}}})", "state"},
      {"/v1/systemone", R"({"state": "b", "questions": {"a": {"type": "box"}}})", "questions[\"a\"]"},
      {"/v1/systemone", R"({"state": "b", "assets": ["c"], "questions": {"a": {"type": "noul"}}})", "assets"},
      {"/detokenize", R"({"tokens": [-1]})", "tokens"},
      {"/tokenize", R"({})", "content"},
  };
  RunningServer server("mini-llada");
  for (const Case& each : kCases) {
    Call call = server.post_text(each.path, each.body);
    EXPECT_EQ(call.status(), 400) << each.path << " " << each.body;
    EXPECT_EQ(call.json()["error"]["param"], each.field) << call.body();
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
