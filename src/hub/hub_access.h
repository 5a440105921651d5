// Address of the hub, and credentials.
#pragma once

#include <string>

namespace lacuna {

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

}  // namespace lacuna
