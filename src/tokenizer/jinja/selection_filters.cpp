// Lazy filters that select or map items one by one.
#include <array>
#include <optional>

#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"

namespace lacuna::jinja {
namespace {

const Value* named(const Arguments& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

// Iterates over `value`, without items if it is false; created lazily at the first item.
class LateIterator {
 public:
  LateIterator(Runtime& runtime, Value value) : runtime_(&runtime), value_(std::move(value)) {}

  bool next(Value& item) {
    if (!has_begun_) {
      has_begun_ = true;
      if (is_true(*runtime_, value_)) iterator_.emplace(*runtime_, value_);
    }
    return iterator_.has_value() && iterator_->next(item);
  }

 private:
  Runtime* runtime_;
  Value value_;
  bool has_begun_ = false;
  std::optional<Iterator> iterator_;
};

void hold_arguments(const Value& generator, const Arguments& arguments) {
  for (const Value& value : arguments.positional) hold(generator.as_generator(), value);
  for (const auto& [name, value] : arguments.named) hold(generator.as_generator(), value);
}

Value map_attribute(Runtime& runtime, const Value& value, const Arguments& arguments,
                    const Value& attribute) {
  for (const auto& [name, given] : arguments.named) {
    if (name != "attribute" && name != "default") fail("map() takes no argument '{}'", name);
  }
  const Value* given = named(arguments, "default");
  const Value otherwise = given == nullptr ? Value() : *given;
  return make_generator(value, [&runtime, otherwise, iterator = LateIterator(runtime, value),
                                path = Attribute(runtime, &attribute)](Value& item) mutable {
    if (!iterator.next(item)) return false;
    item = path.of(runtime, item, &otherwise);
    return true;
  });
}

Value filter_map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* attribute = named(arguments, "attribute");
  Value made;
  if (arguments.positional.empty() && attribute != nullptr) {
    made = map_attribute(runtime, value, arguments, *attribute);
  } else {
    made = make_generator(
        value, [&runtime, arguments, iterator = LateIterator(runtime, value)](Value& item) mutable {
          Value source;
          if (!iterator.next(source)) return false;
          if (arguments.positional.empty()) fail("map needs the name of a filter, or 'attribute'");
          const Text& name = text_of(arguments.positional.front(), "the name of a filter that map is given");
          item = apply_filter(runtime, name.bytes, source, without_first(arguments, 1));
          return true;
        });
  }
  hold_arguments(made, arguments);
  return made;
}

// select, reject, selectattr and rejectattr: items for which a test holds, or those for which it does not.
template <bool kSelects, bool kHasAttribute>
Value selected(Runtime& runtime, const Value& value, const Arguments& arguments) {
  constexpr size_t kBefore = kHasAttribute ? 1 : 0;  // arguments before the name of the test
  const Value made = make_generator(
      value, [&runtime, arguments, iterator = LateIterator(runtime, value)](Value& item) mutable {
        while (iterator.next(item)) {
          runtime.step();
          if (arguments.positional.size() < kBefore) fail("the name of an attribute is missing");
          Value tested = item;
          if (kHasAttribute) tested = Attribute(runtime, &arguments.positional.front()).of(runtime, item);
          bool holds = false;
          if (arguments.positional.size() > kBefore) {
            const Text& name = text_of(arguments.positional[kBefore], "the name of a test");
            holds = apply_test(runtime, name.bytes, tested, without_first(arguments, kBefore + 1));
          } else {
            holds = is_true(runtime, tested);
          }
          if (holds == kSelects) return true;
        }
        return false;
      });
  hold_arguments(made, arguments);
  return made;
}

constexpr std::array kSelectionFilters = {
    NamedFilter{"map", filter_map},
    NamedFilter{"reject", selected<false, false>},
    NamedFilter{"rejectattr", selected<false, true>},
    NamedFilter{"select", selected<true, false>},
    NamedFilter{"selectattr", selected<true, true>},
};

}  // namespace

std::span<const NamedFilter> selection_filters() {
  return kSelectionFilters;
}

}  // namespace lacuna::jinja
