#include <algorithm>
#include <variant>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

using Test = bool (*)(Runtime& runtime, const Value& value, const Arguments& arguments);
using PlainTest = bool (*)(const Value& value);  // without arguments

bool is_sequence(const Value& value) {
  if (value.type() == Value::Type::kSequence) return value.as_sequence().kind <= Sequence::Kind::kRange;
  return value.is_text() || value.is_dict() || value.is_undefined();
}

bool is_callable(const Value& value) {
  return value.type() == Value::Type::kCallable || value.type() == Value::Type::kLoop || value.is_undefined();
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
  return value.is_text() && has_test(value.as_text().bytes);
}

struct NamedTest {
  std::string_view name;
  std::variant<Test, PlainTest> test;
};

constexpr NamedTest kTests[] = {
    {"!=", binary<Operator::kNotEqual>},
    {"<", binary<Operator::kLess>},
    {"<=", binary<Operator::kLessEqual>},
    {"==", binary<Operator::kEqual>},
    {">", binary<Operator::kGreater>},
    {">=", binary<Operator::kGreaterEqual>},
    {"boolean", [](const Value& value) { return value.is_bool(); }},
    {"callable", is_callable},
    {"defined", [](const Value& value) { return !value.is_undefined(); }},
    {"divisibleby", is_divisible},
    {"eq", binary<Operator::kEqual>},
    {"equalto", binary<Operator::kEqual>},
    {"escaped", [](const Value& value) { return value.is_text() && value.as_text().is_markup; }},
    {"even", is_even},
    {"false", [](const Value& value) { return value.is_bool() && !value.as_bool(); }},
    {"filter", is_filter},
    {"float", [](const Value& value) { return value.type() == Value::Type::kFloat; }},
    {"ge", binary<Operator::kGreaterEqual>},
    {"greaterthan", binary<Operator::kGreater>},
    {"gt", binary<Operator::kGreater>},
    {"in", is_in_value},
    {"integer", [](const Value& value) { return value.type() == Value::Type::kInt; }},
    {"iterable", [](const Value& value) { return is_iterable(value) || value.type() == Value::Type::kLoop; }},
    {"le", binary<Operator::kLessEqual>},
    {"lessthan", binary<Operator::kLess>},
    {"lower", has_case<false>},
    {"lt", binary<Operator::kLess>},
    {"mapping", [](const Value& value) { return value.is_dict(); }},
    {"ne", binary<Operator::kNotEqual>},
    {"none", [](const Value& value) { return value.is_none(); }},
    {"number", [](const Value& value) { return value.is_number(); }},
    {"odd", is_odd},
    {"sameas", same_as},
    {"sequence", is_sequence},
    {"string", [](const Value& value) { return value.is_text(); }},
    {"test", is_test},
    {"true", [](const Value& value) { return value.is_bool() && value.as_bool(); }},
    {"undefined", [](const Value& value) { return value.is_undefined(); }},
    {"upper", has_case<true>},
};

const NamedTest* find_test(std::string_view name) {
  const auto* found = std::ranges::find(kTests, name, &NamedTest::name);
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace

bool has_test(std::string_view name) {
  return find_test(name) != nullptr;
}

std::string test_names() {
  std::string names;
  for (const NamedTest& each : kTests) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments) {
  const NamedTest* named = find_test(name);
  if (named == nullptr) fail("there is no test '{}'", name.substr(0, 100));
  runtime.step();
  if (const auto* test = std::get_if<Test>(&named->test)) return (*test)(runtime, value, arguments);
  arguments.bind("a test", {});
  return std::get<PlainTest>(named->test)(value);
}

}  // namespace lacuna::jinja
