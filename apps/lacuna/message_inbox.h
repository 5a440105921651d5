// Messages of JSON-RPC 2.0 from standard input, read while an earlier one is worked on, so that a
// notification can cancel it.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>

namespace lacuna {

/// A message, or what is wrong with a line.
struct RpcMessage {
  nlohmann::json message;        ///< null where the line is not a message
  int code = 0;                  ///< of the error; 0: none
  std::string sentence;          ///< what is wrong
  std::stop_token cancellation;  ///< of a request: notifications/cancelled has named it
};

// Codes of JSON-RPC 2.0.
inline constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
                     kInvalidParams = -32602;

inline constexpr size_t kMaxMessageBytes = size_t{4} << 20;
inline constexpr size_t kMaxMessageValues = size_t{1} << 18;

/// Reads in a thread of its own, a bounded number of messages ahead. The thread ends with the input.
class MessageInbox {
 public:
  MessageInbox();
  ~MessageInbox();
  MessageInbox(const MessageInbox&) = delete;
  MessageInbox& operator=(const MessageInbox&) = delete;

  /// The next message, which is the current one until the next call; none at the end of the input. Leaves out
  /// notifications and empty lines, and requests that were cancelled before they were taken.
  std::optional<RpcMessage> take();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may be waiting for input at the end
};

}  // namespace lacuna
