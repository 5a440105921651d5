// Reads chat templates from their files, in the order of the library transformers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/gguf.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/json_file.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 7> kSpecialKeys = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                          "pad_token", "cls_token", "mask_token"};

/// Adds a program, unless one of its name is known.
void add_program(std::string name, std::string program, std::string place, TemplateSource& source) {
  if (program.size() > kMaxTemplateBytes)
    throw InputError("{}: the chat template has {} bytes; expected at most {}", place, program.size(),
                     kMaxTemplateBytes);
  if (source.find(name) != nullptr) return;
  if (source.programs.size() == kMaxTemplates)
    throw InputError("{}: there are more than {} chat templates; expected at most that many", place,
                     kMaxTemplates);
  source.programs.emplace_back(std::move(name), std::move(program));
  source.places.push_back(std::move(place));
}

/// Adds a template, a list of {"name", "template"}, or an object of templates by name.
void add_value(const JsonValue& value, const std::string& file, TemplateSource& source) {
  if (value.json().is_string())
    return add_program(std::string(kDefaultTemplate), value.string(), file, source);
  const auto place = [&](const std::string& name) { return fmt::format("{}: {}", file, name); };
  if (value.json().is_object()) {
    for (const auto& item : value.object().items())
      add_program(item.key(), value.at(item.key()).string(), place(item.key()), source);
    return;
  }
  for (const JsonValue& choice : value.elements()) {
    const std::string& name = choice.at("name").string();
    add_program(name, choice.at("template").string(), place(name), source);
  }
}

nlohmann::json read_object(const std::filesystem::path& path) {
  return has_file(path) ? parse_json(read_text_file(path), path.string()) : nlohmann::json::object();
}

void add_files_of_their_own(const std::filesystem::path& folder, TemplateSource& source) {
  constexpr const char* kFile = "chat_template.jinja";
  constexpr const char* kFolder = "additional_chat_templates";
  if (has_file(folder / kFile))
    add_program(std::string(kDefaultTemplate), read_text_file(folder / kFile), kFile, source);
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder / kFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".jinja" && files.size() <= kMaxTemplates)
      files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files)
    add_program(file.stem().string(), read_text_file(file),
                fmt::format("{}/{}", kFolder, file.filename().string()), source);
}

/// A token's text, which files give as a string or as an object with "content".
std::string token_text(const JsonValue& value) {
  return value.json().is_object() ? value.at("content").string() : value.string();
}

/// Adds the special tokens of a file that earlier files have not set.
void add_special_tokens(const JsonValue& config, nlohmann::ordered_json& tokens) {
  constexpr const char* kMore = "additional_special_tokens";
  for (const std::string_view key : kSpecialKeys) {
    const auto value = config.find(key);
    const std::string name(key);
    if (value && !tokens.contains(name)) tokens[name] = token_text(*value);
  }
  const auto list = config.find(kMore);
  if (!list || tokens.contains(kMore) || !list->json().is_array()) return;
  tokens[kMore] = nlohmann::ordered_json::array();
  for (const JsonValue& value : list->elements()) tokens[kMore].push_back(token_text(value));
}

/// Adds variables that a model's own tokenizer class sets: Tiny-A2D disables thoughts (dllm/utils/models.py).
void add_keywords_of_the_model(const JsonValue& config, TemplateSource& source) {
  const auto type = config.find("model_type");
  if (type && type->json().is_string() && type->string().starts_with("a2d-qwen"))
    source.keywords["enable_thinking"] = false;
}

TemplateSource read_folder(const std::filesystem::path& folder) {
  TemplateSource source;
  const auto with_object = [&](const char* file, auto&& read) {
    const std::filesystem::path path = folder / file;
    const nlohmann::json document = read_object(path);
    read(JsonValue(document, path.string()));
  };
  const auto add_template_of = [&](const char* file) {
    with_object(file, [&](const JsonValue& config) {
      if (source.find(kDefaultTemplate) != nullptr) return;
      if (const auto value = config.find("chat_template")) add_value(*value, file, source);
    });
  };
  add_files_of_their_own(folder, source);
  add_template_of("chat_template.json");
  add_template_of("tokenizer_config.json");
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"})
    with_object(file, [&](const JsonValue& config) { add_special_tokens(config, source.special_tokens); });
  with_object("config.json", [&](const JsonValue& config) { add_keywords_of_the_model(config, source); });
  return source;
}

/// Texts of the special tokens that a GGUF file specifies by id.
nlohmann::ordered_json special_tokens_of(const GgufFile& file) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  constexpr int64_t kAnyId = std::numeric_limits<int64_t>::max();
  struct Key {
    std::string_view name, id;
  };
  constexpr std::array kKeys = {Key{"bos_token", "bos"},     Key{"eos_token", "eos"},
                                Key{"unk_token", "unknown"}, Key{"sep_token", "seperator"},
                                Key{"pad_token", "padding"}, Key{"cls_token", "cls"},
                                Key{"mask_token", "mask"}};
  nlohmann::ordered_json special = nlohmann::ordered_json::object();
  if (!file.has(kTokens)) return special;
  const auto& tokens = file.texts(kTokens);
  for (const Key& key : kKeys) {
    const std::string id_key = fmt::format("tokenizer.ggml.{}_token_id", key.id);
    if (!file.has(id_key)) continue;
    // Ignores ids without a token, since the template may not use them.
    const int64_t id = file.integer(id_key, {std::numeric_limits<int64_t>::min(), kAnyId});
    if (id < 0 || id >= static_cast<int64_t>(tokens.size())) continue;
    special[std::string(key.name)] = tokens[static_cast<size_t>(id)];
  }
  return special;
}

TemplateSource read_file(const GgufFile& file) {
  constexpr std::string_view kChatTemplate = "tokenizer.chat_template";
  TemplateSource source;
  const std::string named = std::string(kChatTemplate) + ".";
  if (file.has(kChatTemplate))
    add_program(std::string(kDefaultTemplate), std::string(file.text(kChatTemplate)),
                std::string(kChatTemplate), source);
  for (const std::string_view key : file.keys()) {
    if (key.starts_with(named))
      add_program(std::string(key.substr(named.size())), std::string(file.text(key)), std::string(key),
                  source);
  }
  source.special_tokens = special_tokens_of(file);
  return source;
}

}  // namespace

nlohmann::json gguf_template_config(const GgufFile& file) {
  const TemplateSource source = read_file(file);
  nlohmann::json config = nlohmann::json::object();
  for (const auto& item : source.special_tokens.items()) config[item.key()] = item.value();
  if (source.programs.size() == 1 && source.find(kDefaultTemplate) != nullptr) {
    config["chat_template"] = source.programs.front().second;
  } else if (!source.programs.empty()) {
    for (const auto& [name, program] : source.programs)
      config["chat_template"].push_back({{"name", name}, {"template", program}});
  }
  return config;
}

const std::string* TemplateSource::find(std::string_view name) const {
  for (const auto& [own, program] : programs) {
    if (own == name) return &program;
  }
  return nullptr;
}

TemplateSource read_chat_templates(const std::filesystem::path& folder) {
  TemplateSource source = GgufFile::is_gguf(folder) ? read_file(GgufFile::open(folder)) : read_folder(folder);
  if (source.programs.empty()) source.reason = fmt::format("{} has no chat template", folder.string());
  return source;
}

}  // namespace lacuna
