// Settings and progress of a download.
#pragma once

#include <chrono>
#include <cstdint>
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
  std::string token_source;  ///< environment variable or file of the token, for messages
  bool offline = false;

  /// Endpoint: $HF_ENDPOINT. Token: $HF_TOKEN, else $HUGGING_FACE_HUB_TOKEN, else the file $HF_TOKEN_PATH,
  /// else the file "token" in HubCache::home(). Offline: $HF_HUB_OFFLINE. Throws InputError for invalid
  /// values.
  static HubAccess from_environment();
};

struct PullOptions {
  HubModel model;
  std::vector<std::string> include;  ///< see choose_files()
  HubAccess access;
  HubCache cache{{}};
  int parallel = 4;                           ///< number of concurrent downloads
  std::chrono::milliseconds first_wait{500};  ///< wait before the first retry; doubles up to 30 s
};

struct PullPlan {
  std::string commit;
  std::vector<HubFile> files;
  int64_t total_bytes = 0;
  int64_t present_bytes = 0;  ///< bytes already in the cache, including partial files
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

/// Thrown when `stop` is set. Partial files are kept.
struct PullStopped : std::runtime_error {
  PullStopped() : std::runtime_error("stopped") {}
};

}  // namespace lacuna
