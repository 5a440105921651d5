// Evaluator's member functions for statements.
#include <algorithm>

#include "tokenizer/jinja/evaluator.h"
#include "tokenizer/jinja/evaluator_scope.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/loop.h"

namespace lacuna::jinja {

void Scope::set(Runtime& runtime, std::string_view name, Value value) {
  runtime.step(variables.size() / 32);
  for (auto& [variable, old] : variables) {
    if (variable == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Evaluator::Flow Evaluator::execute(const Body& body) {
  for (const Statement* statement : body) {
    runtime_.step();
    runtime_.line = statement->line;
    const Flow flow = execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  if (++runtime_.evaluation > kMaxEvaluation)
    fail("the template is nested deeper than {} steps", kMaxEvaluation);
  Flow flow = Flow::kNext;
  switch (statement.kind) {
    case StatementKind::kText:
      runtime_.touch(statement.value.as_text().bytes.size());
      output_->append(statement.value.as_text());
      break;
    case StatementKind::kOutput:
      print(evaluate(statement.expression));
      break;
    case StatementKind::kIf:
      flow = execute_if(statement);
      break;
    case StatementKind::kFor:
      flow = execute_for(statement);
      break;
    case StatementKind::kSet:
      assign(*statement.target, evaluate(statement.expression));
      break;
    case StatementKind::kSetBlock:
      flow = execute_set_block(statement);
      break;
    case StatementKind::kMacro:
      scope_->set(runtime_, statement.text, make_macro(statement));
      break;
    case StatementKind::kCallBlock:
      call_block(statement);
      break;
    case StatementKind::kFilterBlock:
      flow = execute_filter_block(statement);
      break;
    case StatementKind::kWith:
      flow = execute_with(statement);
      break;
    case StatementKind::kScope: {
      const NewScope scope(*this);
      flow = execute(statement.body);
      break;
    }
    case StatementKind::kBreak:
      flow = Flow::kBreak;
      break;
    case StatementKind::kContinue:
      flow = Flow::kContinue;
      break;
  }
  --runtime_.evaluation;
  return flow;
}

void Evaluator::print(const Value& value) {
  const Value text = to_text(runtime_, value);
  runtime_.touch(text.as_text().bytes.size());
  output_->append(text.as_text());
}

void Evaluator::print_text(const Value& value) {
  if (!value.is_text()) fail("a block gives a value of type {}; it must be a str", type_name(value));
  print(value);
}

void Evaluator::assign(const Expression& target, const Value& value) {
  runtime_.step();
  runtime_.line = target.line;
  if (target.kind == Expression::Kind::kName) return scope_->set(runtime_, target.text, value);
  if (target.kind == Expression::Kind::kMember) {
    const Value object = lookup(target.text);
    if (object.type() != Value::Type::kNamespace) {
      fail("'{}' is no namespace, so its member '{}' cannot be set", target.text, target.member);
    }
    return object.as_namespace().set(runtime_, target.member, value);
  }
  const std::vector<Value> items = items_of(runtime_, value);
  if (items.size() != target.operands.size()) {
    fail("{} values cannot be assigned to {} names", items.size(), target.operands.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.operands[i], items[i]);
}

Evaluator::Flow Evaluator::execute_if(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (is_true(runtime_, evaluate(condition))) return execute(body);
  }
  return execute(statement.other);
}

Evaluator::Flow Evaluator::execute_set_block(const Statement& statement) {
  Value value;
  {
    const NewScope scope(*this);
    Capture capture(*this);
    const Flow flow = execute(statement.body);
    if (flow != Flow::kNext) return flow;
    value = Value::text(runtime_, capture.take());
    if (statement.expression != nullptr) value = evaluate(statement.expression, &value);
  }
  assign(*statement.target, value);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute_filter_block(const Statement& statement) {
  const NewScope scope(*this);
  Value value;
  {
    Capture capture(*this);
    const Flow flow = execute(statement.body);
    if (flow != Flow::kNext) return flow;
    value = Value::text(runtime_, capture.take());
  }
  print_text(evaluate(statement.expression, &value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute_with(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, value] : statement.assignments) values.push_back(evaluate(value));
  const NewScope scope(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*statement.assignments[i].first, values[i]);
  return execute(statement.body);
}

// The items for which the condition of a for statement holds.
Value Evaluator::chosen_items(const Statement& statement, const Value& iterable) {
  return make_generator(iterable, [this, &statement, scope = scope_,
                                   iterator = Iterator(runtime_, iterable)](Value& item) mutable {
    while (iterator.next(item)) {
      runtime_.step();
      const NewScope inner(*this, scope);
      assign(*statement.target, item);
      if (is_true(runtime_, evaluate(statement.condition))) return true;
    }
    return false;
  });
}

Evaluator::Flow Evaluator::execute_for(const Statement& statement) {
  const Value iterable = evaluate(statement.expression);
  runtime_.line = statement.line;
  if (!statement.is_recursive) return run_loop(statement, iterable, 0);
  print(render_loop(statement, iterable, 0));
  return Flow::kNext;
}

Value Evaluator::render_loop(const Statement& statement, const Value& iterable, int depth0) {
  if (++runtime_.calls > runtime_.limits().max_depth) {
    fail("macros and recursive loops are nested deeper than {}", runtime_.limits().max_depth);
  }
  Capture capture(*this);
  run_loop(statement, iterable, depth0);
  --runtime_.calls;
  return Value::text(runtime_, capture.take());
}

Evaluator::Flow Evaluator::run_loop(const Statement& statement, const Value& iterable, int depth0) {
  const Value items = statement.condition == nullptr ? iterable : chosen_items(statement, iterable);
  const auto loop = std::make_shared<Loop>(runtime_, items, depth0);
  const Value loop_value = Value::of(loop);
  if (statement.is_recursive) {
    loop->recurse = [this, &statement, scope = scope_](const Value& inner, int depth) {
      const NewScope around(*this, scope);
      return render_loop(statement, inner, depth);
    };
  }
  bool has_finished_one = false;  // not by break or continue, as in jinja2
  while (loop->advance()) {
    runtime_.step();
    const NewScope scope(*this);
    scope_->set(runtime_, "loop", loop_value);
    assign(*statement.target, loop->current);
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) break;
    has_finished_one = has_finished_one || flow == Flow::kNext;
  }
  if (has_finished_one || statement.other.empty()) return Flow::kNext;
  const NewScope scope(*this);
  return execute(statement.other);
}

Value Evaluator::make_macro(const Statement& statement) {
  runtime_.keep(scope_);  // the scope and its macro reference each other
  auto macro = std::make_shared<Macro>();
  macro->evaluator = this;
  macro->statement = &statement;
  macro->scope = scope_;
  return Value::of(std::shared_ptr<Callable>(std::move(macro)));
}

void Evaluator::call_block(const Statement& statement) {
  const Value caller = make_macro(statement);
  const Expression& call = *statement.expression;
  const Value function = evaluate(call.operands.front());
  runtime_.line = call.line;
  print_text(evaluate_call(call, function, &caller));
}

Value Macro::attribute(Runtime& runtime, std::string_view name) const {
  if (name == "name") return Value::literal(statement->text);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : statement->signature.names)
      names.push_back(Value::literal(parameter));
    return Value::list(runtime, std::move(names));
  }
  if (name == "caller") return Value::boolean(statement->signature.reads_caller);
  return Callable::attribute(runtime, name);
}

Value Evaluator::call_macro(Macro& macro, const Arguments& arguments) {
  const Signature& signature = macro.statement->signature;
  if (++runtime_.calls > runtime_.limits().max_depth) {
    fail("macros and recursive loops are nested deeper than {}", runtime_.limits().max_depth);
  }
  const size_t num_names = signature.names.size();
  const NewScope scope(*this, macro.scope);
  std::vector<bool> is_taken(arguments.named.size());
  std::vector<size_t> absent;
  for (size_t i = 0; i < num_names; ++i) {
    const std::string& name = signature.names[i];
    Value value = Value::undefined(fmt::format("the parameter '{}' is not given", name));
    const auto named =
        std::ranges::find_if(arguments.named, [&](const auto& each) { return each.first == name; });
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (named != arguments.named.end()) {
      is_taken[static_cast<size_t>(named - arguments.named.begin())] = true;
      value = named->second;
    } else {
      absent.push_back(i);
    }
    scope_->set(runtime_, name, std::move(value));
  }
  const bool names_caller = std::ranges::find(signature.names, "caller") != signature.names.end();
  if (signature.reads_caller && !names_caller) {
    scope_->set(runtime_, "caller", Value::undefined("no caller is defined"));
  }
  DictBuilder rest(runtime_);
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    const auto& [name, value] = arguments.named[i];
    if (is_taken[i]) continue;
    if (name == "caller" && signature.reads_caller && !names_caller) {
      scope_->set(runtime_, "caller", value);
    } else if (signature.reads_kwargs) {
      rest.set(Value::literal(name), value);
    } else {
      fail("the macro '{}' takes no argument '{}'", macro.statement->text, name.substr(0, 100));
    }
  }
  if (signature.reads_kwargs) scope_->set(runtime_, "kwargs", Value::of(rest.take()));
  const size_t num_given = arguments.positional.size();
  if (signature.reads_varargs) {
    const auto begin =
        arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(num_names, num_given));
    scope_->set(runtime_, "varargs", Value::tuple(runtime_, {begin, arguments.positional.end()}));
  } else if (num_given > num_names) {
    fail("the macro '{}' takes at most {} arguments; {} are given", macro.statement->text, num_names,
         num_given);
  }
  for (const size_t index : absent) {
    const size_t num_plain = num_names - signature.defaults.size();
    if (index >= num_plain) {
      scope_->set(runtime_, signature.names[index], evaluate(signature.defaults[index - num_plain]));
    }
  }
  Capture capture(*this);
  execute(macro.statement->body);
  --runtime_.calls;
  return Value::text(runtime_, capture.take());
}

}  // namespace lacuna::jinja
