// format.h: str(), repr() and JSON.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/loop.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  const size_t mark = text.find('e');
  int exponent = 0;
  const std::string_view power = text.substr(mark + (text[mark + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  std::string digits;
  for (const char digit : text.substr(0, mark)) {
    if (digit >= '0' && digit <= '9') digits += digit;
  }
  std::string result = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    result += digits.substr(0, 1);
    if (digits.size() > 1) result += "." + digits.substr(1);
    return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string escape_of(char32_t character) {
  const auto code = static_cast<uint32_t>(character);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

namespace {

// Builds the text of a value, and tracks whether any part of it is the caller's.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  void append(std::string_view bytes) {
    runtime_.check_size(text_.size() + bytes.size());
    text_ += bytes;
  }
  void note_input(bool is_input) { has_input_ = has_input_ || is_input; }
  Text take() { return make_text(runtime_, text_, has_input_); }
  Runtime& runtime() { return runtime_; }

 private:
  Runtime& runtime_;
  std::string text_;
  bool has_input_ = false;
};

void print_number(Printer& printer, const Value& value) {
  printer.note_input(value.is_input());
  if (value.is_bool()) {
    printer.append(value.as_bool() ? "True" : "False");
  } else if (value.is_integer()) {
    printer.append(std::to_string(value.as_integer()));
  } else {
    printer.append(format_real(value.as_real()));
  }
}

void print_quoted(Printer& printer, const Text& text) {
  const char quote =
      text.bytes.find('\'') != std::string::npos && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  printer.note_input(text.has_input());
  printer.runtime().touch(text.bytes.size() * 8);
  if (text.is_markup) printer.append("Markup(");
  printer.append({&quote, 1});
  for (Characters characters(text); !characters.at_end(); characters.advance()) {
    const char32_t character = characters.value();
    if (character == static_cast<char32_t>(quote) || character == U'\\') {
      printer.append("\\");
      printer.append(text.view().substr(characters.position(), 1));
    } else if (character == U'\n' || character == U'\r' || character == U'\t') {
      printer.append(character == U'\n' ? "\\n" : character == U'\r' ? "\\r" : "\\t");
    } else if (is_printable(character)) {
      printer.append(text.view().substr(characters.position(), characters.bytes()));
    } else {
      printer.append(escape_of(character));
    }
  }
  printer.append({&quote, 1});
  if (text.is_markup) printer.append(")");
}

void print(Printer& printer, const Value& value);

void print_pairs(Printer& printer, const Dict& dict) {
  printer.append("{");
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) printer.append(", ");
    print(printer, dict.items[i].first);
    printer.append(": ");
    print(printer, dict.items[i].second);
  }
  printer.append("}");
}

void print_sequence(Printer& printer, const Sequence& sequence) {
  using Kind = Sequence::Kind;
  if (sequence.kind == Kind::kRange) {
    printer.append(sequence.step == 1
                       ? fmt::format("range({}, {})", sequence.start, sequence.stop)
                       : fmt::format("range({}, {}, {})", sequence.start, sequence.stop, sequence.step));
    return;
  }
  const std::string_view opening = sequence.kind == Kind::kTuple    ? "("
                                   : sequence.kind == Kind::kKeys   ? "dict_keys(["
                                   : sequence.kind == Kind::kValues ? "dict_values(["
                                   : sequence.kind == Kind::kItems  ? "dict_items(["
                                                                    : "[";
  printer.append(opening);
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) printer.append(", ");
    print(printer, sequence.items[i]);
  }
  if (sequence.kind == Kind::kTuple && sequence.items.size() == 1) printer.append(",");
  printer.append(sequence.kind == Kind::kTuple ? ")" : sequence.kind == Kind::kList ? "]" : "])");
}

void print_namespace(Printer& printer, const Namespace& object) {
  printer.append("<Namespace {");
  if (++printer.runtime().printing > kMaxValueDepth) fail("namespaces are nested too deeply to be printed");
  for (size_t i = 0; i < object.members.size(); ++i) {
    if (i > 0) printer.append(", ");
    print_quoted(printer, make_text(printer.runtime(), object.members[i].first, false));
    printer.append(": ");
    print(printer, object.members[i].second);
  }
  --printer.runtime().printing;
  printer.append("}>");
}

void print(Printer& printer, const Value& value) {
  printer.runtime().step();
  switch (value.type()) {
    case Value::Type::kUndefined:
      return printer.append("Undefined");
    case Value::Type::kNone:
      return printer.append("None");
    case Value::Type::kBool:
    case Value::Type::kInt:
    case Value::Type::kFloat:
      return print_number(printer, value);
    case Value::Type::kText:
      return print_quoted(printer, value.as_text());
    case Value::Type::kSequence:
      return print_sequence(printer, value.as_sequence());
    case Value::Type::kDict:
      return print_pairs(printer, value.as_dict());
    case Value::Type::kNamespace:
      return print_namespace(printer, value.as_namespace());
    case Value::Type::kGenerator:
      return printer.append("<generator object>");
    case Value::Type::kLoop:
      return printer.append(
          fmt::format("<LoopContext {}/{}>", value.as_loop().index0 + 1, value.as_loop().length()));
    case Value::Type::kCallable:
      return printer.append(value.as_callable().description());
  }
}

}  // namespace

Text repr(Runtime& runtime, const Value& value) {
  Printer printer(runtime);
  print(printer, value);
  return printer.take();
}

Value to_soft_text(Runtime& runtime, const Value& value) {
  if (value.is_text()) return value;
  if (value.is_undefined()) return Value::text(runtime, {});
  return Value::text(runtime, repr(runtime, value));
}

Value to_text(Runtime& runtime, const Value& value) {
  if (!value.is_text() || !value.as_text().is_markup) return to_soft_text(runtime, value);
  Text plain = slice(runtime, value.as_text(), 0, value.as_text().bytes.size());
  plain.is_markup = false;
  return Value::text(runtime, std::move(plain));
}

namespace {

class JsonPrinter {
 public:
  JsonPrinter(Runtime& runtime, const JsonStyle& style) : printer_(runtime), style_(style) {}

  void write(const Value& value, size_t level) {
    printer_.runtime().step();
    switch (value.type()) {
      case Value::Type::kNone:
        return printer_.append("null");
      case Value::Type::kBool:
      case Value::Type::kInt:
      case Value::Type::kFloat:
        printer_.note_input(value.is_input());
        return printer_.append(number(value));
      case Value::Type::kText:
        return write_text(value.as_text());
      case Value::Type::kSequence:
        if (value.is_list() || value.is_tuple()) return write_items(value.as_sequence(), level);
        break;
      case Value::Type::kDict:
        return write_members(value.as_dict(), level);
      default:
        break;
    }
    if (value.is_undefined()) fail("tojson: {}", value.why_undefined());
    fail("tojson: a value of type {} is none of JSON", type_name(value));
  }

  Text take() { return printer_.take(); }

 private:
  static std::string number(const Value& value) {
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.as_integer());
    if (std::isnan(value.as_real())) return "NaN";
    if (std::isinf(value.as_real())) return value.as_real() < 0 ? "-Infinity" : "Infinity";
    return format_real(value.as_real());
  }

  void write_escaped(char32_t character, std::string_view bytes) {
    const auto code = static_cast<uint32_t>(character);
    constexpr std::u32string_view kEscaped = U"\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    if (const size_t escape = kEscaped.find(character); escape != kEscaped.npos) {
      return printer_.append(fmt::format("\\{}", kLetters[escape]));
    }
    if (code >= 0x20 && (!style_.is_ascii || code < 0x7f)) return printer_.append(bytes);
    if (code < 0x10000) return printer_.append(fmt::format("\\u{:04x}", code));
    const uint32_t offset = code - 0x10000;
    printer_.append(fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (offset >> 10), 0xdc00 + (offset & 0x3ff)));
  }

  void write_text(const Text& text) {
    printer_.note_input(text.has_input());
    printer_.runtime().touch(text.bytes.size() * 8);
    printer_.append("\"");
    for (Characters characters(text); !characters.at_end(); characters.advance()) {
      write_escaped(characters.value(), text.view().substr(characters.position(), characters.bytes()));
    }
    printer_.append("\"");
  }

  void break_line(size_t level) {
    if (!style_.has_indent) return;
    printer_.append("\n");
    printer_.runtime().check_size(level * style_.indent.size());
    for (size_t i = 0; i < level; ++i) printer_.append(style_.indent);
    printer_.runtime().touch(level * style_.indent.size());
  }

  void write_items(const Sequence& sequence, size_t level) {
    if (sequence.items.empty()) return printer_.append("[]");
    printer_.append("[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) printer_.append(style_.item_separator);
      break_line(level + 1);
      write(sequence.items[i], level + 1);
    }
    break_line(level);
    printer_.append("]");
  }

  void write_key(const Value& key) {
    if (key.is_text()) return write_text(key.as_text());
    if (!key.is_number() && !key.is_none()) fail("tojson: a key of type {} is none of JSON", type_name(key));
    printer_.note_input(key.is_input());
    printer_.append(fmt::format("\"{}\"", key.is_none() ? "null" : number(key)));
  }

  void write_members(const Dict& dict, size_t level) {
    if (dict.items.empty()) return printer_.append("{}");
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : dict.items) members.push_back(&member);
    if (style_.sorts_keys) {
      std::stable_sort(members.begin(), members.end(), [&](const auto* left, const auto* right) {
        return compare(printer_.runtime(), Operator::kLess, left->first, right->first).value_or(0) < 0;
      });
    }
    printer_.append("{");
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) printer_.append(style_.item_separator);
      break_line(level + 1);
      write_key(members[i]->first);
      printer_.append(style_.key_separator);
      write(members[i]->second, level + 1);
    }
    break_line(level);
    printer_.append("}");
  }

  Printer printer_;
  const JsonStyle& style_;
};

}  // namespace

Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(runtime, style);
  printer.write(value, 0);
  return printer.take();
}

}  // namespace lacuna::jinja
