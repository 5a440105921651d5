// A client over a socket that may read slowly and go away at any moment, and what it heard.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace lacuna {

/// How a client behaves.
enum class Manner : uint8_t { kPatient, kSlow, kDiesInRequest, kDiesInReply };

/// Reply to a raw client.
struct Heard {
  int status = 0;  ///< 0: the connection was closed before a head
  std::string body;
  bool is_whole = false;  ///< to the end that its head promised
};

inline Heard parse_reply(std::string_view bytes) {
  Heard heard;
  const size_t head_end = bytes.find("\r\n\r\n");
  if (head_end == bytes.npos || !bytes.starts_with("HTTP/1.1 ")) return heard;
  const std::string_view head = bytes.substr(0, head_end);
  std::string_view rest = bytes.substr(head_end + 4);
  std::from_chars(head.data() + 9, head.data() + 12, heard.status);
  if (head.find("Transfer-Encoding: chunked") == head.npos) {
    constexpr std::string_view kLength = "Content-Length: ";
    size_t length = 0;
    if (const size_t at = head.find(kLength); at != head.npos) {
      std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), length);
    }
    heard.body = rest;
    heard.is_whole = rest.size() == length;
    return heard;
  }
  for (;;) {
    size_t size = 0;
    const size_t line_end = rest.find("\r\n");
    if (line_end == rest.npos) return heard;
    std::from_chars(rest.data(), rest.data() + line_end, size, 16);
    if (rest.size() < line_end + 2 + size + 2) return heard;
    heard.body += rest.substr(line_end + 2, size);
    rest.remove_prefix(line_end + 2 + size + 2);
    if (size != 0) continue;
    heard.is_whole = true;
    return heard;
  }
}

/// Sends one request and hears the reply. Throws std::runtime_error where nothing comes for half a minute:
/// then the server hangs.
inline Heard ask(uint16_t port, const std::string& request, Manner manner) {
  struct Socket {
    int number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ~Socket() { ::close(number); }
  } socket;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.number, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  const size_t wanted = manner == Manner::kDiesInRequest ? request.size() * 2 / 3 : request.size();
  for (size_t sent = 0; sent < wanted;) {
    const ssize_t size = ::send(socket.number, request.data() + sent, wanted - sent, MSG_NOSIGNAL);
    if (size <= 0) break;  // the reply may say why
    sent += static_cast<size_t>(size);
  }
  if (manner == Manner::kDiesInRequest) return {};
  std::string bytes;
  for (;;) {
    constexpr int kHangs = 30'000;
    pollfd wait{socket.number, POLLIN, 0};
    if (::poll(&wait, 1, kHangs) == 0) throw std::runtime_error("nothing comes: " + bytes + " to " + request);
    char buffer[4096];
    const size_t room = manner == Manner::kSlow ? 97 : sizeof(buffer);
    const ssize_t size = ::recv(socket.number, buffer, room, 0);
    if (size <= 0) break;
    bytes.append(buffer, static_cast<size_t>(size));
    if (manner == Manner::kDiesInReply) {
      const linger at_once{1, 0};  // a reset
      ::setsockopt(socket.number, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      break;
    }
    if (manner == Manner::kSlow) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  return parse_reply(bytes);
}

}  // namespace lacuna
