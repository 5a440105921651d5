// Functions that an answer may call (docs/guide/tools.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/export.h"
#include "lacuna/types.h"

namespace lacuna {

/// A function that an answer may call: Request::tools.
struct Tool {
  std::string name;         ///< 1 to 128 letters, digits and characters of "_-.:/"
  std::string description;  ///< description for the model; empty: none
  std::string parameters;   ///< JSON schema of an object, as text; empty: it takes no arguments
  bool strict = false;      ///< the schema has to follow OpenAI's rules of strict schemas
};

/// A call of a function.
struct ToolCall {
  std::string name;       ///< name of the function
  std::string arguments;  ///< JSON text of an object
  std::string id = {};    ///< unique within a conversation; may be empty

  /// Whether all fields are the same.
  bool operator==(const ToolCall&) const = default;
};

/// The parts of an answer that may call functions.
struct ToolAnswer {
  std::string content;          ///< text before the calls
  std::vector<ToolCall> calls;  ///< in the answer's order
};

/// Splits an answer of a request with tools into text and calls. Ids depend only on the request and the
/// answer, so the same request gives the same ids.
LACUNA_API ToolAnswer read_tool_answer(const Answer& answer);

/// An assistant's turn with `content`, which may be empty, and these calls. Throws Error for an invalid name
/// or invalid arguments.
LACUNA_API Message assistant_turn(std::string_view content, std::span<const ToolCall> calls);
/// A user's turn with the results of functions, in the order of the calls.
LACUNA_API Message tool_results(std::span<const std::string> results);

}  // namespace lacuna
