#include "server/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/name_list.h"
#include "base/read_file.h"
#include "base/rng.h"
#include "server/api_error.h"

namespace lacuna {
namespace {

// Headers that clients of OpenAI, Anthropic and Ollama send. A final "-" matches all names with this prefix.
constexpr std::string_view kUsualHeaders = "Authorization, Content-Type, X-Api-Key, X-Request-Id";
constexpr std::array<std::string_view, 14> kAdmittedHeaders = {
    "accept",           "accept-language", "anthropic-",   "authorization",   "cache-control",
    "content-language", "content-type",    "http-referer", "idempotency-key", "openai-",
    "user-agent",       "x-api-key",       "x-request-id", "x-stainless-"};

constexpr size_t kMaxClients = 65536;  // clients with their own counters
constexpr uint64_t kSharedRows = 4;

/// "localhost" for "localhost:8080", "::1" for "[::1]:8080". Other forms are returned unchanged, and match no
/// known name.
std::string_view without_port(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  const size_t end = is_bracketed ? host.find(']') : host.find(':');
  const std::string_view name = host.substr(0, end);
  std::string_view port = end == std::string_view::npos ? "" : host.substr(end + (is_bracketed ? 1 : 0));
  if (port.starts_with(':')) {
    port.remove_prefix(1);
    if (port.find_first_not_of("0123456789") != std::string_view::npos) return host;
  } else if (!port.empty()) {
    return host;
  }
  return is_bracketed ? name.substr(1) : name;
}

bool is_address(const std::string& host) {
  in6_addr bytes{};
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 || inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::any_of(list,
                             [&](const std::string& each) { return lower_case(each) == lower_case(value); });
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  size_t difference = given.size() ^ secret.size();
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<size_t>(static_cast<unsigned char>(given[i] ^ expected));
  }
  return difference == 0;
}

bool is_loopback(std::string_view host) {
  const std::string name = lower_case(host);
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  in_addr four{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::string admit_headers(std::string_view wanted) {
  std::string admitted;
  while (!wanted.empty()) {
    const size_t comma = wanted.find(',');
    std::string_view name = wanted.substr(0, comma);
    wanted = comma == std::string_view::npos ? "" : wanted.substr(comma + 1);
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    const std::string lower = lower_case(name);
    // Only characters of header names are copied into a header of the reply.
    constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    if (lower.find_first_not_of(kNameCharacters) != std::string::npos) continue;
    const bool is_known = std::ranges::any_of(kAdmittedHeaders, [&](std::string_view known) {
      return lower == known || (known.ends_with('-') && lower.starts_with(known));
    });
    if (is_known) admitted.append(admitted.empty() ? "" : ", ").append(name);
  }
  return admitted.empty() ? std::string(kUsualHeaders) : admitted;
}

std::vector<std::string> read_keys(const std::string& path) {
  constexpr size_t kMaxTableBytes = 1 << 20, kLongestKey = 4096;
  std::vector<std::string> keys;
  std::istringstream lines(read_whole_file(path, kMaxTableBytes, FileKind::kAnything));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
    if (keys.back().size() > kLongestKey)
      throw InputError("{}: a key is longer than {} bytes", path, kLongestKey);
  }
  if (keys.empty()) throw InputError("{}: holds no key; expected one key a line", path);
  return keys;
}

void AccessControl::check_site(const HttpRequest& request) const {
  if (!rules_.keys.empty()) return;
  const std::string host(without_port(request.host));
  const bool is_known =
      request.host.empty() || is_loopback(host) || is_address(host) || contains(rules_.allowed_hosts, host);
  if (!is_known) {
    throw ApiError(403, fmt::format("the Host header names {}; expected localhost, an IP address or a name "
                                    "given with --allow-host",
                                    in_quotes(host)));
  }
  const bool is_own = lower_case(request.origin) == "http://" + lower_case(request.host);
  if (request.origin.empty() || is_own || allows_origin(request.origin)) return;
  throw ApiError(403, fmt::format("pages of {} may not ask this server; it was started without a key and "
                                  "without --allow-origin for them",
                                  in_quotes(request.origin)));
}

std::string AccessControl::identify(const HttpRequest& request) const {
  if (rules_.keys.empty()) return request.address;
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = request.api_key;
  if (std::string_view(request.authorization).starts_with(kBearer)) {
    given = std::string_view(request.authorization).substr(kBearer.size());
  }
  size_t found = rules_.keys.size();
  for (size_t i = 0; i < rules_.keys.size(); ++i) {
    if (equal_in_constant_time(given, rules_.keys[i])) found = i;
  }
  if (found == rules_.keys.size()) {
    throw ApiError(401, "the key is missing or wrong; expected Authorization: Bearer KEY, or X-Api-Key: KEY");
  }
  return fmt::format("key {}", found);
}

int32_t AccessControl::count_one(const std::string& client) {
  if (const auto known = counts_.find(client); known != counts_.end()) return ++known->second;
  if (counts_.size() < kMaxClients) return ++counts_[client];
  // Count-min sketch: a client increments one counter per row; the minimum is at least its count.
  shared_counts_.resize(kSharedRows * kMaxClients, 0);
  int32_t smallest = std::numeric_limits<int32_t>::max();
  for (uint64_t row = 0; row < kSharedRows; ++row) {
    const uint64_t hash = mix_bits(std::hash<std::string>()(client) ^ mix_bits(salt_ + row));
    int32_t& counter = shared_counts_[row * kMaxClients + hash % kMaxClients];
    smallest = std::min(smallest, ++counter);
  }
  return smallest;
}

void AccessControl::count(const std::string& client) {
  if (rules_.requests_per_minute <= 0) return;
  const MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - begin_ >= std::chrono::minutes(1)) {
    counts_.clear();
    shared_counts_.clear();
    begin_ = now;
  }
  if (count_one(client) <= rules_.requests_per_minute) return;
  throw ApiError(
      429, fmt::format("this client has sent more than {} requests in a minute", rules_.requests_per_minute));
}

bool AccessControl::allows_origin(std::string_view origin) const {
  return contains(rules_.allowed_origins, "*") || contains(rules_.allowed_origins, origin);
}

std::string AccessControl::allow_origin(const HttpRequest& request) const {
  if (contains(rules_.allowed_origins, "*")) return "*";
  if (request.origin.empty()) return {};
  if (rules_.allowed_origins.empty() && !rules_.keys.empty()) return "*";
  return allows_origin(request.origin) ? request.origin : std::string();
}

}  // namespace lacuna
