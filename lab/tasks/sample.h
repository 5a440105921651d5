// Samples of tasks: a prompt and a correct answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The hash of a prompt alone decides its split: one prompt in eight is for testing.
enum class Split : uint8_t { kTrain, kTest };

/// The split that a prompt belongs to.
Split split_of(std::string_view prompt);

/// An earlier turn of a conversation.
struct Turn {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
};

struct Sample {
  std::string prompt;              ///< raw text, no chat template; in a conversation, the last user turn
  std::string answer;              ///< one correct continuation; starts without a space
  std::vector<Turn> history = {};  ///< the turns before the prompt; requires a chat template unless empty
  /// Infilling: number of bytes at the start of the answer to restore, the rest is given; 0: the whole answer
  /// is to be written.
  size_t hole = 0;
  std::vector<std::string> accepted = {};  ///< other correct continuations
};

/// Options of the samples; empty: the task's own choice.
struct TaskOptions {
  std::optional<int32_t>
      length;  ///< tokens of the prompt, in [kMinLength, kMaxLength]; for Task::has_lengths
  std::optional<double>
      depth;  ///< place of the asked fact, 0 first, 1 last; default: uniform; for Task::has_lengths
  std::optional<int32_t> difficulty = {};  ///< in [1, kMaxDifficulty]; its effect depends on the task
};

inline constexpr int32_t kMaxDifficulty = 5;

inline constexpr int32_t kMinLength = 16;
inline constexpr int32_t kDefaultLength = 1024;
inline constexpr int32_t kMaxLength = 8192;

}  // namespace lacuna
