// Values of a template: the subset of Python's that templates use. Immutable except namespaces and the state
// of loops and generators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"

namespace lacuna::jinja {

class Value;
struct Arguments;

/// Base of the objects that values share.
struct Object {
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual void clear() {}  ///< drops all references of a mutable object

  int depth = 0;  ///< nesting of objects; objects that Runtime::keep() holds count as 0
};

struct TextObject;
struct Sequence;
struct Dict;
struct Namespace;
struct Generator;
struct Callable;
struct Loop;
struct Missing;

class Value {
 public:
  enum class Type : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kSequence,  ///< list, tuple, range or view of a dictionary
    kDict,
    kNamespace,
    kGenerator,  ///< result of filters such as map: iterable once
    kLoop,
    kCallable
  };

  Value() = default;  ///< None
  static Value boolean(bool value);
  static Value integer(int64_t value, bool is_input = false);
  static Value real(double value, bool is_input = false);
  static Value text(Runtime& runtime, Text text);
  /// A text of the template's own, whose creation costs no steps.
  static Value literal(std::string_view bytes);
  static Value list(Runtime& runtime, std::vector<Value> items);
  static Value tuple(Runtime& runtime, std::vector<Value> items);
  static Value of(std::shared_ptr<const Dict> dict);
  static Value of(std::shared_ptr<const Sequence> sequence);
  static Value of(std::shared_ptr<Namespace> object);
  static Value of(std::shared_ptr<Generator> generator);
  static Value of(std::shared_ptr<Loop> loop);
  static Value of(std::shared_ptr<Callable> callable);
  /// jinja2's Undefined; `why` is the message of an operation on it.
  static Value undefined(std::string why);

  Type type() const { return type_; }
  bool is_undefined() const { return type_ == Type::kUndefined; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_bool() const { return type_ == Type::kBool; }
  bool is_integer() const {
    return type_ == Type::kInt || type_ == Type::kBool;
  }  ///< Python's bool is an int
  bool is_number() const { return is_integer() || type_ == Type::kFloat; }
  bool is_text() const { return type_ == Type::kText; }
  bool is_dict() const { return type_ == Type::kDict; }
  bool is_list() const;
  bool is_tuple() const;
  /// Whether a number is the caller's, or computed from such a number.
  bool is_input() const { return is_input_; }

  bool as_bool() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }  ///< for integers and booleans
  double as_real() const { return type_ == Type::kFloat ? real_ : static_cast<double>(integer_); }
  const Text& as_text() const;
  const Sequence& as_sequence() const;
  const Dict& as_dict() const;
  Namespace& as_namespace() const;
  Generator& as_generator() const;
  Loop& as_loop() const;
  Callable& as_callable() const;
  /// Why an undefined value is undefined.
  std::string_view why_undefined() const;

  const Object* object() const { return object_.get(); }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  Value(Type type, std::shared_ptr<const Object> object) : type_(type), object_(std::move(object)) {}

  Type type_ = Type::kNone;
  bool is_input_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<const Object> object_;
};

struct TextObject final : Object {
  Text text;
};

struct Missing final : Object {
  std::string why;
};

struct Sequence final : Object {
  enum class Kind : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int64_t start = 0, stop = 0, step = 1;  ///< kRange
};

/// A dictionary in insertion order. Keys are texts, numbers, None or tuples of them.
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> items;

  const Value* find(Runtime& runtime, const Value& key) const;
  const Value* find(std::string_view key) const;

 private:
  friend class DictBuilder;
  std::unordered_map<std::string, size_t> index_;  // by key_text()
};

/// A text that is equal for keys that are equal in Python, else different. Throws RenderError if unhashable.
std::string key_text(Runtime& runtime, const Value& key);

class DictBuilder {
 public:
  explicit DictBuilder(Runtime& runtime) : runtime_(runtime), dict_(std::make_shared<Dict>()) {}
  /// Sets a key; an existing key keeps its position.
  void set(const Value& key, Value value);
  std::shared_ptr<const Dict> take() { return std::move(dict_); }

 private:
  Runtime& runtime_;
  std::shared_ptr<Dict> dict_;
};

struct Namespace final : Object {
  std::vector<std::pair<std::string, Value>> members;

  void clear() override { members.clear(); }
  const Value* find(Runtime& runtime, std::string_view name) const;
  /// Throws RenderError for a name that begins with an underscore.
  void set(Runtime& runtime, std::string_view name, Value value);
};

/// A sequence that can be read once. All values that hold it share its position.
struct Generator final : Object {
  std::function<bool(Value&)> next;  ///< false at the end
};

/// A generator that reads from `source`. Throws RenderError if the depth is exceeded.
Value make_generator(const Value& source, std::function<bool(Value&)> next);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The arguments in the order of `names`; null if absent. Throws RenderError if one of the first
  /// `num_required` is absent, or an argument is not in `names`.
  std::vector<const Value*> bind(std::string_view function, std::initializer_list<std::string_view> names,
                                 size_t num_required = 0) const;
};

struct Callable : Object {
  virtual Value call(Runtime& runtime, const Arguments& arguments) = 0;
  virtual std::string description() const = 0;
  virtual Value attribute(Runtime& runtime, std::string_view name) const;
};

/// Python's iter(), for the for statement and for filters that read items.
class Iterator {
 public:
  /// Throws RenderError for a value that cannot be iterated.
  Iterator(Runtime& runtime, Value value);
  bool next(Value& item);

 private:
  Runtime* runtime_;
  Value value_;
  size_t position_ = 0;  // index of an item, or byte offset in a text
};

bool is_iterable(const Value& value);
std::vector<Value> items_of(Runtime& runtime, const Value& value);

/// Python's name of a type, for messages: 'list', 'str'.
std::string_view type_name(const Value& value);

/// Throws RenderError with why_undefined() if `value` is undefined.
void expect_defined(const Value& value);
/// The value of an integer. Throws RenderError for other types; `what` names the value.
int64_t integer_of(const Value& value, std::string_view what);
/// Python's bool().
bool is_true(Runtime& runtime, const Value& value);
/// Python's len(). Throws RenderError for a value without a length.
int64_t length_of(const Value& value);

/// Updates holder.depth for a new object that holds `value`. Throws RenderError above kMaxValueDepth.
void hold(Object& holder, const Value& value);

}  // namespace lacuna::jinja
