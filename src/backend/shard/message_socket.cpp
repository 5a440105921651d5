#include "backend/shard/message_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 30;

/// Waits up to `most` until something can be read or accepted; negative: forever.
bool is_readable(int descriptor, std::chrono::milliseconds most) {
  pollfd watched{descriptor, POLLIN, 0};
  for (;;) {
    const int count = poll(&watched, 1, most.count() < 0 ? -1 : static_cast<int>(most.count()));
    if (count >= 0) return count > 0;
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "a socket between processes");
  }
}

#ifdef __linux__
/// Name in the abstract namespace: begins with a zero byte and vanishes with its socket.
std::string full_name(const std::string& name) {
  return '\0' + name;
}

void remove_name(const std::string& /*name*/) {}

bool is_of_this_user(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}
#else
std::string full_name(const std::string& name) {
  return (std::filesystem::temp_directory_path() / name).string();
}

void remove_name(const std::string& name) {
  unlink(full_name(name).c_str());
}

bool is_of_this_user(int descriptor) {
  uid_t user = 0;
  gid_t group = 0;
  return getpeereid(descriptor, &user, &group) == 0 && user == geteuid();
}
#endif

#ifdef __APPLE__
constexpr int kCloseOnExec = 0;
constexpr int kNoSignal = 0;

int accept_one(int listener) {
  return ::accept(listener, nullptr, nullptr);
}

/// Sets close-on-exec and disables SIGPIPE after creation, for systems without creation flags: a program that
/// another thread starts in between inherits the socket.
int prepared(int descriptor) {
  const int yes = 1;
  if (descriptor >= 0) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof(yes));
  }
  return descriptor;
}
#else
constexpr int kCloseOnExec = SOCK_CLOEXEC;
constexpr int kNoSignal = MSG_NOSIGNAL;

int accept_one(int listener) {
  return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
}

int prepared(int descriptor) {
  return descriptor;
}
#endif

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;

  explicit Address(const std::string& short_name) {
    const std::string name = full_name(short_name);
    if (name.size() > sizeof(value.sun_path))
      throw std::system_error(ENAMETOOLONG, std::generic_category(), name);
    value.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(value.sun_path), name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

int new_socket() {
  const int descriptor = prepared(socket(AF_UNIX, SOCK_STREAM | kCloseOnExec, 0));
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "a socket between processes");
  return descriptor;
}

}  // namespace

MessageSocket::MessageSocket(MessageSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

MessageSocket& MessageSocket::operator=(MessageSocket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void MessageSocket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void MessageSocket::shut_down() const {
  if (descriptor_ >= 0) shutdown(descriptor_, SHUT_RDWR);
}

void MessageSocket::send(const json& message) {
  // A single send: stopped between two sends, this process would block the receiver.
  std::vector<uint8_t> bytes(sizeof(uint64_t));
  json::to_cbor(message, bytes);  // appends
  const uint64_t size = bytes.size() - sizeof(size);
  std::memcpy(bytes.data(), &size, sizeof(size));
  send_bytes(bytes.data(), bytes.size());
}

void MessageSocket::send_bytes(const void* bytes, size_t count) const {
  for (size_t done = 0; done < count;) {
    const ssize_t some = ::send(descriptor_, static_cast<const char*>(bytes) + done, count - done, kNoSignal);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) throw ConnectionLost("the other process has ended");
    done += static_cast<size_t>(some);
  }
}

void MessageSocket::receive_bytes(char* bytes, size_t count) const {
  for (size_t done = 0; done < count;) {
    const ssize_t some = recv(descriptor_, bytes + done, count - done, 0);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) throw ConnectionLost("the other process has ended");
    done += static_cast<size_t>(some);
  }
}

std::optional<json> MessageSocket::receive(std::chrono::milliseconds most) {
  if (!is_readable(descriptor_, most)) return {};
  uint64_t size = 0;
  receive_bytes(reinterpret_cast<char*>(&size), sizeof(size));
  if (size > kMaxMessageBytes) {
    throw ConnectionLost(
        fmt::format("a message of {} bytes came; expected at most {}", size, kMaxMessageBytes));
  }
  std::vector<char> body(size);
  receive_bytes(body.data(), body.size());
  try {
    return json::from_cbor(body);
  } catch (const json::exception& error) {
    throw ConnectionLost(fmt::format("a message cannot be read: {}", error.what()));
  }
}

MessageListener::MessageListener(const std::string& name) : name_(name) {
  const Address address(name);
  descriptor_ = new_socket();
  if (bind(descriptor_, address.get(), address.size) != 0 || listen(descriptor_, 2) != 0) {
    const int error = errno;
    ::close(descriptor_);
    throw std::system_error(error, std::generic_category(), name);
  }
}

MessageListener::~MessageListener() {
  ::close(descriptor_);
  remove_name(name_);
}

std::optional<MessageSocket> MessageListener::accept(std::chrono::milliseconds most) const {
  if (!is_readable(descriptor_, most)) return {};
  const int descriptor = prepared(accept_one(descriptor_));
  if (descriptor < 0) return {};
  MessageSocket accepted(descriptor);
  if (!is_of_this_user(descriptor)) return {};
  return accepted;
}

MessageSocket connect_to(const std::string& name) {
  const Address address(name);
  MessageSocket socket(new_socket());
  if (connect(socket.descriptor(), address.get(), address.size) != 0)
    throw ConnectionLost(fmt::format("{}: nobody listens there", name));
  return socket;
}

}  // namespace lacuna
