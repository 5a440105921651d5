// Parses the tokens of a template into its tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/syntax.h"

namespace lacuna::jinja {

/// Throws InputError with `name`, the line, the found token and the accepted ones.
std::shared_ptr<const Program> parse_program(std::string_view source, std::string name);

/// State shared by the expression and statement parsers: the tokens, the tree, and the nesting level.
class ParserBase {
 protected:
  ParserBase(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}

  [[noreturn]] void refuse(int line, const std::string& sentence) const;
  [[noreturn]] void refuse_token(std::string_view expected) const;

  const Token& current() const { return tokens_[position_]; }
  const Token& following() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  const Token& advance();
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view symbol);
  std::string expect_name(std::string_view what);

  Expression& add(Expression::Kind kind, int line, std::vector<const Expression*> operands = {});
  Statement& add(Statement::Kind kind, int line);

  /// Counts one level of nesting during its lifetime. Throws InputError above kMaxNesting.
  class Level {
   public:
    explicit Level(ParserBase& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ParserBase& parser_;
  };

  std::vector<Token> tokens_;
  Program& program_;
  size_t position_ = 0;
  int level_ = 0;
  std::vector<Signature*> macros_;  // enclosing macros
  bool may_lack_filter_ = false;    // in a branch: an unknown filter or test fails only when it is evaluated
};

/// Expressions, from conditions down to literals.
class ExpressionParser : protected ParserBase {
 protected:
  using ParserBase::ParserBase;

  const Expression* expression();  // may have conditions (a if b else c)
  /// One expression, or a tuple of several, separated by commas.
  const Expression* tuple(bool has_conditions = true, std::string_view end_name = {},
                          bool is_in_parentheses = false);
  /// A name, a member of a namespace, or a tuple of them.
  const Expression* target(std::string_view end_name = {}, bool allows_member = false);
  /// Filters applied to `operand`, which is null in a filter block.
  const Expression* filters(const Expression* operand, bool begins_at_name);

 private:
  const Expression* without_condition();
  const Expression* conjunction();
  const Expression* negation();
  const Expression* comparison();
  const Expression* sum();
  const Expression* concatenation();
  const Expression* product();
  const Expression* power();
  const Expression* unary(bool has_filters);
  const Expression* primary(bool allows_member);
  const Expression* named_primary(bool allows_member);
  const Expression* bracketed(ExpressionKind kind, std::string_view close);
  const Expression* postfix(const Expression* operand);
  const Expression* filtered(const Expression* operand);
  const Expression* subscript(const Expression* operand);
  const Expression* call(const Expression* operand);
  const Expression* test(const Expression* operand);
  void arguments(Expression& call);
  const Expression* binary(Operator op, int line, const Expression* left, const Expression* right);
  bool is_tuple_end(std::string_view end_name) const;
  void check_target(const Expression& target) const;
};

}  // namespace lacuna::jinja
