#include "server/reply_writer.h"

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <tuple>
#include <utility>

#include "server/http_messages.h"

namespace lacuna {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// Polling interval, since notifications of new data may fail if memory is short.
constexpr auto kLookEvery = std::chrono::milliseconds(1000);

/// Waits until new data arrives or `most` has passed. Returns false if the client has disconnected.
asio::awaitable<bool> wait(asio::steady_timer& ready, asio::steady_timer::duration most) {
  if (ready.expiry() == asio::steady_timer::time_point::min()) co_return false;
  ready.expires_after(most);
  co_await ready.async_wait(kAwait);
  co_return ready.expiry() != asio::steady_timer::time_point::min();
}

asio::awaitable<bool> write_stream(const HttpLimits& limits, HttpReply& reply, ReplyConnection to,
                                   HttpReply::Output output, RequestRecord& record) {
  beast::tcp_stream& stream = to.stream;
  const bool is_chunked = to.version >= 11;
  const bool has_comments = output.head.content_type == kServerSentEvents;
  http::response<http::empty_body> head(http::status::ok, to.version);
  set_common_headers(head, record.id, output.allow_origin);
  if (!output.weights.empty()) head.set("X-Lacuna-Weights", output.weights);
  if (!output.ignored.empty()) head.set("X-Lacuna-Ignored", output.ignored);
  head.set(http::field::content_type, output.head.content_type);
  head.keep_alive(is_chunked && to.keep_alive);
  if (is_chunked) head.chunked(true);
  http::response_serializer<http::empty_body> serializer(head);
  auto [error, size] = co_await http::async_write_header(stream, serializer, kAwait);
  auto ping_at = std::chrono::steady_clock::now() + limits.ping_every;
  while (!error && !output.has_overflowed) {
    if (!output.data.empty()) {
      ping_at = std::chrono::steady_clock::now() + limits.ping_every;
      stream.expires_after(limits.write_seconds);
      if (is_chunked) {
        std::tie(error, size) =
            co_await asio::async_write(stream, http::make_chunk(asio::buffer(output.data)), kAwait);
      } else {
        std::tie(error, size) = co_await asio::async_write(stream, asio::buffer(output.data), kAwait);
      }
    } else if (output.has_ended) {
      if (is_chunked) {
        std::tie(error, size) = co_await asio::async_write(stream, http::make_chunk_last(), kAwait);
      }
      record.is_whole = !error;
      co_return !error && is_chunked;
    } else {
      stream.expires_never();
      const bool is_silent = reply.pending() == 0;  // an overflow also notifies
      const auto most = std::min<asio::steady_timer::duration>(limits.ping_every, kLookEvery);
      if (is_silent && !co_await wait(to.ready, most)) co_return false;
      output = reply.take();
      const bool is_time = has_comments && std::chrono::steady_clock::now() >= ping_at;
      if (output.data.empty() && !output.has_ended && is_time) output.data = ": ping\n\n";
      continue;
    }
    output = reply.take();
  }
  co_return false;
}

}  // namespace

asio::awaitable<bool> write_reply(const HttpLimits& limits, HttpReply& reply, ReplyConnection to,
                                  RequestRecord& record) {
  constexpr int kClientWent = 499;  // nginx's status for a closed request
  constexpr int kAbandoned = 500;
  record.status = kClientWent;
  record.is_whole = false;
  HttpReply::Output output = reply.take();
  while (!output.has_head) {
    if (output.has_overflowed) {
      record.status = kAbandoned;
      co_return false;
    }
    if (!co_await wait(to.ready, kLookEvery)) co_return false;
    output = reply.take();
  }
  record.status = output.head.status;
  record.ignored = output.ignored;
  to.stream.expires_after(limits.write_seconds);
  if (output.head.is_stream) {
    co_return co_await write_stream(limits, reply, to, std::move(output), record);
  }
  HttpText text = make_text(output.head, std::move(output.data), to.version, to.keep_alive, record.id,
                            output.allow_origin);
  if (!output.weights.empty()) text.set("X-Lacuna-Weights", output.weights);
  if (!output.ignored.empty()) text.set("X-Lacuna-Ignored", output.ignored);
  beast::error_code error;
  if (to.is_head) {
    http::response_serializer<http::string_body> serializer(text);
    error = std::get<0>(co_await http::async_write_header(to.stream, serializer, kAwait));
  } else {
    error = std::get<0>(co_await http::async_write(to.stream, text, kAwait));
  }
  record.is_whole = !error;
  co_return !error;
}

}  // namespace lacuna
