#include "base/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxName = 96;  // the hub's own limit
constexpr size_t kMaxRevision = 200;
constexpr std::string_view kRepositoryPrefix = "models--";

/// Empty if the variable is not set.
fs::path from_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool has_only(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char character) {
    return (std::isalnum(static_cast<unsigned char>(character)) != 0 &&
            static_cast<unsigned char>(character) < 128) ||
           others.find(character) != others.npos;
  });
}

bool is_hub_name(std::string_view text) {
  const auto is_edge = [](char character) { return character == '-' || character == '.'; };
  return !text.empty() && text.size() <= kMaxName && has_only(text, "-_.") && !is_edge(text.front()) &&
         !is_edge(text.back()) && text.find("--") == text.npos && text.find("..") == text.npos;
}

/// Sorted names of at most `most` entries of the folder; empty if it cannot be read.
std::vector<std::string> entries_of(const fs::path& folder, size_t most) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && names.size() < most;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string HubModel::text() const {
  return id() + (revision == "main" ? "" : "@" + revision) + (quant.empty() ? "" : ":" + quant);
}

std::optional<HubModel> HubModel::parse(std::string_view text) {
  HubModel model;
  if (const size_t colon = text.rfind(':'); colon != text.npos) {
    model.quant = text.substr(colon + 1);
    if (model.quant.empty() || model.quant.size() > kMaxName || !has_only(model.quant, "-_.")) return {};
    text = text.substr(0, colon);
  }
  if (const size_t at = text.find('@'); at != text.npos) {
    model.revision = text.substr(at + 1);
    if (!is_hub_revision(model.revision)) return {};
    text = text.substr(0, at);
  }
  const size_t slash = std::min(text.find('/'), text.size());
  model.owner = text.substr(0, slash);
  model.name = text.substr(std::min(slash + 1, text.size()));
  if (!is_hub_name(model.owner) || !is_hub_name(model.name)) return {};
  return model;
}

std::optional<HubModel> HubModel::of_repository(std::string_view folder_name) {
  if (!folder_name.starts_with(kRepositoryPrefix)) return {};
  std::string id(folder_name.substr(kRepositoryPrefix.size()));
  const size_t dashes = id.find("--");
  if (dashes == id.npos) return {};
  return parse(id.replace(dashes, 2, "/"));
}

bool is_hub_revision(std::string_view text) {
  return text.size() <= kMaxRevision && has_only(text, "-_./+") && !text.starts_with('-') &&
         is_relative_file(text);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_relative_file(std::string_view path) {
  constexpr size_t kMaxPath = 1024;
  constexpr size_t kMaxComponent = 255;
  if (path.empty() || path.size() > kMaxPath) return false;
  const auto is_refused = [](char character) {
    return static_cast<unsigned char>(character) < 32 || character == 127 || character == '\\';
  };
  if (std::any_of(path.begin(), path.end(), is_refused)) return false;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view component = path.substr(start, end - start);
    if (component.empty() || component == "." || component == ".." || component.size() > kMaxComponent)
      return false;
    start = end + 1;
  }
  return true;
}

fs::path HubCache::home() {
  if (fs::path folder = from_variable("HF_HOME"); !folder.empty()) return folder;
  const fs::path home = from_variable("HOME");
  return home.empty() ? home : home / ".cache" / "huggingface";
}

HubCache HubCache::from_environment() {
  if (const fs::path folder = from_variable("HF_HUB_CACHE"); !folder.empty()) return HubCache(folder);
  const fs::path folder = home();
  return HubCache(folder.empty() ? folder : folder / "hub");
}

fs::path HubCache::repository(const HubModel& model) const {
  return root_ / (std::string(kRepositoryPrefix) + model.owner + "--" + model.name);
}

fs::path HubCache::blob(const HubModel& model, std::string_view blob_id) const {
  return repository(model) / "blobs" / blob_id;
}

fs::path HubCache::partial_blob(const HubModel& model, std::string_view blob_id) const {
  return repository(model) / "blobs" / (std::string(blob_id) + ".incomplete");
}

fs::path HubCache::lock_file(const HubModel& model, std::string_view blob_id) const {
  return root_ / ".locks" / repository(model).filename() / (std::string(blob_id) + ".lock");
}

fs::path HubCache::snapshot(const HubModel& model, std::string_view commit) const {
  return repository(model) / "snapshots" / commit;
}

std::optional<std::string> HubCache::commit(const HubModel& model) const {
  std::error_code ignored;
  const fs::path reference = repository(model) / "refs" / model.revision;
  if (!fs::is_regular_file(reference, ignored)) {
    if (is_commit(model.revision) && fs::is_directory(snapshot(model, model.revision), ignored))
      return model.revision;
    return {};
  }
  constexpr size_t kMaxReference = 256;
  std::string text = read_whole_file(reference, kMaxReference);
  text.resize(text.find_last_not_of(" \r\n") + 1);
  if (!is_relative_file(text) || text.find('/') != text.npos) {
    throw InputError("{}: holds {}; expected the name of a commit", reference.string(), in_quotes(text));
  }
  return text;
}

bool HubCache::has_partial_blobs(const HubModel& model) const {
  constexpr size_t kMaxBlobs = 100'000;
  const std::vector<std::string> blobs = entries_of(repository(model) / "blobs", kMaxBlobs);
  return std::any_of(blobs.begin(), blobs.end(),
                     [](const std::string& name) { return name.ends_with(".incomplete"); });
}

std::vector<HubModel> HubCache::models(size_t most) const {
  std::vector<HubModel> found;
  if (empty()) return found;
  for (const std::string& folder : entries_of(root_, most)) {
    std::optional<HubModel> model = HubModel::of_repository(folder);
    if (!model) continue;
    std::error_code ignored;
    const size_t before = found.size();
    for (const std::string& reference : entries_of(repository(*model) / "refs", most)) {
      if (!is_hub_revision(reference) ||
          !fs::is_regular_file(repository(*model) / "refs" / reference, ignored))
        continue;
      model->revision = reference;
      found.push_back(*model);
    }
    // Neither downloads by commit nor interrupted ones leave a reference.
    if (found.size() == before) {
      const std::vector<std::string> commits = entries_of(repository(*model) / "snapshots", most);
      for (const std::string& commit : commits) {
        if (!is_commit(commit)) continue;
        model->revision = commit;
        found.push_back(*model);
      }
      if (found.size() == before) found.push_back(*model);
    }
    if (found.size() >= most) break;
  }
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace lacuna
