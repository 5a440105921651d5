// Who may ask the server: keys, Host and Origin headers, and how many requests a minute.
#pragma once

#include <chrono>
#include <cstddef>
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
  /// Names of this server besides localhost and IP addresses, without a port. Checked only where no key is
  /// required.
  std::vector<std::string> allowed_hosts;
  int32_t requests_per_minute = 0;  ///< per client (its key, or its address); 0: no limit
};

/// Whether two texts are the same, in a time that depends on the length of the first alone.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

/// Whether a name or address, without a port, means this machine alone: "localhost", 127.0.0.0/8 or ::1.
bool is_loopback(std::string_view host);

/// Reads one key a line; blank lines and lines that begin with # are skipped. Throws InputError where the
/// file cannot be read or holds no key.
std::vector<std::string> read_keys(const std::string& path);

/// The value of Access-Control-Allow-Headers: of the headers that a page asks for, those that clients of the
/// APIs here send (Authorization, X-Api-Key, X-Stainless-*, ...); where it asks for none, the usual ones.
///   wanted  names, separated by commas
std::string admit_headers(std::string_view wanted);

class AccessControl {
 public:
  explicit AccessControl(AccessRules rules) : rules_(std::move(rules)) {}

  /// Protects a server without a key from pages of other sites. Throws ApiError 403 where the Host header
  /// names neither this machine, an IP address nor an allowed host (DNS rebinding), or where the Origin
  /// header names another site. With keys, both checks are left out: a page of another site does not have the
  /// key.
  void check_site(const HttpRequest& request) const;

  /// The client that limits count: its key, or its address where no key is required. The key comes as
  /// Authorization: Bearer KEY or as X-Api-Key: KEY. Throws ApiError 401 where it is missing or wrong.
  std::string identify(const HttpRequest& request) const;

  /// Counts a request of this client. Throws ApiError 429 where it has sent too many in this minute.
  void count(const std::string& client);

  /// The value of Access-Control-Allow-Origin; empty: the header is left out.
  std::string allow_origin(const HttpRequest& request) const;

 private:
  /// Requests of a client in this minute with one more. Memory is bounded: beyond 65,536 clients the count
  /// may be too high, and is never too low.
  int32_t count_one(const std::string& client) LACUNA_REQUIRES(mutex_);
  bool allows_origin(std::string_view origin) const;

  AccessRules rules_;
  Mutex mutex_;
  std::map<std::string, int32_t> counts_
      LACUNA_GUARDED_BY(mutex_);  // requests of each client in the minute that began at begin_
  /// Counters that the clients beyond kMaxClients share; empty while there are none.
  std::vector<int32_t> shared_counts_ LACUNA_GUARDED_BY(mutex_);
  const uint64_t salt_ = std::random_device{}();  // nobody can choose addresses that share all counters
  std::chrono::steady_clock::time_point begin_ LACUNA_GUARDED_BY(mutex_){};
};

}  // namespace lacuna
