// GET and POST over HTTP and HTTPS, through libcurl.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lacuna {

struct HttpGet {
  std::string url;
  std::string token = {};     ///< bearer token, sent to the URL's host and port alone; may be empty
  int64_t first_byte = 0;     ///< offset of the first requested byte of the body
  std::string if_range = {};  ///< If-Range: expected ETag of the file; may be empty
  bool is_file = false;       ///< no total time limit; otherwise kMaxSeconds
};

/// Posts a JSON body. `seconds` limits the whole transfer, without a limit on silence.
struct HttpPost {
  std::string url;
  std::string token = {};  ///< bearer token; may be empty
  std::string body;
  double seconds = 600;
};

/// Names of headers are in lower case.
using HttpHeaders = std::map<std::string, std::string, std::less<>>;

struct HttpHead {
  long status = 0;
  HttpHeaders first_headers;  ///< headers of the first reply, before redirects
  HttpHeaders headers;        ///< headers of the last reply, after all redirects

  std::string first(std::string_view name) const;
  std::string last(std::string_view name) const;
};

/// A transfer that ended without a complete reply.
struct TransferError : std::runtime_error {
  /// How far the transfer came.
  enum class Reached : uint8_t { kNoAddress, kNoConnection, kHost };

  TransferError(const std::string& sentence, bool retry, Reached reached = Reached::kHost)
      : std::runtime_error(sentence), may_retry(retry), has_reached(reached) {}
  bool may_retry;
  Reached has_reached;  ///< kNoAddress: DNS lookup of the host or proxy failed
};

/// `stop` was set.
struct TransferStopped : std::runtime_error {
  TransferStopped() : std::runtime_error("stopped") {}
};

/// One connection at a time, kept open between requests. Proxies come from HTTPS_PROXY and similar variables.
class HttpClient {
 public:
  explicit HttpClient(const std::atomic<bool>& stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Receives bytes of the last reply's body; false ends the transfer.
  using Sink = std::function<bool(const HttpHead&, std::string_view)>;

  /// Follows up to 5 redirects, but never from HTTPS to HTTP or to other protocols. Throws TransferError,
  /// TransferStopped, and the sink's exceptions.
  HttpHead get(const HttpGet& request, const Sink& sink);

  struct Reply {
    HttpHead head;
    std::string body;
  };
  /// Returns a reply with its body. Throws TransferError if the body is longer than `most` bytes.
  Reply get_text(const HttpGet& request, size_t most);
  /// Posts a body; returns the reply of any status. Throws TransferError if its body is longer than `most`
  /// bytes. Follows no redirects.
  Reply post(const HttpPost& request, size_t most);

 private:
  struct Transfer;
  struct Free {
    void operator()(void* handle) const;
  };

  /// Options that every request has.
  void begin(const std::string& url, const std::string& token);
  HttpHead perform(const std::string& url, const Sink& sink);
  Reply read_text(const std::string& url, size_t most, const std::function<HttpHead(const Sink&)>& transfer);

  const std::atomic<bool>& stop_;
  std::unique_ptr<void, Free> handle_;
};

/// Whether both URLs have the same scheme, host and port; false if one cannot be parsed.
bool have_same_origin(const std::string& a, const std::string& b);
/// Resolves a relative URL against `base`; empty if it cannot be parsed.
std::string resolve_url(const std::string& base, const std::string& reference);
/// Percent-encodes all characters except letters, digits, "-._~" and those in `kept`.
std::string escape_url(std::string_view text, std::string_view kept = "");

}  // namespace lacuna
