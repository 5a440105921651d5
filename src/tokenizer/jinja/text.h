// Texts of a template with marks for the bytes that come from the caller, and Python's operations on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/runtime.h"
#include "tokenizer/unicode.h"

namespace lacuna::jinja {

struct Text {
  std::string bytes;              ///< well-formed UTF-8
  std::vector<TextRange> inputs;  ///< the caller's bytes: ascending, none empty, none touching another
  bool is_markup = false;         ///< result of `safe` or `escape`
  int64_t length = 0;             ///< in code points

  bool is_ascii() const { return static_cast<size_t>(length) == bytes.size(); }
  bool has_input() const { return !inputs.empty(); }
  std::string_view view() const { return bytes; }
};

/// Concatenates parts of texts with their marks. Each call throws RenderError if the text exceeds the limits.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}
  void append(std::string_view bytes, bool is_input);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  void append(const Text& text, size_t begin, size_t end);
  void append_character(char32_t character, bool is_input);
  size_t size() const { return text_.bytes.size(); }
  Text take(bool is_markup = false);

 private:
  void mark(size_t begin, size_t end);

  Runtime& runtime_;
  Text text_;
};

Text make_text(Runtime& runtime, std::string_view bytes, bool is_input);
Text slice(Runtime& runtime, const Text& text, size_t begin, size_t end);

/// The characters with these indices, each in [0, text.length).
Text pick(Runtime& runtime, const Text& text, const std::vector<int64_t>& indices);

/// Walks the characters of a text, with their marks.
class Characters {
 public:
  explicit Characters(const Text& text, size_t position = 0);
  bool at_end() const { return position_ >= text_->bytes.size(); }
  size_t position() const { return position_; }
  char32_t value() const { return value_; }
  size_t bytes() const { return length_; }
  bool is_input();
  void advance();

 private:
  void read();

  const Text* text_;
  size_t position_;
  size_t length_ = 0;
  char32_t value_ = 0;
  size_t mark_ = 0;
};

/// Byte offset of the character `index`, which is in [0, text.length].
size_t byte_of(Runtime& runtime, const Text& text, int64_t index);
/// Number of characters before the byte offset `position`.
int64_t index_of(Runtime& runtime, const Text& text, size_t position);

/// Searches for a pattern in linear time.
class Finder {
 public:
  /// `pattern` is not empty and must outlive the finder.
  Finder(Runtime& runtime, std::string_view pattern);
  /// Byte offset of the first occurrence at or after `from`, or npos.
  size_t find(std::string_view text, size_t from = 0) const;

 private:
  Runtime& runtime_;
  std::string_view pattern_;
  std::vector<uint32_t> failure_;
};
/// Byte offset of the last occurrence within `text`, or npos. An empty pattern is found at the end.
size_t find_last(Runtime& runtime, std::string_view text, std::string_view pattern);
bool contains(Runtime& runtime, std::string_view text, std::string_view pattern);

inline bool is_ascii_digit(char byte) {
  return byte >= '0' && byte <= '9';
}
bool is_python_space(char32_t character);  ///< str.isspace()

Text to_upper(Runtime& runtime, const Text& text);
Text to_lower(Runtime& runtime, const Text& text);
Text capitalize(Runtime& runtime, const Text& text);
Text title(Runtime& runtime, const Text& text);         ///< str.title()
Text title_filter(Runtime& runtime, const Text& text);  ///< the filter, which has other word boundaries
Text swap_case(Runtime& runtime, const Text& text);

enum class Side : uint8_t { kBoth, kLeft, kRight };
/// str.strip(), lstrip() or rstrip(). `characters`: the set to remove; null for white space.
Text strip(Runtime& runtime, const Text& text, Side side, const Text* characters);

std::vector<Text> split(Runtime& runtime, const Text& text, const Text* separator, int64_t count);
std::vector<Text> split_from_end(Runtime& runtime, const Text& text, const Text* separator, int64_t count);
std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends);
Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& with, int64_t count);
/// HTML escaping: &, <, >, ' and " become entities; markup is unchanged.
Text escape(Runtime& runtime, const Text& text);

}  // namespace lacuna::jinja
