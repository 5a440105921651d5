// Ollama's endpoints with information about models.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/json.h"
#include "model/families.h"
#include "model/fingerprint.h"
#include "server/api_error.h"
#include "server/endpoints.h"
#include "server/utc_time.h"
#include "tokenizer/unicode.h"

namespace lacuna {

using nlohmann::ordered_json;

std::string Endpoints::ollama_digest(size_t index) const {
  constexpr int kParts = 4;
  std::string digest;
  for (int part = 0; part < kParts; ++part) {
    Fnv1a hash;
    hash.add_piece(pool_.model(index).name);
    hash.add_piece(fmt::format("{} {} {}", files_[index].bytes, files_[index].created, part));
    digest += hash.text();
  }
  return digest;
}

ordered_json Endpoints::ollama_details(size_t index) const {
  const OpenedModel& opened = *pool_.model(index).opened;
  const std::string family(family_entry(opened.config().family).name);
  return {{"parent_model", ""},
          {"format", opened.source().folder.extension() == ".gguf" ? "gguf" : "safetensors"},
          {"family", family},
          {"families", {family}}};
}

void Endpoints::ollama_tags(const EndpointCall& call) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < pool_.size(); ++i) {
    const std::string& name = pool_.model(i).name;
    const auto time = std::chrono::system_clock::from_time_t(files_[i].created);
    list.push_back({{"name", name},
                    {"model", name},
                    {"modified_at", utc_time(time)},
                    {"size", files_[i].bytes},
                    {"digest", ollama_digest(i)},
                    {"details", ollama_details(i)}});
  }
  send_json(call.reply_to, {{"models", std::move(list)}});
}

void Endpoints::ollama_ps(const EndpointCall& call) {
  ordered_json list = ordered_json::array();
  for (const ModelPool::Loaded& loaded : pool_.loaded()) {
    if (loaded.is_replaced) continue;
    const PoolModel& model = pool_.model(loaded.index);
    list.push_back({{"name", model.name},
                    {"model", model.name},
                    {"size", model.bytes > 0 ? model.bytes : files_[loaded.index].bytes},
                    {"digest", ollama_digest(loaded.index)},
                    {"details", ollama_details(loaded.index)},
                    {"size_vram", 0},
                    {"context_length", model.opened->config().max_positions}});
  }
  send_json(call.reply_to, {{"models", std::move(list)}});
}

void Endpoints::ollama_show(const EndpointCall& call) {
  const ordered_json body = parse_body(call.request.body);
  name_fields(call, body);
  const ordered_json* name = find_value(body, "model");
  const ordered_json* other = find_value(body, "name");
  if (name != nullptr && other != nullptr && *name != *other) refuse_contradiction("model", "name");
  if (name == nullptr) name = other;
  if (name == nullptr) throw FieldError("model", "model is missing; expected a model of this server");
  const std::string text = FieldValue{"model", *name}.text();
  const size_t index = pool_.size() == 1 ? 0 : model_named(text);
  const OpenedModel& opened = *pool_.model(index).opened;
  const ModelConfig& config = opened.config();
  const std::string family(family_entry(config.family).name);
  ordered_json capabilities = ordered_json::array();
  const bool writes_text = opened.decision_temperatures().writes_text;
  if (writes_text) capabilities.push_back("completion");
  const bool has_turns = !opened.chat_template().is_none();
  if (writes_text && has_turns && opened.tokenizer() != nullptr) capabilities.push_back("tools");
  if (writes_text && can_infill(config)) capabilities.push_back("insert");
  send_json(call.reply_to,
            {{"details", ollama_details(index)},
             {"model_info",
              {{"general.architecture", family},
               {family + ".context_length", config.max_positions},
               {family + ".vocab_size", config.vocab_size}}},
             {"template", replace_ill_formed(opened.chat_template().program())},
             {"capabilities", std::move(capabilities)},
             {"modified_at", utc_time(std::chrono::system_clock::from_time_t(files_[index].created))}});
}

}  // namespace lacuna
