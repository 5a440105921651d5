// Where the hub is, and who asks.
#pragma once

#include <string>

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

}  // namespace lacuna
