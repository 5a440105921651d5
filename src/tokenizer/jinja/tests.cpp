#include "tokenizer/jinja/tests.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
bool plain(Runtime& /*runtime*/, const Value& value, const Arguments& arguments) {
  arguments.bind("a test", {});
  return kHolds(value);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is_bool();
}
bool is_true_value(const Value& value) {
  return value.is_bool() && value.as_bool();
}
bool is_false_value(const Value& value) {
  return value.is_bool() && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.type() == Value::Type::kInt;
}
bool is_float(const Value& value) {
  return value.type() == Value::Type::kFloat;
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is_text();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
bool is_sequence(const Value& value) {
  if (value.type() == Value::Type::kSequence) return value.as_sequence().kind <= Sequence::Kind::kRange;
  return value.is_text() || value.is_dict() || value.is_undefined();
}
bool is_iterable_value(const Value& value) {
  return is_iterable(value) || value.type() == Value::Type::kLoop;
}
bool is_callable(const Value& value) {
  return value.type() == Value::Type::kCallable || value.type() == Value::Type::kLoop || value.is_undefined();
}
bool is_escaped(const Value& value) {
  return value.is_text() && value.as_text().is_markup;
}

template <Operator kOperator>
bool binary(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return is_true(runtime, apply(runtime, kOperator, value, *arguments.bind("a test", {"other"}, 1)[0]));
}

bool same_as(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value& other = *arguments.bind("sameas", {"other"}, 1)[0];
  if (value.type() != other.type()) return false;
  if (value.object() != nullptr && !value.is_text()) return value.object() == other.object();
  return equals(runtime, value, other);
}

int64_t remainder(Runtime& runtime, const Value& value, int64_t divisor) {
  const Value rest = apply(runtime, Operator::kModulo, value, Value::integer(divisor));
  if (!rest.is_number()) return -1;
  return rest.as_real() == 0 ? 0 : rest.as_real() == 1 ? 1 : -1;
}

bool is_odd(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("odd", {});
  return remainder(runtime, value, 2) == 1;
}

bool is_even(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("even", {});
  return remainder(runtime, value, 2) == 0;
}

bool is_divisible(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value rest = apply(runtime, Operator::kModulo, value, *arguments.bind("divisibleby", {"num"}, 1)[0]);
  return rest.is_number() && rest.as_real() == 0;
}

// str(value).islower() and isupper().
template <bool kIsUpper>
bool has_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("lower and upper", {});
  const Value text = to_text(runtime, value);
  return is_true(runtime, text_method(kIsUpper ? "isupper" : "islower")(runtime, text, Arguments()));
}

bool is_in_value(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return is_in(runtime, value, *arguments.bind("in", {"seq"}, 1)[0]);
}

bool is_filter(Runtime& /*runtime*/, const Value& value, const Arguments& arguments) {
  arguments.bind("filter", {});
  return value.is_text() && find_filter(value.as_text().bytes) != nullptr;
}

bool is_test(Runtime& /*runtime*/, const Value& value, const Arguments& arguments) {
  arguments.bind("test", {});
  return value.is_text() && find_test(value.as_text().bytes) != nullptr;
}

struct NamedTest {
  std::string_view name;
  Test test;
};

constexpr std::array kTests = {
    NamedTest{"!=", binary<Operator::kNotEqual>},
    NamedTest{"<", binary<Operator::kLess>},
    NamedTest{"<=", binary<Operator::kLessEqual>},
    NamedTest{"==", binary<Operator::kEqual>},
    NamedTest{">", binary<Operator::kGreater>},
    NamedTest{">=", binary<Operator::kGreaterEqual>},
    NamedTest{"boolean", plain<is_boolean>},
    NamedTest{"callable", plain<is_callable>},
    NamedTest{"defined", plain<is_defined>},
    NamedTest{"divisibleby", is_divisible},
    NamedTest{"eq", binary<Operator::kEqual>},
    NamedTest{"equalto", binary<Operator::kEqual>},
    NamedTest{"escaped", plain<is_escaped>},
    NamedTest{"even", is_even},
    NamedTest{"false", plain<is_false_value>},
    NamedTest{"filter", is_filter},
    NamedTest{"float", plain<is_float>},
    NamedTest{"ge", binary<Operator::kGreaterEqual>},
    NamedTest{"greaterthan", binary<Operator::kGreater>},
    NamedTest{"gt", binary<Operator::kGreater>},
    NamedTest{"in", is_in_value},
    NamedTest{"integer", plain<is_integer>},
    NamedTest{"iterable", plain<is_iterable_value>},
    NamedTest{"le", binary<Operator::kLessEqual>},
    NamedTest{"lessthan", binary<Operator::kLess>},
    NamedTest{"lower", has_case<false>},
    NamedTest{"lt", binary<Operator::kLess>},
    NamedTest{"mapping", plain<is_mapping>},
    NamedTest{"ne", binary<Operator::kNotEqual>},
    NamedTest{"none", plain<is_none>},
    NamedTest{"number", plain<is_number>},
    NamedTest{"odd", is_odd},
    NamedTest{"sameas", same_as},
    NamedTest{"sequence", plain<is_sequence>},
    NamedTest{"string", plain<is_string>},
    NamedTest{"test", is_test},
    NamedTest{"true", plain<is_true_value>},
    NamedTest{"undefined", plain<is_undefined>},
    NamedTest{"upper", has_case<true>},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto* found = std::ranges::find_if(kTests, [&](const NamedTest& each) { return each.name == name; });
  return found == kTests.end() ? nullptr : found->test;
}

std::string test_names() {
  std::string names;
  for (const NamedTest& each : kTests) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments) {
  const Test test = find_test(name);
  if (test == nullptr) fail("there is no test '{}'", name.substr(0, 100));
  runtime.step();
  return test(runtime, value, arguments);
}

}  // namespace lacuna::jinja
