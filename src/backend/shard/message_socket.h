// Messages between two processes of one machine and one user, over a Unix socket: on Linux in the abstract
// namespace, which needs no file, elsewhere as a file in the folder for temporary ones.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace lacuna {

/// The process at the other end has ended, or sent an invalid message.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One end of a connection. A message is a JSON value as CBOR, so numbers arrive with all their bits. Sent
/// by one thread at a time, and received by one.
class MessageSocket {
 public:
  MessageSocket() = default;
  /// Owns the descriptor.
  explicit MessageSocket(int descriptor) : descriptor_(descriptor) {}
  ~MessageSocket() { close(); }
  MessageSocket(MessageSocket&& other) noexcept;
  MessageSocket& operator=(MessageSocket&& other) noexcept;
  MessageSocket(const MessageSocket&) = delete;
  MessageSocket& operator=(const MessageSocket&) = delete;

  /// Throws ConnectionLost.
  void send(const nlohmann::json& message);
  /// The next message; none where nothing arrives for so long. Negative: waits until something does. Throws
  /// ConnectionLost.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds most = std::chrono::milliseconds(-1));

  void close();
  /// Ends the connection, so that a thread that receives returns with ConnectionLost.
  void shut_down() const;
  int descriptor() const { return descriptor_; }

 private:
  void send_bytes(const void* bytes, size_t count) const;
  void receive_bytes(char* bytes, size_t count) const;

  int descriptor_ = -1;
};

/// A socket with a name that no other has. std::system_error.
class MessageListener {
 public:
  explicit MessageListener(const std::string& name);
  ~MessageListener();
  MessageListener(const MessageListener&) = delete;
  MessageListener& operator=(const MessageListener&) = delete;

  /// The next process of this user that connects; none where nobody does for so long.
  std::optional<MessageSocket> accept(std::chrono::milliseconds most) const;

 private:
  std::string name_;
  int descriptor_ = -1;
};

/// ConnectionLost where nobody listens under this name.
MessageSocket connect_to(const std::string& name);

}  // namespace lacuna
