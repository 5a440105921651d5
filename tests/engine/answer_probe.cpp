// Constrained answers of tiny models with random weights, for tests/reference/check_answers.py. Reads one
// JSON object from each line of standard input:
//   {"family": name of models(), "schema": any | "regex": "...", "length": tokens, "seed": of the prompt and
//    the samples, "scale": of the logits, "options": {setting: text}}
// or, of an infill, in the place of "length"
//   {"canvas": [token or [tokens at first, at most], ...]}, where the second is a hole,
// and of DreamOn {"edits": [the token that deletes, the one that expands]},
// and answers each with a line {"text": ..., "tokens": [...], "passes": n}, {"refused": sentence, "least": n}
// where the length is and the shortest answer of the constraint has n tokens, {"uncompiled": sentence} where
// the constraint is, or {"error": sentence}.
#include <fmt/format.h>

#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/json.h"
#include "constraint/constraint.h"
#include "engine/engine.h"
#include "engine/infill.h"
#include "model/tiny_models.h"
#include "options/assign.h"
#include "options/choose.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kVocabulary = 360;

ModelConfig with_edits(ModelConfig config, TokenId remove, TokenId split, TokenId expand) {
  config.delete_id = remove;
  config.split_id = split;
  config.expand_id = expand;
  return config;
}

ModelConfig sub_blocks() {
  ModelConfig config = tiny_block_config(8);
  config.shifted_logits = true;
  config.sub_block_length = 4;
  return config;
}

/// A model of each way to decode.
std::map<std::string, ModelConfig> models() {
  return {{"llada", tiny_configs()[0]},
          {"dream", tiny_configs()[4]},
          {"llada2", tiny_configs().back()},
          {"sdar", tiny_block_config(4)},
          {"fast-dllm-v2", sub_blocks()},
          {"llada2.2", with_edits(tiny_block_config(8), 300, 301, -1)},
          {"dreamon", with_edits(tiny_configs()[4], 300, -1, 301)},
          {"qwen3", tiny_configs()[6]},
          {"refusion", tiny_refusion_config()},
          {"nemotron", tiny_nemotron_config()},
          {"gidd", tiny_gidd_config(1000)},
          {"gidd-mask", tiny_gidd_config(0)},
          {"sumi", tiny_sumi_config(512)},
          {"diffusion-gemma", tiny_canvas_config()}};
}

/// All bytes, then texts of several: words, parts of JSON that begin in one value and end in another, and
/// ends of characters with the beginnings of others.
TokenTable table_of(const ModelConfig& config) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"{\"",    "\": ",    "\", \"", "true", "false", "null",     "12",       "345",
                           "ab",     "the ",    " a",     "\"}",  "}}",    "]}",       ", ",       ": ",
                           "\": \"", "\"], \"", "[[",     "\\\"", "\\n",   "\xC3\xA9", "\xA9\xC3", "\xD0\xBA",
                           "0.",     "-1",      "00",     "id",   "name",  "\": {\"",  "\": [",    "aaaa"}) {
    texts.emplace_back(more);
  }
  TokenTable table;
  table.bytes.resize(static_cast<size_t>(config.vocab_size));
  table.end_ids = config.end_ids;
  for (const int64_t id : {int64_t{config.mask_id}, int64_t{config.delete_id}, int64_t{config.split_id},
                           int64_t{config.expand_id}}) {
    if (id >= 0) table.excluded.push_back(static_cast<TokenId>(id));
  }
  const auto is_special = [&](TokenId id) {
    return std::find(table.end_ids.begin(), table.end_ids.end(), id) != table.end_ids.end() ||
           std::find(table.excluded.begin(), table.excluded.end(), id) != table.excluded.end();
  };
  size_t next = 0;
  for (TokenId id = 0; id < config.vocab_size && next < texts.size(); ++id) {
    if (!is_special(id)) table.bytes[static_cast<size_t>(id)] = texts[next++];
  }
  return table;
}

class Answers {
 public:
  ordered_json answer(const ordered_json& asked) {
    DecodeRequest request;
    std::shared_ptr<const TokenAutomaton> automaton;
    GenerationOptions options;
    try {
      const auto seed = asked.value("seed", uint64_t{1});
      const std::shared_ptr<const BackendModel>& model = model_of(asked);
      const TokenTable table = table_of(model->config());
      const ordered_json settings = asked.value("options", ordered_json::object());
      for (const auto& [name, value] : settings.items())
        set_if_unset(options, name, value.get<std::string>());
      request.seed = seed;
      automaton = compile(asked, table);
      request.context.constraint = automaton;
      const Strategy strategy = choose_strategy(model->config(), options);
      if (asked.contains("canvas")) {
        lay_out(asked["canvas"], strategy, model->config(), request);
      } else {
        request.prompt = random_tokens(seed, 7, 60);
        request.gen_length = asked.value("length", 32);
      }
      return run(model, strategy, std::move(request), table);
    } catch (const SettingError& error) {
      if (error.problem().field != "gen_length") return {{"error", error.what()}};
      const int least = automaton->min_tokens(TokenAutomaton::start());
      return {{"refused", error.what()}, {"least", least}};
    } catch (const Uncompiled& error) {
      return {{"uncompiled", error.what()}};
    } catch (const InputError& error) {
      return {{"error", error.what()}};
    }
  }

 private:
  class Uncompiled : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
  };

  static std::shared_ptr<const TokenAutomaton> compile(const ordered_json& asked, const TokenTable& table) {
    try {
      return std::make_shared<const TokenAutomaton>(compile_constraint(constraint_of(asked)),
                                                    TokenVocabulary(table));
    } catch (const InputError& error) {
      throw Uncompiled(error.what());
    }
  }

  static Constraint constraint_of(const ordered_json& asked) {
    if (asked.contains("regex")) return RegexConstraint{asked["regex"].get<std::string>()};
    return JsonSchemaConstraint{asked.at("schema").dump()};
  }

  const std::shared_ptr<const BackendModel>& model_of(const ordered_json& asked) {
    const auto name = asked.at("family").get<std::string>();
    const auto scale = asked.value("scale", 1.0F);
    const ordered_json edits = asked.value("edits", ordered_json());
    auto& model = models_[{name + edits.dump(), scale}];
    if (!model) {
      ModelConfig config = models().at(name);
      if (edits.is_array())
        config = with_edits(std::move(config), edits.at(0).get<TokenId>(), -1, edits.at(1).get<TokenId>());
      config.vocab_size = kVocabulary;
      config.logit_scale *= scale;
      model = on_cpu(tiny_model(config), default_table(), threads_);
    }
    return model;
  }

  static void lay_out(const ordered_json& asked, const Strategy& strategy, const ModelConfig& config,
                      DecodeRequest& request) {
    std::vector<CanvasPart> parts;
    for (const ordered_json& part : asked) {
      if (part.is_array()) {
        parts.emplace_back(Hole{part.at(0).get<int32_t>(), part.at(1).get<int32_t>()});
      } else {
        parts.emplace_back(part.get<TokenId>());
      }
    }
    InfillCanvas canvas =
        infill_canvases(parts, strategy, config, nullptr, request.context.constraint.get()).back();
    request.prompt = std::move(canvas.prompt);
    request.context.constrained_prefix = canvas.constrained_prefix;
    request.context.answer = std::move(canvas.answer);
    if (changes_lengths(strategy, config)) request.context.holes = std::move(canvas.holes);
  }

  static ordered_json run(const std::shared_ptr<const BackendModel>& model, const Strategy& strategy,
                          DecodeRequest request, const TokenTable& table) {
    Engine engine(model);
    const bool is_infill = !request.context.answer.empty();
    engine.add(make_decoder(model->config(), strategy, std::move(request)));
    int passes = 0;
    engine.run([&](const StepEvent&) { ++passes; });
    const Decoder& decoder = engine.decoder(0);
    const size_t begin = is_infill ? 0 : static_cast<size_t>(decoder.prompt_length());
    std::string text;
    std::vector<TokenId> tokens;
    for (const TokenId token : decoder.canvas().subspan(begin)) {
      const bool is_end = std::find(table.end_ids.begin(), table.end_ids.end(), token) != table.end_ids.end();
      if (is_end && !is_infill) break;
      if (is_end) throw InputError("a hole has an end token");
      text += table.bytes.at(static_cast<size_t>(token));
      tokens.push_back(token);
    }
    return {{"text", text}, {"tokens", tokens}, {"passes", passes}};
  }

  ThreadPool threads_{1};
  std::map<std::pair<std::string, float>, std::shared_ptr<const BackendModel>> models_;
};

}  // namespace
}  // namespace lacuna

int main() {
  lacuna::Answers answers;
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::ordered_json reply;
    try {
      reply = answers.answer(lacuna::parse_ordered_json(line, "request"));
    } catch (const std::exception& error) {
      reply = {{"broken", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
}
