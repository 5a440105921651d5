#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint_summary.h"
#include "commands.h"
#include "model/families.h"
#include "model/locate.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "terminal.h"

namespace lacuna {
namespace {

constexpr size_t kMaxListed = 1000;

struct ListedModel {
  std::string name;      ///< for --model
  std::string revision;  ///< of a download
  std::filesystem::path folder = {};
  std::string family = {}, format = {};
  int64_t parameters = 0;
  int64_t bytes = 0;
  std::string problem = {};  ///< why it cannot be used; empty if it can
};

/// Fills in the model's fields from its files. A damaged or unknown model gets a problem and keeps the fields
/// found so far.
void examine_model(ListedModel& model, const ModelPlaces& places) {
  try {
    model.folder = locate_model(model.name, places);
    if (!GgufFile::is_gguf(model.folder)) require_whole_download(model.folder);
    const ModelConfig config = read_config(model.folder);
    model.family = family_entry(config.family).name;
    model.parameters = count_parameters(config);
    const nlohmann::ordered_json checkpoint = checkpoint_json(model.folder);
    if (checkpoint.is_null()) throw InputError("{}: holds no weights", model.folder.string());
    model.bytes = checkpoint.at("bytes").get<int64_t>();
    model.format = checkpoint.at("dtype").get<std::string>();
  } catch (const std::exception& error) {
    model.problem = error.what();
  }
}

/// Names of the folders in a model folder that hold a model or a part of one.
std::vector<std::string> models_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end && names.size() < kMaxListed; entry.increment(error)) {
    std::error_code ignored;
    const std::filesystem::path& path = entry->path();
    if (std::filesystem::exists(path / "config.json", ignored) ||
        std::filesystem::exists(path / "model.safetensors", ignored))
      names.push_back(path.filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<ListedModel> find_models() {
  const ModelPlaces places = ModelPlaces::from_environment();
  std::vector<ListedModel> models;
  std::set<std::string> seen;  // the first folder with a name wins
  for (const std::filesystem::path& folder : places.model_folders) {
    ModelPlaces place;
    place.model_folders = {folder};
    for (const std::string& name : models_in(folder)) {
      if (models.size() == kMaxListed || !seen.insert(name).second) continue;
      models.push_back({.name = name, .revision = "", .folder = folder / name});
      examine_model(models.back(), place);
    }
  }
  ModelPlaces downloads;
  downloads.hub_cache = places.hub_cache;
  for (const HubModel& model : places.hub_cache.models(kMaxListed - models.size())) {
    models.push_back({.name = model.text(), .revision = model.revision});
    models.back().folder = places.hub_cache.repository(model);
    examine_model(models.back(), downloads);
  }
  return models;
}

nlohmann::ordered_json listed_json(const ListedModel& model) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  return {{"name", model.name},
          {"family", or_null(model.family)},
          {"parameters", model.parameters},
          {"bytes", model.bytes},
          {"format", or_null(model.format)},
          {"revision", or_null(model.revision)},
          {"folder", model.folder.string()},
          {"problem", or_null(model.problem)}};
}

constexpr size_t kListColumns = 7;
using ListRow = std::array<std::string, kListColumns>;

ListRow table_row(const ListedModel& model) {
  return {model.name,
          model.family,
          human_count(model.parameters),
          human_bytes(model.bytes),
          model.format,
          model.revision.empty() ? "-" : model.revision.substr(0, 12),
          model.folder.string()};
}

/// Prints a table; the rightmost columns are dropped if the terminal is too narrow.
void print_models(const std::vector<ListedModel>& models) {
  const size_t limit = isatty(STDOUT_FILENO) != 0 ? static_cast<size_t>(terminal_size(stdout).columns)
                                                  : std::numeric_limits<size_t>::max();
  std::vector<ListRow> rows = {{"NAME", "FAMILY", "PARAMETERS", "SIZE", "FORMAT", "REVISION", "FOLDER"}};
  std::array<size_t, kListColumns> widths{};
  for (const ListedModel& model : models) rows.push_back(table_row(model));
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool is_usable = row == 0 || models[row - 1].problem.empty();
    for (size_t column = 0; column < (is_usable ? kListColumns : 1); ++column) {
      widths[column] = std::max(widths[column], rows[row][column].size());
    }
  }
  size_t num_columns = 1;
  for (size_t used = widths[0]; num_columns < kListColumns; ++num_columns) {
    used += 2 + widths[num_columns];
    if (used > limit) break;
  }
  constexpr size_t kMaxOfReason = 160;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::string line = fmt::format("{:<{}}", rows[row][0], widths[0]);
    if (row > 0 && !models[row - 1].problem.empty()) {
      line += "  unusable: " + models[row - 1].problem.substr(0, kMaxOfReason);
    } else {
      for (size_t column = 1; column < num_columns; ++column) {
        line += fmt::format("  {:<{}}", rows[row][column], column + 1 < num_columns ? widths[column] : 0);
      }
    }
    line = line.substr(0, limit);
    line.resize(line.find_last_not_of(' ') + 1);
    print_text("{}\n", line);
  }
}

void list_models(bool as_json) {
  const std::vector<ListedModel> models = find_models();
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ListedModel& model : models) list.push_back(listed_json(model));
    print_data("{}\n", dump_json(list, 2));
    return;
  }
  print_models(models);
  if (models.size() >= kMaxListed) print_message("Only the first {} are shown\n", kMaxListed);
}

}  // namespace

void add_list_command(CLI::App& program) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      program.add_subcommand("list", "Show the models on this machine: those that ship, and downloads");
  command->add_flag("--json", *as_json, "Print one JSON list, with the full reason for each unusable model");
  command->callback([as_json] { list_models(*as_json); });
}

}  // namespace lacuna
