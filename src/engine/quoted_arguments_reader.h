// Converts streamed arguments of a call from Gemma 4's notation (constraint/quoted_arguments.h) to JSON.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// The JSON has the spaces of JsonLayout::kSpaced. A word without quotes that is not a JSON number, true,
/// false or null becomes a string.
class QuotedArgumentsReader {
 public:
  /// Consumes as much of `unread` as possible and returns further bytes of the JSON. The first call must
  /// start with a brace. The JSON does not depend on how the text is split into pieces.
  std::string advance(std::string& unread, std::string_view quote);
  /// Whether the outermost brace was closed; advance() then consumes nothing.
  bool is_over() const { return is_over_; }

 private:
  /// Takes one character outside of quotes.
  void take(char c, std::string& json);
  /// Writes the pending unquoted word, if any.
  void end_word(std::string& json);

  std::string open_;  // stack of open braces and brackets
  std::string word_;  // unquoted word so far
  bool is_in_quotes_ = false;
  bool expects_key_ = false;
  bool is_over_ = false;
};

}  // namespace lacuna
