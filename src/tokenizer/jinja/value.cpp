#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>

namespace lacuna::jinja {

Runtime::~Runtime() {
  for (const auto& object : kept_) object->clear();
}

Value Value::boolean(bool value) {
  Value made;
  made.type_ = Type::kBool;
  made.integer_ = value ? 1 : 0;
  return made;
}

Value Value::integer(int64_t value, bool is_input) {
  Value made;
  made.type_ = Type::kInt;
  made.integer_ = value;
  made.is_input_ = is_input;
  return made;
}

Value Value::real(double value, bool is_input) {
  Value made;
  made.type_ = Type::kFloat;
  made.real_ = value;
  made.is_input_ = is_input;
  return made;
}

Value Value::text(Runtime& runtime, Text text) {
  runtime.step();
  auto object = std::make_shared<TextObject>();
  object->text = std::move(text);
  return {Type::kText, std::move(object)};
}

Value Value::literal(std::string_view bytes) {
  auto object = std::make_shared<TextObject>();
  object->text.bytes = bytes;
  object->text.length = std::ranges::count_if(bytes, [](char byte) { return (byte & 0xc0) != 0x80; });
  return {Type::kText, std::move(object)};
}

namespace {

Value make_sequence(Runtime& runtime, Sequence::Kind kind, std::vector<Value> items) {
  runtime.step(1 + items.size());
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  for (const Value& item : items) hold(*sequence, item);
  sequence->items = std::move(items);
  return Value::of(std::move(sequence));
}

}  // namespace

Value Value::list(Runtime& runtime, std::vector<Value> items) {
  return make_sequence(runtime, Sequence::Kind::kList, std::move(items));
}

Value Value::tuple(Runtime& runtime, std::vector<Value> items) {
  return make_sequence(runtime, Sequence::Kind::kTuple, std::move(items));
}

Value Value::of(std::shared_ptr<const Dict> dict) {
  return {Type::kDict, std::move(dict)};
}
Value Value::of(std::shared_ptr<const Sequence> sequence) {
  return {Type::kSequence, std::move(sequence)};
}
Value Value::of(std::shared_ptr<Namespace> object) {
  return {Type::kNamespace, std::move(object)};
}
Value Value::of(std::shared_ptr<Generator> generator) {
  return {Type::kGenerator, std::move(generator)};
}

Value Value::of(std::shared_ptr<Callable> callable) {
  return {Type::kCallable, std::move(callable)};
}

Value Value::undefined(std::string why) {
  auto missing = std::make_shared<Missing>();
  missing->why = std::move(why);
  return {Type::kUndefined, std::move(missing)};
}

bool Value::is_list() const {
  return type_ == Type::kSequence && as_sequence().kind == Sequence::Kind::kList;
}

bool Value::is_tuple() const {
  return type_ == Type::kSequence && as_sequence().kind == Sequence::Kind::kTuple;
}

const Text& Value::as_text() const {
  return static_cast<const TextObject&>(*object_).text;
}
const Sequence& Value::as_sequence() const {
  return static_cast<const Sequence&>(*object_);
}
const Dict& Value::as_dict() const {
  return static_cast<const Dict&>(*object_);
}

// The const_casts are valid: the rendering created mutable objects as non-const.
Namespace& Value::as_namespace() const {
  return const_cast<Namespace&>(static_cast<const Namespace&>(*object_));
}
Generator& Value::as_generator() const {
  return const_cast<Generator&>(static_cast<const Generator&>(*object_));
}
Callable& Value::as_callable() const {
  return const_cast<Callable&>(static_cast<const Callable&>(*object_));
}

std::string_view Value::why_undefined() const {
  return static_cast<const Missing&>(*object_).why;
}

const Value* Dict::find(Runtime& runtime, const Value& key) const {
  const auto found = index_.find(key_text(runtime, key));
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string text = "s";
  text += key;
  const auto found = index_.find(text);
  return found == index_.end() ? nullptr : &items[found->second].second;
}

namespace {

void append_key(Runtime& runtime, const Value& key, std::string& text) {
  runtime.step();
  switch (key.type()) {
    case Value::Type::kNone:
      text += 'n';
      return;
    case Value::Type::kUndefined:
      text += 'u';
      return;
    case Value::Type::kBool:
    case Value::Type::kInt:
      text += fmt::format("i{}", key.as_integer());
      return;
    case Value::Type::kFloat: {
      const double value = key.as_real();
      const bool is_integer = value == std::floor(value) && std::abs(value) < 9e18;
      text += is_integer ? fmt::format("i{}", static_cast<int64_t>(value)) : fmt::format("f{}", value);
      return;
    }
    case Value::Type::kText:
      text += 's';
      text += key.as_text().bytes;
      return;
    case Value::Type::kSequence:
      if (key.is_tuple()) {
        for (const Value& item : key.as_sequence().items) {
          std::string part;
          append_key(runtime, item, part);
          text += fmt::format("t{}:", part.size());
          text += part;
          runtime.check_size(text.size());
          runtime.touch(text.size());
        }
        text += ')';
        return;
      }
      if (key.as_sequence().kind == Sequence::Kind::kRange) {  // ranges with the same numbers are equal
        const std::vector<Value>& items = key.as_sequence().items;
        text += fmt::format("r{}", items.size());
        if (!items.empty())
          text += fmt::format(":{}:{}", items.front().as_integer(), items.back().as_integer());
        return;
      }
      if (key.as_sequence().kind == Sequence::Kind::kValues) {  // a view of values equals only itself
        text += fmt::format("p{}", static_cast<const void*>(key.object()));
        return;
      }
      break;
    case Value::Type::kNamespace:
    case Value::Type::kGenerator:
    case Value::Type::kLoop:
    case Value::Type::kCallable:
      text += fmt::format("p{}", static_cast<const void*>(key.object()));
      return;
    case Value::Type::kDict:
      break;
  }
  fail("a {} cannot be a key of a dictionary", type_name(key));
}

}  // namespace

std::string key_text(Runtime& runtime, const Value& key) {
  std::string text;
  append_key(runtime, key, text);
  runtime.touch(text.size());
  return text;
}

void DictBuilder::set(const Value& key, Value value) {
  hold(*dict_, key);
  hold(*dict_, value);
  const auto [place, is_new] = dict_->index_.try_emplace(key_text(runtime_, key), dict_->items.size());
  if (is_new) {
    dict_->items.emplace_back(key, std::move(value));
  } else {
    dict_->items[place->second].second = std::move(value);
  }
}

const Value* Namespace::find(Runtime& runtime, std::string_view name) const {
  runtime.step(members.size() / 32);
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(Runtime& runtime, std::string_view name, Value value) {
  if (name.starts_with('_')) fail("a namespace takes no name that begins with an underscore: '{}'", name);
  if (const Value* found = find(runtime, name)) {
    *const_cast<Value*>(found) = std::move(value);
  } else {
    members.emplace_back(name, std::move(value));
  }
}

Value make_generator(const Value& source, std::function<bool(Value&)> next) {
  auto generator = std::make_shared<Generator>();
  generator->next = std::move(next);
  hold(*generator, source);
  return Value::of(std::move(generator));
}

std::vector<const Value*> Arguments::bind(std::string_view function,
                                          std::initializer_list<std::string_view> names,
                                          size_t num_required) const {
  std::vector<const Value*> bound(names.size());
  if (positional.size() > names.size()) {
    fail("{}() takes at most {} arguments; {} are given", function, names.size(), positional.size());
  }
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto place = std::ranges::find(names, name);
    if (place == names.end()) fail("{}() takes no argument '{}'", function, name);
    const Value*& slot = bound[static_cast<size_t>(place - names.begin())];
    if (slot != nullptr) fail("{}() is given '{}' twice", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (bound[i] == nullptr) fail("{}() needs '{}'", function, names.begin()[i]);
  }
  return bound;
}

Value Callable::attribute(Runtime& /*runtime*/, std::string_view name) const {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", description(), name));
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.is_dict() ||
         value.type() == Value::Type::kSequence || value.type() == Value::Type::kGenerator;
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  Iterator iterator(runtime, value);
  for (Value item; iterator.next(item);) {
    runtime.step();
    items.push_back(item);
  }
  return items;
}

std::string_view type_name(const Value& value) {
  // In the order of Value::Type and of Sequence::Kind.
  constexpr std::string_view kTypes[] = {"Undefined", "None", "bool",      "int",       "float", "str",
                                         "",          "dict", "namespace", "generator", "loop",  "function"};
  constexpr std::string_view kSequences[] = {"list",      "tuple",       "range",
                                             "dict_keys", "dict_values", "dict_items"};
  if (value.type() == Value::Type::kSequence)
    return kSequences[static_cast<size_t>(value.as_sequence().kind)];
  return kTypes[static_cast<size_t>(value.type())];
}

void expect_defined(const Value& value) {
  if (value.is_undefined()) fail("{}", value.why_undefined());
}

int64_t integer_of(const Value& value, std::string_view what) {
  expect_defined(value);
  if (!value.is_integer()) fail("{} is of type {}; it must be an int", what, type_name(value));
  return value.as_integer();
}

void hold(Object& holder, const Value& value) {
  holder.depth = std::max(holder.depth, value.depth() + 1);
  if (holder.depth > kMaxValueDepth) fail("values are nested deeper than {}", kMaxValueDepth);
}

}  // namespace lacuna::jinja
