// Evaluator's member functions for expressions.
#include "tokenizer/jinja/evaluator.h"

#include <algorithm>

#include "tokenizer/jinja/evaluator_scope.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/loop.h"

namespace lacuna::jinja {
namespace {

// Whether operands[0] is always evaluated first.
bool begins_with_operand(ExpressionKind kind) {
  return kind >= ExpressionKind::kAttribute;
}

}  // namespace

Evaluator::Evaluator(Runtime& runtime, const Program& program, std::unordered_map<std::string, Value> globals)
    : runtime_(runtime),
      program_(program),
      globals_(std::move(globals)),
      scope_(std::make_shared<Scope>(nullptr)) {}

Text Evaluator::run() {
  Capture capture(*this);
  execute(program_.body);
  return capture.take();
}

Value Evaluator::lookup(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    runtime_.step(scope->variables.size() / 32);
    for (const auto& [variable, value] : scope->variables) {
      if (variable == name) return value;
    }
  }
  if (const auto found = globals_.find(name); found != globals_.end()) return found->second;
  if (auto function = find_function(name)) return *function;
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::evaluate(const Expression* expression, const Value* block) {
  if (++runtime_.evaluation > kMaxEvaluation)
    fail("the template is nested deeper than {} steps", kMaxEvaluation);
  const size_t base = chain_.size();
  const Expression* first = expression;
  for (; first != nullptr && begins_with_operand(first->kind); first = first->operands.front()) {
    chain_.push_back(first);
  }
  Value value;
  if (first == nullptr) {
    value = *block;
  } else {
    runtime_.step();
    runtime_.line = first->line;
    value = evaluate_first(*first);
  }
  while (chain_.size() > base) {
    const Expression& next = *chain_.back();
    chain_.pop_back();
    runtime_.step();
    value = evaluate_rest(next, value);
  }
  --runtime_.evaluation;
  return value;
}

Value Evaluator::evaluate_first(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.value;
    case ExpressionKind::kName:
      return lookup(expression.text);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return evaluate_items(expression);
    case ExpressionKind::kDict:
      return evaluate_dict(expression);
    case ExpressionKind::kConcat:
      return evaluate_concat(expression);
    case ExpressionKind::kConditional:
      return evaluate_conditional(expression);
    default:
      fail("this expression has no value");
  }
}

Value Evaluator::evaluate_items(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.operands.size());
  for (const Expression* operand : expression.operands) items.push_back(evaluate(operand));
  return expression.kind == ExpressionKind::kTuple ? Value::tuple(runtime_, std::move(items))
                                                   : Value::list(runtime_, std::move(items));
}

Value Evaluator::evaluate_dict(const Expression& expression) {
  DictBuilder builder(runtime_);
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = evaluate(expression.operands[i]);
    builder.set(key, evaluate(expression.operands[i + 1]));
  }
  return Value::of(builder.take());
}

Value Evaluator::evaluate_concat(const Expression& expression) {
  TextBuilder builder(runtime_);
  for (const Expression* operand : expression.operands) {
    const Value value = evaluate(operand);
    builder.append(to_text(runtime_, value).as_text());
  }
  return Value::text(runtime_, builder.take());
}

Value Evaluator::evaluate_conditional(const Expression& expression) {
  if (is_true(runtime_, evaluate(expression.operands[0]))) return evaluate(expression.operands[1]);
  if (expression.operands[2] != nullptr) return evaluate(expression.operands[2]);
  return Value::undefined(
      fmt::format("the condition in line {} is false, and there is no 'else'", expression.line));
}

Value Evaluator::evaluate_compare(const Expression& expression, const Value& first) {
  Value left = first;
  Value result = Value::boolean(true);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = evaluate(expression.operands[i + 1]);
    runtime_.line = expression.line;
    result = apply(runtime_, expression.operators[i], left, right);
    if (!is_true(runtime_, result)) break;
    left = right;
  }
  return result;
}

Value Evaluator::evaluate_rest(const Expression& expression, const Value& first) {
  const std::vector<const Expression*>& operands = expression.operands;
  const auto bound = [&](size_t index) {
    return operands[index] == nullptr ? Value() : evaluate(operands[index]);
  };
  switch (expression.kind) {
    case ExpressionKind::kAttribute:
      runtime_.line = expression.line;
      return attribute_of(runtime_, first, expression.text);
    case ExpressionKind::kItem: {
      const Value key = evaluate(operands[1]);
      runtime_.line = expression.line;
      return item_of(runtime_, first, key);
    }
    case ExpressionKind::kSlice: {
      const Value start = bound(1), stop = bound(2), step = bound(3);
      runtime_.line = expression.line;
      return slice_of(runtime_, first, start, stop, step);
    }
    case ExpressionKind::kCall:
      return evaluate_call(expression, first, nullptr);
    case ExpressionKind::kFilter: {
      const Arguments arguments = arguments_of(expression);
      return apply_filter(runtime_, expression.text, first, arguments);
    }
    case ExpressionKind::kTest: {
      const Arguments arguments = arguments_of(expression);
      return Value::boolean(apply_test(runtime_, expression.text, first, arguments));
    }
    case ExpressionKind::kNot:
      return Value::boolean(!is_true(runtime_, first));
    case ExpressionKind::kNegate:
      return negate(first);
    case ExpressionKind::kPlus:
      return plus(first);
    case ExpressionKind::kBinary: {
      const Value right = evaluate(operands[1]);
      runtime_.line = expression.line;
      return apply(runtime_, expression.op, first, right);
    }
    case ExpressionKind::kCompare:
      return evaluate_compare(expression, first);
    case ExpressionKind::kAnd:
      return is_true(runtime_, first) ? evaluate(operands[1]) : first;
    case ExpressionKind::kOr:
      return is_true(runtime_, first) ? first : evaluate(operands[1]);
    default:
      fail("this expression has no value");
  }
}

Arguments Evaluator::arguments_of(const Expression& expression) {
  Arguments arguments;
  for (const Expression* argument : expression.arguments) arguments.positional.push_back(evaluate(argument));
  for (const auto& [name, value] : expression.named) arguments.named.emplace_back(name, evaluate(value));
  if (expression.rest != nullptr) {
    for (Value& item : items_of(runtime_, evaluate(expression.rest))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (expression.named_rest != nullptr) {
    const Value rest = evaluate(expression.named_rest);
    if (!rest.is_dict()) fail("'**' needs a dict, not {}", type_name(rest));
    runtime_.step(rest.as_dict().items.size());
    for (const auto& [key, value] : rest.as_dict().items) {
      if (!key.is_text()) fail("a name behind '**' is of type {}; it must be a str", type_name(key));
      const std::string& name = key.as_text().bytes;
      const bool is_given = std::any_of(expression.named.begin(), expression.named.end(),
                                        [&](const auto& each) { return each.first == name; });
      if (is_given) fail("the argument '{}' is given twice", name.substr(0, 100));
      arguments.named.emplace_back(name, value);
    }
  }
  runtime_.line = expression.line;
  return arguments;
}

Value Evaluator::evaluate_call(const Expression& expression, const Value& function, const Value* caller) {
  Arguments arguments = arguments_of(expression);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  expect_defined(function);
  if (function.type() == Value::Type::kLoop) {
    Loop& loop = function.as_loop();
    const Value& iterable = *arguments.bind("loop", {"iterable"}, 1)[0];
    if (!loop.recurse) fail("a loop that calls itself needs 'recursive' in its for statement");
    return loop.recurse(iterable, loop.depth0 + 1);
  }
  if (function.type() != Value::Type::kCallable)
    fail("a value of type {} cannot be called", type_name(function));
  return function.as_callable().call(runtime_, arguments);
}

}  // namespace lacuna::jinja
