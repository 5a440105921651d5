// How a connection writes a reply, whole or as a stream, while a handler still adds to it.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>

#include "server/http.h"
#include "server/http_server.h"

namespace lacuna {

/// Every operation gives its error as a value: a client that goes away does not throw.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

/// A connection and what its request asked of it.
struct ReplyConnection {
  boost::beast::tcp_stream& stream;
  boost::asio::steady_timer&
      ready;              ///< cancelled when there is something to take; min(): the client has gone
  unsigned version = 11;  ///< of HTTP
  bool keep_alive = false;
  bool is_head = false;  ///< only the head is asked for
};

/// Writes a reply to its end. Returns whether the connection may carry another request, and notes in the
/// record how it went.
boost::asio::awaitable<bool> write_reply(const HttpLimits& limits, HttpReply& reply, ReplyConnection to,
                                         RequestRecord& record);

}  // namespace lacuna
