#include "tokenizer/jinja/methods.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/name_list.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

struct BoundMethod final : Callable {
  Value self;
  std::string name;
  Method method = nullptr;

  Value call(Runtime& runtime, const Arguments& arguments) override {
    runtime.step();
    const bool escapes = self.is_text() && self.as_text().is_markup && escapes_second_argument(name);
    return method(runtime, self, escapes ? escaped(runtime, arguments) : arguments);
  }
  std::string description() const override { return fmt::format("<method {} of {}>", name, type_name(self)); }

  static Arguments escaped(Runtime& runtime, Arguments arguments) {
    if (arguments.positional.size() < 2) return arguments;
    Value& second = arguments.positional[1];
    second = Value::text(runtime, escape(runtime, to_soft_text(runtime, second).as_text()));
    return arguments;
  }
};

Value view_of(Runtime& runtime, const Value& self, const Arguments& arguments, Sequence::Kind kind) {
  arguments.bind("keys, values or items", {});
  runtime.step(1 + self.as_dict().items.size());
  auto view = std::make_shared<Sequence>();
  view->kind = kind;
  for (const auto& [key, value] : self.as_dict().items) {
    view->items.push_back(kind == Sequence::Kind::kKeys     ? key
                          : kind == Sequence::Kind::kValues ? value
                                                            : Value::tuple(runtime, {key, value}));
    hold(*view, view->items.back());
  }
  return Value::of(std::move(view));
}

Value dict_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view_of(runtime, self, arguments, Sequence::Kind::kKeys);
}
Value dict_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view_of(runtime, self, arguments, Sequence::Kind::kValues);
}
Value dict_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return view_of(runtime, self, arguments, Sequence::Kind::kItems);
}
Value dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind("get", {"key", "default"}, 1);
  const Value* found = self.as_dict().find(runtime, *bound[0]);
  if (found != nullptr) return *found;
  return bound[1] != nullptr ? *bound[1] : Value();
}
Value copy(Runtime& /*runtime*/, const Value& self, const Arguments& arguments) {
  arguments.bind("copy", {});
  return self;  // values are immutable, so no copy is needed
}

Value sequence_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind("count", {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.as_sequence().items) count += equals(runtime, item, *bound[0]) ? 1 : 0;
  return Value::integer(count);
}
Value sequence_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind("index", {"value", "start", "stop"}, 1);
  const std::vector<Value>& items = self.as_sequence().items;
  const auto length = static_cast<int64_t>(items.size());
  const auto at = [&](const Value* given, int64_t otherwise) {
    if (given == nullptr) return otherwise;
    const int64_t index = integer_of(*given, "an argument of index()");
    return std::clamp<int64_t>(index < 0 ? index + length : index, 0, length);
  };
  for (int64_t i = at(bound[1], 0), end = at(bound[2], length); i < end; ++i) {
    if (equals(runtime, items[static_cast<size_t>(i)], *bound[0])) return Value::integer(i);
  }
  fail("index(): the value is not in the {}", type_name(self));
}

struct NamedMethod {
  std::string_view name;
  Method method;
};
constexpr std::array kDictMethods = {NamedMethod{"keys", dict_keys}, NamedMethod{"values", dict_values},
                                     NamedMethod{"items", dict_items}, NamedMethod{"get", dict_get},
                                     NamedMethod{"copy", copy}};
constexpr std::array kSequenceMethods = {NamedMethod{"count", sequence_count},
                                         NamedMethod{"index", sequence_index}, NamedMethod{"copy", copy}};
constexpr std::string_view kDictChanges = "clear pop popitem setdefault update";
constexpr std::string_view kListChanges = "append clear extend insert pop remove reverse sort";

Method method_named(std::span<const NamedMethod> methods, std::string_view name) {
  const auto found = std::ranges::find(methods, name, &NamedMethod::name);
  return found == methods.end() ? nullptr : found->method;
}

Value refused(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format(
      "'{}' would modify a {}, which templates may not; use a namespace or '+'", name, type_name(value)));
}

}  // namespace

std::optional<Value> find_method(Runtime& /*runtime*/, const Value& value, std::string_view name) {
  Method method = nullptr;
  if (value.is_text()) method = text_method(name);
  if (value.is_dict()) {
    if (has_name(kDictChanges, name)) return refused(value, name);
    method = method_named(kDictMethods, name);
  }
  if (value.type() == Value::Type::kSequence && value.as_sequence().kind <= Sequence::Kind::kRange) {
    if (value.is_list() && has_name(kListChanges, name)) return refused(value, name);
    if (value.is_list() || name != "copy") method = method_named(kSequenceMethods, name);
  }
  if (method == nullptr) return std::nullopt;
  auto bound = std::make_shared<BoundMethod>();
  bound->self = value;
  bound->name = name;
  bound->method = method;
  hold(*bound, value);
  return Value::of(std::shared_ptr<Callable>(std::move(bound)));
}

}  // namespace lacuna::jinja
