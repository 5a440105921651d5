// The functions, tests and filters that every template has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

/// The function with this name: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
std::optional<Value> find_function(std::string_view name);

/// A test is the operator after `is`.
bool has_test(std::string_view name);
std::string test_names();  ///< separated by commas

/// `value is name(arguments)`. Throws RenderError for an unknown test.
bool apply_test(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

/// `value | name(arguments)`
using Filter = Value (*)(Runtime& runtime, const Value& value, const Arguments& arguments);

/// The filter `name`, or null.
Filter find_filter(std::string_view name);
std::string filter_names();  ///< separated by commas

/// `value` through the filter `name`. Throws RenderError for an unknown filter.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

/// The argument `attribute` of filters: a number, or a path of names and numbers separated by dots.
class Attribute {
 public:
  /// `attribute`: null or None for the item itself.
  Attribute(Runtime& runtime, const Value* attribute);
  Value of(Runtime& runtime, Value item) const;
  Value of(Runtime& runtime, Value item, const Value* otherwise) const;

 private:
  std::vector<Value> path_;
};

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// Filters by subject, for find_filter().
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();
std::span<const NamedFilter> value_filters();

}  // namespace lacuna::jinja
