// Messages between two processes of one user on one machine, over a Unix socket: in the abstract namespace on
// Linux (no file), else a file in the temporary directory.
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

/// One end of a connection. A message is a JSON value as CBOR, which keeps all bits of numbers. One thread
/// may send while another receives.
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
  /// The next message; none if nothing arrives within `most` (negative: waits forever). Throws
  /// ConnectionLost.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds most = std::chrono::milliseconds(-1));

  void close();
  /// Ends the connection: a blocked receive() throws ConnectionLost.
  void shut_down() const;
  int descriptor() const { return descriptor_; }

 private:
  void send_bytes(const void* bytes, size_t count) const;
  void receive_bytes(char* bytes, size_t count) const;

  int descriptor_ = -1;
};

/// A listening socket; throws std::system_error if the name is taken.
class MessageListener {
 public:
  explicit MessageListener(const std::string& name);
  ~MessageListener();
  MessageListener(const MessageListener&) = delete;
  MessageListener& operator=(const MessageListener&) = delete;

  /// The next connection from a process of this user; none within `most`.
  std::optional<MessageSocket> accept(std::chrono::milliseconds most) const;

 private:
  std::string name_;
  int descriptor_ = -1;
};

/// Throws ConnectionLost if no process listens under this name.
MessageSocket connect_to(const std::string& name);

}  // namespace lacuna
