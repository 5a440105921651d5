// Evaluates the tree of a template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/jinja/syntax.h"
#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

/// Variables of a statement's body; `parent` has those of the enclosing statement.
struct Scope final : Object {
  explicit Scope(std::shared_ptr<Scope> around) : parent(std::move(around)) {}
  void clear() override { variables.clear(); }
  void set(Runtime& runtime, std::string_view name, Value value);

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;
};

struct Macro;

class Evaluator {
 public:
  ///   globals  variables from the caller
  Evaluator(Runtime& runtime, const Program& program, std::unordered_map<std::string, Value> globals);

  Text run();
  Value call_macro(Macro& macro, const Arguments& arguments);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class NewScope;
  class Capture;

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_if(const Statement& statement);
  Flow execute_for(const Statement& statement);
  Flow execute_set_block(const Statement& statement);
  Flow execute_filter_block(const Statement& statement);
  Flow execute_with(const Statement& statement);
  Flow run_loop(const Statement& statement, const Value& iterable, int depth0);
  Value render_loop(const Statement& statement, const Value& iterable, int depth0);
  Value chosen_items(const Statement& statement, const Value& iterable);
  void call_block(const Statement& statement);
  Value make_macro(const Statement& statement);
  void assign(const Expression& target, const Value& value);
  void print(const Value& value);
  void print_text(const Value& value);  // prints a block's result, which must be a text

  ///   block  input of the filters of a filter block; null elsewhere
  Value evaluate(const Expression* expression, const Value* block = nullptr);
  Value evaluate_first(const Expression& expression);
  Value evaluate_rest(const Expression& expression, const Value& first);
  Value evaluate_items(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Value evaluate_compare(const Expression& expression, const Value& first);
  Value evaluate_conditional(const Expression& expression);
  Value evaluate_call(const Expression& expression, const Value& function, const Value* caller);
  Value lookup(const std::string& name);
  Arguments arguments_of(const Expression& expression);

  Runtime& runtime_;
  const Program& program_;
  std::unordered_map<std::string, Value> globals_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* output_ = nullptr;
  std::vector<const Expression*> chain_;  // stack of evaluate() for first operands, instead of recursion
};

}  // namespace lacuna::jinja
