// Parses function calls from a streamed answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/tool_calls.h"
#include "engine/quoted_arguments_reader.h"

namespace lacuna {

/// Splits a text in a form of constraint/tool_calls.h into free text and calls. The result does not depend on
/// how the text is split into pieces. Malformed calls, for example without a name, are free text.
class ToolCallReader {
 public:
  explicit ToolCallReader(const ToolCallForm& form = kTaggedCalls) : form_(&form) {}

  /// A piece of free text or of a call.
  struct Piece {
    std::optional<size_t> call = {};  ///< index of the call that it belongs to; empty: free text
    std::string name = {};            ///< name of a call that begins; empty in its later pieces
    std::string text = {};            ///< free text, or further bytes of the call's arguments, as JSON
  };

  /// Appends `text` and returns the pieces that are now certain. Drops white space before a call.
  ///   is_all  whether the text is complete
  std::vector<Piece> advance(std::string_view text, bool is_all);

  /// Number of calls whose names have been read.
  size_t num_calls() const { return num_calls_; }
  /// Whether there are calls and the last one is complete.
  bool has_complete_calls() const { return num_calls_ > 0 && is_complete_; }

 private:
  enum class Part { kText, kHead, kArguments, kTail, kBetween, kMalformed };

  /// Reads the current part; returns false if it needs more text.
  bool read_part(bool is_all, std::vector<Piece>& pieces);
  bool read_text(bool is_all, std::vector<Piece>& pieces);
  bool read_whole_answer(bool is_all, std::vector<Piece>& pieces);
  bool read_head(std::vector<Piece>& pieces);
  bool read_arguments(std::vector<Piece>& pieces);
  bool read_quoted_arguments(std::vector<Piece>& pieces);
  bool read_literal(std::string_view literal, Part next);
  bool enter(Part part);
  /// Turns text that is not a call after all into free text.
  bool give_up(std::string_view read);

  const ToolCallForm* form_;
  Part part_ = Part::kText;
  std::string unread_;
  size_t num_calls_ = 0;
  bool is_complete_ = false;
  // Within arguments:
  int depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
  QuotedArgumentsReader quoted_;
};

}  // namespace lacuna
