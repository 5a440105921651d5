// Access control of the server: API keys, Host and Origin headers, and rate limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/http.h"

namespace lacuna {

struct AccessRules {
  std::vector<std::string> keys;             ///< accepted bearer tokens; empty: no key is required
  std::vector<std::string> allowed_origins;  ///< "https://example.org", or "*" for every origin
  /// Names accepted in the Host header besides localhost and IP addresses, without a port. Checked only if no
  /// key is required.
  std::vector<std::string> allowed_hosts;
  int32_t requests_per_minute = 0;  ///< other than GET, per client (key or address); 0: no limit
};

/// Whether two texts are equal, in constant time: the time depends only on the length of `given`.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

/// Whether a name or address, without a port, is loopback: "localhost", 127.0.0.0/8 or ::1.
bool is_loopback(std::string_view host);

/// Reads one key per line; skips blank lines and lines that begin with #. Throws InputError if the file
/// cannot be read or has no key.
std::vector<std::string> read_keys(const std::string& path);

/// Value of Access-Control-Allow-Headers: the headers in `wanted` that clients of the supported APIs send
/// (Authorization, X-Api-Key, X-Stainless-*, ...); the most common ones if `wanted` is empty.
///   wanted  Access-Control-Request-Headers: names separated by commas
std::string admit_headers(std::string_view wanted);

class AccessControl {
 public:
  explicit AccessControl(AccessRules rules) : rules_(std::move(rules)) {}

  /// Protects a server without keys from pages of other sites. Throws ApiError 403 if the Host header is
  /// neither localhost, an IP address nor an allowed host (DNS rebinding), or if the Origin header names
  /// another site. Does nothing if keys are required: pages of other sites do not have one.
  void check_site(const HttpRequest& request) const;

  /// Identifies a client for rate limits: by the index of its key, or by its address if no key is required.
  /// Reads Authorization: Bearer KEY or X-Api-Key: KEY. Throws ApiError 401 if the key is missing or wrong.
  std::string identify(const HttpRequest& request) const;

  /// Counts a request of this client. Throws ApiError 429 if it has sent too many in this minute.
  void count(const std::string& client);

  /// The value of Access-Control-Allow-Origin; empty: the header is left out.
  std::string allow_origin(const HttpRequest& request) const;

 private:
  /// Counts one request of a client and returns its count in this minute. To bound memory, clients beyond
  /// 65,536 share counters, so their counts may be too high but never too low.
  int32_t count_one(const std::string& client) LACUNA_REQUIRES(mutex_);
  bool allows_origin(std::string_view origin) const;

  AccessRules rules_;
  Mutex mutex_;
  std::map<std::string, int32_t> counts_
      LACUNA_GUARDED_BY(mutex_);  // requests of each client in the minute that began at begin_
  /// Counters that the clients beyond kMaxClients share; empty while there are none.
  std::vector<int32_t> shared_counts_ LACUNA_GUARDED_BY(mutex_);
  const uint64_t salt_ = std::random_device{}();  // prevents clients from choosing colliding addresses
  std::chrono::steady_clock::time_point begin_ LACUNA_GUARDED_BY(mutex_){};
};

}  // namespace lacuna
