// Downloads a model into the local hub cache.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/hub_cache.h"
#include "hub/hub_files.h"

namespace lacuna {

/// Address of the hub, and credentials.
struct HubAccess {
  std::string endpoint = "https://huggingface.co";
  std::string token;         ///< may be empty
  std::string token_source;  ///< variable or file, for messages
  bool offline = false;

  /// $HF_ENDPOINT; $HF_TOKEN, else $HUGGING_FACE_HUB_TOKEN, else the file $HF_TOKEN_PATH, else the file token
  /// in HubCache::home(); $HF_HUB_OFFLINE. Throws InputError.
  static HubAccess from_environment();
};

struct PullOptions {
  HubModel model;
  std::vector<std::string> include;  ///< see choose_files()
  HubAccess access;
  HubCache cache{{}};
  int parallel = 4;                           ///< files at a time
  std::chrono::milliseconds first_wait{500};  ///< before the first retry; doubles up to half a minute
};

struct PullPlan {
  std::string commit;
  std::vector<HubFile> files;
  int64_t total_bytes = 0;
  int64_t present_bytes = 0;  ///< bytes that are already in the cache, partial files included
};

/// Progress callbacks, on the thread that called pull().
class PullObserver {
 public:
  virtual ~PullObserver() = default;
  virtual void planned(const PullPlan& /*plan*/) {}
  /// Called several times a second. Bytes may decrease if a partial file has to be dropped.
  virtual void progressed(int64_t /*present_bytes*/) {}
  virtual void finished(const HubFile& /*file*/) {}
  virtual void noted(std::string_view /*sentence*/) {}
};

/// `stop` was set. Partial files are kept.
struct PullStopped : std::runtime_error {
  PullStopped() : std::runtime_error("stopped") {}
};

/// Downloads what is missing and returns the snapshot's folder. Other processes may download the same files,
/// the hub's Python client included: each blob is written under its lock. Broken transfers are retried and
/// resumed; a blob is renamed into place after its digest was checked; snapshot and reference are written
/// when all blobs are there, so an interrupted update leaves the previous snapshot usable. Throws InputError
/// where the model, revision or token is not accepted, std::runtime_error where the network or the disk
/// fails.
std::filesystem::path pull(const PullOptions& options, PullObserver& observer, const std::atomic<bool>& stop);

}  // namespace lacuna
