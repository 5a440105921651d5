// RAII guards of the evaluator for the variables and the output of a body.
#pragma once

#include <memory>
#include <utility>

#include "tokenizer/jinja/evaluator.h"

namespace lacuna::jinja {

/// A macro, or the body of a call block, with the variables around it.
struct Macro final : Callable {
  Evaluator* evaluator = nullptr;
  const Statement* statement = nullptr;
  std::shared_ptr<Scope> scope;

  Value call(Runtime& /*runtime*/, const Arguments& arguments) override {
    return evaluator->call_macro(*this, arguments);
  }
  std::string description() const override {
    return statement->text.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", statement->text);
  }
  Value attribute(Runtime& runtime, std::string_view name) const override;
};

class Evaluator::NewScope {
 public:
  NewScope(Evaluator& evaluator, std::shared_ptr<Scope> parent)
      : evaluator_(evaluator), before_(evaluator.scope_) {
    evaluator.scope_ = std::make_shared<Scope>(std::move(parent));
  }
  explicit NewScope(Evaluator& evaluator) : NewScope(evaluator, evaluator.scope_) {}
  ~NewScope() { evaluator_.scope_ = std::move(before_); }
  NewScope(const NewScope&) = delete;
  NewScope& operator=(const NewScope&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

/// Redirects printed output to a text during its lifetime.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator),
        builder_(evaluator.runtime_),
        before_(std::exchange(evaluator.output_, &builder_)) {}
  ~Capture() { evaluator_.output_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Text take() { return builder_.take(); }

 private:
  Evaluator& evaluator_;
  TextBuilder builder_;
  TextBuilder* before_;
};

}  // namespace lacuna::jinja
