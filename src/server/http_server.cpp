#include "server/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "base/budget.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/open_file.h"
#include "server/api_error.h"
#include "server/descriptors.h"
#include "server/handler_pool.h"
#include "server/http_messages.h"
#include "server/reply_work.h"
#include "server/reply_writer.h"

namespace lacuna {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr auto kWatchEvery = std::chrono::milliseconds(50);
constexpr size_t kMaxSpare = 16;
constexpr size_t kConnectionsPerSpare = 16;
constexpr auto kTrimEvery = std::chrono::seconds(2);
constexpr int64_t kMaxGrowth = 16 << 20;
constexpr uint64_t kShortBody = 16 << 10;  // bodies up to this size are read without calling the gate

#ifndef POLLRDHUP
#define POLLRDHUP 0  // macOS reports POLLHUP with POLLIN
#endif

/// Whether the client has closed its side, detected even if unread bytes are left.
bool has_hung_up(tcp::socket& socket) {
  pollfd state{socket.native_handle(), POLLIN | POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/// Number of received bytes that were not read yet.
size_t unread_bytes(tcp::socket& socket) {
  int count = 0;
  return ::ioctl(socket.native_handle(), FIONREAD, &count) == 0 ? static_cast<size_t>(count) : 0;
}

}  // namespace

class HttpServer::Implementation {
 public:
  Implementation(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits,
                 HttpGate gate, HttpLog log)
      : handler_(std::move(handler)), gate_(std::move(gate)), log_(std::move(log)), limits_(limits) {
    limits_.connections = std::min(limits_.connections, max_connections_of_system());
    spare_connections_ = std::min(kMaxSpare, limits_.connections / kConnectionsPerSpare);
    listen(host, port);
    asio::co_spawn(io_, trim(), asio::detached);
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread([this] { run(); });
  }

  ~Implementation() { stop(std::chrono::milliseconds(0)); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  uint16_t port() const { return port_; }
  size_t max_connections() const { return limits_.connections; }

  void stop(std::chrono::milliseconds flush) {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      beast::error_code ignored;
      acceptor_.close(ignored);
      is_stopping_ = true;
      for (const auto& [address, weak] : replies_) {
        if (const std::shared_ptr<HttpReply> reply = weak.lock()) reply->stop_work();
      }
    });
    const auto end = std::chrono::steady_clock::now() + flush;
    while (num_answering_ > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    handlers_->stop();
    quick_handlers_.stop();
    quick_handlers_.join();
    io_.stop();
    thread_.join();
    beast::error_code ignored;
    acceptor_.close(ignored);  // in case the thread ended before the posted close ran
    // From now on, writes to replies are dropped.
    for (const auto& [address, weak] : replies_) {
      if (const std::shared_ptr<HttpReply> reply = weak.lock()) reply->close();
    }
    replies_.clear();
    for (const std::shared_ptr<Connection>& connection : connections_) {
      connection->stream->socket().close(ignored);
    }
  }

 private:
  struct OfAddress {
    size_t connections = 0;
    uint64_t body_bytes = 0;
  };

  /// An open connection, counted in OfAddress::connections.
  struct Connection {
    Connection(Implementation& its_server, tcp::socket socket, std::string its_address, bool its_is_spare)
        : server(its_server),
          stream(std::make_shared<beast::tcp_stream>(std::move(socket))),
          address(std::move(its_address)),
          is_spare(its_is_spare) {
      ++server.addresses_[address].connections;
    }
    ~Connection() {
      const auto found = server.addresses_.find(address);
      if (--found->second.connections == 0) server.addresses_.erase(found);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    Implementation& server;
    std::shared_ptr<beast::tcp_stream> stream;
    std::string address;
    bool is_spare;  // beyond HttpLimits::connections: serves only probes
  };
  /// Connections that have not sent a whole request, the longest waiting one first.
  using Waiting = std::list<const Connection*>;

  /// Keeps a connection in the Waiting list during its lifetime.
  class WaitingPlace {
   public:
    WaitingPlace(Waiting& all, const Connection& connection) : all_(all), connection_(&connection) {
      all_.push_back(connection_);
    }
    ~WaitingPlace() { all_.remove(connection_); }
    WaitingPlace(const WaitingPlace&) = delete;
    WaitingPlace& operator=(const WaitingPlace&) = delete;

   private:
    Waiting& all_;
    const Connection* connection_;
  };

  /// Owns a reply, from the request to the reply's last byte.
  class Answering {
   public:
    Answering(Implementation& server, beast::tcp_stream& stream)
        : server_(server),
          stream_(stream),
          reply_(std::make_shared<HttpReply>(server.reply_budget_, server.limits_.stream_bytes)) {
      if (server_.limits_.work_time.count() > 0)
        reply_->set_work_deadline(std::chrono::steady_clock::now() + server_.limits_.work_time);
      if (server_.is_stopping_) reply_->stop_work();
      server_.replies_[reply_.get()] = reply_;
      ++server_.num_answering_;
    }
    ~Answering() {
      reply_->close();
      server_.replies_.erase(reply_.get());
      --server_.num_answering_;
      ++server_.num_answered_;
      beast::error_code ignored;
      stream_.socket().cancel(ignored);  // cancels watch()
    }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;

    const std::shared_ptr<HttpReply>& reply() const { return reply_; }

   private:
    Implementation& server_;
    beast::tcp_stream& stream_;
    std::shared_ptr<HttpReply> reply_;
  };

  /// Counts the bytes of a request's body until the end of its reply.
  class BodyReservation {
   public:
    BodyReservation(Implementation& server, const std::string& address)
        : server_(server), of_address_(server.addresses_[address]) {}
    ~BodyReservation() {
      server_.all_body_bytes_ -= bytes_;
      of_address_.body_bytes -= bytes_;
    }
    BodyReservation(const BodyReservation&) = delete;
    BodyReservation& operator=(const BodyReservation&) = delete;

    /// Grows the count to `bytes`; returns false if the limits do not allow it.
    bool grow_to(uint64_t bytes) {
      const uint64_t more = bytes - bytes_;
      if (server_.all_body_bytes_ + more > server_.limits_.all_body_bytes ||
          of_address_.body_bytes + more > server_.limits_.body_bytes_per_address ||
          (bytes > kShortBody && !server_.memory_->has(static_cast<int64_t>(more)))) {
        return false;
      }
      server_.all_body_bytes_ += more;
      of_address_.body_bytes += more;
      bytes_ = bytes;
      return true;
    }

   private:
    Implementation& server_;
    OfAddress& of_address_;  // valid while the connection exists
    uint64_t bytes_ = 0;
  };

  void listen(const std::string& host, uint16_t port) {
    beast::error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
    if (error || found.empty()) throw InputError("--host {}: not an address of this machine", host);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    // Otherwise Asio treats an aborted connection as an empty queue, and later ones wait for the next client.
    if (!error) acceptor_.set_option(asio::socket_base::enable_connection_aborted(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw InputError("{}:{} cannot be listened on: {}", host, port, error.message());
    port_ = acceptor_.local_endpoint().port();
  }

  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {  // no memory for one handler; others continue
      }
    }
  }

  asio::awaitable<void> accept() {
    for (;;) {
      try {
        if (!co_await accept_one()) co_return;
      } catch (const std::exception&) {  // no memory for a connection
      }
    }
  }

  /// Accepts one connection; returns false if the acceptor was closed.
  asio::awaitable<bool> accept_one() {
    auto [error, socket] = co_await acceptor_.async_accept(kAwait);
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return false;
    const bool is_out =
        error == asio::error::no_descriptors || error == std::errc::too_many_files_open_in_system;
    if (is_out && (drop_waiting(nullptr) || std::exchange(reserve_, {}).number() >= 0)) {
      co_return true;  // a descriptor is free for the next attempt
    }
    if (error) {  // other connections may close soon
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kAwait);
    } else {
      admit(std::move(socket));
    }
    co_return true;
  }

  void admit(tcp::socket socket) {
    beast::error_code unknown;
    const std::string address = socket.remote_endpoint(unknown).address().to_string();
    const auto found = addresses_.find(address);
    const size_t of_address = found == addresses_.end() ? 0 : found->second.connections;
    if (of_address >= limits_.connections_per_address && !drop_waiting(&address)) return;  // closes it
    const bool is_full = connections_.size() >= limits_.connections && !drop_waiting(nullptr);
    if (is_full && connections_.size() >= limits_.connections + spare_connections_) return;
    const auto connection = std::make_shared<Connection>(*this, std::move(socket), address, is_full);
    connections_.insert(connection);
    try {
      asio::co_spawn(io_, converse(connection),
                     [this, connection](const std::exception_ptr&) { forget(connection); });
    } catch (...) {
      connections_.erase(connection);
      throw;
    }
  }

  void forget(const std::shared_ptr<Connection>& connection) {
    beast::error_code ignored;
    connection->stream->socket().close(ignored);
    connections_.erase(connection);
    if (reserve_.number() < 0) reserve_ = make_reserve();
  }

  static FileDescriptor make_reserve() {
    try {
      return open_to_read("/dev/null", FileKind::kAnything);
    } catch (const std::exception&) {  // no descriptor is left
      return {};
    }
  }

  /// Number of connections that the descriptor limit allows, with some kept for files.
  static size_t max_connections_of_system() {
    constexpr size_t kForFiles = 64;
    const size_t free = free_descriptors();
    return free > 2 * kForFiles ? free - kForFiles : std::max<size_t>(free / 2, 1);
  }

  /// Periodically returns freed memory to the system if the process has grown.
  asio::awaitable<void> trim() {
    asio::steady_timer pause(io_);
    for (size_t trimmed_at = 0;;) {
      pause.expires_after(kTrimEvery);
      const auto [error] = co_await pause.async_wait(kAwait);
      if (error) co_return;
      if (num_answered_ == trimmed_at || resident_memory() <= trimmed_bytes_ + kMaxGrowth) continue;
      trimmed_at = num_answered_;
      asio::post(quick_handlers_, [this] {
        return_free_memory();
        trimmed_bytes_ = resident_memory();
      });
    }
  }

  /// Closes the connection that has waited longest for a whole request, among those of `address` if it is not
  /// null. Returns whether one was closed.
  bool drop_waiting(const std::string* address) {
    const auto longest = std::find_if(waiting_.begin(), waiting_.end(), [&](const Connection* connection) {
      return address == nullptr || connection->address == *address;
    });
    if (longest == waiting_.end()) return false;
    beast::error_code ignored;
    (*longest)->stream->socket().close(ignored);
    waiting_.erase(longest);
    return true;
  }

  asio::awaitable<void> converse(std::shared_ptr<Connection> connection) {
    beast::tcp_stream& stream = *connection->stream;
    beast::error_code ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
    stream.socket().set_option(asio::socket_base::keep_alive(true), ignored);
    stream.socket().non_blocking(true, ignored);
    beast::flat_buffer buffer(limits_.header_bytes);
    bool goes_on = true;
    while (goes_on) {
      HttpParser parser;
      parser.header_limit(limits_.header_bytes);
      parser.body_limit(limits_.body_bytes);
      BodyReservation reserved(*this, connection->address);
      std::optional<HttpRefusal> problem;
      std::optional<WaitingPlace> place(std::in_place, waiting_, *connection);
      const beast::error_code error = co_await read(*connection, buffer, parser, reserved, problem);
      place.reset();
      if (error && !problem) problem = describe_error(error);
      if (!problem && connection->is_spare && !is_probe(parser.get()))
        problem = {503, "too many connections are open; try again later"};
      if (problem) co_await refuse(*connection, parser.get(), *problem);
      if (error || problem) break;
      goes_on = co_await answer(connection->stream, parser.release(), connection->address);
    }
    stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

  /// Reads a request, or stops early and sets `problem`.
  asio::awaitable<beast::error_code> read(const Connection& connection, beast::flat_buffer& buffer,
                                          HttpParser& parser, BodyReservation& reserved,
                                          std::optional<HttpRefusal>& problem) {
    beast::tcp_stream& stream = *connection.stream;
    stream.expires_after(limits_.header_seconds);
    auto [error, size] = co_await http::async_read_header(stream, buffer, parser, kAwait);
    if (error) co_return error;
    if (const std::string_view sentence = find_problem(parser); !sentence.empty()) {
      problem = {400, std::string(sentence)};
      co_return error;
    }
    const bool is_long = parser.chunked() || parser.content_length().value_or(0) > kShortBody;
    if (is_long && gate_) problem = gate_(head_of(parser.get(), connection.address));
    if (problem) co_return error;
    stream.expires_after(limits_.body_seconds);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue") && !parser.is_done()) {
      http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
      std::tie(error, size) = co_await http::async_write(stream, go_on, kAwait);
      if (error) co_return error;
    }
    while (!error && !parser.is_done()) {
      std::tie(error, size) = co_await http::async_read_some(stream, buffer, parser, kAwait);
      if (reserved.grow_to(parser.get().body().size())) continue;
      problem = {503, "too many long requests are being read; try again later"};
      break;
    }
    co_return error;
  }

  /// Sends an error reply to a request that may be incomplete.
  asio::awaitable<void> refuse(const Connection& connection, const http::request<http::string_body>& message,
                               const HttpRefusal& refusal) {
    beast::tcp_stream& stream = *connection.stream;
    RequestRecord record = begin_record(message, connection.address);
    record.status = refusal.status;
    stream.expires_after(limits_.write_seconds);
    HttpText text = make_text({refusal.status, "application/json"},
                              error_json(refusal.status, refusal.sentence).dump(), 11, false, record.id);
    const auto [write_error, written] = co_await http::async_write(stream, text, kAwait);
    record.is_whole = !write_error;
    if (log_) log_(record);
    // If unread bytes are left, close() sends a reset, and the client may lose the reply: read for up to a
    // second.
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream.expires_after(std::chrono::seconds(1));
    char sink[4096];
    for (int i = 0; i < 4096; ++i) {
      auto [error, size] = co_await stream.async_read_some(asio::buffer(sink), kAwait);
      if (error) break;
    }
  }

  /// The client's request id if it is valid, otherwise a generated one.
  std::string name_request(const http::request<http::string_body>& message) {
    const beast::string_view id = message["X-Request-Id"];
    return is_sane_id(id) ? header_text(id) : fmt::format("req_{:016x}{:016x}", random_(), random_());
  }

  RequestRecord begin_record(const http::request<http::string_body>& message, const std::string& address) {
    const HttpRequest head = head_of(message, address);
    return {name_request(message), address, head.method, head.path};
  }

  /// Answers a request; returns whether the connection may carry another one.
  asio::awaitable<bool> answer(std::shared_ptr<beast::tcp_stream> shared_stream,
                               http::request<http::string_body> message, const std::string& address) {
    beast::tcp_stream& stream = *shared_stream;
    const unsigned version = message.version();
    const bool keep_alive = message.keep_alive();
    const bool is_head = message.method() == http::verb::head;
    RequestRecord record = begin_record(message, address);
    const Stopwatch clock;

    HttpRequest request = head_of(message, address);
    request.id = record.id;
    request.body = std::move(message.body());
    if (is_head) request.method = "GET";

    const Answering answering(*this, stream);
    const std::shared_ptr<HttpReply>& reply = answering.reply();
    const auto ready = std::make_shared<asio::steady_timer>(io_);
    reply->when_ready([this, ready, shared_stream, weak = std::weak_ptr(reply)] {
      asio::post(io_, [ready, shared_stream, weak] {
        ready->cancel();
        // Cancels a write to a client that does not read, instead of waiting for its time limit.
        const std::shared_ptr<HttpReply> waiting = weak.lock();
        if (waiting != nullptr && waiting->has_overflowed()) shared_stream->cancel();
      });
    });
    stream.expires_never();
    watch(shared_stream, reply, ready);
    const bool is_post = request.method == "POST";
    const bool is_long = request.body.size() > kShortBody;
    const int64_t bytes_of_work =
        is_long ? kMemoryPerBodyByte * static_cast<int64_t>(request.body.size()) : 0;
    const bool is_quick = !is_post && is_probe_path(request.path);
    // The deleter abandons the reply when its last handler drops it unanswered. The worker's weak pointer
    // keeps the deleter alive, so the deleter must release the reply.
    std::shared_ptr<HttpReply> to_answer(reply.get(), [kept = reply](HttpReply* forgotten) mutable {
      forgotten->abandon();
      kept.reset();
    });
    auto handle = [this, to_answer, request = std::move(request)](Budget::Observer* observer) {
      const auto work = [&] { handler_(request, to_answer); };
      work_on(*to_answer, observer, std::cref(work));  // std::cref avoids an allocation
    };
    if (is_quick) {
      handle(nullptr);
    } else if (is_post) {
      reply->set_worker(worker_of(handlers_, address, to_answer));
      handlers_->add({address, bytes_of_work,
                      [handle = std::move(handle)](Budget::Observer& observer) { handle(&observer); },
                      [to_answer] { refuse_work(*to_answer); }});
    } else {
      asio::post(quick_handlers_, [handle = std::move(handle)] { handle(nullptr); });
    }
    to_answer.reset();

    const bool went_well =
        co_await write_reply(limits_, *reply, {stream, *ready, version, keep_alive, is_head}, record);
    record.answer = reply->answer_record();
    record.seconds = clock.seconds();
    if (log_) log_(record);
    co_return went_well&& keep_alive;
  }

  bool is_probe_path(const std::string& path) const {
    return std::find(limits_.probes.begin(), limits_.probes.end(), path) != limits_.probes.end();
  }
  bool is_probe(const http::request<http::string_body>& message) const {
    return message.method() != http::verb::post && is_probe_path(head_of(message, "").path);
  }

  /// Closes the reply when the client closes the connection. If unread bytes of another request are left,
  /// polls the socket.
  void watch(const std::shared_ptr<beast::tcp_stream>& stream, const std::shared_ptr<HttpReply>& reply,
             const std::shared_ptr<asio::steady_timer>& ready) {
    stream->socket().async_wait(tcp::socket::wait_read, [this, stream, weak = std::weak_ptr(reply),
                                                         ready](const beast::error_code& error) {
      if (!error) asio::co_spawn(io_, keep_watching(stream, weak, ready), asio::detached);
    });
  }

  asio::awaitable<void> keep_watching(std::shared_ptr<beast::tcp_stream> stream,
                                      std::weak_ptr<HttpReply> weak,
                                      std::shared_ptr<asio::steady_timer> ready) {
    asio::steady_timer pause(io_);
    for (;;) {
      {
        const std::shared_ptr<HttpReply> waiting = weak.lock();
        if (waiting == nullptr || waiting->is_closed()) co_return;
        // A full receive buffer would hide a hang-up.
        if (has_hung_up(stream->socket()) || unread_bytes(stream->socket()) > limits_.early_bytes) {
          waiting->close();
          ready->expires_at(asio::steady_timer::time_point::min());
          co_return;
        }
      }
      pause.expires_after(kWatchEvery);
      co_await pause.async_wait(kAwait);
    }
  }

  HttpHandler handler_;
  HttpGate gate_;
  HttpLog log_;
  HttpLimits limits_;
  std::mt19937_64 random_{std::random_device{}()};  // used only by the network thread
  // Declared before io_: its destructor ends coroutines that use these members.
  uint64_t all_body_bytes_ = 0;
  std::map<std::string, OfAddress> addresses_;
  Waiting waiting_;
  std::map<const HttpReply*, std::weak_ptr<HttpReply>> replies_;  // being answered; network thread only
  bool is_stopping_ = false;                                      // network thread only
  size_t num_answered_ = 0;                                       // network thread only
  size_t spare_connections_ = 0;
  std::atomic<int64_t> trimmed_bytes_{0};    // resident_memory() after the last trim
  FileDescriptor reserve_ = make_reserve();  // closed to accept a connection if no descriptor is left
  std::atomic<size_t> num_answering_{0};
  std::shared_ptr<MemoryGuard> memory_{std::make_shared<MemoryGuard>(limits_.free_memory)};
  std::shared_ptr<ReplyBudget> reply_budget_{std::make_shared<ReplyBudget>(limits_.all_reply_bytes, memory_)};
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  uint16_t port_ = 0;
  std::set<std::shared_ptr<Connection>> connections_;
  std::shared_ptr<HandlerPool> handlers_{std::make_shared<HandlerPool>(limits_.handlers, memory_)};
  asio::thread_pool quick_handlers_{1};
  std::thread thread_;
};

HttpServer::HttpServer(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits,
                       HttpGate gate, HttpLog log)
    : implementation_(std::make_unique<Implementation>(host, port, std::move(handler), limits,
                                                       std::move(gate), std::move(log))) {}

HttpServer::~HttpServer() = default;

void HttpServer::stop(std::chrono::milliseconds flush) {
  implementation_->stop(flush);
}

size_t HttpServer::max_connections() const {
  return implementation_->max_connections();
}

uint16_t HttpServer::port() const {
  return implementation_->port();
}

}  // namespace lacuna
