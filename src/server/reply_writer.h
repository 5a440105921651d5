// Writes a reply to its connection, whole or as a stream, while the handler still adds to it.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>

#include "server/http.h"
#include "server/http_server.h"

namespace lacuna {

/// Makes operations return errors as values: a disconnected client does not throw.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

/// A connection, with properties of the request on it.
struct ReplyConnection {
  boost::beast::tcp_stream& stream;
  boost::asio::steady_timer& ready;  ///< cancelled on new data; expiry min(): the client has disconnected
  unsigned version = 11;             ///< HTTP version: 10 or 11
  bool keep_alive = false;
  bool is_head = false;  ///< HEAD request: no body is sent
};

/// Writes a reply to its end and sets the record's status and is_whole. Returns whether the reply was written
/// whole, so that the connection may carry another request.
boost::asio::awaitable<bool> write_reply(const HttpLimits& limits, HttpReply& reply, ReplyConnection to,
                                         RequestRecord& record);

}  // namespace lacuna
