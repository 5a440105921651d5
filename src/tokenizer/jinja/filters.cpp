#include <algorithm>

#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

std::vector<NamedFilter> all_filters() {
  std::vector<NamedFilter> all;
  for (const auto& part : {text_filters(), sequence_filters(), selection_filters(), value_filters()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all, {}, &NamedFilter::name);
  return all;
}

const std::vector<NamedFilter>& filters() {
  static const std::vector<NamedFilter> all = all_filters();
  return all;
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = std::ranges::lower_bound(filters(), name, {}, &NamedFilter::name);
  return found != filters().end() && found->name == name ? found->filter : nullptr;
}

std::string filter_names() {
  std::string names;
  for (const NamedFilter& each : filters()) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail("there is no filter '{}'", name.substr(0, 100));
  runtime.step();
  return filter(runtime, value, arguments);
}

Attribute::Attribute(Runtime& runtime, const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_text()) {
    path_.push_back(*attribute);
    return;
  }
  const Value dot = Value::literal(".");
  for (Text& part : split(runtime, attribute->as_text(), &dot.as_text(), -1)) {
    const bool is_number = !part.bytes.empty() && part.bytes.size() < 10 &&
                           part.bytes.find_first_not_of("0123456789") == std::string::npos;
    path_.push_back(is_number ? Value::integer(std::stoll(part.bytes))
                              : Value::text(runtime, std::move(part)));
  }
}

Value Attribute::of(Runtime& runtime, Value item, const Value* otherwise) const {
  for (const Value& part : path_) {
    runtime.step();
    item = item_of(runtime, item, part);
    if (item.is_undefined() && otherwise != nullptr && !otherwise->is_none()) item = *otherwise;
  }
  return item;
}

Value Attribute::of(Runtime& runtime, Value item) const {
  return of(runtime, std::move(item), nullptr);
}

}  // namespace lacuna::jinja
