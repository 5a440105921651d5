// The local cache of models from the Hugging Face hub, in the layout that its Python client uses:
//
//   models--ORG--NAME/blobs/ID                     a file's content, under its git SHA-1 or, for large files,
//                                                  its SHA-256; ID.incomplete while it is downloaded
//                    /snapshots/COMMIT/FILE        a link to its blob
//                    /refs/REVISION                the commit of a branch or tag when it was downloaded
//   .locks/models--ORG--NAME/ID.lock               held (flock) while the blob is written
//
// This part reads; hub/ downloads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A model on the hub as users write it: "ORG/NAME[@REVISION][:QUANT]".
struct HubModel {
  std::string owner, name;
  std::string revision = "main";  ///< a branch, tag or commit
  std::string quant;              ///< selects one of several GGUF files: "Q4_K_M"; may be empty

  /// Parses `text`; empty if it has another form or characters that the hub forbids.
  static std::optional<HubModel> parse(std::string_view text);

  /// Parses the folder name of a repository: "models--ORG--NAME".
  static std::optional<HubModel> of_repository(std::string_view folder_name);

  std::string id() const { return owner + "/" + name; }
  /// Formats the model so that parse() reads it back.
  std::string text() const;
};

/// Whether `text` is a branch, tag or commit that is safe in a path and in a URL.
bool is_hub_revision(std::string_view text);
/// Whether `text` is 40 lower-case hexadecimal digits.
bool is_commit(std::string_view text);
/// Whether `path` stays below its folder: not absolute, without empty, "." or ".." components, control
/// characters and backslashes.
bool is_relative_file(std::string_view path);

class HubCache {
 public:
  explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}
  /// $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub; empty if none is set.
  static HubCache from_environment();
  /// $HF_HOME, else ~/.cache/huggingface; empty if neither is set.
  static std::filesystem::path home();

  bool empty() const { return root_.empty(); }
  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path repository(const HubModel& model) const;
  std::filesystem::path blob(const HubModel& model, std::string_view blob_id) const;
  std::filesystem::path partial_blob(const HubModel& model, std::string_view blob_id) const;
  std::filesystem::path lock_file(const HubModel& model, std::string_view blob_id) const;

  /// Commit of the model's revision in this cache; empty if it was not downloaded. Throws InputError if a
  /// reference does not hold the name of a commit.
  std::optional<std::string> commit(const HubModel& model) const;
  std::filesystem::path snapshot(const HubModel& model, std::string_view commit) const;
  /// Whether the download of any file was interrupted or is in progress.
  bool has_partial_blobs(const HubModel& model) const;

  /// Lists models with their downloaded branches and tags, by name; at most `most`.
  std::vector<HubModel> models(size_t most) const;

 private:
  std::filesystem::path root_;
};

}  // namespace lacuna
