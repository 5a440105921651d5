#include "hub/hub_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/name_list.h"

namespace lacuna {
namespace {

constexpr std::string_view kSmallFiles =
    "config.json adapter_config.json generation_config.json tokenizer.json tokenizer_config.json "
    "added_tokens.json special_tokens_map.json vocab.json merges.txt chat_template.jinja chat_template.json "
    "model.safetensors.index.json";

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The common stem of the parts of a split file: "sub/model" for "sub/model-00001-of-00003.gguf".
std::string gguf_stem(std::string_view path) {
  std::string stem(path.substr(0, path.size() - std::string_view(".gguf").size()));
  // -NNNNN-of-NNNNN
  constexpr size_t kSuffix = 15;
  if (stem.size() > kSuffix && fnmatch("-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]",
                                       stem.substr(stem.size() - kSuffix).c_str(), 0) == 0) {
    stem.resize(stem.size() - kSuffix);
  }
  return stem;
}

/// Whether a stem ends with a quantization's name: "llada-8b-Q4_K_M" with "Q4_K_M".
bool has_quant(std::string_view stem, std::string_view quant) {
  const std::string text = lower_case(stem);
  const std::string end = lower_case(quant);
  if (!text.ends_with(end)) return false;
  return text.size() == end.size() ||
         std::isalnum(static_cast<unsigned char>(text[text.size() - end.size() - 1])) == 0;
}

/// Formats at most kMax names for a message.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMax = 12;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMax); ++i) {
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  }
  if (names.size() > kMax) text += fmt::format(" and {} more", names.size() - kMax);
  return text;
}

std::map<std::string, std::vector<HubFile>> gguf_models(const std::vector<HubFile>& files) {
  std::map<std::string, std::vector<HubFile>> models;
  for (const HubFile& file : files) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (!file.path.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    models[gguf_stem(file.path)].push_back(file);
  }
  return models;
}

std::vector<HubFile> choose_gguf(const std::vector<HubFile>& files, const HubModel& model) {
  std::vector<HubFile> chosen;
  std::vector<std::string> stems;
  for (const auto& [stem, parts] : gguf_models(files)) {
    stems.push_back(stem);
    if (!model.quant.empty() && !has_quant(stem, model.quant)) continue;
    if (!chosen.empty()) chosen.clear();
    chosen = parts;
  }
  const auto matches = [&](const std::string& stem) {
    return model.quant.empty() || has_quant(stem, model.quant);
  };
  const auto count = std::count_if(stems.begin(), stems.end(), matches);
  if (count == 1) return chosen;
  if (stems.empty()) {
    throw InputError(
        "{} holds no {}; expected a model in one of these formats", model.id(),
        model.quant.empty() ? "config.json with .safetensors files and no .gguf file" : ".gguf file");
  }
  if (count == 0) {
    throw InputError("{}: no GGUF file of {} ends with {}; expected the end of one of {}", model.text(),
                     model.id(), in_quotes(model.quant), listed(stems));
  }
  throw InputError(
      "{} holds several GGUF files: {}; choose one as {}:QUANT, by the end of its name, or with --include",
      model.text(), listed(stems), model.id());
}

std::vector<HubFile> choose_included(const std::vector<HubFile>& files, const HubModel& model,
                                     const std::vector<std::string>& include) {
  std::vector<HubFile> chosen;
  std::copy_if(files.begin(), files.end(), std::back_inserter(chosen), [&](const HubFile& file) {
    return std::any_of(include.begin(), include.end(), [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), file.path.c_str(), 0) == 0;
    });
  });
  if (!chosen.empty()) return chosen;
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const HubFile& file : files) names.push_back(file.path);
  throw InputError("--include {}: no file of {} matches; expected a pattern for some of {}",
                   fmt::join(include, ", "), model.id(), listed(names));
}

}  // namespace

std::string parse_commit(std::string_view reply, const std::string& source) {
  const nlohmann::json json = parse_json(reply, source);
  const JsonObject object(json, source);
  std::string commit = object.text("sha");
  if (!is_commit(commit)) object.refuse("sha", "a commit of 40 hexadecimal digits");
  return commit;
}

void parse_tree_page(std::string_view reply, const std::string& source, std::vector<HubFile>& files) {
  const nlohmann::json page = parse_json(reply, source);
  if (!page.is_array()) throw InputError("{}: expected a list of files", source);
  for (const nlohmann::json& item : page) {
    const JsonObject entry(item, source);
    if (entry.text("type") != "file") continue;
    HubFile file;
    file.path = entry.text("path");
    if (!is_relative_file(file.path)) entry.refuse("path", "a file below the model's folder");
    const bool is_large = entry.has("lfs");
    const Range<int64_t> sizes{0, HubFile::kMaxFile};
    if (is_large) {
      const JsonObject large = entry.object("lfs");
      file.size = large.integer("size", sizes);
      file.blob = large.text("oid");
      if (!is_hexadecimal(file.blob, 64)) large.refuse("oid", "a SHA-256 of 64 hexadecimal digits");
    } else {
      file.size = entry.integer("size", sizes);
      file.blob = entry.text("oid");
      if (!is_hexadecimal(file.blob, 40)) entry.refuse("oid", "a git object id of 40 hexadecimal digits");
    }
    if (files.size() == kMaxHubFiles) throw InputError("{}: lists more than {} files", source, kMaxHubFiles);
    files.push_back(std::move(file));
  }
}

std::string next_page(std::string_view link_header) {
  for (size_t start = link_header.find('<'); start != link_header.npos;
       start = link_header.find('<', start + 1)) {
    const size_t end = link_header.find('>', start);
    if (end == link_header.npos) return {};
    const std::string_view attributes = link_header.substr(end, link_header.find(',', end) - end);
    if (attributes.find("rel=\"next\"") != attributes.npos) {
      return std::string(link_header.substr(start + 1, end - start - 1));
    }
  }
  return {};
}

std::vector<HubFile> choose_files(const std::vector<HubFile>& files, const HubModel& model,
                                  const std::vector<std::string>& include) {
  if (!include.empty()) return choose_included(files, model, include);
  if (!model.quant.empty()) return choose_gguf(files, model);
  std::set<std::string_view> names;
  for (const HubFile& file : files) names.insert(file.path);
  const bool is_whole = names.contains("model.safetensors");
  const bool has_index = names.contains("model.safetensors.index.json");
  bool has_weights = false;
  std::vector<HubFile> chosen;
  for (const HubFile& file : files) {
    if (has_name(kSmallFiles, file.path)) chosen.push_back(file);
    if (!file.path.ends_with(".safetensors") || file.path.find('/') != file.path.npos) continue;
    // If model.safetensors or numbered shards hold all weights, other files are duplicates.
    const bool is_shard = fnmatch("*-of-[0-9]*.safetensors", file.path.c_str(), 0) == 0;
    if (is_whole ? file.path != "model.safetensors" : has_index && !is_shard) continue;
    has_weights = true;
    chosen.push_back(file);
  }
  const bool is_adapter =
      names.contains("adapter_config.json") && names.contains("adapter_model.safetensors");
  if ((has_weights && names.contains("config.json")) || is_adapter) return chosen;
  return choose_gguf(files, model);
}

}  // namespace lacuna
