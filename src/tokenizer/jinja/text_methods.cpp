// Methods of str.
#include <algorithm>
#include <array>
#include <optional>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/methods.h"

namespace lacuna::jinja {

const Text& text_of(const Value& value, std::string_view what) {
  expect_defined(value);
  if (!value.is_text()) fail("{} is of type {}; it must be a str", what, type_name(value));
  return value.as_text();
}

Value join(Runtime& runtime, const Text& separator, const Value& items) {
  TextBuilder builder(runtime);
  Iterator iterator(runtime, items);
  bool is_first = true;
  for (Value item; iterator.next(item); is_first = false) {
    runtime.step();
    if (!is_first) builder.append(separator);
    const Text& text = text_of(item, "an item that join() is given");
    builder.append(separator.is_markup ? escape(runtime, text) : text);
  }
  return Value::text(runtime, builder.take(separator.is_markup));
}

Value pad(Runtime& runtime, const Text& text, int64_t before, int64_t after, const Text& fill) {
  if (fill.length != 1) fail("the character to fill with has {} characters", fill.length);
  before = std::max<int64_t>(before, 0);
  after = std::max<int64_t>(after, 0);
  runtime.check_size(static_cast<size_t>(before));
  runtime.check_size(static_cast<size_t>(after));
  runtime.touch(static_cast<size_t>(before + after) * 16);
  TextBuilder builder(runtime);
  for (int64_t i = 0; i < before; ++i) builder.append(fill);
  builder.append(text);
  for (int64_t i = 0; i < after; ++i) builder.append(fill);
  return Value::text(runtime, builder.take(text.is_markup));
}

Value center(Runtime& runtime, const Text& text, int64_t width, const Text& fill) {
  const int64_t padding = std::max<int64_t>(width < text.length ? 0 : width - text.length, 0);
  const int64_t before = padding / 2 + (padding & width & 1);
  return pad(runtime, text, before, padding - before, fill);
}

namespace {

using Values = std::vector<const Value*>;

const Text* optional_text(const Value* value, std::string_view what) {
  return value == nullptr || value->is_none() ? nullptr : &text_of(*value, what);
}

int64_t optional_integer(const Value* value, std::string_view what, int64_t otherwise) {
  return value == nullptr ? otherwise : integer_of(*value, what);
}

template <Text (*kFunction)(Runtime&, const Text&)>
Value mapped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind("a method of str", {});
  return Value::text(runtime, kFunction(runtime, self.as_text()));
}

template <Side kSide>
Value stripped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("strip", {"chars"});
  return Value::text(
      runtime, strip(runtime, self.as_text(), kSide, optional_text(bound[0], "the argument of strip()")));
}

Value list_of(Runtime& runtime, std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) items.push_back(Value::text(runtime, std::move(text)));
  return Value::list(runtime, std::move(items));
}

template <std::vector<Text> (*kFunction)(Runtime&, const Text&, const Text*, int64_t)>
Value split_by(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("split", {"sep", "maxsplit"});
  const Text* separator = optional_text(bound[0], "the separator of split()");
  const int64_t count = optional_integer(bound[1], "'maxsplit' of split()", -1);
  return list_of(runtime, kFunction(runtime, self.as_text(), separator, count));
}

Value lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("splitlines", {"keepends"});
  return list_of(runtime,
                 split_lines(runtime, self.as_text(), bound[0] != nullptr && is_true(runtime, *bound[0])));
}

Value replaced(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("replace", {"old", "new", "count"}, 2);
  const int64_t count = optional_integer(bound[2], "'count' of replace()", -1);
  return Value::text(runtime, replace(runtime, self.as_text(), text_of(*bound[0], "'old' of replace()"),
                                      text_of(*bound[1], "'new' of replace()"), count));
}

Value joined(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return join(runtime, self.as_text(), *arguments.bind("join", {"iterable"}, 1)[0]);
}

// The byte range for the arguments `start` and `end`; empty if `start` is after the end of the text.
std::optional<TextRange> part_of(Runtime& runtime, const Text& text, const Value* start, const Value* end) {
  const auto bound = [&](const Value* given, int64_t otherwise) {
    if (given == nullptr || given->is_none()) return otherwise;
    const int64_t index = integer_of(*given, "a bound of a search");
    return index < 0 ? std::max<int64_t>(index + text.length, 0) : index;
  };
  const int64_t first = bound(start, 0);
  const int64_t last = std::min(bound(end, text.length), text.length);
  if (first > last) return std::nullopt;
  return TextRange{byte_of(runtime, text, first), byte_of(runtime, text, last)};
}

template <bool kIsLast, bool kMustBeThere>
Value found_at(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("find", {"sub", "start", "end"}, 1);
  const Text& pattern = text_of(*bound[0], "the argument of find()");
  const auto part = part_of(runtime, self.as_text(), bound[1], bound[2]);
  size_t found = std::string::npos;
  if (part.has_value()) {
    const std::string_view text = part->of(self.as_text().bytes);
    found = kIsLast                 ? find_last(runtime, text, pattern.bytes)
            : pattern.bytes.empty() ? 0
                                    : Finder(runtime, pattern.bytes).find(text);
  }
  if (found == std::string::npos) {
    if (kMustBeThere) fail("index(): the text is not found");
    return Value::integer(-1);
  }
  return Value::integer(index_of(runtime, self.as_text(), part->begin + found));
}

Value counted(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("count", {"sub", "start", "end"}, 1);
  const Text& pattern = text_of(*bound[0], "the argument of count()");
  const auto part = part_of(runtime, self.as_text(), bound[1], bound[2]);
  if (!part.has_value()) return Value::integer(0);
  if (pattern.bytes.empty())
    return Value::integer(slice(runtime, self.as_text(), part->begin, part->end).length + 1);
  const std::string_view text = part->of(self.as_text().bytes);
  const Finder finder(runtime, pattern.bytes);
  int64_t count = 0;
  for (size_t at = finder.find(text); at != std::string::npos;
       at = finder.find(text, at + pattern.bytes.size())) {
    runtime.step();
    ++count;
  }
  return Value::integer(count);
}

template <bool kAtStart>
Value begins_or_ends(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind(kAtStart ? "startswith" : "endswith", {"prefix", "start", "end"}, 1);
  const auto part = part_of(runtime, self.as_text(), bound[1], bound[2]);
  std::vector<Value> candidates = {*bound[0]};
  if (bound[0]->is_tuple()) candidates = bound[0]->as_sequence().items;
  for (const Value& candidate : candidates) {
    const Text& affix =
        text_of(candidate, kAtStart ? "the argument of startswith()" : "the argument of endswith()");
    runtime.touch(affix.bytes.size() + 256);
    if (!part.has_value()) continue;
    const std::string_view text = part->of(self.as_text().bytes);
    if (kAtStart ? text.starts_with(affix.bytes) : text.ends_with(affix.bytes)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool kAtStart>
Value removed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Text& affix =
      text_of(*arguments.bind("removeprefix", {"prefix"}, 1)[0], "the argument of removeprefix()");
  const Text& text = self.as_text();
  const size_t size = text.bytes.size();
  if (!(kAtStart ? text.bytes.starts_with(affix.bytes) : text.bytes.ends_with(affix.bytes))) return self;
  return Value::text(runtime, kAtStart ? slice(runtime, text, affix.bytes.size(), size)
                                       : slice(runtime, text, 0, size - affix.bytes.size()));
}

template <bool kIsLast>
Value partitioned(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Text& separator =
      text_of(*arguments.bind("partition", {"sep"}, 1)[0], "the separator of partition()");
  if (separator.bytes.empty()) fail("partition(): the separator is empty");
  const Text& text = self.as_text();
  const size_t found = kIsLast ? find_last(runtime, text.bytes, separator.bytes)
                               : Finder(runtime, separator.bytes).find(text.bytes);
  const Value empty = Value::text(runtime, {});
  if (found == std::string::npos) {
    return kIsLast ? Value::tuple(runtime, {empty, empty, self})
                   : Value::tuple(runtime, {self, empty, empty});
  }
  const size_t end = found + separator.bytes.size();
  return Value::tuple(runtime, {Value::text(runtime, slice(runtime, text, 0, found)),
                                Value::text(runtime, slice(runtime, text, found, end)),
                                Value::text(runtime, slice(runtime, text, end, text.bytes.size()))});
}

template <char kSide>
Value justified(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Values bound = arguments.bind("a method that justifies", {"width", "fillchar"}, 1);
  const Text& text = self.as_text();
  const int64_t width = integer_of(*bound[0], "the width");
  const Value space = Value::literal(" ");
  const Text& fill = bound[1] == nullptr ? space.as_text() : text_of(*bound[1], "the character to fill with");
  if (kSide == 'c') return center(runtime, text, width, fill);
  const int64_t padding = width < text.length ? 0 : width - text.length;
  return kSide == 'l' ? pad(runtime, text, 0, padding, fill) : pad(runtime, text, padding, 0, fill);
}

Value zero_filled(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t width = integer_of(*arguments.bind("zfill", {"width"}, 1)[0], "the width of zfill()");
  const Text& text = self.as_text();
  const size_t sign = text.bytes.starts_with('+') || text.bytes.starts_with('-') ? 1 : 0;
  const Value rest = pad(runtime, slice(runtime, text, sign, text.bytes.size()),
                         width < text.length ? 0 : width - text.length, 0, Value::literal("0").as_text());
  TextBuilder builder(runtime);
  builder.append(text, 0, sign);
  builder.append(rest.as_text());
  return Value::text(runtime, builder.take(text.is_markup));
}

Value tabs_expanded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t size =
      optional_integer(arguments.bind("expandtabs", {"tabsize"})[0], "the argument of expandtabs()", 8);
  TextBuilder builder(runtime);
  int64_t column = 0;
  runtime.touch(self.as_text().bytes.size() * 8);
  for (Characters characters(self.as_text()); !characters.at_end(); characters.advance()) {
    if (characters.value() != U'\t') {
      builder.append_character(characters.value(), characters.is_input());
      column = characters.value() == U'\n' || characters.value() == U'\r' ? 0 : column + 1;
      continue;
    }
    const int64_t count = size > 0 ? size - column % size : 0;
    runtime.check_size(static_cast<size_t>(count));
    builder.append(std::string(static_cast<size_t>(count), ' '), characters.is_input());
    runtime.touch(static_cast<size_t>(count));
    column += count;
  }
  return Value::text(runtime, builder.take(self.as_text().is_markup));
}

template <bool (*kHolds)(char32_t)>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind("a method of str", {});
  runtime.touch(self.as_text().bytes.size() * 8);
  for (Characters characters(self.as_text()); !characters.at_end(); characters.advance()) {
    if (!kHolds(characters.value())) return Value::boolean(false);
  }
  return Value::boolean(!self.as_text().bytes.empty());
}

bool is_alphanumeric(char32_t character) {
  return is_letter(character) || is_decimal(character);
}

Value is_ascii(Runtime& /*runtime*/, const Value& self, const Arguments& arguments) {
  arguments.bind("isascii", {});
  return Value::boolean(self.as_text().is_ascii());
}

// Whether some character is `kRight`, and none is `kWrong` or title case.
template <bool (*kRight)(char32_t), bool (*kWrong)(char32_t)>
Value has_only_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind("a method of str", {});
  runtime.touch(self.as_text().bytes.size() * 8);
  bool has_one = false;
  for (Characters characters(self.as_text()); !characters.at_end(); characters.advance()) {
    if (kWrong(characters.value()) || is_title(characters.value())) return Value::boolean(false);
    has_one = has_one || kRight(characters.value());
  }
  return Value::boolean(has_one);
}

Value is_titled(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind("istitle", {});
  runtime.touch(self.as_text().bytes.size() * 8);
  bool has_one = false, is_in_word = false;
  for (Characters characters(self.as_text()); !characters.at_end(); characters.advance()) {
    const bool begins = is_upper(characters.value()) || is_title(characters.value());
    const bool goes_on = is_lower(characters.value());
    if ((begins && is_in_word) || (goes_on && !is_in_word)) return Value::boolean(false);
    is_in_word = begins || goes_on;
    has_one = has_one || is_in_word;
  }
  return Value::boolean(has_one);
}

Value formatted(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return brace_format(runtime, self.as_text(), arguments);
}

Value formatted_map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value& map = *arguments.bind("format_map", {"mapping"}, 1)[0];
  if (!map.is_dict()) fail("format_map() needs a dict, not {}", type_name(map));
  Arguments named;
  runtime.step(map.as_dict().items.size());
  for (const auto& [key, value] : map.as_dict().items) {
    if (key.is_text()) named.named.emplace_back(key.as_text().bytes, value);
  }
  return brace_format(runtime, self.as_text(), named);
}

struct NamedTextMethod {
  std::string_view name;
  Method method;
  bool escapes = false;
};

constexpr std::array kTextMethods = {
    NamedTextMethod{"capitalize", mapped<capitalize>},
    NamedTextMethod{"casefold", mapped<to_lower>},
    NamedTextMethod{"center", justified<'c'>, true},
    NamedTextMethod{"count", counted},
    NamedTextMethod{"endswith", begins_or_ends<false>},
    NamedTextMethod{"expandtabs", tabs_expanded},
    NamedTextMethod{"find", found_at<false, false>},
    NamedTextMethod{"format", formatted},
    NamedTextMethod{"format_map", formatted_map},
    NamedTextMethod{"index", found_at<false, true>},
    NamedTextMethod{"isalnum", all_are<is_alphanumeric>},
    NamedTextMethod{"isalpha", all_are<is_letter>},
    NamedTextMethod{"isascii", is_ascii},
    NamedTextMethod{"isdecimal", all_are<is_decimal>},
    NamedTextMethod{"isdigit", all_are<is_decimal>},
    NamedTextMethod{"islower", has_only_case<is_lower, is_upper>},
    NamedTextMethod{"isnumeric", all_are<is_decimal>},
    NamedTextMethod{"isprintable", all_are<is_printable>},
    NamedTextMethod{"isspace", all_are<is_python_space>},
    NamedTextMethod{"istitle", is_titled},
    NamedTextMethod{"isupper", has_only_case<is_upper, is_lower>},
    NamedTextMethod{"join", joined},
    NamedTextMethod{"ljust", justified<'l'>, true},
    NamedTextMethod{"lower", mapped<to_lower>},
    NamedTextMethod{"lstrip", stripped<Side::kLeft>},
    NamedTextMethod{"partition", partitioned<false>},
    NamedTextMethod{"removeprefix", removed<true>},
    NamedTextMethod{"removesuffix", removed<false>},
    NamedTextMethod{"replace", replaced, true},
    NamedTextMethod{"rfind", found_at<true, false>},
    NamedTextMethod{"rindex", found_at<true, true>},
    NamedTextMethod{"rjust", justified<'r'>, true},
    NamedTextMethod{"rpartition", partitioned<true>},
    NamedTextMethod{"rsplit", split_by<split_from_end>},
    NamedTextMethod{"rstrip", stripped<Side::kRight>},
    NamedTextMethod{"split", split_by<split>},
    NamedTextMethod{"splitlines", lines},
    NamedTextMethod{"startswith", begins_or_ends<true>},
    NamedTextMethod{"strip", stripped<Side::kBoth>},
    NamedTextMethod{"swapcase", mapped<swap_case>},
    NamedTextMethod{"title", mapped<title>},
    NamedTextMethod{"upper", mapped<to_upper>},
    NamedTextMethod{"zfill", zero_filled},
};

const NamedTextMethod* find_named(std::string_view name) {
  const auto* found = std::ranges::find(kTextMethods, name, &NamedTextMethod::name);
  return found == kTextMethods.end() ? nullptr : found;
}

}  // namespace

Method text_method(std::string_view name) {
  const NamedTextMethod* found = find_named(name);
  return found == nullptr ? nullptr : found->method;
}

bool escapes_second_argument(std::string_view name) {
  const NamedTextMethod* found = find_named(name);
  return found != nullptr && found->escapes;
}

}  // namespace lacuna::jinja
