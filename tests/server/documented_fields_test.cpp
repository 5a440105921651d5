// Every field of each API: docs/reference/server.md says what becomes of it, and that is what becomes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "running_server.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/api_request.h"
#include "server/dialect.h"

namespace lacuna::documented_fields_test {
namespace {

using nlohmann::json;

struct Api {
  const char* column;
  const Dialect* dialect;
  json body;  // the shortest
};

std::vector<Api> apis() {
  const json turns = json::array({{{"role", "user"}, {"content", "a"}}});
  return {{"chat", &kOpenAiChat, {{"messages", turns}}},
          {"completions", &kOpenAiCompletions, {{"prompt", "a"}}},
          {"infill", &kLacunaInfill, {{"input", json::array({"a", {{"hole", 1}}})}}},
          {"responses", &kOpenAiResponses, {{"input", "a"}}},
          {"messages", &kAnthropicMessages, {{"messages", turns}, {"max_tokens", 8U}}},
          {"api/chat", &kOllamaChat, {{"messages", turns}}},
          {"api/generate", &kOllamaGenerate, {{"prompt", "a"}}},
          {"completion", &kLlamaCppCompletion, {{"prompt", "a"}}}};
}

/// The word of the table for a field, by the list that reads it.
std::string word_of(const RequestField& field) {
  if (field.read == leave_out_field) return "left out";
  if (field.read == refuse_field || field.read == refuse_sampling) return "refused";
  return "yes";
}

/// The table of fields: by field, its words in the order of apis().
std::map<std::string, std::vector<std::string>> expected_table() {
  std::map<std::string, std::vector<std::string>> table;
  const std::vector<Api> all = apis();
  for (size_t i = 0; i < all.size(); ++i) {
    for (const RequestField& field : all[i].dialect->fields()) {
      std::vector<std::string>& row = table[std::string(field.name)];
      row.resize(all.size());
      row[i] = word_of(field);
    }
  }
  return table;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t begin = cell.find_first_not_of(" `"), end = cell.find_last_not_of(" `");
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

std::map<std::string, std::vector<std::string>> documented_table() {
  std::ifstream page(std::filesystem::path(LACUNA_SOURCE_DIR) / "docs/reference/server.md");
  std::map<std::string, std::vector<std::string>> table;
  bool is_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| field | `chat`")) is_table = true;
    if (!line.starts_with("|")) is_table = false;
    if (!is_table || line.starts_with("| field |") || line.starts_with("|---")) continue;
    std::vector<std::string> cells = cells_of(line);
    const std::string name = cells.front();
    cells.erase(cells.begin());
    table[name] = cells;
  }
  return table;
}

TEST(DocumentedFields, AreThoseOfTheLists) {
  const auto expected = expected_table(), documented = documented_table();
  EXPECT_GT(expected.size(), 80U);
  std::string rows;
  for (const auto& [name, words] : expected)
    rows += fmt::format("| `{}` | {} |\n", name, fmt::join(words, " | "));
  EXPECT_EQ(documented, expected) << rows;
}

/// Values of all kinds, so that each field finds one that it takes, or that asks for something.
std::vector<json> values() {
  return {json("text"),
          json(7U),
          json(0.5),
          json(true),
          json::array({"text"}),
          json::array({7U}),
          json{{"type", "enabled"}, {"budget_tokens", 9}},
          json{{"a", "b"}},
          json{{"13", 5}},
          json::array({{{"role", "user"}, {"content", "b"}}}),
          json{{"include_usage", true}},
          json{{"temperature", 0.5}},
          json("sometext.png")};
}

/// All that a request says, as text.
std::string described(const GenerationRequest& request) {
  std::string text;
  visit_options(request.options, [&](const Setting& setting, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, bool>) {
      text += fmt::format("{}={};", setting.name, field);
    } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
      text += fmt::format("{}={};", setting.name, fmt::join(field, ","));
    } else if (field) {
      text += fmt::format("{}={};", setting.name, *field);
    }
  });
  for (const std::string& each : request.stop) text += "stop " + each;
  for (const TokenId each : request.stop_tokens) text += fmt::format("stop {}", each);
  for (const auto& [key, value] : request.keys) text += key + value;
  for (const std::string& each : request.left_out) text += "left out " + each;
  for (const Prompt& prompt : request.prompts) {
    if (const auto* conversation = std::get_if<Conversation>(&prompt)) {
      text += conversation->messages.dump() + conversation->keywords.dump() + conversation->documents.dump();
      text += conversation->add_generation_prompt ? "" : "continues";
    } else if (const auto* words = std::get_if<std::string>(&prompt)) {
      text += *words;
    } else {
      text += fmt::format("{}", fmt::join(std::get<std::vector<TokenId>>(prompt), ","));
    }
  }
  text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", request.num_choices,
                      request.num_candidates, request.stream, request.include_usage, request.wants_logprobs,
                      request.num_alternatives, request.wants_step_map, request.echoes, request.inserts,
                      request.fills_cursor, request.scores_only, request.answers_nothing, request.events,
                      request.uses_guide, request.canvas.size());
  text += fmt::format(" {} {}", request.given_tokens.value_or(-1), request.likelihood_draws.value_or(-1));
  return text;
}

/// Fields that other parts of the server read: what the answer has to be, the tools that it may call, the
/// model.
bool is_read_elsewhere(const Api& api, std::string_view name) {
  const auto& formats = api.dialect->answer_formats;
  if (std::find(formats.begin(), formats.end(), name) != formats.end()) return true;
  constexpr std::array<std::string_view, 6> kOthers{
      "model", "tools", "tool_choice", "parallel_tool_calls", "function_call", "functions"};
  if (std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end()) return true;
  // Other ways to give an infill's canvas, which this body gives as "input".
  constexpr std::array<std::string_view, 4> kCanvas{"mask", "prompt", "diffusion_seed_canvas",
                                                    "diffusion_pinned"};
  return api.dialect == &kLacunaInfill && std::find(kCanvas.begin(), kCanvas.end(), name) != kCanvas.end();
}

TEST(DocumentedFields, HaveTheirEffectOrAreNamed) {
  for (const Api& api : apis()) {
    const std::string plain = described(api.dialect->parse(api.body, {}));
    for (const RequestField& field : api.dialect->fields()) {
      const std::string name(field.name);
      const std::string word = word_of(field);
      if (api.body.contains(name) || (word == "yes" && is_read_elsewhere(api, name))) continue;
      bool has_effect = false, is_left_out = false, is_named = false;
      for (const json& value : values()) {
        json body = api.body;
        body[name] = value;
        try {
          const GenerationRequest request = api.dialect->parse(body, {});
          for (const std::string& each : request.left_out)
            is_left_out = is_left_out || each.find(name) != each.npos;
          has_effect = has_effect || described(request) != plain;
        } catch (const InputError& error) {
          is_named = is_named || std::string(error.what()).find(name) != std::string::npos;
        }
      }
      const std::string place = std::string(api.column) + " " + name;
      const bool holds = word == "left out"  ? is_left_out && !is_named
                         : word == "refused" ? is_named && !is_left_out
                                             : has_effect || is_named;
      EXPECT_TRUE(holds) << place << ": " << word;
    }
  }
}

/// A value that a schema of one type, or of several, does not allow; null where it allows anything.
json wrong_value(const RequestField& field) {
  const json schema = json::parse(field.schema);
  const json type = schema.value("type", json());
  if (type.is_null()) return {};
  const std::string types = type.dump();
  const auto allows = [&](const char* name) { return types.find(name) != std::string::npos; };
  for (const json& value : values()) {
    const bool is_allowed = value.is_string()    ? allows("string")
                            : value.is_boolean() ? allows("boolean")
                            : value.is_number()  ? allows("integer") || allows("number")
                            : value.is_array()   ? allows("array")
                                                 : allows("object");
    if (!is_allowed) return value;
  }
  return {};
}

TEST(DocumentedFields, AreRefusedByNameWhereTheirTypeIsWrongAndAbsentWhereTheyAreNull) {
  for (const Api& api : apis()) {
    const std::string plain = described(api.dialect->parse(api.body, {}));
    for (const RequestField& field : api.dialect->fields()) {
      const std::string name(field.name), place = std::string(api.column) + " " + name;
      json body = api.body;
      body[name] = nullptr;
      if (!field.is_required && !api.body.contains(name)) {
        EXPECT_EQ(described(api.dialect->parse(body, {})), plain) << place;
      }
      const json wrong = wrong_value(field);
      if (wrong.is_null() || word_of(field) == "left out" || is_read_elsewhere(api, name)) continue;
      body[name] = wrong;
      try {
        (void)api.dialect->parse(body, {});
        ADD_FAILURE() << place << " takes " << wrong;
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(name)) << place;
      }
    }
  }
}

TEST(DocumentedFields, OfABodyThatIsMisspeltAreNamed) {
  for (const Api& api : apis()) {
    for (const RequestField& field : api.dialect->fields()) {
      const std::string twin = std::string(field.name) + "_";
      json body = api.body;
      body[twin] = 1U;
      GenerationRequest request = api.dialect->parse(body, {});
      note_unknown_fields(body, "", api.dialect->fields(), nullptr, request);
      EXPECT_THAT(ignored_names(request), testing::HasSubstr(twin + " (unknown)")) << api.column;
      EXPECT_THROW(refuse_unknown_fields(request), FieldError) << twin;
    }
  }
}

/// Fields that the parts around a parser read, too: no value of any kind may fail in any other way than by an
/// error that names the field.
TEST(DocumentedFields, OfAnyValueGiveAnAnswerOrAnErrorThatNamesThem) {
  RunningServer server("mini-llada");
  const std::map<std::string, std::string> paths{
      {"chat", "/v1/chat/completions"},  {"completions", "/v1/completions"}, {"infill", "/v1/infill"},
      {"responses", "/v1/responses"},    {"messages", "/v1/messages"},       {"api/chat", "/api/chat"},
      {"api/generate", "/api/generate"}, {"completion", "/completion"}};
  for (const Api& api : apis()) {
    json least = api.body;
    if (api.dialect == &kOpenAiChat || api.dialect == &kOpenAiCompletions) least["max_tokens"] = 1U;
    if (api.dialect == &kAnthropicMessages) least["max_tokens"] = 1U;
    if (api.dialect == &kOpenAiResponses) least["max_output_tokens"] = 1U;
    if (api.dialect == &kLlamaCppCompletion) least["n_predict"] = 1U;
    if (api.dialect == &kOllamaChat || api.dialect == &kOllamaGenerate) least["options"]["num_predict"] = 1U;
    for (const RequestField& field : api.dialect->fields()) {
      const std::string name(field.name), place = std::string(api.column) + " " + name;
      if (word_of(field) == "left out" || !is_read_elsewhere(api, name)) continue;
      for (const json& value : {json("text"), json(7U), json(true), json::array({7U}), json{{"a", "b"}}}) {
        json body = least;
        body[name] = value;
        Call call = server.post(paths.at(api.column), body);
        const int status = call.status();
        EXPECT_TRUE(status == 200 || status == 400) << place << value << call.body();
        if (status == 400) {
          EXPECT_THAT(call.body(), testing::AnyOf(testing::HasSubstr(name), testing::HasSubstr("too short"),
                                                  testing::HasSubstr("no way to fill the holes"),
                                                  testing::HasSubstr("expected one of input, tokens")))
              << place << value;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lacuna::documented_fields_test
