#include "server/http_messages.h"

#include <algorithm>
#include <utility>

namespace lacuna {

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

}  // namespace

std::string header_text(beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_sane_id(beast::string_view id) {
  constexpr size_t kLongest = 128;
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("-_.:/+=@").find(c) != std::string_view::npos;
  };
  return !id.empty() && id.size() <= kLongest && std::all_of(id.begin(), id.end(), is_plain);
}

void set_common_headers(http::fields& message, const std::string& request_id,
                        const std::string& allow_origin) {
  message.set(http::field::server, "lacuna");
  message.set("X-Request-Id", request_id);
  if (!allow_origin.empty()) {
    message.set(http::field::access_control_allow_origin, allow_origin);
    message.set(http::field::access_control_expose_headers,
                "X-Request-Id, Retry-After, X-Lacuna-Weights, X-Lacuna-Ignored");
    message.set(http::field::vary, "Origin");
  }
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  // The page at "/" may only load files from, and send requests to, this server.
  message.set("Content-Security-Policy",
              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

HttpText make_text(const HttpReply::Head& head, std::string body, unsigned version, bool keep_alive,
                   const std::string& request_id, const std::string& allow_origin) {
  HttpText text(static_cast<http::status>(head.status), version);
  set_common_headers(text, request_id, allow_origin);
  text.set(http::field::content_type, head.content_type);
  if (!head.allow.empty()) text.set(http::field::allow, head.allow);
  if (head.status == 503) text.set(http::field::retry_after, "1");
  if (head.status == 429) text.set(http::field::retry_after, "60");
  if (head.status == 401) text.set(http::field::www_authenticate, "Bearer");
  if (head.status == 204) {
    text.set(http::field::access_control_allow_methods, "GET, POST, OPTIONS");
    text.set(http::field::access_control_allow_headers, head.allow_headers);
    text.set(http::field::access_control_max_age, "600");
  }
  text.keep_alive(keep_alive);
  text.body() = std::move(body);
  text.prepare_payload();
  return text;
}

std::string_view find_problem(const HttpParser& parser) {
  const auto& request = parser.get();
  const auto hosts = request.count(http::field::host);
  if (hosts > 1) return "the request has several Host headers";
  if (hosts == 0 && request.version() >= 11) return "the request has no Host header";
  const auto codings = request.count(http::field::transfer_encoding);
  const bool is_chunked = codings == 1 && request[http::field::transfer_encoding] == "chunked";
  if (codings > 0 && (!is_chunked || request.version() < 11)) {
    return "the Transfer-Encoding is not \"chunked\"";
  }
  return {};
}

HttpRequest head_of(const http::request<http::string_body>& message, const std::string& address) {
  HttpRequest request;
  request.method = header_text(message.method_string());
  const size_t path_end = std::min(message.target().find('?'), message.target().size());
  request.path = header_text(message.target().substr(0, path_end));
  if (path_end < message.target().size()) request.query = header_text(message.target().substr(path_end + 1));
  request.authorization = header_text(message[http::field::authorization]);
  request.content_encoding = header_text(message[http::field::content_encoding]);
  request.host = header_text(message[http::field::host]);
  request.origin = header_text(message[http::field::origin]);
  request.api_key = header_text(message["X-Api-Key"]);
  request.wanted_headers = header_text(message[http::field::access_control_request_headers]);
  request.address = address;
  return request;
}

std::optional<HttpRefusal> describe_error(const beast::error_code& error) {
  if (error == http::error::body_limit) return HttpRefusal{413, "the body is longer than this server reads"};
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return HttpRefusal{431, "the headers are longer than this server reads"};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
  if (error.category() == make_error_code(http::error::bad_method).category()) {
    return HttpRefusal{400, "the request is not HTTP/1.1"};
  }
  return {};
}

}  // namespace lacuna
