#include "hub/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>

#include "base/json.h"
#include "base/name_list.h"

namespace lacuna {
namespace {

constexpr long kMaxRedirects = 5;
constexpr long kConnectSeconds = 20;
constexpr long kMaxSeconds = 120;    // total time limit of replies other than files
constexpr long kSilentSeconds = 30;  // a transfer without a byte for this long is aborted
constexpr size_t kMaxHeaderBytes = 256 << 10;

void initialise_curl() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (!done) throw std::runtime_error("libcurl cannot be initialised");
}

std::string find(const HttpHeaders& headers, std::string_view name) {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

bool may_retry(CURLcode code) {
  constexpr std::array kLasting = {CURLE_UNSUPPORTED_PROTOCOL,  CURLE_URL_MALFORMAT,
                                   CURLE_TOO_MANY_REDIRECTS,    CURLE_PEER_FAILED_VERIFICATION,
                                   CURLE_SSL_CACERT_BADFILE,    CURLE_OUT_OF_MEMORY,
                                   CURLE_BAD_FUNCTION_ARGUMENT, CURLE_FILESIZE_EXCEEDED};
  return std::find(kLasting.begin(), kLasting.end(), code) == kLasting.end();
}

TransferError::Reached reached_by(CURLcode code) {
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY)
    return TransferError::Reached::kNoAddress;
  return code == CURLE_COULDNT_CONNECT ? TransferError::Reached::kNoConnection
                                       : TransferError::Reached::kHost;
}

struct Url {
  explicit Url(const std::string& text) : handle(curl_url()) {
    if (handle && curl_url_set(handle.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) handle.reset();
  }
  std::string part(CURLUPart which) const {
    char* value = nullptr;
    if (!handle || curl_url_get(handle.get(), which, &value, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
    std::string text(value);
    curl_free(value);
    return text;
  }
  struct Free {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
  };
  std::unique_ptr<CURLU, Free> handle;
};

}  // namespace

std::string HttpHead::first(std::string_view name) const {
  return find(first_headers, name);
}

std::string HttpHead::last(std::string_view name) const {
  return find(headers, name);
}

/// State shared by libcurl's callbacks, which must not throw through C code.
struct HttpClient::Transfer {
  const Sink& sink;
  const std::atomic<bool>& stop;
  CURL* handle;
  HttpHead head;
  size_t header_bytes = 0;
  int replies = 0;
  bool ended_by_sink = false;
  std::exception_ptr error;

  static size_t header(char* bytes, size_t /*one*/, size_t size, void* transfer) {
    return static_cast<Transfer*>(transfer)->take_header({bytes, size}) ? size : 0;
  }

  static size_t body(char* bytes, size_t /*one*/, size_t size, void* transfer) {
    return static_cast<Transfer*>(transfer)->take_body({bytes, size}) ? size : 0;
  }

  static int progress(void* transfer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(transfer)->stop ? 1 : 0;
  }

  bool take_header(std::string_view line) {
    header_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) return false;
    if (line.starts_with("HTTP/")) {
      ++replies;
      head.headers.clear();
      return true;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) return true;
    std::string name = lower_case(line.substr(0, colon));
    const size_t start = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
    const size_t end = line.find_last_not_of(" \t\r\n") + 1;
    std::string value(line.substr(start, std::max(end, start) - start));
    if (replies == 1) head.first_headers[name] = value;
    head.headers[std::move(name)] = std::move(value);
    return true;
  }

  bool take_body(std::string_view bytes) {
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &head.status);
    try {
      ended_by_sink = !sink(head, bytes);
    } catch (...) {
      error = std::current_exception();
      return false;
    }
    return !ended_by_sink;
  }
};

void HttpClient::Free::operator()(void* handle) const {
  curl_easy_cleanup(handle);
}

HttpClient::HttpClient(const std::atomic<bool>& stop) : stop_(stop) {
  initialise_curl();
  handle_.reset(curl_easy_init());
  if (handle_ == nullptr) throw std::runtime_error("libcurl cannot be initialised");
}

HttpClient::~HttpClient() = default;

void HttpClient::begin(const std::string& url, const std::string& token) {
  CURL* const handle = handle_.get();
  curl_easy_reset(handle);  // keeps connections
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "lacuna");
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  if (!token.empty()) {  // libcurl drops the token if a redirect changes host or port
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, token.c_str());
  }
}

HttpHead HttpClient::perform(const std::string& url, const Sink& sink) {
  CURL* const handle = handle_.get();
  Transfer transfer{.sink = sink, .stop = stop_, .handle = handle, .head = {}, .error = {}};
  std::array<char, CURL_ERROR_SIZE> message{};
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, message.data());
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Transfer::header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Transfer::body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Transfer::progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);

  const CURLcode code = curl_easy_perform(handle);
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &transfer.head.status);
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (stop_) throw TransferStopped();
  if (code != CURLE_OK && !transfer.ended_by_sink) {
    const char* const what = message[0] != '\0' ? message.data() : curl_easy_strerror(code);
    throw TransferError(fmt::format("{}: {}", in_quotes(url), what), may_retry(code), reached_by(code));
  }
  return std::move(transfer.head);
}

HttpHead HttpClient::get(const HttpGet& request, const Sink& sink) {
  CURL* const handle = handle_.get();
  begin(request.url, request.token);
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR,
                   request.url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  if (!request.is_file) curl_easy_setopt(handle, CURLOPT_TIMEOUT, kMaxSeconds);
  const std::string range = fmt::format("{}-", request.first_byte);
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  if (request.first_byte > 0) {
    curl_easy_setopt(handle, CURLOPT_RANGE, range.c_str());
    if (!request.if_range.empty()) {
      headers.reset(curl_slist_append(nullptr, ("If-Range: " + request.if_range).c_str()));
      curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
    }
  }
  return perform(request.url, sink);
}

HttpClient::Reply HttpClient::read_text(const std::string& url, size_t most,
                                        const std::function<HttpHead(const Sink&)>& transfer) {
  Reply reply;
  bool is_too_long = false;
  reply.head = transfer([&](const HttpHead& /*head*/, std::string_view bytes) {
    is_too_long = bytes.size() > most - reply.body.size();
    if (!is_too_long) reply.body += bytes;
    return !is_too_long;
  });
  if (is_too_long) {
    throw TransferError(fmt::format("{}: the reply is longer than {} bytes", in_quotes(url), most), false);
  }
  return reply;
}

HttpClient::Reply HttpClient::get_text(const HttpGet& request, size_t most) {
  return read_text(request.url, most, [&](const Sink& sink) { return get(request, sink); });
}

HttpClient::Reply HttpClient::post(const HttpPost& request, size_t most) {
  CURL* const handle = handle_.get();
  begin(request.url, request.token);
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(1000 * request.seconds));
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  headers.reset(curl_slist_append(headers.release(), "Expect:"));  // no wait for 100-continue
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  return read_text(request.url, most, [&](const Sink& sink) { return perform(request.url, sink); });
}

bool have_same_origin(const std::string& a, const std::string& b) {
  const Url first(a), second(b);
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
    if (first.part(part).empty() || first.part(part) != second.part(part)) return false;
  }
  return true;
}

std::string resolve_url(const std::string& base, const std::string& reference) {
  const Url url(base);
  if (!url.handle || curl_url_set(url.handle.get(), CURLUPART_URL, reference.c_str(), 0) != CURLUE_OK)
    return {};
  char* text = nullptr;
  if (curl_url_get(url.handle.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return {};
  std::string resolved(text);
  curl_free(text);
  return resolved;
}

std::string escape_url(std::string_view text, std::string_view kept) {
  std::string escaped;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    const bool is_plain = byte < 128 && (std::isalnum(byte) != 0 ||
                                         std::string_view("-._~").find(character) != std::string_view::npos);
    if (is_plain || kept.find(character) != kept.npos) {
      escaped += character;
    } else {
      escaped += fmt::format("%{:02X}", byte);
    }
  }
  return escaped;
}

}  // namespace lacuna
