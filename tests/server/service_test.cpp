#include "server/service.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/result.h"
#include "kernels/dispatch.h"
#include "options/choose.h"
#include "options/names.h"
#include "running_server.h"
#include "server/api_request.h"
#include "server/settings.h"

namespace lacuna::service_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kStory =
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?";

/// Result of `lacuna run` for the same settings.
GenerationResult run_alone(const RunningServer& server, const std::vector<TokenId>& prompt,
                           const GenerationOptions& options) {
  ThreadPool threads(1);
  const auto model = Model::load(zoo_folder("mini-llada"), DType::kF32, threads);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), options, prompt));
  engine.run();
  return make_result(engine.decoder(0), engine.statistics(0), model->config(), &server.tokenizer(), 0);
}

struct Wish {
  json body;
  GenerationOptions options;
};

/// Requests of every method that one masked model knows.
std::vector<Wish> mixed_wishes() {
  std::vector<Wish> wishes;
  const auto add = [&](int32_t length, const json& settings, const auto& set) {
    Wish wish;
    wish.body = {{"max_tokens", length}, {"lacuna", settings}};
    wish.options.gen_length = length;
    set(wish.options);
    wishes.push_back(std::move(wish));
  };
  add(16, json::object(), [](GenerationOptions&) {});
  add(32, {{"block_length", 8}, {"cache", "dual"}}, [](GenerationOptions& options) {
    options.block_length = 8;
    options.cache = "dual";
  });
  add(24, {{"block_length", 8}, {"unmask", "threshold=0.9"}}, [](GenerationOptions& options) {
    options.block_length = 8;
    options.unmask = "threshold=0.9";
  });
  add(8, {{"lock", "eps=5e-3"}}, [](GenerationOptions& options) { options.lock = "eps=5e-3"; });
  add(32, {{"unmask", "random"}, {"steps", 8}}, [](GenerationOptions& options) {
    options.unmask = "random";
    options.steps = 8;
  });
  add(16, {{"temperature", 0.8}, {"seed", 3}}, [](GenerationOptions& options) {
    options.temperature = 0.8;
    options.seed = 3;
  });
  return wishes;
}

TEST(Service, GivesEachOfManyMixedRequestsTheTextItWouldHaveAlone) {
  SchedulerLimits limits;
  limits.max_running = 4;
  limits.pass_rows = 100;
  RunningServer server("mini-llada", limits);
  const std::vector<TokenId> prompt = server.tokenizer().encode(kStory);
  std::vector<Wish> wishes = mixed_wishes();
  std::vector<std::string> alone;
  for (Wish& wish : wishes) {
    wish.body["prompt"] = prompt;
    alone.push_back(run_alone(server, prompt, wish.options).text);
  }
  std::vector<Call> calls;
  std::vector<Call> cancelled;
  for (int round = 0; round < 2; ++round) {
    for (Wish& wish : wishes) {
      wish.body["stream"] = round == 1;
      calls.push_back(server.post("/v1/completions", wish.body));
      cancelled.push_back(server.post("/v1/completions", wish.body));
    }
  }
  for (size_t i = 0; i < cancelled.size(); i += 2) cancelled[i].hang_up();
  for (size_t i = 0; i < calls.size(); ++i) {
    std::string text;
    if (i / wishes.size() == 1) {
      for (const json& chunk : calls[i].chunks()) {
        for (const json& choice : chunk["choices"]) text += choice["text"].get<std::string>();
      }
    } else {
      const json reply = calls[i].json();
      text = reply["choices"][0]["text"].get<std::string>();
      EXPECT_EQ(reply["usage"]["prompt_tokens"], prompt.size());
      EXPECT_GT(reply["timings"]["predicted_ms"], 0);
    }
    EXPECT_EQ(text, alone[i % wishes.size()]) << i;
  }
}

TEST(Service, AnswersChats) {
  RunningServer server("mini-llada");
  const json body = {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 32}};
  const json reply = server.post("/v1/chat/completions", body).json();
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_EQ(reply["choices"][0]["message"]["role"], "assistant");
  const auto text = reply["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_THAT(text, HasSubstr("answer"));
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(reply["usage"]["total_tokens"],
            reply["usage"]["prompt_tokens"].get<int>() + reply["usage"]["completion_tokens"].get<int>());

  json stream_body = body;
  stream_body["stream"] = true;
  stream_body["stream_options"] = {{"include_usage", true}};
  Call call = server.post("/v1/chat/completions", stream_body);
  std::string streamed;
  const std::vector<json> chunks = call.chunks();
  EXPECT_EQ(chunks.front()["choices"][0]["delta"]["role"], "assistant");
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    for (const json& choice : chunk["choices"]) streamed += choice["delta"].value("content", "");
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(chunks[chunks.size() - 2]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"], reply["usage"]);
  EXPECT_THAT(call.body(), HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(call.head().content_type, "text/event-stream");
}

TEST(Service, AnswersInTheFormThatIsAskedFor) {
  const std::string schema =
      R"({"type": "object", "properties": {"shells": {"type": "integer", "minimum": 0, "maximum": 99},
          "owner": {"enum": ["Mia", "Tom"]}}, "required": ["shells", "owner"], "additionalProperties": false})";
  for (const char* model :
       {"mini-llada", "mini-dream", "mini-sdar", "mini-llada2", "mini-qwen", "mini-gidd", "mini-fast-dllm"}) {
    RunningServer server(model);
    Call call = server.post_text("/v1/chat/completions", R"({"messages": [{"role": "user", "content":
        "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?"}], "max_tokens": 64,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": )" +
                                                             schema + "}}}");
    const json reply = call.json();
    ASSERT_EQ(call.head().status, 200) << reply;
    const json value = json::parse(reply["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_TRUE(value["shells"].is_number_integer()) << model;
    EXPECT_TRUE(value["owner"] == "Mia" || value["owner"] == "Tom") << model;
  }
}

TEST(Service, RefusesFormsThatNoAnswerCanHave) {
  RunningServer server("mini-llada");
  const auto error = [&](const std::string& rest) {
    Call call = server.post_text("/v1/completions", R"({"prompt": "a", "max_tokens": 8, )" + rest + "}");
    std::string body = call.body();
    EXPECT_EQ(call.head().status, 400) << body;
    return body;
  };
  EXPECT_THAT(error(R"("regex": "[0-9]{64}")"), HasSubstr("max_tokens 8 is too short"));
  EXPECT_THAT(error(R"("guided_json": {"$dynamicRef": "#a"})"),
              testing::AllOf(HasSubstr("guided_json: "), HasSubstr("#/$dynamicRef")));
  EXPECT_THAT(error(R"("regex": "(?=a)b")"), HasSubstr("regex"));  // no text matches
  EXPECT_THAT(error(R"("grammar": "root ::= a")"),
              HasSubstr("grammar: line 1: the rule \\\"a\\\" is not defined"));
}

TEST(Service, EndsBeforeAStopText) {
  RunningServer server("mini-llada");
  json body = {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 32}};
  const json whole = server.post("/v1/chat/completions", body).json();
  body["stop"] = {"answer"};
  const json cut = server.post("/v1/chat/completions", body).json();
  const auto text = whole["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_EQ(cut["choices"][0]["message"]["content"], text.substr(0, text.find("answer")));
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "stop");
}

TEST(Service, GivesChoicesOfTheirOwnSeeds) {
  RunningServer server("mini-llada");
  const json body = {{"prompt", kStory}, {"max_tokens", 8}, {"temperature", 20}, {"seed", 5}, {"n", 3}};
  const json reply = server.post("/v1/completions", body).json();
  ASSERT_EQ(reply["choices"].size(), 3U);
  json other = body;
  other["n"] = 1;
  other["seed"] = 7;
  EXPECT_EQ(server.post("/v1/completions", other).json()["choices"][0]["text"], reply["choices"][2]["text"]);
  EXPECT_NE(reply["choices"][0]["lacuna"]["tokens"], reply["choices"][2]["lacuna"]["tokens"]);
}

/// Applies events to the canvas of the first, as a client would.
std::vector<TokenId> replay(const std::vector<json>& events) {
  std::vector<TokenId> canvas = events.front()["canvas"].get<std::vector<TokenId>>();
  const auto mask = events.front()["mask"].get<TokenId>();
  for (size_t i = 1; i < events.size(); ++i) {
    const json& event = events[i];
    if (event.contains("length")) canvas.resize(event["length"].get<size_t>(), mask);
    for (const char* kind : {"set", "edit"}) {
      for (const json& change : event.value(kind, json::array())) {
        canvas.at(change[0].get<size_t>()) = change[1].get<TokenId>();
      }
    }
    for (const json& position : event.value("remask", json::array()))
      canvas.at(position.get<size_t>()) = mask;
  }
  return canvas;
}

void check_events(const std::string& model, const json& settings) {
  RunningServer server(model);
  json own = settings;
  own["events"] = true;
  const json body = {{"prompt", kStory}, {"max_tokens", 16}, {"stream", true}, {"lacuna", own}};
  std::vector<json> events;
  int64_t rows = 0;
  int32_t final = 0;
  json stats;
  for (const json& chunk : server.post("/v1/completions", body).chunks()) {
    const json lacuna = chunk.value("lacuna", json::object());
    if (lacuna.contains("event")) events.push_back(lacuna["event"]);
    if (lacuna.contains("stats")) stats = lacuna["stats"];
  }
  ASSERT_GT(events.size(), 2U) << model;
  for (const json& event : events) {
    EXPECT_EQ(event["v"], 2);
    if (event["type"] == "start") continue;
    rows += event["rows"].get<int64_t>();
    EXPECT_GE(event["final"], final);
    final = event["final"].get<int32_t>();
    EXPECT_LE(event["block"][0], event["block"][1]);
  }
  EXPECT_EQ(stats["rows"], rows);
  json plain = body;
  plain["stream"] = false;
  const json reply = server.post("/v1/completions", plain).json();
  const std::vector<TokenId> canvas = replay(events);
  const auto answer = reply["choices"][0]["lacuna"]["tokens"].get<std::vector<TokenId>>();
  const auto prompt = events.front()["prompt"].get<size_t>();
  ASSERT_GE(canvas.size(), prompt + answer.size()) << model;
  EXPECT_TRUE(std::equal(answer.begin(), answer.end(), canvas.begin() + static_cast<std::ptrdiff_t>(prompt)))
      << model;
  EXPECT_EQ(replay(reply["choices"][0]["lacuna"]["events"].get<std::vector<json>>()), canvas) << model;
}

TEST(Service, TellsEachStepSoThatItCanBeReplayed) {
  check_events("mini-llada", {{"block_length", 8}, {"lock", "eps=5e-3"}});
  check_events("mini-gidd", {{"block_length", 8}});
  check_events("mini-qwen", json::object());
  check_events("mini-refusion", json::object());
  check_events("mini-sdar", json::object());
}

TEST(Service, FillsHoles) {
  RunningServer server("mini-llada");
  const json body = {
      {"input", {"Mia has ", {{"hole", 2}}, " shells. She <|mdm_mask|> ", {{"hole", 3}}, "."}}};
  const json reply = server.post("/v1/infill", body).json();
  const auto text = reply["choices"][0]["text"].get<std::string>();
  EXPECT_THAT(text, testing::StartsWith("Mia has "));
  EXPECT_THAT(text, HasSubstr(" shells. She <|mdm_mask|> "));  // text, however it looks
  EXPECT_THAT(text, testing::EndsWith("."));
  EXPECT_EQ(reply["usage"]["completion_tokens"], 5);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");

  json stream = body;
  stream["stream"] = true;
  std::string streamed;
  for (const json& chunk : server.post("/v1/infill", stream).chunks()) {
    for (const json& choice : chunk["choices"]) streamed += choice["text"].get<std::string>();
  }
  EXPECT_EQ(streamed, text);

  const std::vector<TokenId> ids = server.tokenizer().encode(kStory);
  json tokens = ids;
  tokens[3] = nullptr;
  tokens[9] = nullptr;
  const json filled = server.post("/v1/infill", {{"tokens", tokens}}).json();
  EXPECT_EQ(filled["usage"]["completion_tokens"], 2);
  EXPECT_EQ(filled["usage"]["prompt_tokens"], ids.size() - 2);
}

TEST(Service, TriesTheLengthsOfABoundedHole) {
  RunningServer server("mini-llada");
  const auto ask = [&](const json& hole) {
    return server.post("/v1/infill", {{"input", {"Mia has ", {{"hole", hole}}, " shells."}}}).json();
  };
  const json best = ask({{"min", 1}, {"max", 3}});
  std::vector<std::string> each;
  for (int size = 1; size <= 3; ++size) each.push_back(ask(size)["choices"][0]["text"].get<std::string>());
  EXPECT_THAT(each, testing::Contains(best["choices"][0]["text"].get<std::string>()));
  EXPECT_EQ(ask({{"min", 1}, {"max", 100}})["error"]["code"], 400);
}

TEST(Service, SaysWhatLogprobsMean) {
  RunningServer server("mini-llada");
  const json reply =
      server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 8}, {"logprobs", 1}}).json();
  const json& logprobs = reply["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), logprobs["token_logprobs"].size());
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i], 0);
    EXPECT_GE(logprobs["steps"][i], 0);
  }
  const json refused =
      server
          .post("/v1/completions", {{"prompt", kStory}, {"logprobs", 1}, {"lacuna", {{"unmask", "margin"}}}})
          .json();
  EXPECT_THAT(refused["error"]["message"].get<std::string>(), HasSubstr("logprobs"));
}

TEST(Service, KnowsThatAPresetMeasuresProbabilities) {
  RunningServer server("mini-dream");
  const auto status = [&](const json& settings) {
    const json body = {{"prompt", kStory}, {"max_tokens", 8}, {"logprobs", 1}, {"lacuna", settings}};
    return server.post("/v1/completions", body).status();
  };
  EXPECT_EQ(status({{"steps", 8}}), 400) << "with a schedule, Dream's own rule, entropy, measures none";
  for (const char* preset : {"exact", "balanced", "fast"}) EXPECT_EQ(status({{"preset", preset}}), 200);
  EXPECT_EQ(status(json::object()), 200) << "the model's own rule measures probabilities";
  const json body = {{"prompt", kStory}, {"logprobs", 1}, {"steps", 8}, {"lacuna", {{"preset", "balanced"}}}};
  EXPECT_EQ(server.post("/v1/completions", body).json()["error"]["message"],
            "logprobs: lacuna.unmask entropy measures no probability; expected one that does, such as "
            "low-confidence or maskgit");
}

TEST(Service, ScoresPromptsOfAnAutoregressiveModel) {
  RunningServer server("mini-qwen");
  const json body = {{"prompt", kStory}, {"max_tokens", 1}, {"logprobs", 1}, {"echo", true}};
  const json reply = server.post("/v1/completions", body).json();
  const json& logprobs = reply["choices"][0]["logprobs"];
  const size_t size = server.tokenizer().encode(kStory).size();
  ASSERT_EQ(logprobs["tokens"].size(), size + 1);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  for (size_t i = 1; i < size; ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i], 0);
    EXPECT_FALSE(logprobs["top_logprobs"][i].empty());
  }
  EXPECT_THAT(reply["choices"][0]["text"].get<std::string>(), testing::StartsWith(kStory));
  json alone = body;
  alone["max_tokens"] = 0;
  const json scores = server.post("/v1/completions", alone).json();
  EXPECT_EQ(scores["choices"][0]["text"], kStory);
  EXPECT_EQ(scores["choices"][0]["logprobs"]["token_logprobs"].size(), size);
  EXPECT_EQ(scores["choices"][0]["logprobs"]["token_logprobs"][size - 1],
            logprobs["token_logprobs"][size - 1]);
}

TEST(Service, ScoresPromptsOfAMaskedModel) {
  RunningServer server("mini-llada");
  const json body = {{"prompt", "Mia has 12 shells."}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}};
  const auto scores = [&](const json& own) {
    json request = body;
    request["lacuna"] = own;
    return server.post("/v1/completions", request).json()["choices"][0]["logprobs"]["token_logprobs"];
  };
  const json all = scores(json::object());
  EXPECT_TRUE(all[0].is_null());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i], 0);
  const json rest = scores({{"given_tokens", 3}});
  EXPECT_TRUE(rest[2].is_null());
  for (size_t i = 3; i < all.size(); ++i) EXPECT_EQ(rest[i], all[i]);
  const json drawn = scores({{"given_tokens", 3}, {"likelihood_draws", 8}});
  EXPECT_EQ(drawn, scores({{"given_tokens", 3}, {"likelihood_draws", 8}}));
  EXPECT_NE(drawn, rest);

  const auto message = [&](json request, const json& own) {
    request["lacuna"] = own;
    return server.post("/v1/completions", request).json()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message(body, {{"given_tokens", 900}}), HasSubstr("900 are given"));
  EXPECT_THAT(message(body, {{"likelihood_draws", 0}}), HasSubstr("lacuna.likelihood_draws"));
  EXPECT_THAT(message({{"prompt", "Mia"}}, {{"likelihood_draws", 8}}), HasSubstr("no effect here"));
  RunningServer blocks("mini-sdar");
  EXPECT_THAT(blocks.post("/v1/completions", body).json()["error"]["message"].get<std::string>(),
              HasSubstr("neither"));
}

TEST(Service, ListsWhatElseEachPositionMightHaveGot) {
  for (const char* model : {"mini-llada", "mini-sdar", "mini-qwen"}) {
    RunningServer server(model);
    json body = {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 16}};
    const json plain = server.post("/v1/chat/completions", body).json();
    body["logprobs"] = true;
    body["top_logprobs"] = 3;
    const json reply = server.post("/v1/chat/completions", body).json();
    EXPECT_EQ(reply["choices"][0]["message"], plain["choices"][0]["message"]) << "they change no answer";
    const json& content = reply["choices"][0]["logprobs"]["content"];
    ASSERT_FALSE(content.empty()) << model;
    for (const json& token : content) {
      ASSERT_EQ(token["top_logprobs"].size(), 3U) << token;
      EXPECT_EQ(token["top_logprobs"][0]["id"], token["id"]) << "the likeliest is what is written";
      EXPECT_NEAR(token["top_logprobs"][0]["logprob"].get<double>(), token["logprob"].get<double>(), 1e-5);
      EXPECT_GE(token["top_logprobs"][1]["logprob"], token["top_logprobs"][2]["logprob"]);
      EXPECT_TRUE(token["bytes"].is_array());
    }
    const json completion =
        server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 8}, {"logprobs", 5}}).json();
    for (const json& top : completion["choices"][0]["logprobs"]["top_logprobs"]) EXPECT_GE(top.size(), 4U);
  }
}

TEST(Service, RefusesAlternativesByTheFieldThatAsksForThem) {
  RunningServer server("mini-llada");
  const auto message = [](RunningServer& asked, const json& fields) {
    json body = fields;
    body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
    Call call = asked.post("/v1/chat/completions", body);
    EXPECT_EQ(call.status(), 400);
    return call.json()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message(server, {{"top_logprobs", 2}}), StartsWith("top_logprobs is \"2\"; expected logprobs"));
  EXPECT_THAT(message(server, {{"logprobs", true}, {"top_logprobs", 21}}), HasSubstr("from 0 to 20"));
  EXPECT_THAT(message(server, {{"logprobs", true}, {"top_logprobs", 20}, {"gen_length", 900}, {"n", 100}}),
              HasSubstr("expected 262144 alternatives at most"));
  RunningServer slots("mini-refusion");
  EXPECT_THAT(message(slots, {{"logprobs", true}, {"top_logprobs", 2}}),
              StartsWith("top_logprobs has no effect here"));
}

TEST(Service, MapsTokensToThePassesThatCommittedThem) {
  RunningServer server("mini-llada");
  json body = {{"prompt", kStory},
               {"max_tokens", 16},
               {"logprobs", true},
               {"lacuna", {{"step_map", true}, {"unmask", "threshold=0.9"}}}};
  const json choice = server.post("/v1/completions", body).json()["choices"][0];
  const json& map = choice["lacuna"]["step_map"];
  EXPECT_EQ(map.size(), choice["lacuna"]["tokens"].size());
  EXPECT_EQ(map, choice["logprobs"]["steps"]);
  EXPECT_GT(*std::max_element(map.begin(), map.end()), 0);
  body["stream"] = true;
  body["logprobs"] = false;
  json streamed = json::array();
  for (const json& chunk : server.post("/v1/completions", body).chunks()) {
    if (!chunk.contains("lacuna") || !chunk["lacuna"].contains("step_map")) continue;
    EXPECT_EQ(chunk["lacuna"]["step_map"].size(), chunk["lacuna"]["tokens"].size());
    for (const json& step : chunk["lacuna"]["step_map"]) streamed.push_back(step);
  }
  EXPECT_EQ(streamed, map);
}

TEST(Service, TellsWhatItIs) {
  RunningServer server("mini-llada");
  EXPECT_EQ(server.get("/health").json()["status"], "ok");
  EXPECT_EQ(server.get("/ready").json()["status"], "ok");
  EXPECT_EQ(server.get("/live").json()["status"], "alive");
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["id"], "mini-llada");
  const json ids = server.post("/tokenize", {{"content", "Mia has"}}).json()["tokens"];
  EXPECT_EQ(server.post("/detokenize", {{"tokens", ids}}).json()["content"], "Mia has");
  const json prompt =
      server.post("/apply-template", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}).json();
  EXPECT_THAT(prompt["prompt"].get<std::string>(), HasSubstr("Hi"));
  const json props = server.get("/props").json();
  EXPECT_EQ(props["family"], "llada");
  EXPECT_EQ(props["paradigm"], "masked");
  EXPECT_EQ(props["presets"][0], (json{{"name", "exact"}, {"flags", "--eos-exit"}}));
  EXPECT_TRUE(server.get("/slots").json().empty());
  server.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 4}}).body();
  const std::string metrics = server.get("/metrics").body();
  EXPECT_THAT(metrics, HasSubstr("lacuna_requests_total{outcome="));
  EXPECT_THAT(metrics, HasSubstr("lacuna_steps_total "));
}

TEST(Service, TellsOfOneModel) {
  RunningServer server("mini-llada");
  const json listed = server.get("/v1/models").json()["data"][0];
  EXPECT_EQ(server.get("/v1/models/mini-llada").json(), listed);
  EXPECT_EQ(server.get("/models/mini%2Dllada").json(), listed);
  EXPECT_GT(listed["created"], 1'600'000'000) << "when its files were written";
  Call unknown = server.get("/v1/models/gpt%2f9");
  EXPECT_EQ(unknown.status(), 404);
  EXPECT_THAT(unknown.body(), testing::AllOf(HasSubstr("gpt/9"), HasSubstr("mini-llada")));
  EXPECT_EQ(server.get("/v1/models/").status(), 404);
  EXPECT_EQ(server.get("/version").json(), json({{"version", "test"}}));
}

TEST(Service, TellsBrowsersWhichHeadersTheyMaySend) {
  ServiceSettings settings;
  settings.access.keys = {"secret"};
  RunningServer server("mini-llada", {}, std::move(settings));
  HttpRequest preflight{"OPTIONS", "/v1/chat/completions", "", "", "localhost", "https://app.example"};
  preflight.wanted_headers = "authorization,x-stainless-os";
  Call call(server.service(), preflight);
  EXPECT_EQ(call.status(), 204);
  EXPECT_EQ(call.head().allow_headers, "authorization, x-stainless-os");
}

TEST(Service, AnswersErrorsInOpenAisShape) {
  RunningServer server("mini-llada");
  const auto message = [&](const json& body) {
    const json reply = server.post("/v1/completions", body).json();
    EXPECT_EQ(reply["error"]["type"], "invalid_request_error");
    return reply["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message({{"prompt", "a"}, {"gen_length", 100000}}), HasSubstr("gen_length 1023 at most"));
  EXPECT_THAT(message({{"prompt", "a"}, {"max_tokens", -3}}), HasSubstr("a whole number from 1"));
  EXPECT_THAT(message({{"prompt", "a"}, {"max_tokens", 32}, {"block_length", 7}}),
              StartsWith("block_length 7 does not divide max_tokens 32"));
  EXPECT_THAT(message({{"prompt", "a"}, {"lacuna", {{"lock", "nonsense"}}}}), StartsWith("lacuna.lock 'n"));
  EXPECT_THAT(message({{"prompt", "a"}, {"lacuna", {{"slot_size", 4}}}}), HasSubstr("not a ReFusion model"));
  EXPECT_THAT(message({{"prompt", "a"}, {"lacuna", {{"guide", true}}}}), HasSubstr("--guide"));
  EXPECT_THAT(message({{"prompt", {99999}}}), HasSubstr("outside the model's vocabulary"));
  EXPECT_EQ(server.post_text("/v1/completions", "{").status(), 400);
  EXPECT_EQ(server.get("/v1/completions").status(), 405);
  EXPECT_EQ(server.get("/../etc/passwd").status(), 404);
  EXPECT_EQ(server.get("/nothing").json()["error"]["type"], "not_found_error");
}

/// A value of the setting's type that is none of its values, or too large for any model.
struct WrongValue {
  static json of(bool) { return true; }  // refused where the model would ignore it
  static json of(const std::optional<std::string>&) { return "nonsense"; }
  static json of(const std::vector<std::string>&) { return "nonsense"; }
  static json of(const std::optional<double>&) { return 1e300; }
  template <typename Integer>
  static json of(const std::optional<Integer>&) {
    return 2147483647;
  }
};

TEST(Service, CallsEverySettingByTheKeyThatWasSent) {
  std::set<std::string> never_refused;
  GenerationOptions options;
  visit_options(options, [&](const Setting& setting, auto&) { never_refused.emplace(setting.name); });
  for (const char* model : {"mini-llada", "mini-sdar", "mini-gidd"}) {
    RunningServer server(model);
    const auto expect_key = [&](std::string_view setting, const std::string& key, json body) {
      body["prompt"] = "a";
      if (!body.contains("max_tokens")) body["max_tokens"] = 4;
      Call call = server.post("/v1/completions", body);
      if (call.status() == 200) return;
      never_refused.erase(std::string(setting));
      auto message = json::parse(call.body())["error"]["message"].get<std::string>();
      const size_t own_flag = message.find("this server was started without --guide");
      if (own_flag != std::string::npos) message.resize(own_flag);
      EXPECT_THAT(message, HasSubstr(key)) << model;
      EXPECT_THAT(message, testing::Not(HasSubstr("--"))) << model;
      EXPECT_THAT(message, testing::Not(HasSubstr("`"))) << model;
    };
    visit_options(options, [&](const Setting& setting, auto& field) {
      const json value = WrongValue::of(field);
      const std::string key = with_underscores(setting.name);
      expect_key(setting.name, "lacuna." + key, {{"lacuna", {{key, value}}}});
      if (is_common_name(key)) expect_key(setting.name, key, {{key, value}});
      for (const std::string_view alias : setting.aliases) {
        if (alias.front() == '-') continue;
        expect_key(setting.name, with_underscores(alias), {{with_underscores(alias), value}});
      }
    });
  }
  EXPECT_THAT(never_refused, testing::ElementsAre("choice", "json-object", "regex", "seed", "stop", "top-k"))
      << "any value of these is one";
}

TEST(Service, CallsASettingThatWasNotSentByItsUsualKey) {
  RunningServer server("mini-llada");
  const auto message = [&](const json& body) {
    return server.post("/v1/completions", body).json()["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message({{"prompt", "a"}, {"max_completion_tokens", 32}, {"lacuna", {{"block_length", 7}}}}),
            "lacuna.block_length 7 does not divide max_completion_tokens 32");
  EXPECT_EQ(message({{"prompt", "a"}, {"n_predict", 32}, {"dllm_block_length", 7}}),
            "dllm_block_length 7 does not divide n_predict 32");
  EXPECT_EQ(message({{"prompt", "a"}, {"block_length", 32}, {"lacuna", {{"steps", 3}}}}),
            "lacuna.steps 3 is not a multiple of the 2 blocks of max_tokens 64 and block_length 32");
  EXPECT_EQ(message({{"prompt", "a"}, {"max_tokens", 8}, {"lacuna", {{"refresh", 4}}}}),
            "lacuna.refresh has no effect here: without lacuna.cache every pass computes everything");
  EXPECT_THAT(message({{"prompt", "a"}, {"threshold", 1.5}}), StartsWith("threshold is"));
  EXPECT_THAT(message({{"prompt", "a"}, {"max_completion_tokens", "x"}}),
              StartsWith("max_completion_tokens is"));
  const json error =
      server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 8}, {"block_length", 7}}).json();
  EXPECT_EQ(error["error"]["param"], "block_length");
}

TEST(Service, AsksForItsKey) {
  ServiceSettings settings;
  settings.access.keys = {"secret"};
  settings.files["/"] = {"text/html", "<p>"};
  RunningServer server("mini-llada", {}, std::move(settings));
  const auto status = [&](const std::string& path, const std::string& authorization) {
    return Call(server.service(), {"GET", path, authorization, ""}).status();
  };
  EXPECT_EQ(status("/v1/models", ""), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secre"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secretsecret"), 401);
  EXPECT_EQ(status("/v1/models", "Basic secret"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secret"), 200);
  EXPECT_EQ(status("/health", ""), 200);
  EXPECT_EQ(status("/", ""), 200);
  EXPECT_FALSE(equal_in_constant_time("", "secret"));
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
}

TEST(Service, LetsNoPageOfAnotherSiteAsk) {
  RunningServer server("mini-llada");
  const auto status = [&](const std::string& host, const std::string& origin) {
    return Call(server.service(), {"GET", "/v1/models", "", "", host, origin}).status();
  };
  EXPECT_EQ(status("localhost:8080", ""), 200);
  EXPECT_EQ(status("localhost:8080", "https://evil.example"), 403);
  EXPECT_EQ(status("evil.example", ""), 403);
}

TEST(Service, EndsRunningRequestsWithAnEventWhenItStops) {
  RunningServer server("mini-llada");
  const nlohmann::json body{
      {"prompt", "Mia"}, {"max_tokens", 256}, {"stream", true}, {"lacuna", {{"events", true}}}};
  Call running = server.post("/v1/completions", body);
  running.read_until([](const std::string& text) { return !text.empty(); });
  Call waiting = server.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 256}});
  server.service().begin_drain();
  server.scheduler().drain();
  EXPECT_EQ(server.get("/health").status(), 503);
  EXPECT_EQ(server.get("/ready").status(), 503);
  EXPECT_EQ(server.get("/live").status(), 200) << "a process that drains is alive";
  EXPECT_EQ(server.post("/v1/completions", body).status(), 503);
  server.scheduler().stop();
  const std::string text = running.body();
  EXPECT_THAT(text,
              testing::AllOf(HasSubstr("the server was stopped"), testing::EndsWith("data: [DONE]\n\n")));
  EXPECT_EQ(waiting.status(), 500);
  EXPECT_TRUE(server.scheduler().is_idle());
}

TEST(Service, LetsRequestsFinishWhileItDrains) {
  RunningServer server("mini-llada");
  Call running = server.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 8}});
  server.scheduler().drain();
  EXPECT_EQ(running.status(), 200);
}

TEST(Service, GivesNoClientEveryPlace) {
  SchedulerLimits limits;
  limits.max_running = 4;
  limits.max_queue = 4;  // three quarters of all places: 6
  RunningServer server("mini-llada", limits);
  const auto ask = [&](const std::string& address, int choices) {
    const nlohmann::json body{{"prompt", "Mia"},
                              {"max_tokens", 200},
                              {"n", choices},
                              {"stream", true},
                              {"lacuna", {{"events", true}}}};
    return Call(server.service(), {"POST", "/v1/completions", "", body.dump(), "", "", address});
  };
  Call first = ask("10.0.0.1", 6);
  EXPECT_EQ(ask("10.0.0.1", 1).status(), 429);
  Call other = ask("10.0.0.2", 2);
  other.read_until([](const std::string& text) { return !text.empty(); });
  EXPECT_EQ(other.head().status, 200);
  first.hang_up();
  other.hang_up();
}

TEST(Service, FailsRequestsThatTakeTooLong) {
  SchedulerLimits limits;
  limits.request_seconds = 1e-3;
  RunningServer server("mini-llada", limits);
  Call call = server.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 200}});
  EXPECT_EQ(call.status(), 500);
  EXPECT_THAT(call.body(), HasSubstr("longer than the 0.001 s"));
}

TEST(Service, ListsTheTextsOfAFewTokensAlone) {
  RunningServer server("mini-llada");
  const auto ask = [&](size_t count) {
    return server.post("/detokenize", {{"tokens", std::vector<int>(count, 5)}, {"with_pieces", true}});
  };
  const nlohmann::json few = ask(2).json();
  EXPECT_EQ(few["tokens"].size(), 2);
  EXPECT_EQ(few["tokens"][0]["id"], 5);
  EXPECT_EQ(few["content"],
            few["tokens"][0]["piece"].get<std::string>() + few["tokens"][1]["piece"].get<std::string>());
  Call many = server.post("/tokenize", {{"content", std::string(300'000, '!')}, {"with_pieces", true}});
  EXPECT_EQ(many.status(), 400);
  EXPECT_THAT(many.body(), HasSubstr("with_pieces lists at most"));
}

TEST(Service, IsNotThereBeforeItsModel) {
  Service service(ServiceSettings{});
  EXPECT_EQ(Call(service, {"GET", "/health", "", ""}).status(), 503);
  EXPECT_EQ(Call(service, {"GET", "/ready", "", ""}).status(), 503);
  EXPECT_EQ(Call(service, {"GET", "/live", "", ""}).status(), 200);
  EXPECT_EQ(Call(service, {"POST", "/v1/completions", "", "{}"}).status(), 503);
}

TEST(Service, RefusesWhatDoesNotFitTheQueueOrTheMemory) {
  SchedulerLimits limits;
  limits.max_running = 1;
  limits.max_queue = 1;
  limits.memory = 1 << 20;
  RunningServer server("mini-llada", limits);
  const json small = {{"prompt", "Mia"}, {"max_tokens", 8}};
  json three = small;
  three["n"] = 3;
  EXPECT_EQ(server.post("/v1/completions", three).status(), 503);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "Mia"}, {"gen_length", 1000}}).status(), 400);
  EXPECT_EQ(server.post("/v1/completions", small).status(), 200);
}

TEST(Service, RefusesABodyOfTooManyValues) {
  RunningServer server("mini-llada");
  std::string values = "1";
  for (size_t i = 0; i < kMaxBodyValues; ++i) values += ",1";
  Call call = server.post_text("/v1/completions", "{\"prompt\": [" + values + "]}");
  EXPECT_EQ(call.status(), 400);
  EXPECT_THAT(call.body(), HasSubstr("JSON holds more than 262144 values"));
}

TEST(Service, TellsFromTheHeadWhoMayNotSendABody) {
  ServiceSettings settings;
  settings.access.keys = {"secret"};
  const Service service(std::move(settings));
  EXPECT_EQ(service.find_refusal({"POST", "/v1/completions", "Bearer wrong", ""})->status, 401);
  EXPECT_EQ(service.find_refusal({"POST", "/v1/completions", "Bearer secret", ""}), std::nullopt);
}

TEST(Service, ReadsAPromptOnceForAllThatBeginWithIt) {
  RunningServer server("mini-qwen");
  const std::string prompt = kStory + " " + kStory;
  const json body = {{"prompt", prompt}, {"max_tokens", 12}};
  const json first = server.post("/v1/completions", body).json();
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  json again = body;
  again["n"] = 2;
  again["temperature"] = 0.8;
  again["prompt"] = prompt + " Mia";
  const json second = server.post("/v1/completions", again).json();
  const int cached = second["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GE(cached, 32);
  EXPECT_EQ(second["timings"]["cache_n"], cached);
  EXPECT_EQ(second["timings"]["prompt_n"], second["usage"]["prompt_tokens"].get<int>() - cached);
  EXPECT_GE(second["choices"][1]["lacuna"]["stats"]["cached_tokens"], cached);
  EXPECT_THAT(server.get("/metrics").body(), HasSubstr("lacuna_prompt_tokens_shared_total"));
  // Nothing else about the answer tells.
  SchedulerLimits apart;
  apart.prefix_memory = 0;
  RunningServer other("mini-qwen", apart);
  const json alone = other.post("/v1/completions", again).json();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(second["choices"][i]["text"], alone["choices"][i]["text"]);
  EXPECT_EQ(alone["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(Service, FreesThePlaceOfAClientThatHangsUp) {
  SchedulerLimits limits;
  limits.max_running = 1;
  RunningServer server("mini-llada", limits);
  const json body = {
      {"prompt", kStory}, {"max_tokens", 900}, {"stream", true}, {"lacuna", {{"events", true}}}};
  Call gone = server.post("/v1/completions", body);
  gone.read_until([](const std::string& data) { return data.find("\"set\"") != std::string::npos; });
  Call next = server.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 4}});
  gone.hang_up();
  EXPECT_EQ(next.status(), 200);  // long before 900 steps are over
  EXPECT_THAT(server.get("/metrics").body(), HasSubstr("outcome=\"cancelled\"} 1"));
}

TEST(Service, DecidesInBothFormats) {
  RunningServer server("mini-llada");
  const json openai = server
                          .post("/v1/decisions",
                                {{"model", "any"},
                                 {"input", "Ben is very happy."},
                                 {"questions", {{{"type", "predicate"}, {"instructions", "Is Ben happy?"}}}}})
                          .json();
  const double probability = openai["answers"][0]["probability"];
  EXPECT_GT(probability, 0);
  EXPECT_LT(probability, 1);
  EXPECT_EQ(openai["model"], "mini-llada");
  EXPECT_GT(openai["usage"]["input_tokens"], 20);
  const json body = {{"state", "Ben is very happy."},
                     {"questions", {{"happy", {{"type", "noul"}, {"instructions", "Is Ben happy?"}}}}}};
  for (const char* path : {"/v1/systemone", "/v1/decisions"}) {
    const json reply = server.post(path, body).json();
    EXPECT_EQ(reply["answers"]["happy"]["noul"], probability) << path;
    EXPECT_EQ(reply["usage"]["output_tokens"], 1);
  }
}

TEST(Service, NamesWhatIsWrongWithARequestForDecisions) {
  RunningServer server("mini-llada");
  const json questions = {{{"type", "predicate"}, {"instructions", "?"}}};
  const auto expect_400 = [&](const std::string& path, const json& body, const std::string& part) {
    Call call = server.post(path, body);
    EXPECT_EQ(call.status(), 400);
    EXPECT_THAT(call.json()["error"]["message"].get<std::string>(), HasSubstr(part));
  };
  expect_400("/v1/decisions", {{"questions", questions}}, "input is missing");
  expect_400("/v1/systemone", {{"questions", {{"a", {{"type", "noul"}}}}}}, "state is missing");
  expect_400("/v1/systemone", {{"state", "x"}, {"questions", questions}}, "questions is");
  expect_400("/v1/decisions", {{"input", std::string(5000, 'x')}, {"questions", questions}}, "do not fit");
  EXPECT_EQ(server.get("/v1/decisions").status(), 405);
}

TEST(Service, RefusesBodiesThatAreCompressed) {
  RunningServer server("mini-llada");
  HttpRequest request{"POST", "/v1/systemone", "", "x"};
  request.content_encoding = "zstd";
  Call call(server.service(), request);
  EXPECT_EQ(call.status(), 415);
  EXPECT_THAT(call.body(), HasSubstr("Content-Encoding is"));
  EXPECT_EQ(server.service().find_refusal(request).value().status, 415);
}

}  // namespace
}  // namespace lacuna::service_test
