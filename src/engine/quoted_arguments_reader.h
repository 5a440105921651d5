// Arguments of a call in Gemma 4's notation (constraint/quoted_arguments.h) to JSON, while they grow.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// The JSON has the spaces of JsonLayout::kSpaced. A word without quotes that is not a JSON number, true,
/// false or null becomes a string.
class QuotedArgumentsReader {
 public:
  /// Takes what it can from the beginning of `unread`, which starts with a brace in the first call, and
  /// returns further bytes of the JSON. What the pieces add up to does not depend on their sizes.
  std::string advance(std::string& unread, std::string_view quote);
  /// Whether the outermost brace was closed; nothing is taken from then on.
  bool is_over() const { return is_over_; }

 private:
  /// Takes one character outside of quotes.
  void take(char c, std::string& json);
  /// Writes what stands without quotes, if there is something.
  void end_word(std::string& json);

  std::string open_;  // braces and brackets that are open
  std::string word_;  // characters without quotes so far
  bool is_in_quotes_ = false;
  bool expects_key_ = false;
  bool is_over_ = false;
};

}  // namespace lacuna
