// The variable `loop` of an executing for statement.
#pragma once

#include <memory>
#include <optional>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

struct Loop final : Object {
  Loop(Runtime& runtime, const Value& iterable, int depth0);

  /// Sets `current` to the next item; false at the end.
  bool advance();
  /// jinja2's loop.NAME; undefined for an unknown name.
  ///   self  the Value that holds this loop
  Value attribute(const Value& self, std::string_view name);
  int64_t length();

  Runtime& runtime;
  int depth0;  ///< recursive loops around this one
  int64_t index0 = -1;
  Value current;
  /// Renders the body for other items; empty unless the loop is recursive.
  std::function<Value(const Value& iterable, int depth0)> recurse;

 private:
  bool peek();

  Value iterable_;
  std::unique_ptr<Iterator> iterator_;
  std::optional<Value> after_;
  Value before_;
  std::optional<Value> last_changed_;
  std::optional<int64_t> length_;

  friend struct LoopMethods;
};

}  // namespace lacuna::jinja
