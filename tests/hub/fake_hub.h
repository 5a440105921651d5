// A small hub on loopback that behaves like the real one, or is as broken as a test wants.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hub/digest.h"

namespace lacuna {

/// Pseudo-random bytes.
inline std::string noise(size_t size, uint32_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

inline std::string sha256_of(const std::string& content) {
  Digest digest = Digest::sha256();
  digest.update(content);
  return digest.hex();
}

inline std::string git_id_of(const std::string& content) {
  Digest digest = Digest::git_blob(static_cast<int64_t>(content.size()));
  digest.update(content);
  return digest.hex();
}

/// Serves one model, org/name: small files itself, large ones behind a redirect to /cdn/.
class FakeHub {
 public:
  struct Request {
    std::string target;
    std::map<std::string, std::string> headers;  ///< names in lower case

    bool is_file() const { return target.starts_with("/cdn/") || target.find("/resolve/") != target.npos; }
    int64_t first_byte() const {
      const auto range = headers.find("range");
      return range == headers.end() ? 0 : std::stoll(range->second.substr(std::string("bytes=").size()));
    }
  };
  struct Reply {
    int status = 200;
    std::string headers;  ///< whole lines
    std::string body;
    size_t cut_after = std::numeric_limits<size_t>::max();  ///< bytes of the body, then the connection ends
    std::chrono::milliseconds pause{0};                     ///< before every 16 KiB of the body
    size_t missing = 0;                                     ///< promised and never sent
    /// Bytes of the body, then nothing more comes until the client hangs up.
    size_t hold_after = std::numeric_limits<size_t>::max();
  };
  /// Changes the reply that the real hub would give.
  using Fault = std::function<void(const Request&, Reply&)>;

  explicit FakeHub(Fault fault = {}) : fault_(std::move(fault)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 64);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~FakeHub() {
    ending_ = true;
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    for (std::thread& thread : connections_) thread.join();
    close(listener_);
  }
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void add(const std::string& path, const std::string& content, bool is_large = false) {
    files_[path] = {content, is_large};
  }
  std::string blob_of(const std::string& path) const {
    const File& file = files_.at(path);
    return file.is_large ? sha256_of(file.content) : git_id_of(file.content);
  }
  std::vector<Request> requests() const {
    const std::lock_guard guard(mutex_);
    return requests_;
  }
  /// Requests for bytes of files.
  size_t num_transfers() const {
    const std::vector<Request> all = requests();
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const Request& request) { return request.is_file(); }));
  }

  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  size_t page_size = 1000;

 private:
  struct File {
    std::string content;
    bool is_large = false;
  };

  void accept_all() {
    while (!ending_) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) continue;
      connections_.emplace_back([this, connection] {
        answer(connection);
        close(connection);
      });
    }
  }

  void answer(int connection) {
    std::string text;
    while (text.find("\r\n\r\n") == text.npos) {
      char buffer[4096];
      const ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) return;
      text.append(buffer, static_cast<size_t>(count));
    }
    const Request request = parse(text);
    {
      const std::lock_guard guard(mutex_);
      requests_.push_back(request);
    }
    Reply reply = right_reply(request);
    if (fault_) fault_(request, reply);
    send_reply(connection, reply);
  }

  static Request parse(const std::string& text) {
    Request request;
    std::istringstream lines(text);
    std::string method;
    lines >> method >> request.target;
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line != "\r") {
      const size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
    }
    return request;
  }

  Reply right_reply(const Request& request) {
    const std::string api = "/api/models/org/name";
    const std::string& target = request.target;
    if (target.starts_with(api + "/revision/"))
      return {.headers = "", .body = R"({"id":"org/name","sha":")" + commit + "\"}"};
    if (target.starts_with(api + "/tree/" + commit)) return tree_page(target);
    const std::string resolve = "/org/name/resolve/" + commit + "/";
    if (target.starts_with(resolve) && files_.contains(target.substr(resolve.size()))) {
      const std::string path = target.substr(resolve.size());
      const std::string blob = blob_of(path);
      if (!files_.at(path).is_large) return part(request, files_.at(path).content, blob);
      return {
          .status = 302,
          .headers = "Location: " + endpoint() + "/cdn/" + path + "\r\nX-Linked-Etag: \"" + blob + "\"\r\n",
          .body = ""};
    }
    if (target.starts_with("/cdn/") && files_.contains(target.substr(5)))
      return part(request, files_.at(target.substr(5)).content, "cdn");
    return {.status = 404, .headers = "X-Error-Code: RepoNotFound\r\n", .body = "{}"};
  }

  Reply tree_page(const std::string& target) {
    const size_t cursor = target.find("cursor=");
    const size_t first = cursor == target.npos ? 0 : std::stoul(target.substr(cursor + 7));
    std::string list = R"([{"type":"directory","path":"sub","oid":"0","size":0})";
    size_t index = 0;
    for (const auto& [path, file] : files_) {
      const size_t place = index++;
      if (place < first || place >= first + page_size) continue;
      const std::string size = std::to_string(file.content.size());
      list += R"(,{"type":"file","path":")" + path + R"(","size":)" + size + R"(,"oid":")" +
              git_id_of(file.content) + "\"";
      if (file.is_large)
        list +=
            R"(,"lfs":{"oid":")" + sha256_of(file.content) + R"(","size":)" + size + R"(,"pointerSize":135})";
      list += "}";
    }
    Reply reply{.headers = "", .body = list + "]"};
    if (first + page_size < files_.size()) {
      reply.headers = "Link: <" + endpoint() + "/api/models/org/name/tree/" + commit +
                      "?recursive=true&cursor=" + std::to_string(first + page_size) + ">; rel=\"next\"\r\n";
    }
    return reply;
  }

  static Reply part(const Request& request, const std::string& content, const std::string& etag) {
    const std::string tag = "ETag: \"" + etag + "\"\r\n";
    const auto first = static_cast<size_t>(request.first_byte());
    const auto validator = request.headers.find("if-range");
    const bool is_current = validator == request.headers.end() || validator->second == "\"" + etag + "\"";
    if (!request.headers.contains("range") || !is_current) return {.headers = tag, .body = content};
    if (first >= content.size()) return {.status = 416, .headers = "", .body = ""};
    return {.status = 206,
            .headers = tag + "Content-Range: bytes " + std::to_string(first) + "-" +
                       std::to_string(content.size() - 1) + "/" + std::to_string(content.size()) + "\r\n",
            .body = content.substr(first)};
  }

  void send_reply(int connection, const Reply& reply) const {
    std::string text =
        "HTTP/1.1 " + std::to_string(reply.status) +
        " X\r\nConnection: close\r\nContent-Length: " + std::to_string(reply.body.size() + reply.missing) +
        "\r\n" + reply.headers + "\r\n";
    const size_t head = text.size();
    text += reply.body.substr(0, std::min({reply.cut_after, reply.hold_after, reply.body.size()}));
    constexpr size_t kChunk = 16 << 10;
    for (size_t sent = 0; sent < text.size() && !ending_;) {
      if (sent >= head && reply.pause.count() > 0) std::this_thread::sleep_for(reply.pause);
      const size_t size = std::min(sent < head ? head - sent : kChunk, text.size() - sent);
      const ssize_t count = send(connection, text.data() + sent, size, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
    if (reply.hold_after < reply.body.size()) wait_for_hang_up(connection);
  }

  void wait_for_hang_up(int connection) const {
    constexpr int kMilliseconds = 20;
    for (pollfd client{connection, POLLIN, 0}; !ending_;) {
      if (poll(&client, 1, kMilliseconds) > 0) return;
    }
  }

  Fault fault_;
  int listener_;
  int port_ = 0;
  std::map<std::string, File> files_;
  std::atomic<bool> ending_ = false;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<std::thread> connections_;
  std::thread accepting_;
};

}  // namespace lacuna
