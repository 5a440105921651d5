#include "tokenizer/jinja/text.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/letter_case.h"

namespace lacuna::jinja {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80;
}

int64_t count_characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char byte) { return !is_continuation(byte); });
}

// Byte offset at which the character begins that ends at `end`.
size_t before(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && is_continuation(text[end]));
  return end;
}

// The first mark that ends after `begin`.
auto first_mark(const Text& text, size_t begin) {
  return std::lower_bound(text.inputs.begin(), text.inputs.end(), begin,
                          [](const TextRange& range, size_t value) { return range.end <= value; });
}

}  // namespace

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!text_.inputs.empty() && text_.inputs.back().end == begin) {
    text_.inputs.back().end = end;
  } else {
    text_.inputs.push_back({begin, end});
  }
}

void TextBuilder::append(std::string_view bytes, bool is_input) {
  runtime_.check_size(text_.bytes.size() + bytes.size());
  const size_t begin = text_.bytes.size();
  text_.bytes.append(bytes);
  if (is_input) mark(begin, text_.bytes.size());
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  const size_t offset = text_.bytes.size();
  append(text.view().substr(begin, end - begin), false);
  for (auto range = first_mark(text, begin); range != text.inputs.end() && range->begin < end; ++range) {
    mark(offset + std::max(range->begin, begin) - begin, offset + std::min(range->end, end) - begin);
  }
}

void TextBuilder::append_character(char32_t character, bool is_input) {
  runtime_.check_size(text_.bytes.size() + 4);
  const size_t begin = text_.bytes.size();
  append_utf8(character, text_.bytes);
  if (is_input) mark(begin, text_.bytes.size());
}

Text TextBuilder::take(bool is_markup) {
  runtime_.touch(text_.bytes.size());
  text_.length = count_characters(text_.bytes);
  text_.is_markup = is_markup;
  return std::exchange(text_, {});
}

Text make_text(Runtime& runtime, std::string_view bytes, bool is_input) {
  TextBuilder builder(runtime);
  builder.append(bytes, is_input);
  return builder.take();
}

Text slice(Runtime& runtime, const Text& text, size_t begin, size_t end) {
  TextBuilder builder(runtime);
  builder.append(text, begin, end);
  return builder.take(text.is_markup);
}

Text pick(Runtime& runtime, const Text& text, const std::vector<int64_t>& indices) {
  std::vector<uint32_t> begins;  // offsets of all characters, and the end
  runtime.touch(text.bytes.size() * 4 + indices.size() * 8);
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    if (!is_continuation(text.bytes[i])) begins.push_back(static_cast<uint32_t>(i));
  }
  begins.push_back(static_cast<uint32_t>(text.bytes.size()));
  TextBuilder builder(runtime);
  for (const int64_t index : indices) {
    const auto at = static_cast<size_t>(index);
    builder.append(text, begins[at], begins[at + 1]);
  }
  return builder.take(text.is_markup);
}

Characters::Characters(const Text& text, size_t position) : text_(&text), position_(position) {
  mark_ = static_cast<size_t>(first_mark(text, position) - text.inputs.begin());
  read();
}

void Characters::read() {
  if (at_end()) return;
  const std::string_view rest = text_->view().substr(position_);
  value_ = first_character(rest);
  length_ = std::max<size_t>(first_character_bytes(rest), 1);
}

bool Characters::is_input() {
  while (mark_ < text_->inputs.size() && text_->inputs[mark_].end <= position_) ++mark_;
  return mark_ < text_->inputs.size() && text_->inputs[mark_].begin <= position_;
}

void Characters::advance() {
  position_ += length_;
  read();
}

size_t byte_of(Runtime& runtime, const Text& text, int64_t index) {
  if (text.is_ascii()) return static_cast<size_t>(index);
  if (index >= text.length) return text.bytes.size();
  size_t position = 0;
  for (++index; position < text.bytes.size(); ++position) {
    if (!is_continuation(text.bytes[position]) && --index == 0) break;
  }
  runtime.touch(position);
  return position;
}

int64_t index_of(Runtime& runtime, const Text& text, size_t position) {
  if (text.is_ascii()) return static_cast<int64_t>(position);
  runtime.touch(position);
  return count_characters(text.view().substr(0, position));
}

// Knuth, Morris and Pratt: failure_[i] is the length of the longest proper prefix of the pattern that ends
// its first i + 1 bytes.
Finder::Finder(Runtime& runtime, std::string_view pattern) : runtime_(runtime), pattern_(pattern) {
  if (pattern.size() < 2) return;
  runtime.touch(pattern.size() * 4);
  failure_.resize(pattern.size());
  for (size_t i = 1, matched = 0; i < pattern.size(); ++i) {
    while (matched > 0 && pattern[i] != pattern[matched]) matched = failure_[matched - 1];
    if (pattern[i] == pattern[matched]) ++matched;
    failure_[i] = static_cast<uint32_t>(matched);
  }
}

size_t Finder::find(std::string_view text, size_t from) const {
  size_t found = std::string_view::npos;
  if (pattern_.size() == 1) {
    found = text.find(pattern_.front(), from);
  } else {
    size_t matched = 0;
    for (size_t i = from; i < text.size(); ++i) {
      while (matched > 0 && text[i] != pattern_[matched]) matched = failure_[matched - 1];
      if (text[i] == pattern_[matched]) ++matched;
      if (matched == pattern_.size()) {
        found = i + 1 - matched;
        break;
      }
    }
  }
  runtime_.touch((found == std::string_view::npos ? text.size() : found) - std::min(from, text.size()));
  return found;
}

size_t find_last(Runtime& runtime, std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.size();
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_pattern(pattern.rbegin(), pattern.rend());
  runtime.touch(text.size());
  const size_t found = Finder(runtime, reversed_pattern).find(reversed_text);
  return found == std::string::npos ? found : text.size() - found - pattern.size();
}

bool contains(Runtime& runtime, std::string_view text, std::string_view pattern) {
  return pattern.empty() || Finder(runtime, pattern).find(text) != std::string_view::npos;
}

bool is_python_space(char32_t character) {
  return is_space(character) || (character >= 0x1c && character <= 0x1f);
}

namespace {

// Python's rule: a sigma is final if a cased character precedes it and none follows it, after skipping
// ignorable characters. Looks back only to `begin`.
bool is_final_sigma(const Text& text, size_t begin, size_t position) {
  const std::string_view bytes = text.bytes;
  size_t at = position;
  bool has_word = false;
  while (at > begin) {
    at = before(bytes, at);
    const char32_t character = first_character(bytes.substr(at));
    if (is_case_ignorable(character)) continue;
    has_word = is_cased(character);
    break;
  }
  if (!has_word) return false;
  Characters next(text, position);
  for (next.advance(); !next.at_end(); next.advance()) {
    if (!is_case_ignorable(next.value())) return !is_cased(next.value());
  }
  return true;
}

// Builds a text whose characters are mapped one by one; each keeps its mark.
class Mapper {
 public:
  Mapper(Runtime& runtime, const Text& text) : text_(text), builder_(runtime) {
    runtime.touch(text.bytes.size() * 8);
  }

  template <typename Map>  // (character, position) to characters
  Text map(Map&& map) {
    for (Characters characters(text_); !characters.at_end(); characters.advance()) {
      const bool is_input = characters.is_input();
      for (const char32_t mapped : map(characters.value(), characters.position())) {
        builder_.append_character(mapped, is_input);
      }
    }
    return builder_.take(text_.is_markup);
  }

  ///   begin  where the word's lower-cased part begins
  std::u32string lower(char32_t character, size_t position, size_t begin = 0) {
    if (character != 0x3a3) return lower_of(character);
    return {is_final_sigma(text_, begin, position) ? char32_t{0x3c2} : char32_t{0x3c3}};
  }

 private:
  const Text& text_;
  TextBuilder builder_;
};

}  // namespace

Text to_upper(Runtime& runtime, const Text& text) {
  return Mapper(runtime, text).map([](char32_t character, size_t) { return upper_of(character); });
}

Text to_lower(Runtime& runtime, const Text& text) {
  Mapper mapper(runtime, text);
  return mapper.map([&](char32_t character, size_t position) { return mapper.lower(character, position); });
}

Text capitalize(Runtime& runtime, const Text& text) {
  Mapper mapper(runtime, text);
  return mapper.map([&](char32_t character, size_t position) {
    return position == 0 ? title_of(character) : mapper.lower(character, position);
  });
}

Text title(Runtime& runtime, const Text& text) {
  Mapper mapper(runtime, text);
  bool is_in_word = false;
  return mapper.map([&](char32_t character, size_t position) {
    auto mapped = is_in_word ? mapper.lower(character, position) : title_of(character);
    is_in_word = is_cased(character);
    return mapped;
  });
}

Text title_filter(Runtime& runtime, const Text& text) {
  Mapper mapper(runtime, text);
  bool is_in_word = false;
  size_t second = 0;  // offset after the first character of the word
  Text titled = mapper.map([&](char32_t character, size_t position) {
    const bool begins_words = std::u32string_view(U"-({[<").find(character) != std::u32string_view::npos;
    auto mapped = is_in_word ? mapper.lower(character, position, second) : upper_of(character);
    if (!is_in_word) second = position + first_character_bytes(text.view().substr(position));
    is_in_word = !begins_words && !is_python_space(character);
    return mapped;
  });
  titled.is_markup = false;
  return titled;
}

Text swap_case(Runtime& runtime, const Text& text) {
  Mapper mapper(runtime, text);
  return mapper.map([&](char32_t character, size_t position) {
    if (is_upper(character)) return mapper.lower(character, position);
    return is_lower(character) ? upper_of(character) : std::u32string{character};
  });
}

Text strip(Runtime& runtime, const Text& text, Side side, const Text* characters) {
  std::u32string removed;
  if (characters != nullptr) {
    for (Characters each(*characters); !each.at_end(); each.advance()) removed += each.value();
    std::sort(removed.begin(), removed.end());
    runtime.step(removed.size());
  }
  const auto goes = [&](char32_t character) {
    if (characters == nullptr) return is_python_space(character);
    return std::binary_search(removed.begin(), removed.end(), character);
  };
  const std::string_view bytes = text.bytes;
  size_t begin = 0, end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end && goes(first_character(bytes.substr(begin)))) {
      begin += std::max<size_t>(first_character_bytes(bytes.substr(begin)), 1);
    }
  }
  if (side != Side::kLeft) {
    while (end > begin && goes(first_character(bytes.substr(before(bytes, end))))) end = before(bytes, end);
  }
  runtime.touch((bytes.size() - (end - begin)) * 8);
  return slice(runtime, text, begin, end);
}

namespace {

// Splits `text` at white space, at most `count` times (negative: no limit).
std::vector<Text> split_at_spaces(Runtime& runtime, const Text& text, int64_t count) {
  constexpr size_t kNone = std::string::npos;
  runtime.touch(text.bytes.size() * 8);
  std::vector<Text> parts;
  size_t begin = kNone;  // begin of the current part
  for (Characters characters(text); !characters.at_end(); characters.advance()) {
    const bool is_gap = is_python_space(characters.value());
    if (is_gap && begin != kNone) {
      runtime.step();
      parts.push_back(slice(runtime, text, begin, characters.position()));
      begin = kNone;
    } else if (!is_gap && begin == kNone) {
      begin = characters.position();
      if (count >= 0 && static_cast<int64_t>(parts.size()) == count) break;  // keep the last part's spaces
    }
  }
  if (begin != kNone) parts.push_back(slice(runtime, text, begin, text.bytes.size()));
  return parts;
}

std::vector<Text> split_at_spaces_from_end(Runtime& runtime, const Text& text, int64_t count) {
  const std::string_view bytes = text.bytes;
  runtime.touch(bytes.size() * 8);
  const auto is_gap = [&](size_t position) {
    return is_python_space(first_character(bytes.substr(position)));
  };
  std::vector<Text> parts;
  size_t end = bytes.size();
  while (true) {
    while (end > 0 && is_gap(before(bytes, end))) end = before(bytes, end);
    if (end == 0) break;
    runtime.step();
    size_t begin = end;
    if (count >= 0 && static_cast<int64_t>(parts.size()) == count) {
      begin = 0;
    } else {
      while (begin > 0 && !is_gap(before(bytes, begin))) begin = before(bytes, begin);
    }
    parts.push_back(slice(runtime, text, begin, end));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::vector<Text> split(Runtime& runtime, const Text& text, const Text* separator, int64_t count) {
  if (separator == nullptr) return split_at_spaces(runtime, text, count);
  if (separator->bytes.empty()) fail("split(): the separator is empty");
  const Finder finder(runtime, separator->bytes);
  std::vector<Text> parts;
  size_t begin = 0;
  while (count < 0 || static_cast<int64_t>(parts.size()) < count) {
    const size_t found = finder.find(text.bytes, begin);
    if (found == std::string::npos) break;
    runtime.step();
    parts.push_back(slice(runtime, text, begin, found));
    begin = found + separator->bytes.size();
  }
  parts.push_back(slice(runtime, text, begin, text.bytes.size()));
  return parts;
}

std::vector<Text> split_from_end(Runtime& runtime, const Text& text, const Text* separator, int64_t count) {
  if (separator == nullptr) return split_at_spaces_from_end(runtime, text, count);
  if (separator->bytes.empty()) fail("rsplit(): the separator is empty");
  const std::string reversed(text.bytes.rbegin(), text.bytes.rend());
  const std::string pattern(separator->bytes.rbegin(), separator->bytes.rend());
  runtime.touch(reversed.size());
  const Finder finder(runtime, pattern);
  std::vector<Text> parts;
  size_t begin = 0;  // offset in the reversed text
  const size_t size = reversed.size();
  while (count < 0 || static_cast<int64_t>(parts.size()) < count) {
    const size_t found = finder.find(reversed, begin);
    if (found == std::string::npos) break;
    runtime.step();
    parts.push_back(slice(runtime, text, size - found, size - begin));
    begin = found + pattern.size();
  }
  parts.push_back(slice(runtime, text, 0, size - begin));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends) {
  constexpr std::u32string_view kEnds = U"\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029";
  runtime.touch(text.bytes.size() * 8);
  std::vector<Text> lines;
  size_t begin = 0;
  for (Characters characters(text); !characters.at_end();) {
    const char32_t character = characters.value();
    const size_t end = characters.position();
    characters.advance();
    if (kEnds.find(character) == std::u32string_view::npos) continue;
    if (character == U'\r' && !characters.at_end() && characters.value() == U'\n') characters.advance();
    const size_t next = std::min(characters.position(), text.bytes.size());
    runtime.step();
    lines.push_back(slice(runtime, text, begin, keep_ends ? next : end));
    begin = next;
  }
  if (begin < text.bytes.size()) lines.push_back(slice(runtime, text, begin, text.bytes.size()));
  return lines;
}

Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& with, int64_t count) {
  TextBuilder builder(runtime);
  size_t begin = 0;
  if (old.bytes.empty()) {  // an empty pattern matches between all characters
    Characters characters(text);
    for (; count != 0; --count) {
      runtime.step();
      builder.append(with);
      if (characters.at_end()) break;
      builder.append(text, characters.position(), characters.position() + characters.bytes());
      characters.advance();
      begin = std::min(characters.position(), text.bytes.size());
    }
  } else {
    const Finder finder(runtime, old.bytes);
    for (; count != 0; --count) {
      const size_t found = finder.find(text.bytes, begin);
      if (found == std::string::npos) break;
      runtime.step();
      builder.append(text, begin, found);
      builder.append(with);
      begin = found + old.bytes.size();
    }
  }
  builder.append(text, begin, text.bytes.size());
  return builder.take(text.is_markup);
}

Text escape(Runtime& runtime, const Text& text) {
  constexpr std::u32string_view kEscaped = U"&<>'\"";
  constexpr std::array<std::string_view, 5> kEscapes = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  if (text.is_markup) return text;
  TextBuilder builder(runtime);
  runtime.touch(text.bytes.size() * 8);
  for (Characters characters(text); !characters.at_end(); characters.advance()) {
    const bool is_input = characters.is_input();
    const size_t escape = kEscaped.find(characters.value());
    if (escape == kEscaped.npos) {
      builder.append_character(characters.value(), is_input);
    } else {
      builder.append(kEscapes[escape], is_input);
    }
  }
  return builder.take(true);
}

}  // namespace lacuna::jinja
