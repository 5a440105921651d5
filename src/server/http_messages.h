// Conversion between Beast's HTTP messages and requests and replies.
#pragma once

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace lacuna {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;
using HttpText = boost::beast::http::response<boost::beast::http::string_body>;

std::string header_text(boost::beast::string_view text);

/// Whether a client's request id is safe in headers and logs.
bool is_sane_id(boost::beast::string_view id);

/// Sets the headers that every reply has.
///   allow_origin  pages that may read the reply; empty: those of this server alone
void set_common_headers(boost::beast::http::fields& message, const std::string& request_id,
                        const std::string& allow_origin = {});

HttpText make_text(const HttpReply::Head& head, std::string body, unsigned version, bool keep_alive,
                   const std::string& request_id, const std::string& allow_origin = {});

/// Returns why a request with these headers is refused; empty if the headers are valid.
std::string_view find_problem(const HttpParser& parser);

/// The request without its body.
HttpRequest head_of(const boost::beast::http::request<boost::beast::http::string_body>& message,
                    const std::string& address);

/// The error reply for a head or body that cannot be parsed; empty if the client
/// has disconnected or was too slow.
std::optional<HttpRefusal> describe_error(const boost::beast::error_code& error);

}  // namespace lacuna
