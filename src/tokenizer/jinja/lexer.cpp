#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/unicode.h"

namespace lacuna::jinja {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

// Replaces every line break by "\n" and drops a trailing one.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

size_t space_bytes(std::string_view text) {  // length of the leading white space
  size_t size = 0;
  while (size < text.size() && is_python_space(first_character(text.substr(size)))) {
    size += first_character_bytes(text.substr(size));
  }
  return size;
}

std::string_view without_space_at_end(std::string_view text) {
  while (!text.empty() && is_python_space(last_character(text))) {
    do {
      text.remove_suffix(1);
    } while (!text.empty() && (static_cast<unsigned char>(text.data()[text.size()]) & 0xc0U) == 0x80);
  }
  return text;
}

bool is_name_start(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || (byte & 0x80) != 0;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : name_(name), source_(normalized(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) text_and_tag();
    add(Token::Type::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& sentence) const {
    throw InputError("{}: line {}: {}", name_, line_, sentence);
  }

  std::string_view rest() const { return std::string_view(source_).substr(position_); }

  // Skips `size` bytes and counts their lines.
  void skip(size_t size) {
    const std::string_view passed = rest().substr(0, size);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) begins_line_ = passed.back() == '\n';
    position_ += passed.size();
  }

  Token& add(Token::Type type) {
    Token& token = tokens_.emplace_back();
    token.type = type;
    token.line = line_;
    return token;
  }

  // Adds the text before a tag, without the white space that the tag removes.
  void add_text(std::string_view text, char control, bool removes_indent) {
    if (control == '-') {
      text = without_space_at_end(text);
    } else if (control != '+' && removes_indent) {
      const size_t last_line = text.rfind('\n') + 1;  // 0 without a newline
      if ((last_line > 0 || begins_line_) && space_bytes(text.substr(last_line)) == text.size() - last_line) {
        text = text.substr(0, last_line);
      }
    }
    if (!text.empty()) add(Token::Type::kText).text = text;
  }

  static char control_of(std::string_view text) {
    return !text.empty() && (text.front() == '-' || text.front() == '+') ? text.front() : '\0';
  }

  void text_and_tag() {
    size_t begin = rest().find('{');
    const auto opens = [&](size_t at) {
      return at + 1 < rest().size() && std::string_view("%{#").find(rest()[at + 1]) != std::string_view::npos;
    };
    while (begin != std::string_view::npos && !opens(begin)) begin = rest().find('{', begin + 1);
    if (begin == std::string_view::npos) {
      add(Token::Type::kText).text = rest();
      return skip(rest().size());
    }
    const char kind = rest()[begin + 1];
    const char control = control_of(rest().substr(begin + 2));
    add_text(rest().substr(0, begin), control, kind != '{');
    skip(begin + (control != '\0' ? 3 : 2));
    if (kind == '#') return comment();
    if (kind == '{') {
      add(Token::Type::kVariableBegin);
      return tag("}}", Token::Type::kVariableEnd);
    }
    if (const size_t size = raw_begin()) {
      skip(size);
      return raw();
    }
    add(Token::Type::kBlockBegin);
    tag("%}", Token::Type::kBlockEnd);
  }

  // Length of the end of a tag, if `text` begins with one, including the white space that it removes: "-%}"
  // and all white space after it, "%}" and a newline.
  std::optional<size_t> tag_end(std::string_view text, std::string_view mark) const {
    if (text.starts_with('-') && text.substr(1).starts_with(mark)) {
      return 1 + mark.size() + space_bytes(text.substr(1 + mark.size()));
    }
    if (mark == "}}") return text.starts_with(mark) ? std::optional(mark.size()) : std::nullopt;
    if (text.starts_with('+') && text.substr(1).starts_with(mark)) return 1 + mark.size();
    if (!text.starts_with(mark)) return std::nullopt;
    return mark.size() + (text.substr(mark.size()).starts_with('\n') ? 1 : 0);
  }

  void comment() {
    const size_t end = rest().find("#}");
    if (end == std::string_view::npos) refuse("a comment is not closed by '#}'");
    const size_t at = end > 0 && control_of(rest().substr(end - 1)) != '\0' ? end - 1 : end;
    skip(at + *tag_end(rest().substr(at), "#}"));
  }

  // Length of the rest of the tag `raw` after "{%"; 0 for another tag.
  size_t raw_begin() const {
    size_t size = space_bytes(rest());
    if (!rest().substr(size).starts_with("raw")) return 0;
    size += 3;
    size += space_bytes(rest().substr(size));
    if (rest().substr(size).starts_with("%}")) return size + 2;
    if (!rest().substr(size).starts_with("-%}")) return 0;
    return size + 3 + space_bytes(rest().substr(size + 3));
  }

  void raw() {
    for (size_t begin = rest().find("{%"); begin != std::string_view::npos;
         begin = rest().find("{%", begin + 2)) {
      size_t at = begin + 2;
      const char control = control_of(rest().substr(at));
      if (control != '\0') ++at;
      at += space_bytes(rest().substr(at));
      if (!rest().substr(at).starts_with("endraw")) continue;
      at += 6;
      at += space_bytes(rest().substr(at));
      const auto end = tag_end(rest().substr(at), "%}");
      if (!end.has_value()) continue;
      add_text(rest().substr(0, begin), control, true);
      return skip(at + *end);
    }
    refuse("a raw block is not closed by '{% endraw %}'");
  }

  void tag(std::string_view mark, Token::Type end_type) {
    std::string open;  // open brackets
    while (position_ < source_.size()) {
      if (open.empty()) {
        if (const auto end = tag_end(rest(), mark)) {
          add(end_type);
          return skip(*end);
        }
      }
      if (const size_t spaces = space_bytes(rest())) {
        skip(spaces);
      } else if (is_ascii_digit(rest().front())) {
        number();
      } else if (is_name_start(rest().front())) {
        name();
      } else if (rest().front() == '\'' || rest().front() == '"') {
        string();
      } else {
        symbol(open);
      }
    }
    // The parser reports the unclosed tag.
  }

  void symbol(std::string& open) {
    constexpr std::string_view kSymbols[] = {"//", "**", "==", ">=", "<=", "!=", "+", "-", "/",
                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                     [&](std::string_view each) { return rest().starts_with(each); });
    if (found == std::end(kSymbols)) {
      refuse(fmt::format("'{}' is no part of an expression",
                         rest().substr(0, std::max<size_t>(first_character_bytes(rest()), 1))));
    }
    if (*found == "(" || *found == "[" || *found == "{") {
      open += *found == "(" ? ')' : *found == "[" ? ']' : '}';
    } else if (*found == ")" || *found == "]" || *found == "}") {
      if (open.empty() || open.back() != found->front()) {
        refuse(open.empty() ? fmt::format("unexpected '{}'", *found)
                            : fmt::format("unexpected '{}'; expected '{}'", *found, open.back()));
      }
      open.pop_back();
    }
    add(Token::Type::kOperator).text = *found;
    skip(found->size());
  }

  void name() {
    size_t size = 0;
    while (size < rest().size()) {
      const char byte = rest()[size];
      if ((byte & 0x80) == 0 ? !is_name_start(byte) && !is_ascii_digit(byte)
                             : !is_word(first_character(rest().substr(size)))) {
        break;
      }
      size += first_character_bytes(rest().substr(size));
    }
    if (size == 0) {
      refuse(
          fmt::format("'{}' is no part of an expression", rest().substr(0, first_character_bytes(rest()))));
    }
    add(Token::Type::kName).text = rest().substr(0, size);
    skip(size);
  }

  // Reads digits from `at` on, with single underscores between them. Returns them without underscores.
  std::string digits(size_t& at, std::string_view set) const {
    std::string found;
    const std::string_view text = rest();
    const auto is_one = [&](size_t index) {
      return index < text.size() && text[index] != '\0' && set.find(text[index]) != std::string_view::npos;
    };
    while (is_one(at) || (at < text.size() && text[at] == '_' && is_one(at + 1))) {
      if (text[at] != '_') found += text[at];
      ++at;
    }
    return found;
  }

  // Reads a float, or returns false.
  bool real() {
    constexpr std::string_view kDigits = "0123456789";
    if (position_ > 0 && source_[position_ - 1] == '.') return false;
    size_t at = 0;
    std::string text = digits(at, kDigits);
    bool is_real = false;
    if (at + 1 < rest().size() && rest()[at] == '.' && is_ascii_digit(rest()[at + 1])) {
      ++at;
      text += "." + digits(at, kDigits);
      is_real = true;
    }
    if (at < rest().size() && (rest()[at] == 'e' || rest()[at] == 'E')) {
      size_t after = at + 1;
      std::string power = "e";
      if (after < rest().size() && (rest()[after] == '+' || rest()[after] == '-')) power += rest()[after++];
      if (after < rest().size() && is_ascii_digit(rest()[after])) {
        power += digits(after, kDigits);
        text += power;
        at = after;
        is_real = true;
      }
    }
    if (!is_real) return false;
    add(Token::Type::kFloat).real = std::strtod(text.c_str(), nullptr);
    skip(at);
    return true;
  }

  void number() {
    if (real()) return;
    int base = 10;
    size_t at = 0;
    std::string_view set = "0123456789";
    if (rest().size() > 2 && rest().front() == '0') {
      const char mark = static_cast<char>(rest()[1] | 0x20);
      const int other = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const std::string_view other_set = other == 16  ? "0123456789abcdefABCDEF"
                                         : other == 8 ? "01234567"
                                                      : "01";
      const char first = rest()[2] == '_' && rest().size() > 3 ? rest()[3] : rest()[2];
      if (other != 10 && other_set.find(first) != std::string_view::npos)
        base = other, set = other_set, at = 2;
    }
    if (base == 10 && rest().front() == '0') set = "0";  // "012" is two numbers, which the parser refuses
    const std::string text = digits(at, set);
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (read.ec != std::errc())
      refuse(fmt::format("the number {} needs more than 64 bits", text.substr(0, 100)));
    add(Token::Type::kInteger).integer = value;
    skip(at);
  }

  void string() {
    const char quote = rest().front();
    size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) refuse("a string is not closed");
    std::string value;
    for (size_t at = 1; at < end;) {
      if (rest()[at] != '\\') {
        value += rest()[at++];
      } else {
        at = unescape(at + 1, end, value);
      }
    }
    add(Token::Type::kString).text = std::move(value);
    skip(end + 1);
  }

  // Appends the value of an escape; `at` is the offset after the backslash. Returns the offset after the
  // escape.
  size_t unescape(size_t at, size_t end, std::string& value) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char letter = rest()[at];
    if (letter == '\n') return at + 1;
    if (const size_t index = kLetters.find(letter); index != std::string_view::npos) {
      value += kValues[index];
      return at + 1;
    }
    const int base = letter >= '0' && letter <= '7' ? 8 : 16;
    const size_t size = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 3;
    if (base == 16 && letter != 'x' && letter != 'u' && letter != 'U') {
      if (letter == 'N')
        refuse("escapes by name, such as \\N{BULLET}, are not supported; write the character");
      value += '\\';  // Python keeps an unknown escape, too
      return at;
    }
    const size_t first = base == 8 ? at : at + 1;
    size_t last = first;
    const std::string_view set = base == 8 ? "01234567" : "0123456789abcdefABCDEF";
    while (last < end && last < first + size && set.find(rest()[last]) != std::string_view::npos) ++last;
    if (base == 16 && last != first + size)
      refuse(fmt::format("\\{} in a string needs {} digits", letter, size));
    uint32_t code = 0;
    std::from_chars(rest().data() + first, rest().data() + last, code, base);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      refuse(fmt::format("\\{} in a string: {:x} is no character", letter, code));
    }
    append_utf8(static_cast<char32_t>(code), value);
    return last;
  }

  std::string_view name_;
  std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool begins_line_ = true;  // the last token ended with a newline, or none came yet
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  using Type = Token::Type;
  if (token.type == Type::kText) return "text";
  if (token.type == Type::kString) return "a string";
  if (token.type == Type::kInteger || token.type == Type::kFloat) return "a number";
  if (token.type == Type::kEnd) return "the end of the template";
  constexpr std::string_view kTags[] = {"'{%'", "'%}'", "'{{'", "'}}'"};  // kBlockBegin and the next ones
  if (token.type <= Type::kVariableEnd)
    return std::string(kTags[static_cast<size_t>(token.type) - static_cast<size_t>(Type::kBlockBegin)]);
  return "'" + token.text.substr(0, 100) + "'";
}

std::vector<Token> tokenize(std::string_view source, std::string_view name) {
  if (source.size() > kMaxBytes) {
    throw InputError("{}: the template has {} bytes; at most {} are accepted", name, source.size(),
                     kMaxBytes);
  }
  if (well_formed_prefix(source) != source.size()) {
    throw InputError("{}: the template is no well-formed UTF-8", name);
  }
  return Lexer(source, name).run();
}

}  // namespace lacuna::jinja
