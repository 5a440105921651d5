// JSON-RPC 2.0 messages from standard input, read in the background, so that a notification can cancel the
// request that is processed.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>

namespace lacuna {

/// A message, or the error of an invalid line.
struct RpcMessage {
  nlohmann::json message;        ///< null if the line is not a message
  int code = 0;                  ///< error code; 0: none
  std::string sentence;          ///< error message
  std::stop_token cancellation;  ///< set when notifications/cancelled names the request
};

// Codes of JSON-RPC 2.0.
inline constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
                     kInvalidParams = -32602;

inline constexpr size_t kMaxMessageBytes = size_t{4} << 20;
inline constexpr size_t kMaxMessageValues = size_t{1} << 18;

/// Reads a bounded number of messages ahead, in its own thread. The thread ends with the input.
class MessageInbox {
 public:
  MessageInbox();
  ~MessageInbox();
  MessageInbox(const MessageInbox&) = delete;
  MessageInbox& operator=(const MessageInbox&) = delete;

  /// Returns the next message, which becomes the current one; empty at the end of the input. Skips
  /// notifications, empty lines and requests that are already cancelled.
  std::optional<RpcMessage> take();

 private:
  struct State;
  std::shared_ptr<State>
      state_;  // shared with the thread, which may outlive this object while it waits for input
};

}  // namespace lacuna
