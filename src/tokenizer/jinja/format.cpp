// format.h: the % operator and str.format().
#include "tokenizer/jinja/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 30;

// Reads a number at `position` and advances it; empty if there is no digit.
std::optional<int64_t> read_number(std::string_view text, size_t& position) {
  if (position >= text.size() || !is_ascii_digit(text[position])) return std::nullopt;
  int64_t number = 0;
  for (; position < text.size() && is_ascii_digit(text[position]); ++position) {
    number = number * 10 + (text[position] - '0');
    if (number > kMaxWidth) fail("a width or index in a format is above {}", kMaxWidth);
  }
  return number;
}

bool is_one_of(char byte, std::string_view set) {
  return byte != 0 && set.find(byte) != std::string_view::npos;
}

std::string ascii_of(const Text& text) {
  std::string ascii;
  for (Characters characters(text); !characters.at_end(); characters.advance()) {
    const char32_t character = characters.value();
    ascii += character < 0x80 ? std::string(1, static_cast<char>(character)) : escape_of(character);
  }
  return ascii;
}

// Applies a conversion: repr() for 'r', ascii() for 'a', else str().
Text converted(Runtime& runtime, const Value& value, char conversion) {
  if (conversion == 'r') return repr(runtime, value);
  if (conversion == 'a') {
    const Text text = repr(runtime, value);
    return make_text(runtime, ascii_of(text), text.has_input());
  }
  return to_text(runtime, value).as_text();
}

// Format of one field (sign, width, precision, type), shared by the % operator and str.format().
struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;          // '<', '>', '^' or '=' (between sign and digits); 0 for the type's own
  char sign = '-';         // '+', ' ' or '-' (only for negative numbers)
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;       // ',' or '_' between groups of three digits
  int64_t precision = -1;  // -1 for none
  char type = 0;
};

// Largest supported precision of a number.
constexpr int64_t kMaxPrecision = 1000;

// Sign and digits of `value`, without padding.
struct Digits {
  std::string sign;  // with the prefix, such as "0x"
  std::string text;
};

std::string sign_of(bool is_negative, const FormatSpec& spec) {
  if (is_negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Inserts `separator` between groups of `size` digits before the decimal point.
std::string group(const std::string& digits, char separator, size_t size) {
  if (separator == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string grouped;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped + digits.substr(whole);
}

void to_capitals(std::string& text) {
  std::ranges::transform(text, text.begin(), [](char each) {
    return each >= 'a' && each <= 'z' ? static_cast<char>(each - 32) : each;
  });
}

void append_fill(Runtime& runtime, TextBuilder& builder, const FormatSpec& spec, int64_t count) {
  if (count <= 0) return;
  runtime.check_size(static_cast<size_t>(count));
  runtime.touch(static_cast<size_t>(count) * 16);
  for (int64_t i = 0; i < count; ++i) builder.append(spec.fill, false);
}

Digits integer_digits(int64_t value, const FormatSpec& spec) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  Digits digits{sign_of(value < 0, spec), {}};
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::array<char, 64> buffer{};
  digits.text.assign(buffer.data(),
                     std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr);
  if (spec.type == 'X') to_capitals(digits.text);
  const bool is_decimal = spec.type == 0 || is_one_of(spec.type, "diun");
  if (spec.is_alternate && !is_decimal) digits.sign += std::string("0") + spec.type;
  if (spec.grouping == ',' && !is_decimal) fail("',' does not go with the format '{}'", spec.type);
  digits.text = group(digits.text, spec.grouping, is_decimal ? 3 : 4);
  return digits;
}

Digits real_digits(double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) fail("a precision of {} is above {}", spec.precision, kMaxPrecision);
  Digits digits{sign_of(std::signbit(value) && !std::isnan(value), spec), {}};
  const double magnitude = std::abs(value) * (spec.type == '%' ? 100 : 1);
  if (!std::isfinite(magnitude)) {
    digits.text = std::isnan(magnitude) ? "nan" : "inf";
  } else if (spec.type == 0 && spec.precision < 0) {
    digits.text = format_real(magnitude);
  } else {
    const char type = spec.type == '%' ? 'f' : spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
    const std::string pattern = std::string(spec.is_alternate ? "%#.*" : "%.*") + type;
    const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
    std::string text(static_cast<size_t>(precision) + 340, '\0');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    text.resize(
        static_cast<size_t>(std::snprintf(text.data(), text.size(), pattern.c_str(), precision, magnitude)));
#pragma GCC diagnostic pop
    if (spec.type == 0 && text.find_first_of(".e") == std::string::npos) text += ".0";
    digits.text = text;
  }
  if (is_one_of(spec.type, "EFG")) to_capitals(digits.text);
  if (std::isfinite(magnitude)) digits.text = group(digits.text, spec.grouping, 3);
  if (spec.type == '%') digits.text += '%';
  return digits;
}

// Appends `text`, cut to the precision and padded to the width.
void append_padded(Runtime& runtime, TextBuilder& builder, const Text& text, const FormatSpec& spec) {
  const int64_t length = spec.precision < 0 ? text.length : std::min(text.length, spec.precision);
  const int64_t padding = std::max<int64_t>(spec.width - length, 0);
  const int64_t before = spec.align == '>' ? padding : spec.align == '^' ? padding / 2 : 0;
  append_fill(runtime, builder, spec, before);
  builder.append(text, 0, byte_of(runtime, text, length));
  append_fill(runtime, builder, spec, padding - before);
}

void append_padded(Runtime& runtime, TextBuilder& builder, const Digits& digits, const FormatSpec& spec,
                   bool is_input) {
  const auto length = static_cast<int64_t>(digits.sign.size() + digits.text.size());
  const int64_t padding = std::max<int64_t>(spec.width - length, 0);
  const int64_t before = spec.align == '<' || spec.align == '=' ? 0
                         : spec.align == '^'                    ? padding / 2
                                                                : padding;
  append_fill(runtime, builder, spec, before);
  builder.append(digits.sign, is_input);
  if (spec.align == '=') append_fill(runtime, builder, spec, padding);
  builder.append(digits.text, is_input);
  if (spec.align == '<' || spec.align == '^') append_fill(runtime, builder, spec, padding - before);
}

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Text& text, const Value& values)
      : runtime_(runtime), text_(text), format_(text.bytes), values_(values), builder_(runtime) {
    has_names_ = values.is_dict() || (values.type() == Value::Type::kSequence && !values.is_tuple());
  }

  Text run() {
    size_t position = 0;
    while (position < format_.size()) {
      const size_t percent = std::min(format_.find('%', position), format_.size());
      builder_.append(text_, position, percent);
      position = percent;
      if (percent < format_.size()) field(++position);
    }
    const size_t given = values_.is_tuple() ? values_.as_sequence().items.size() : 1;
    if (next_ < given && !has_names_) fail("a format does not use all of its {} values", given);
    return builder_.take(text_.is_markup);
  }

 private:
  char peek(size_t position) const {
    if (position >= format_.size()) fail("a format ends within a field");
    return format_[position];
  }

  Value next_value() {
    if (values_.is_tuple()) {
      if (next_ >= values_.as_sequence().items.size()) fail("a format has more fields than values");
      return values_.as_sequence().items[next_++];
    }
    if (next_++ > 0) fail("a format has more fields than values");
    return values_;
  }

  std::optional<Value> named_value(size_t& position) {
    if (peek(position) != '(') return std::nullopt;
    const size_t begin = ++position;
    for (int depth = 1; depth > 0; ++position) {
      const char byte = peek(position);
      depth += byte == '(' ? 1 : byte == ')' ? -1 : 0;
    }
    if (!values_.is_dict()) fail("a format with names needs a dict");
    const Value* found = values_.as_dict().find(format_.substr(begin, position - 1 - begin));
    if (found == nullptr)
      fail("a format names '{}', which is not given", format_.substr(begin, position - 1 - begin));
    next_ = 1;
    return *found;
  }

  int64_t size_field(size_t& position) {
    if (peek(position) == '*') {
      ++position;
      return integer_of(next_value(), "'*' of a format");
    }
    return read_number(format_, position).value_or(0);
  }

  void field(size_t& position) {
    runtime_.step();
    std::optional<Value> value = named_value(position);
    FormatSpec spec;
    bool fills_zeros = false;
    bool is_left = false;
    for (; is_one_of(peek(position), "#0- +"); ++position) {
      const char flag = format_[position];
      spec.is_alternate = spec.is_alternate || flag == '#';
      fills_zeros = fills_zeros || flag == '0';
      is_left = is_left || flag == '-';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = size_field(position);
    if (spec.width < 0) is_left = true, spec.width = spec.width < -kMaxWidth ? kMaxWidth : -spec.width;
    if (peek(position) == '.') {
      ++position;
      spec.precision = std::max<int64_t>(size_field(position), 0);
    }
    while (is_one_of(peek(position), "hlL")) ++position;
    spec.type = peek(position++);
    if (spec.type == '%') return builder_.append("%", false);
    if (!value.has_value()) value = next_value();
    spec.align = is_left ? '<' : '>';
    if (is_one_of(spec.type, "sra")) {
      const Text text = converted(runtime_, *value, spec.type);
      return append_padded(runtime_, builder_, text_.is_markup ? escape(runtime_, text) : text, spec);
    }
    if (spec.type == 'c') return character(*value, spec);
    if (fills_zeros && !is_left) spec.align = '=', spec.fill = "0";
    number(*value, spec);
  }

  void character(const Value& value, FormatSpec& spec) {
    spec.precision = -1;
    if (value.is_text() && value.as_text().length == 1) {
      return append_padded(runtime_, builder_, value.as_text(), spec);
    }
    const int64_t code = integer_of(value, "the value of %c");
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail("%c: {} is no character", code);
    TextBuilder one(runtime_);
    one.append_character(static_cast<char32_t>(code), value.is_input());
    append_padded(runtime_, builder_, one.take(), spec);
  }

  void number(const Value& value, FormatSpec& spec) {
    expect_defined(value);
    if (!value.is_number()) fail("%{} needs a number, not {}", spec.type, type_name(value));
    if (is_one_of(spec.type, "eEfFgG")) {
      if (!std::isfinite(value.as_real()) && spec.align == '=') spec.align = '>', spec.fill = " ";
      const Digits digits = real_digits(value.as_real(), spec);
      return append_padded(runtime_, builder_, digits, spec, value.is_input());
    }
    const bool takes_reals = is_one_of(spec.type, "diu");
    if (!takes_reals && !is_one_of(spec.type, "xXo")) fail("'%{}' is no format", spec.type);
    if (!takes_reals && !value.is_integer()) fail("%{} needs an int, not a float", spec.type);
    const int64_t integer = value.is_integer() ? value.as_integer() : truncated(value.as_real());
    Digits digits = integer_digits(integer, spec);
    if (spec.precision > kMaxPrecision) fail("a precision of {} is above {}", spec.precision, kMaxPrecision);
    const auto min_digits = static_cast<size_t>(std::max<int64_t>(spec.precision, 0));
    if (digits.text.size() < min_digits) digits.text.insert(0, min_digits - digits.text.size(), '0');
    append_padded(runtime_, builder_, digits, spec, value.is_input());
  }

  Runtime& runtime_;
  const Text& text_;
  std::string_view format_;
  const Value& values_;
  TextBuilder builder_;
  size_t next_ = 0;
  bool has_names_ = false;
};

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t position = 0;
  const auto at = [&](size_t index) { return index < text.size() ? text[index] : '\0'; };
  const size_t fill = first_character_bytes(text);
  if (fill > 0 && is_one_of(at(fill), "<>=^")) {
    spec.fill = text.substr(0, fill);
    spec.align = text[fill];
    position = fill + 1;
  } else if (is_one_of(at(0), "<>=^")) {
    spec.align = text[position++];
  }
  if (is_one_of(at(position), "+- ")) spec.sign = text[position++];
  if (at(position) == '#') spec.is_alternate = true, ++position;
  if (at(position) == '0') {
    if (spec.align == 0) spec.align = '=', spec.fill = "0";
    ++position;
  }
  spec.width = read_number(text, position).value_or(0);
  if (is_one_of(at(position), ",_")) spec.grouping = text[position++];
  if (at(position) == '.') {
    const auto precision = read_number(text, ++position);
    if (!precision.has_value()) fail("the format '{}' lacks its precision", text);
    spec.precision = *precision;
  }
  if (position < text.size()) spec.type = text[position++];
  if (position < text.size()) fail("'{}' is no format", text);
  return spec;
}

void format_value(Runtime& runtime, TextBuilder& builder, const Value& value, std::string_view text) {
  if (text.empty()) return builder.append(to_text(runtime, value).as_text());
  FormatSpec spec = parse_spec(text);
  if (value.is_text()) {
    if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' || spec.grouping != 0) {
      if (spec.fill != "0" || spec.align != '=') fail("'{}' is no format for a str", text);
      spec.align = '<';
    }
    return append_padded(runtime, builder, value.as_text(), spec);
  }
  if (!value.is_number()) fail("a value of type {} takes no format", type_name(value));
  const bool as_real = value.type() == Value::Type::kFloat || is_one_of(spec.type, "eEfFgG%");
  if (as_real) {
    if (spec.type != 0 && !is_one_of(spec.type, "eEfFgGn%")) fail("'{}' is no format for a float", text);
    const double real = value.as_real();
    return append_padded(runtime, builder, real_digits(real, spec), spec, value.is_input());
  }
  if (spec.precision >= 0 || (spec.type != 0 && !is_one_of(spec.type, "dbxXon")))
    fail("'{}' is no format for an int", text);
  append_padded(runtime, builder, integer_digits(value.as_integer(), spec), spec, value.is_input());
}

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), arguments_(arguments) {}

  void run(const Text& text, TextBuilder& builder, int depth) {
    const std::string_view format = text.bytes;
    for (size_t position = 0; position < format.size();) {
      const size_t brace = std::min(format.find_first_of("{}", position), format.size());
      builder.append(text, position, brace);
      position = brace;
      if (brace == format.size()) break;
      if (brace + 1 < format.size() && format[brace + 1] == format[brace]) {
        builder.append(text, brace, brace + 1);
        position = brace + 2;
        continue;
      }
      if (format[brace] == '}') fail("a format has a '}}' without its '{{'");
      position = field(text, brace + 1, builder, depth);
    }
  }

 private:
  // Appends a field whose inside begins at `begin`, after the brace. Returns the offset after the field.
  size_t field(const Text& text, size_t begin, TextBuilder& builder, int depth) {
    runtime_.step();
    if (depth > 1) fail("a format is nested too deeply");
    const std::string_view format = text.bytes;
    size_t end = begin;
    for (int open = 1; open > 0; ++end) {
      if (end >= format.size()) fail("a format has a '{{' without its '}}'");
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
    }
    const std::string_view inside = format.substr(begin, end - 1 - begin);
    const size_t name_end = std::min(field_name_end(inside), inside.size());
    Value value = find(inside.substr(0, name_end));
    size_t position = name_end;
    if (position < inside.size() && inside[position] == '!') {
      const char conversion = position + 1 < inside.size() ? inside[position + 1] : '\0';
      if (!is_one_of(conversion, "sra")) fail("'!' of a format is followed by none of s, r and a");
      value = Value::text(runtime_, converted(runtime_, value, conversion));
      position += 2;
      if (position < inside.size() && inside[position] != ':')
        fail("a format has no ':' behind its conversion");
    }
    TextBuilder spec(runtime_);
    if (position < inside.size()) {
      run(slice(runtime_, text, begin + position + 1, end - 1), spec, depth + 1);
    }
    TextBuilder made(runtime_);
    format_value(runtime_, made, value, spec.take().bytes);
    const Text part = made.take();
    builder.append(text.is_markup ? escape(runtime_, part) : part);
    return end;
  }

  // Offset of the `!` or `:` outside of brackets that ends the field's name.
  static size_t field_name_end(std::string_view inside) {
    bool is_in_brackets = false;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == '[') is_in_brackets = true;
      if (inside[i] == ']') is_in_brackets = false;
      if (!is_in_brackets && (inside[i] == '!' || inside[i] == ':')) return i;
      if (inside[i] == '{') fail("a format has a '{{' within a name");
    }
    return inside.size();
  }

  static std::optional<int64_t> as_index(std::string_view text) {
    size_t position = 0;
    const auto number = read_number(text, position);
    return position == text.size() ? number : std::nullopt;
  }

  Value first(std::string_view name) {
    auto index = as_index(name);
    if (name.empty()) {
      if (is_manual_) fail("a format numbers some of its fields and not others");
      index = next_++;
    } else if (index.has_value()) {
      if (next_ > 0) fail("a format numbers some of its fields and not others");
      is_manual_ = true;
    }
    if (index.has_value()) {
      if (static_cast<size_t>(*index) >= arguments_.positional.size())
        fail("a format has no value {}", *index);
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail("a format names '{}', which is not given", name);
  }

  Value find(std::string_view path) {
    size_t position = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, position));
    while (position < path.size()) {
      runtime_.step();
      if (path[position] == '.') {
        const size_t end = std::min(path.find_first_of(".[", position + 1), path.size());
        if (end == position + 1) fail("a format has an empty attribute");
        value = attribute_of(runtime_, value, path.substr(position + 1, end - position - 1));
        position = end;
      } else if (path[position] == '[') {
        const size_t end = path.find(']', position);
        if (end == std::string_view::npos || end == position + 1)
          fail("a format has an empty or open bracket");
        const std::string_view key = path.substr(position + 1, end - position - 1);
        const auto index = as_index(key);
        value = item_of(runtime_, value, index.has_value() ? Value::integer(*index) : Value::literal(key));
        position = end + 1;
      } else {
        fail("a format has a name with '{}' behind a bracket", path[position]);
      }
    }
    return value;
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  bool is_manual_ = false;
};

}  // namespace

Value percent_format(Runtime& runtime, const Text& text, const Value& values) {
  return Value::text(runtime, PercentFormat(runtime, text, values).run());
}

Value brace_format(Runtime& runtime, const Text& text, const Arguments& arguments) {
  TextBuilder builder(runtime);
  BraceFormat(runtime, arguments).run(text, builder, 0);
  return Value::text(runtime, builder.take(text.is_markup));
}

}  // namespace lacuna::jinja
