// Parses the hub's lists of a model's files, and chooses which of them a run needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hub_cache.h"

namespace lacuna {

/// One file of a model at one commit.
struct HubFile {
  std::string path;  ///< relative, below the snapshot
  std::string blob;  ///< 64 hexadecimal digits: SHA-256 of the content; 40: git's object id
  int64_t size = 0;  ///< bytes, at most kMaxFile
  static constexpr int64_t kMaxFile = int64_t{1} << 46;

  bool has_sha256() const { return blob.size() == 64; }
};

inline constexpr size_t kMaxHubFiles = 100'000;

/// The commit in the reply of /api/models/ID/revision/REVISION. Throws InputError naming `source`.
std::string parse_commit(std::string_view reply, const std::string& source);

/// Appends the files in one page of the reply of /api/models/ID/tree/COMMIT?recursive=true. Throws InputError
/// naming `source` if a path would leave the snapshot or a size, digest or count is out of bounds.
void parse_tree_page(std::string_view reply, const std::string& source, std::vector<HubFile>& files);

/// The URL of the next page in a Link header (rel="next"); empty on the last page.
std::string next_page(std::string_view link_header);

/// The files to download:
///   with include  those that match one of these patterns (*, ?, [...]; * matches / as well)
///   with quant    the GGUF file, or all parts of a split one, whose name ends with it
///   else          config, tokenizer, chat template and safetensors of the top folder; or, without
///                 safetensors, the only GGUF file
/// Throws InputError if nothing matches, or, naming them, if several GGUF files match.
std::vector<HubFile> choose_files(const std::vector<HubFile>& files, const HubModel& model,
                                  const std::vector<std::string>& include);

}  // namespace lacuna
