#include "written_model.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/written_file.h"

namespace lacuna {

namespace fs = std::filesystem;

namespace {

bool is_left_over(const fs::directory_entry& entry) {
  return entry.path().extension() == ".partial";
}

}  // namespace

void expect_new_folder(const std::string& out) {
  std::error_code ignored;
  if (!fs::exists(out, ignored)) return;
  // Files that an interrupted run left unfinished do not count; make_folder() removes them.
  const fs::directory_iterator entries(out, ignored);
  if (fs::is_directory(out, ignored) && std::all_of(begin(entries), end(entries), is_left_over)) return;
  throw InputError("--out {}: is there already; expected a new or an empty folder", out);
}

void make_folder(const std::string& out) {
  expect_new_folder(out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error || !fs::is_directory(out)) {
    throw InputError("--out {}: cannot be made a folder{}", out, error ? ": " + error.message() : "");
  }
  for (const auto& entry : fs::directory_iterator(out, error)) {
    if (is_left_over(entry)) fs::remove(entry.path(), error);
  }
}

void copy_companions(const fs::path& from, const fs::path& to) {
  const std::set<std::string> kinds = {".json", ".txt", ".jinja"};
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || !kinds.contains(entry.path().extension().string())) continue;
    if (name == "config.json" || name.ends_with(".index.json")) continue;
    if (entry.file_size() == 0) {  // empty files cannot be mapped
      write_whole_file(to / name, "");
      continue;
    }
    const MappedFile file = MappedFile::open(entry.path());
    write_whole_file(to / name, file.text());
  }
}

nlohmann::ordered_json read_config_json(const fs::path& folder) {
  const MappedFile file = MappedFile::open(folder / "config.json");
  return nlohmann::ordered_json::parse(file.text());
}

}  // namespace lacuna
