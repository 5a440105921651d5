// Filters that return texts.
#include <array>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

template <Text (*kFunction)(Runtime&, const Text&)>
Value filter_by(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("a filter of texts", {});
  return Value::text(runtime, kFunction(runtime, to_soft_text(runtime, value).as_text()));
}

Value filter_trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("trim", {"chars"});
  const Text* characters =
      bound[0] == nullptr || bound[0]->is_none() ? nullptr : &text_of(*bound[0], "'chars' of trim");
  return Value::text(runtime,
                     strip(runtime, to_soft_text(runtime, value).as_text(), Side::kBoth, characters));
}

Value filter_replace(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("replace", {"old", "new", "count"}, 2);
  const int64_t count =
      bound[2] == nullptr || bound[2]->is_none() ? -1 : integer_of(*bound[2], "'count' of replace");
  return Value::text(
      runtime, replace(runtime, to_text(runtime, value).as_text(), to_text(runtime, *bound[0]).as_text(),
                       to_text(runtime, *bound[1]).as_text(), count));
}

Value filter_center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("center", {"width"});
  const int64_t width = bound[0] == nullptr ? 80 : integer_of(*bound[0], "'width' of center");
  return center(runtime, to_soft_text(runtime, value).as_text(), width, Value::literal(" ").as_text());
}

Value filter_string(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("string", {});
  return to_soft_text(runtime, value);
}

Value filter_escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("escape", {});
  return Value::text(runtime, escape(runtime, to_soft_text(runtime, value).as_text()));
}

Value filter_forceescape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("forceescape", {});
  return Value::text(runtime, escape(runtime, to_text(runtime, value).as_text()));
}

Value filter_safe(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("safe", {});
  const Value text = to_soft_text(runtime, value);
  Text markup = slice(runtime, text.as_text(), 0, text.as_text().bytes.size());
  markup.is_markup = true;
  return Value::text(runtime, std::move(markup));
}

Value filter_format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value text = to_soft_text(runtime, value);
  if (arguments.named.empty()) {
    return percent_format(runtime, text.as_text(), Value::tuple(runtime, arguments.positional));
  }
  if (!arguments.positional.empty()) fail("format takes values with names or without, not both");
  DictBuilder named(runtime);
  for (const auto& [name, item] : arguments.named) named.set(Value::literal(name), item);
  return percent_format(runtime, text.as_text(), Value::of(named.take()));
}

// The indentation for `width`: a text itself, or that number of spaces.
Value indentation(Runtime& runtime, const Value* width) {
  if (width != nullptr && width->is_text()) return *width;
  const int64_t count = width == nullptr ? 4 : integer_of(*width, "'width' of indent");
  const Value space = Value::literal(" ");
  return pad(runtime, {}, count, 0, space.as_text());
}

Value filter_indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("indent", {"width", "first", "blank"});
  const auto is_set = [&](const Value* option) { return option != nullptr && is_true(runtime, *option); };
  const Value indent = indentation(runtime, bound[0]);
  const Text& text = text_of(value, "what indent is given");
  const std::vector<Text> lines = split_lines(runtime, text, false);
  // A newline is added before the lines are split, so that a text that ends with one has an empty last line.
  const bool has_empty_end = text.bytes.empty() || [&] {
    const char32_t last = last_character(text.bytes);
    return std::u32string_view(U"\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029").find(last) !=
           std::u32string_view::npos;
  }();
  TextBuilder builder(runtime);
  const size_t count = lines.size() + (has_empty_end && !text.bytes.ends_with('\r') ? 1 : 0);
  for (size_t i = 0; i < count; ++i) {
    runtime.step();
    const bool is_blank = i >= lines.size() || lines[i].bytes.empty();
    if (i > 0) builder.append("\n", false);
    if (i > 0 ? (is_set(bound[2]) || !is_blank) : is_set(bound[1])) builder.append(indent.as_text());
    if (i < lines.size()) builder.append(lines[i]);
  }
  return Value::text(runtime, builder.take(text.is_markup));
}

Value filter_truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("truncate", {"length", "killwords", "end", "leeway"});
  const Value dots = Value::literal("...");
  const Text& end = bound[2] == nullptr ? dots.as_text() : text_of(*bound[2], "'end' of truncate");
  const int64_t length = bound[0] == nullptr ? 255 : integer_of(*bound[0], "'length' of truncate");
  const int64_t leeway =
      bound[3] == nullptr || bound[3]->is_none() ? 5 : integer_of(*bound[3], "'leeway' of truncate");
  if (length < end.length) fail("truncate: 'length' is {}; it must be at least {}", length, end.length);
  if (leeway < 0) fail("truncate: 'leeway' is {}; it must be at least 0", leeway);
  const int64_t size = length_of(value);
  if (size <= length || size - length <= leeway) return value;
  const Text& text = text_of(value, "what truncate is given");
  Text kept = slice(runtime, text, 0, byte_of(runtime, text, length - end.length));
  if (bound[1] == nullptr || !is_true(runtime, *bound[1])) {
    const Value space = Value::literal(" ");
    kept = split_from_end(runtime, kept, &space.as_text(), 1).front();
  }
  TextBuilder builder(runtime);
  builder.append(kept);
  builder.append(end);
  return Value::text(runtime, builder.take(text.is_markup));
}

Value filter_wordcount(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("wordcount", {});
  const Value text = to_soft_text(runtime, value);
  runtime.touch(text.as_text().bytes.size() * 8);
  int64_t count = 0;
  bool is_in_word = false;
  for (Characters characters(text.as_text()); !characters.at_end(); characters.advance()) {
    const bool is_part = is_word(characters.value());
    count += is_part && !is_in_word ? 1 : 0;
    is_in_word = is_part;
  }
  return Value::integer(count);
}

constexpr std::array kTextFilters = {
    NamedFilter{"capitalize", filter_by<capitalize>},
    NamedFilter{"center", filter_center},
    NamedFilter{"e", filter_escape},
    NamedFilter{"escape", filter_escape},
    NamedFilter{"forceescape", filter_forceescape},
    NamedFilter{"format", filter_format},
    NamedFilter{"indent", filter_indent},
    NamedFilter{"lower", filter_by<to_lower>},
    NamedFilter{"replace", filter_replace},
    NamedFilter{"safe", filter_safe},
    NamedFilter{"string", filter_string},
    NamedFilter{"title", filter_by<title_filter>},
    NamedFilter{"trim", filter_trim},
    NamedFilter{"truncate", filter_truncate},
    NamedFilter{"upper", filter_by<to_upper>},
    NamedFilter{"wordcount", filter_wordcount},
};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kTextFilters;
}

}  // namespace lacuna::jinja
