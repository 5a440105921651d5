// Feeds the server the bytes of one connection, in pieces whose size the first byte gives. The server
// answers, refuses or closes, does so in time, and never lets a client write a header of a reply.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "server/http_server.h"
#include "tiny_server.h"

namespace {

/// A socket to the server. Addresses of this machine take turns, because each has a limited number of ports.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    static uint32_t number = 0;
    bind_to(INADDR_LOOPBACK + (++number % 200), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fuzz::check(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Connection() {
    const linger at_once{1, 0};  // leaves no port behind in TIME_WAIT
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;  // the server has closed
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void stop_sending() { shutdown(socket_, SHUT_WR); }

  /// Appends what comes to `heard`. False: nothing came for so long.
  bool hear(std::string& heard, bool& has_closed, std::chrono::milliseconds patience) {
    pollfd wait{socket_, POLLIN, 0};
    int ready = -1;
    while ((ready = poll(&wait, 1, static_cast<int>(patience.count()))) < 0 && errno == EINTR) {
    }  // libFuzzer's own timer interrupts it
    if (ready <= 0) return false;
    char buffer[16384];
    const ssize_t size = recv(socket_, buffer, sizeof buffer, 0);
    has_closed = size <= 0;
    if (size > 0) heard.append(buffer, static_cast<size_t>(size));
    return true;
  }

 private:
  void bind_to(uint32_t host, uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(host);
    fuzz::check(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }

  int socket_;
};

class TinyHttpServer {
 public:
  TinyHttpServer()
      : tiny_(fuzz::tiny_text_configs().front()), http_("127.0.0.1", 0, handler(), limits(), gate()) {}
  uint16_t port() const { return http_.port(); }

 private:
  lacuna::HttpHandler handler() {
    return [this](const lacuna::HttpRequest& request, const std::shared_ptr<lacuna::HttpReply>& reply) {
      fuzz::check(request.body.size() <= limits().body_bytes);
      fuzz::check(request.path.find_first_of(" \r\n") == std::string::npos);
      tiny_.service().handle(request, reply);
    };
  }
  lacuna::HttpGate gate() {
    return [this](const lacuna::HttpRequest& head) { return tiny_.service().find_refusal(head); };
  }
  static lacuna::HttpLimits limits() {
    lacuna::HttpLimits limits;
    limits.header_bytes = 2048;
    limits.body_bytes = 8192;
    limits.early_bytes = 4096;
    return limits;
  }

  fuzz::TinyServer tiny_;
  lacuna::HttpServer http_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TinyHttpServer server;
  if (size == 0) return 0;
  std::string_view rest = fuzz::text_of(data + 1, size - 1);
  const size_t piece = data[0] < 128 ? rest.size() : 1 + data[0] % 64;
  Connection connection(server.port());
  bool is_open = true;
  for (int pieces = 0; is_open && !rest.empty(); ++pieces) {
    const std::string_view next = rest.substr(0, pieces < 32 ? piece : rest.size());
    is_open = connection.send_all(next);
    rest.remove_prefix(next.size());
  }
  std::string heard;
  bool has_closed = false;
  constexpr std::chrono::milliseconds kShort{8}, kLong{20'000};
  while (!has_closed && connection.hear(heard, has_closed, kShort)) {
  }
  connection.stop_sending();  // the client has gone: the server closes soon
  while (!has_closed) fuzz::check(connection.hear(heard, has_closed, kLong));
  fuzz::check(heard.empty() || heard.starts_with("HTTP/1."));
  fuzz::check(heard.find("\nX-Injected") == std::string::npos);
  return 0;
}
