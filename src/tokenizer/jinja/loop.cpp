#include "tokenizer/jinja/loop.h"

#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {

Value Value::of(std::shared_ptr<Loop> loop) {
  return {Type::kLoop, std::move(loop)};
}

Loop& Value::as_loop() const {
  return const_cast<Loop&>(static_cast<const Loop&>(*object_));
}

Loop::Loop(Runtime& of, const Value& iterable, int depth0_of)
    : runtime(of),
      depth0(depth0_of),
      iterable_(iterable),
      iterator_(std::make_unique<Iterator>(of, iterable)) {
  hold(*this, iterable);
}

bool Loop::peek() {
  if (after_.has_value()) return true;
  Value item;
  if (!iterator_->next(item)) return false;
  after_ = std::move(item);
  return true;
}

bool Loop::advance() {
  if (!peek()) return false;
  before_ = std::move(current);
  current = std::move(*after_);
  after_.reset();
  ++index0;
  return true;
}

int64_t Loop::length() {
  if (length_.has_value()) return *length_;
  if (iterable_.type() != Value::Type::kGenerator && iterable_.type() != Value::Type::kLoop) {
    length_ = length_of(iterable_);
    return *length_;
  }
  std::vector<Value> rest;
  for (Value item; iterator_->next(item);) {
    runtime.step();
    rest.push_back(item);
  }
  length_ = static_cast<int64_t>(rest.size()) + index0 + 1 + (after_.has_value() ? 1 : 0);
  iterator_ = std::make_unique<Iterator>(runtime, Value::list(runtime, std::move(rest)));
  return *length_;
}

struct LoopMethods final : Callable {
  Value self;
  bool is_cycle = false;

  Value call(Runtime& runtime, const Arguments& arguments) override {
    Loop& loop = self.as_loop();
    const std::vector<Value>& values = arguments.positional;
    if (!arguments.named.empty()) fail("{} takes no named arguments", description());
    if (is_cycle) {
      if (values.empty()) fail("loop.cycle() needs an argument");
      return values[static_cast<size_t>(loop.index0) % values.size()];
    }
    const Value now = Value::tuple(runtime, values);
    if (loop.last_changed_.has_value() && equals(runtime, *loop.last_changed_, now)) {
      return Value::boolean(false);
    }
    loop.last_changed_ = now;
    return Value::boolean(true);
  }
  std::string description() const override { return is_cycle ? "loop.cycle()" : "loop.changed()"; }
};

Value Loop::attribute(const Value& self, std::string_view name) {
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0);
  if (name == "revindex0") return Value::integer(length() - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "previtem") return index0 <= 0 ? Value::undefined("there is no previous item") : before_;
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    auto method = std::make_shared<LoopMethods>();
    method->self = self;
    method->is_cycle = name == "cycle";
    method->depth = depth + 1;
    return Value::of(std::shared_ptr<Callable>(std::move(method)));
  }
  return Value::undefined(fmt::format("'loop' has no attribute '{}'", name));
}

}  // namespace lacuna::jinja
