#include "hub/pull_options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/name_list.h"
#include "base/read_file.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Trims white space and rejects characters that are invalid in a header.
std::string checked_token(std::string_view text, const std::string& source) {
  const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string token(text.substr(start, text.find_last_not_of(" \t\r\n") + 1 - start));
  const bool is_plain =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 32 && c < 127; });
  if (!is_plain || token.size() > 4096) {
    throw InputError("{}: holds no token; expected one line of letters, digits and signs, as hf_...", source);
  }
  return token;
}

std::string checked_endpoint(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    throw InputError("HF_ENDPOINT is {}; expected a URL that begins with https:// or http://",
                     in_quotes(endpoint));
  }
  return endpoint;
}

void find_token(HubAccess& access) {
  for (const char* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    access.token = checked_token(variable(name), name);
    access.token_source = name;
    if (!access.token.empty()) return;
  }
  constexpr size_t kMaxBytes = 4096;
  fs::path path = variable("HF_TOKEN_PATH");
  if (path.empty() && !HubCache::home().empty()) path = HubCache::home() / "token";
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) > kMaxBytes) return;
  access.token = checked_token(read_whole_file(path, kMaxBytes), path.string());
  access.token_source = path.string();
}

}  // namespace

HubAccess HubAccess::from_environment() {
  HubAccess access;
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty())
    access.endpoint = checked_endpoint(endpoint);
  access.offline = has_name("1 on yes true", lower_case(variable("HF_HUB_OFFLINE")));
  find_token(access);
  return access;
}

}  // namespace lacuna
