#include "server/api_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/settings.h"
#include "server/tool_request.h"

namespace lacuna::api_request_test {
namespace {

using json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

GenerationRequest complete(const std::string& body, const GenerationOptions& defaults = {}) {
  return parse_completion_request(parse_body(body), defaults);
}

GenerationRequest infill(const std::string& body) {
  return parse_infill_request(parse_body(body), {});
}

GenerationRequest chat(const std::string& body) {
  return parse_chat_request(parse_body(body), {});
}

#define EXPECT_REFUSED(expression, part) \
  EXPECT_THAT([&] { (void)(expression); }, ThrowsMessage<InputError>(HasSubstr(part)))

TEST(ApiRequest, TakesWhatEveryClientSends) {
  const GenerationRequest request = complete(
      R"({"model": "any", "prompt": "a", "temperature": 0, "top_p": 0.9, "top_k": 40, "seed": 42, "n": 1,
          "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "me", "logprobs": null,
          "stream": false, "stop": null, "response_format": {"type": "text"}, "unheard_of": [1, {"a": 2}]})");
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "a");
  EXPECT_EQ(request.options.temperature, 0);
  EXPECT_EQ(request.options.seed, 42U);
  EXPECT_FALSE(request.options.top_p);  // changes nothing where the best token is taken
  EXPECT_FALSE(request.options.top_k);
  EXPECT_FALSE(request.wants_logprobs);
  EXPECT_FALSE(request.stream);
}

TEST(ApiRequest, KeepsFiltersWhereTokensAreDrawn) {
  const GenerationRequest request =
      complete(R"({"prompt": "a", "temperature": 0.5, "top_p": 0.9, "top_k": 40})");
  EXPECT_EQ(request.options.top_p, 0.9);
  EXPECT_EQ(request.options.top_k, 40);
}

TEST(ApiRequest, TakesPenaltiesAndBiases) {
  const GenerationRequest request = complete(
      R"({"prompt": "a", "min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": -1, "repeat_penalty": 1.2,
          "logit_bias": {"13": -5, "14": 2.5}, "stop_token_ids": [3, 4], "best_of": 4, "ignore_eos": true})");
  EXPECT_EQ(request.options.min_p, 0.1);
  EXPECT_EQ(request.options.presence_penalty, 0.5);
  EXPECT_EQ(request.options.frequency_penalty, -1);
  EXPECT_EQ(request.options.repeat_penalty, 1.2);
  EXPECT_THAT(request.options.logit_bias, ElementsAre("13=-5", "14=2.5"));
  EXPECT_THAT(request.stop_tokens, ElementsAre(3, 4));
  EXPECT_EQ(request.num_candidates, 4);
  EXPECT_TRUE(request.options.ignore_eos);
  EXPECT_TRUE(request.left_out.empty());
  EXPECT_THAT(complete(R"({"prompt": "a", "logit_bias": [[7, 1], [8, false]]})").options.logit_bias,
              ElementsAre("7=1", "8=-10000"));
  EXPECT_EQ(complete(R"({"prompt": "a", "repeat_penalty": 0})").options.repeat_penalty, 1.0);
  EXPECT_EQ(complete(R"({"prompt": "a", "n": 3, "best_of": 3})").num_candidates, 1);
}

TEST(ApiRequest, KnowsSettingsByTheNamesOfOthers) {
  const GenerationRequest request =
      complete(R"({"prompt": "a", "max_tokens": 32, "diffusion_steps": 8, "remasking": "random",
                   "dllm_block_length": 16, "alg_temp": 0.5})");
  EXPECT_EQ(request.options.gen_length, 32);
  EXPECT_EQ(request.options.steps, 8);
  EXPECT_EQ(request.options.unmask, "random");
  EXPECT_EQ(request.options.block_length, 16);
  EXPECT_EQ(request.options.alg_temp, 0.5);
  EXPECT_EQ(complete(R"({"prompt": "a", "max_completion_tokens": 5})").options.gen_length, 5);
  EXPECT_EQ(complete(R"({"prompt": "a", "n_predict": 5})").options.gen_length, 5);
  EXPECT_EQ(complete(R"({"prompt": "a", "n_predict": -1, "seed": -1})").options.gen_length, std::nullopt);
  EXPECT_EQ(complete(R"({"prompt": "a", "threshold": 0.8})").options.unmask, "threshold=0.8");
  // A word of ours that may mean anything elsewhere is not taken at the top level.
  EXPECT_FALSE(complete(R"({"prompt": "a", "cache": true, "lock": 3})").options.cache);
}

TEST(ApiRequest, KnowsTheCommandLinesNamesUnderItsOwnKey) {
  const GenerationRequest request =
      complete(R"({"prompt": "a", "steps": 8, "lacuna": {"steps": 8, "block-length": 16, "eos_exit": true,
                   "lock": "eps=1e-3", "cache": "dual", "events": true, "temperature": null}})");
  EXPECT_EQ(request.options.steps, 8);
  EXPECT_EQ(request.options.block_length, 16);
  EXPECT_TRUE(request.options.eos_exit);
  EXPECT_EQ(request.options.lock, "eps=1e-3");
  EXPECT_EQ(request.options.cache, "dual");
  EXPECT_TRUE(request.events);
  EXPECT_FALSE(request.uses_guide);
  EXPECT_REFUSED(complete(R"({"prompt": "a", "lacuna": {"bloc_length": 3}})"),
                 "lacuna.\"bloc_length\" is not a setting");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "lacuna": 3})"), "lacuna is");
}

/// "param" of the error that clients get.
std::string field_at_fault(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const FieldError& error) {
    return error.field();
  }
  return "";
}

Conversation conversation_of(const json& body) {
  GenerationRequest request;
  return parse_conversation(body, request);
}

TEST(ParseConversation, KeepsTheOrderOfKeysInWhatATemplateShows) {
  const Conversation conversation = conversation_of(parse_body(
      R"({"messages": [{"role": "user", "content": "a", "z": {"b": 1, "a": 2}}], "documents": [{"title": "t", "body": "b"}],
          "chat_template_kwargs": {"z": 1, "a": 2}})"));
  EXPECT_EQ(conversation.messages.dump(), R"([{"role":"user","content":"a","z":{"b":1,"a":2}}])");
  EXPECT_EQ(conversation.documents.dump(), R"([{"title":"t","body":"b"}])");
  EXPECT_EQ(conversation.keywords.dump(), R"({"z":1,"a":2})");
}

TEST(ParseConversation, BoundsNamesThatAreLookedUpAmongAllOthers) {
  json many = json::object();
  for (int i = 0; i < 256; ++i) many["k" + std::to_string(i)] = i;
  json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"chat_template_kwargs", many}};
  EXPECT_EQ(conversation_of(body).keywords.size(), 256U);
  many["more"] = 1;
  body["chat_template_kwargs"] = many;
  EXPECT_EQ(field_at_fault([&] { conversation_of(body); }), "chat_template_kwargs");
  body.erase("chat_template_kwargs");
  body["messages"][0].update(many);
  EXPECT_EQ(field_at_fault([&] { conversation_of(body); }), "messages");
}

TEST(ApiRequest, NamesTheFieldAtFault) {
  EXPECT_EQ(field_at_fault([] { complete(R"({"prompt": 5})"); }), "prompt");
  EXPECT_EQ(field_at_fault([] { complete(R"({"prompt": "a", "lacuna": {"stepz": 5}})"); }), "lacuna.stepz");
  EXPECT_EQ(field_at_fault([] { conversation_of(json::parse(R"({"messages": [5]})")); }), "messages");
  constexpr std::string_view kKeys[] = {"response_format", "regex"};
  EXPECT_EQ(field_at_fault(
                [&] { parse_answer_format(parse_body(R"({"response_format": {"type": "x"}})"), kKeys); }),
            "response_format");
  const auto tools = [](const char* body) {
    return field_at_fault([body] { parse_tools(parse_body(body), ToolFormat::kChat); });
  };
  EXPECT_EQ(tools(R"({"tools": 5})"), "tools");
  EXPECT_EQ(tools(R"({"tools": [{"type": "function"}]})"), "tools.0");
  EXPECT_EQ(tools(R"({"tool_choice": "required"})"), "tool_choice");
}

TEST(ApiRequest, StartsFromTheServersDefaults) {
  GenerationOptions defaults;
  defaults.block_length = 8;
  defaults.steps = 4;
  defaults.guide_match = "exact";
  const GenerationRequest request = complete(R"({"prompt": "a", "steps": 2})", defaults);
  EXPECT_EQ(request.options.block_length, 8);
  EXPECT_EQ(request.options.steps, 2);
  EXPECT_TRUE(request.uses_guide);
  const GenerationRequest alone = complete(R"({"prompt": "a", "lacuna": {"guide": false}})", defaults);
  EXPECT_FALSE(alone.uses_guide);
  EXPECT_FALSE(alone.options.guide_match);
}

TEST(ApiRequest, NamesTheFieldThatIsWrong) {
  EXPECT_REFUSED(parse_body("{\"a\": "), "the body");
  EXPECT_REFUSED(parse_body("{\"a\": 1, \"a\": 2}"), "twice");
  EXPECT_REFUSED(parse_body(std::string(100, '[')), "nests deeper");
  EXPECT_REFUSED(parse_body("{\"a\": \"\xFF\"}"), "the body");
  EXPECT_REFUSED(complete("[]"), "not a JSON object");
  EXPECT_REFUSED(complete("{}"), "prompt is missing");
  EXPECT_REFUSED(complete(R"({"prompt": {}})"), "prompt is");
  EXPECT_REFUSED(complete(R"({"prompt": [1, -2]})"), "prompt is \"-2\"");
  EXPECT_REFUSED(complete(R"({"prompt": [1, 1e9]})"), "prompt is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "max_tokens": "many"})"), "max_tokens is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "gen_length": 99999999999})"), "smaller number");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "max_tokens": 1.5})"), "whole number");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "max_tokens": 0})"), "max_tokens is 0");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "n": 129})"), "n is \"129\"");
  EXPECT_REFUSED(complete(R"({"prompt": ["a", "b"], "n": 100})"), "n is 100 for 2 prompts");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "stream": "yes"})"), "stream is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "stop": 3})"), "stop is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "stop": ")" + std::string(600, 'x') + "\"}"),
                 "stop holds too much");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "presence_penalty": "x"})"), "presence_penalty");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "mirostat": 2})"), "mirostat is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "logit_bias": {"x": 1}})"), "logit_bias is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "logit_bias": [["a", 1]]})"), "logit_bias is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "stop_token_ids": [-1]})"), "stop_token_ids is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "best_of": 3, "n": 2})"), "best_of is 3 and n is 2");
  EXPECT_REFUSED(complete(R"({"prompt": ["a", "b"], "best_of": 65})"), "best_of is 65 for 2 prompts");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "tools": [{}]})"), "tools");
  EXPECT_REFUSED(complete(R"({"prompt": [1], "suffix": "b"})"), "suffix");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "suffix": 3})"), "suffix is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "suffix": "b", "logprobs": 1})"), "logprobs");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "suffix": "b", "gen_length": 5000})"), "gen_length is 5000");
}

TEST(ApiRequest, BoundsItsLists) {
  const auto refuse = [](const char* key, const json& value, const std::string& message) {
    EXPECT_REFUSED(complete(json{{"prompt", "a"}, {key, value}}.dump()), message);
  };
  refuse("stop", json(std::vector<std::string>(kMaxStops + 1, "a")),
         "expected at most 16 texts of at most 512 bytes");
  refuse("stop", std::string(kMaxStopBytes + 1, 'a'), "expected at most 16 texts of at most 512 bytes");
  refuse("stop_token_ids", json(std::vector<int>(kMaxStopTokens + 1, 3)), "at most 64 token ids");
  json biases;
  for (size_t i = 0; i <= kMaxLogitBiases; ++i) biases[std::to_string(i)] = 1;
  refuse("logit_bias", biases, "at most 1024 tokens");
  refuse("n", kMaxRequestChoices + 1, "n is");
  refuse("best_of", kMaxRequestChoices + 1, "best_of is");
  refuse("logprobs", kMaxAlternatives + 1, "from 0 to 20");
  const json parts(std::vector<json>(kMaxCanvasParts + 1, json("a")));
  EXPECT_REFUSED(infill(json{{"input", parts}}.dump()), "expected at most 65536");
}

TEST(ApiRequest, RefusesTwoNamesOfOneSettingThatDiffer) {
  struct Case {
    std::string first, second, other;  // values that agree, and one that does not
    std::string first_name, second_name;
  };
  const Case kCases[] = {
      {R"("max_tokens": 8)", R"("max_completion_tokens": 8)", R"("max_completion_tokens": 9)", "max_tokens",
       "max_completion_tokens"},
      {R"("max_tokens": 8)", R"("n_predict": 8)", R"("n_predict": 9)", "max_tokens", "n_predict"},
      {R"("gen_length": 8)", R"("max_tokens": 8)", R"("max_tokens": 9)", "gen_length", "max_tokens"},
      {R"("lacuna": {"gen_length": 8})", R"("max_tokens": 8)", R"("max_tokens": 9)", "lacuna.gen_length",
       "max_tokens"},
      {R"("repeat_penalty": 1.2)", R"("repetition_penalty": 1.2)", R"("repetition_penalty": 1.3)",
       "repeat_penalty", "repetition_penalty"},
      {R"("repeat_penalty": 0)", R"("repetition_penalty": 1)", R"("repetition_penalty": 1.3)",
       "repeat_penalty", "repetition_penalty"},
      {R"("temperature": 1)", R"("lacuna": {"temperature": 1.0})", R"("lacuna": {"temperature": 0.5})",
       "temperature", "lacuna.temperature"},
      {R"("min_p": 0.5)", R"("lacuna": {"min_p": 0.5})", R"("lacuna": {"min_p": 0.1})", "min_p",
       "lacuna.min_p"},
      {R"("seed": 5)", R"("lacuna": {"seed": 5})", R"("lacuna": {"seed": 6})", "seed", "lacuna.seed"},
      {R"("stop": "a")", R"("lacuna": {"stop": ["a"]})", R"("lacuna": {"stop": ["b"]})", "stop",
       "lacuna.stop"},
      {R"("steps": 4)", R"("diffusion_steps": 4)", R"("diffusion_steps": 5)", "steps", "diffusion_steps"},
      {R"("threshold": 0.5)", R"("lacuna": {"unmask": "threshold=0.5"})",
       R"("lacuna": {"unmask": "threshold=0.6"})", "threshold", "lacuna.unmask"},
      {R"("logprobs": 3)", R"("top_logprobs": 3)", R"("top_logprobs": 4)", "logprobs", "top_logprobs"},
      {R"("logit_bias": {"13": 1})", R"("lacuna": {"logit_bias": ["13=1"]})",
       R"("lacuna": {"logit_bias": ["13=2"]})", "logit_bias", "lacuna.logit_bias"},
      {R"("logit_bias": [[13, 1], [13, 1]])", R"("n": 1)", R"("logit_bias": [[13, 1], [13, 2]])",
       "logit_bias", "token 13"},
      {R"("logit_bias": {"13": 1, "013": 1})", R"("n": 1)", R"("logit_bias": {"13": 1, "013": 2})",
       "logit_bias", "token 13"},
  };
  for (const Case& each : kCases) {
    EXPECT_NO_THROW(complete("{\"prompt\": \"a\", " + each.first + ", " + each.second + "}"))
        << each.first << each.second;
    const bool is_alone = each.second == R"("n": 1)";
    const std::string body = "{\"prompt\": \"a\", " + (is_alone ? "" : each.first + ", ") + each.other + "}";
    EXPECT_REFUSED(complete(body), each.first_name);
    EXPECT_REFUSED(complete(body), each.second_name);
  }
  // A length that the model chooses has a limit; nothing else was asked for.
  const GenerationRequest open =
      complete(R"({"prompt": "a", "max_tokens": 9, "lacuna": {"gen_length": "auto"}})");
  EXPECT_TRUE(open.options.gen_length.is_auto && open.options.gen_length == 9 && open.caps_length);
  EXPECT_REFUSED(complete(R"({"prompt": "a", "max_tokens": 0, "max_completion_tokens": 4, "echo": true,
                              "logprobs": 0})"),
                 "max_completion_tokens");
  EXPECT_REFUSED(infill(R"({"input_prefix": "a", "n_predict": 0, "max_tokens": 4})"), "n_predict");
  EXPECT_REFUSED(infill(R"({"tokens": [1, null], "diffusion_seed_canvas": [2, null]})"),
                 "diffusion_seed_canvas");
  EXPECT_NO_THROW(infill(R"({"tokens": [1, null], "diffusion_seed_canvas": [1, null]})"));
  EXPECT_REFUSED(chat(R"({"messages": [{"role": "user", "content": "a"}], "enable_thinking": true,
                          "chat_template_kwargs": {"enable_thinking": false}})"),
                 "chat_template_kwargs.enable_thinking");
}

TEST(ApiRequest, TakesTheValuesByWhichOtherServersSayOff) {
  const GenerationRequest off = complete(R"({"prompt": "a", "top_k": -1, "min_p": 0, "top_p": 1,
      "presence_penalty": 0, "frequency_penalty": 0, "repeat_penalty": 0, "typical_p": 1, "tfs_z": 1.0,
      "mirostat": 0, "xtc_probability": 0.0, "dry_multiplier": 0, "top_n_sigma": -1, "length_penalty": 1,
      "min_tokens": 0, "bad_words": [], "truncate_prompt_tokens": -1, "temperature": 1, "seed": -1,
      "max_tokens": -1})");
  EXPECT_EQ(off.options.top_k, 0);
  EXPECT_EQ(off.options.repeat_penalty, 1.0);
  EXPECT_EQ(off.options.temperature, 1.0);
  EXPECT_FALSE(off.options.seed.has_value());
  EXPECT_FALSE(off.options.gen_length.has_value());
  EXPECT_EQ(complete(R"({"prompt": "a", "repetition_penalty": 0})").options.repeat_penalty, 1.0);
  EXPECT_EQ(complete(R"({"prompt": "a", "lacuna": {"top_k": -1}})").options.top_k, 0);
  EXPECT_EQ(complete(R"({"prompt": "a", "temperature": 1, "top_p": 0})").options.top_p, 1e-6);
  EXPECT_EQ(complete(R"({"prompt": "a", "seed": -7})").options.seed, static_cast<uint64_t>(-7));
  EXPECT_REFUSED(complete(R"({"prompt": "a", "top_k": -2})"), "top_k is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "steps": -1})"), "steps is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "max_tokens": -3})"), "max_tokens is");
  EXPECT_REFUSED(complete(R"({"prompt": "a", "chat_template": "{{ x }}"})"), "chat_template");
}

TEST(ApiRequest, MakesAHoleBetweenAPromptAndASuffix) {
  const GenerationRequest request = complete(R"({"prompt": "a", "suffix": "b", "max_tokens": 9})");
  EXPECT_EQ(request.canvas, (std::vector<CanvasPart>{"a", Hole{1, 9, true}, "b"}));
  EXPECT_TRUE(request.inserts);
  EXPECT_TRUE(request.prompts.empty());
  EXPECT_FALSE(request.options.gen_length.has_value());
  EXPECT_EQ(complete(R"({"prompt": "", "suffix": "b"})").canvas.size(), 2U);
  EXPECT_TRUE(complete(R"({"prompt": "a", "suffix": ""})").canvas.empty());
  EXPECT_THAT(complete(R"({"prompt": "a", "suffix": "b", "stop": "x"})").left_out, ElementsAre("stop"));
  EXPECT_THAT(infill(R"({"input_prefix": "a", "stop": ["x"]})").left_out, ElementsAre("stop"));
}

TEST(ApiRequest, ReadsPromptsOfEveryKind) {
  EXPECT_THAT(std::get<std::vector<TokenId>>(complete(R"({"prompt": [1, 2]})").prompts.at(0)),
              ElementsAre(1, 2));
  EXPECT_EQ(complete(R"({"prompt": ["a", [1, 2]], "n": 2})").prompts.size(), 2U);
  EXPECT_THAT(complete(R"({"prompt": "a", "stop": ["b", ""]})").stop, ElementsAre("b"));
  EXPECT_TRUE(complete(R"({"prompt": "a", "logprobs": 0})").wants_logprobs);
  EXPECT_TRUE(complete(R"({"prompt": "a", "max_tokens": 0, "echo": true, "logprobs": 1})").scores_only);
}

TEST(ApiRequest, ReadsMessages) {
  const auto chat = [](const std::string& body) { return parse_chat_request(parse_body(body), {}); };
  const GenerationRequest request = chat(R"({"messages": [{"role": "system", "content": "s"},
               {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  const auto& messages = std::get<Conversation>(request.prompts.at(0)).messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[1]["role"], "user");
  EXPECT_EQ(messages[1]["content"].size(), 2U);
  EXPECT_EQ(content_text(messages[1]), "ab");
  EXPECT_REFUSED(chat("{}"), "messages is missing");
  EXPECT_REFUSED(chat(R"({"messages": []})"), "messages is missing");
  EXPECT_REFUSED(chat(R"({"messages": ["a"]})"), "messages holds");
  EXPECT_REFUSED(chat(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
                 "messages.0.content.0 is");
}

TEST(ApiRequest, ReadsWhatChatTemplatesAreGiven) {
  const auto chat = [](const std::string& members) {
    const GenerationRequest request = parse_chat_request(
        parse_body(R"({"messages": [{"role": "user", "content": "a", "name": "Mia", "x": null}])" + members +
                   "}"),
        {});
    return std::get<Conversation>(request.prompts.at(0));
  };
  const Conversation plain = chat("");
  EXPECT_EQ(plain.messages[0].dump(), R"({"role":"user","content":"a","name":"Mia"})");
  EXPECT_TRUE(plain.add_generation_prompt);
  EXPECT_TRUE(plain.keywords.empty());
  EXPECT_TRUE(plain.documents.is_null());
  const Conversation full = chat(
      R"(, "chat_template_kwargs": {"a": 1, "enable_thinking": true}, "enable_thinking": true,
         "reasoning_effort": "low", "documents": [{"title": "t"}], "add_generation_prompt": false)");
  EXPECT_EQ(full.keywords,
            (nlohmann::ordered_json{{"a", 1}, {"enable_thinking", true}, {"reasoning_effort", "low"}}));
  EXPECT_EQ(chat(R"(, "enable_thinking": false)").keywords["enable_thinking"], false);
  EXPECT_EQ(full.documents.size(), 1U);
  EXPECT_FALSE(full.add_generation_prompt);
  EXPECT_REFUSED(chat(R"(, "chat_template_kwargs": 5)"), "chat_template_kwargs is \"5\"");
  EXPECT_REFUSED(chat(R"(, "chat_template_kwargs": {"tools": []})"),
                 "chat_template_kwargs.tools has no effect");
}

TEST(ApiRequest, ReadsCanvasesWithHoles) {
  const GenerationRequest mixed =
      infill(R"({"input": ["a", {"hole": 3}, {"tokens": [5, null]}, {"hole": {"min": 2, "max": 4}}]})");
  ASSERT_EQ(mixed.canvas.size(), 5U);
  EXPECT_EQ(std::get<std::string>(mixed.canvas[0]), "a");
  EXPECT_EQ(std::get<Hole>(mixed.canvas[1]), (Hole{3, 3}));
  EXPECT_EQ(std::get<TokenId>(mixed.canvas[2]), 5);
  EXPECT_EQ(std::get<Hole>(mixed.canvas[3]), (Hole{1, 1}));
  EXPECT_EQ(std::get<Hole>(mixed.canvas[4]), (Hole{2, 4}));

  const GenerationRequest masked = infill(R"({"tokens": [5, 6, 7], "mask": [1]})");
  EXPECT_EQ(std::get<Hole>(masked.canvas[1]), (Hole{1, 1}));
  EXPECT_EQ(std::get<TokenId>(masked.canvas[2]), 7);
  const GenerationRequest pinned =
      infill(R"({"diffusion_seed_canvas": [5, 6, 7], "diffusion_pinned": [true, false, true],
                 "diffusion_max_steps": 2})");
  EXPECT_TRUE(std::holds_alternative<Hole>(pinned.canvas[1]));
  EXPECT_TRUE(std::holds_alternative<TokenId>(pinned.canvas[0]));
  EXPECT_EQ(pinned.options.steps, 2);

  // A request of an editor: the prompt is the cursor's line, up to the cursor.
  const GenerationRequest line =
      infill(R"({"input_prefix": "a\n", "prompt": "b", "input_suffix": "c", "n_predict": -2})");
  EXPECT_TRUE(line.fills_cursor);
  EXPECT_EQ(std::get<std::string>(line.canvas.at(0)), "a\nb");
  EXPECT_EQ(std::get<std::string>(line.canvas.at(2)), "c");
  EXPECT_EQ(infill(R"({"input_prefix": "a", "n_predict": 0})").answers_nothing, "length");
  const GenerationRequest around = infill(R"({"input_prefix": "a", "input_suffix": "b", "n_predict": 7})");
  ASSERT_EQ(around.canvas.size(), 3U);
  EXPECT_EQ(std::get<Hole>(around.canvas[1]), (Hole{7, 7}));
  EXPECT_FALSE(around.options.gen_length);
}

TEST(ApiRequest, RefusesCanvasesThatCannotBe) {
  EXPECT_REFUSED(infill("{}"), "found 0");
  EXPECT_REFUSED(infill(R"({"input": [], "tokens": []})"), "found 2");
  EXPECT_REFUSED(infill(R"({"input": ["a"]})"), "no hole");
  EXPECT_REFUSED(infill(R"({"input": [3]})"), "input holds");
  EXPECT_REFUSED(infill(R"({"input": [{"hole": 0}]})"), "hole is");
  EXPECT_REFUSED(infill(R"({"input": [{"hole": {"min": 5, "max": 4}}]})"), "hole.min");
  EXPECT_REFUSED(infill(R"({"input": [{"hole": 100000}]})"), "hole is");
  EXPECT_REFUSED(infill(R"({"tokens": [1, 2], "mask": [2]})"), "mask is");
  EXPECT_REFUSED(infill(R"({"tokens": [1, 2], "mask": [1], "diffusion_pinned": [0]})"), "exclude each other");
  EXPECT_REFUSED(infill(R"({"tokens": ["<mask>"]})"), "tokens is");
  EXPECT_REFUSED(infill(R"({"input": [{"hole": 1}], "stop": "a"})"), "stop has no effect");
}

TEST(ApiRequest, RefusesPositionsOfAnEmptyCanvas) {
  for (const char* tokens : {"tokens", "diffusion_seed_canvas"}) {
    for (const char* mask : {"mask", "diffusion_pinned"}) {
      for (const char* list : {"[0]", "[0, 0]", "[-1]", "[9223372036854775808]", "[1e300]", "[true]"}) {
        const std::string body = fmt::format(R"({{"{}": [], "{}": {}}})", tokens, mask, list);
        EXPECT_REFUSED(infill(body), "expected at least one token");
      }
      EXPECT_REFUSED(infill(fmt::format(R"({{"{}": [], "{}": []}})", tokens, mask)), "has no hole");
    }
  }
}

TEST(ApiRequest, RefusesPositionsThatAreNoIndex) {
  for (const char* index : {"-1", "2", "0.5", "1e300", "true", "\"0\"", "null", "[0]", "2147483648",
                            "4294967296", "9223372036854775807", "9223372036854775808"}) {
    EXPECT_REFUSED(infill(fmt::format(R"({{"tokens": [1, 2], "mask": [{}]}})", index)), "mask is");
  }
  const GenerationRequest twice = infill(R"({"tokens": [1, 2], "mask": [1, 1]})");
  EXPECT_TRUE(std::holds_alternative<TokenId>(twice.canvas[0]));
  EXPECT_TRUE(std::holds_alternative<Hole>(twice.canvas[1]));
}

TEST(ApiRequest, ShowsAHoleAsAClientWritesIt) {
  EXPECT_REFUSED(infill(R"({"input": ["a"]})"), R"(expected {"hole": N}, or null)");
}

TEST(Settings, AreDescribedWithTheirTypes) {
  bool has_steps = false;
  for (const auto& setting : describe_settings()) {
    if (setting["name"] != "steps") continue;
    has_steps = true;
    EXPECT_EQ(setting["type"], "integer");
    EXPECT_THAT(setting["aliases"].dump(), HasSubstr("diffusion-steps"));
  }
  EXPECT_TRUE(has_steps);
}

}  // namespace
}  // namespace lacuna::api_request_test
