#include "tokenizer/jinja/parser.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna::jinja {
namespace {

using EndNames = std::initializer_list<std::string_view>;

class Parser final : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : ExpressionParser(std::move(tokens), program) {}

  void run() { program_.body = body({}); }

 private:
  // Parses statements up to a tag whose name is in `end_names`; that name becomes the current token. Without
  // end names, parses to the end of the template.
  Body body(EndNames end_names);
  // Parses the rest of an opening tag, then body().
  Body tag_body(EndNames end_names);
  // Parses tag_body() up to the tag `end_name`, and skips that tag.
  Body closed_body(std::string_view end_name);
  Body new_frame_body(EndNames end_names);
  void end_tag();

  const Statement* statement();
  const Statement* for_statement(int line);
  const Statement* if_statement(int line);
  const Statement* set_statement(int line);
  const Statement* macro_statement(int line);
  const Statement* call_block(int line);
  const Statement* filter_block(int line);
  const Statement* with_statement(int line);
  const Statement* generation_block(int line);
  const Statement* jump(StatementKind kind, int line);
  void print_statement(int line, Body& body);
  Signature signature();
  void macro_body(Statement& made, std::string_view end_name);
  void check_loop_name(const Expression& target) const;

  int loops_ = 0;        // enclosing for statements that break can leave
  int for_nesting_ = 0;  // enclosing for statements, in which `loop` cannot be assigned
};

void Parser::end_tag() {
  if (current().type != Token::Type::kBlockEnd) refuse_token("'%}'");
  advance();
}

Body Parser::body(EndNames end_names) {
  const Level level(*this);
  const auto is_end = [&] {
    return current().type == Token::Type::kName &&
           std::find(end_names.begin(), end_names.end(), current().text) != end_names.end();
  };
  const int first_line = current().line;
  Body body;
  while (current().type != Token::Type::kEnd) {
    const Token token = current();
    if (token.type == Token::Type::kText) {
      Statement& made = add(StatementKind::kText, token.line);
      made.value = Value::literal(token.text);
      body.push_back(&made);
      advance();
    } else if (token.type == Token::Type::kVariableBegin) {
      advance();
      Statement& made = add(StatementKind::kOutput, token.line);
      made.expression = tuple();
      if (current().type != Token::Type::kVariableEnd) refuse_token("'}}'");
      advance();
      body.push_back(&made);
    } else {
      advance();
      if (is_end()) return body;
      if (current().is_name("print")) {
        advance();
        print_statement(token.line, body);
      } else {
        body.push_back(statement());
      }
      end_tag();
    }
  }
  if (end_names.size() > 0) {
    refuse(first_line, fmt::format("the template ends before '{{% {} %}}'", *(end_names.end() - 1)));
  }
  return body;
}

Body Parser::tag_body(EndNames end_names) {
  skip_operator(":");
  end_tag();
  return body(end_names);
}

Body Parser::new_frame_body(EndNames end_names) {
  const bool may_lack = std::exchange(may_lack_filter_, false);
  Body made = tag_body(end_names);
  may_lack_filter_ = may_lack;
  return made;
}

Body Parser::closed_body(std::string_view end_name) {
  Body made = new_frame_body({end_name});
  advance();
  return made;
}

void Parser::print_statement(int line, Body& body) {
  bool is_first = true;
  while (current().type != Token::Type::kBlockEnd) {
    if (!std::exchange(is_first, false)) expect_operator(",");
    Statement& made = add(StatementKind::kOutput, line);
    made.expression = expression();
    body.push_back(&made);
  }
}

const Statement* Parser::statement() {
  if (current().type != Token::Type::kName) refuse_token("the name of a statement");
  const Token token = advance();
  if (token.text == "for") return for_statement(token.line);
  if (token.text == "if") return if_statement(token.line);
  if (token.text == "set") return set_statement(token.line);
  if (token.text == "macro") return macro_statement(token.line);
  if (token.text == "call") return call_block(token.line);
  if (token.text == "filter") return filter_block(token.line);
  if (token.text == "with") return with_statement(token.line);
  if (token.text == "generation") return generation_block(token.line);
  if (token.text == "break") return jump(StatementKind::kBreak, token.line);
  if (token.text == "continue") return jump(StatementKind::kContinue, token.line);
  refuse(token.line,
         fmt::format("there is no statement '{}' here; supported: for, if, set, macro, call, filter, with, "
                     "generation, print, break, continue and raw",
                     token.text.substr(0, 100)));
}

void Parser::check_loop_name(const Expression& target) const {
  if (for_nesting_ == 0) return;
  if (target.kind == Expression::Kind::kName && target.text == "loop") {
    refuse(target.line, "'loop' cannot be assigned to within a for statement");
  }
  for (const Expression* part : target.operands) check_loop_name(*part);
}

const Statement* Parser::for_statement(int line) {
  Statement& made = add(StatementKind::kFor, line);
  ++for_nesting_;
  made.target = target("in");
  check_loop_name(*made.target);
  if (!skip_name("in")) refuse_token("'in'");
  made.expression = tuple(false, "recursive");
  const bool may_lack = std::exchange(may_lack_filter_, false);
  if (skip_name("if")) made.condition = expression();
  made.is_recursive = skip_name("recursive");
  ++loops_;
  made.body = tag_body({"else", "endfor"});
  --loops_;
  if (advance().text == "else") {
    const int loops = made.is_recursive ? std::exchange(loops_, 0) : loops_;
    made.other = closed_body("endfor");
    loops_ = loops;
  }
  may_lack_filter_ = may_lack;
  --for_nesting_;
  return &made;
}

const Statement* Parser::if_statement(int line) {
  Statement& made = add(StatementKind::kIf, line);
  const bool may_lack = std::exchange(may_lack_filter_, true);
  while (true) {
    const Expression* condition = tuple(false);
    made.branches.emplace_back(condition, tag_body({"elif", "else", "endif"}));
    const std::string end = advance().text;
    if (end == "elif") continue;
    if (end == "else") {
      made.other = tag_body({"endif"});
      advance();
    }
    break;
  }
  may_lack_filter_ = may_lack;
  return &made;
}

const Statement* Parser::set_statement(int line) {
  Statement& made = add(StatementKind::kSet, line);
  made.target = target({}, true);
  check_loop_name(*made.target);
  if (skip_operator("=")) {
    made.expression = tuple();
    return &made;
  }
  made.kind = StatementKind::kSetBlock;
  made.expression = filters(nullptr, false);
  made.body = closed_body("endset");
  return &made;
}

Signature Parser::signature() {
  Signature made;
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!made.names.empty()) expect_operator(",");
    const int line = current().line;
    std::string name = expect_name("the name of a parameter");
    if (std::find(made.names.begin(), made.names.end(), name) != made.names.end()) {
      refuse(line, fmt::format("the parameter '{}' is named twice", name));
    }
    if (made.names.size() >= 255) refuse(line, "a macro has more than 255 parameters");
    made.names.push_back(std::move(name));
    if (skip_operator("=")) {
      made.defaults.push_back(expression());
    } else if (!made.defaults.empty()) {
      refuse(line, "a parameter without a default follows one with a default");
    }
  }
  advance();
  return made;
}

void Parser::macro_body(Statement& made, std::string_view end_name) {
  macros_.push_back(&made.signature);
  const int loops = std::exchange(loops_, 0);
  made.body = closed_body(end_name);
  loops_ = loops;
  macros_.pop_back();
  const Signature& parameters = made.signature;
  const auto caller = std::find(parameters.names.begin(), parameters.names.end(), "caller");
  const auto num_plain = static_cast<std::ptrdiff_t>(parameters.names.size() - parameters.defaults.size());
  if (parameters.reads_caller && caller != parameters.names.end() &&
      caller - parameters.names.begin() < num_plain) {
    refuse(made.line, "the parameter 'caller' needs a default");
  }
}

const Statement* Parser::macro_statement(int line) {
  Statement& made = add(StatementKind::kMacro, line);
  made.text = expect_name("the name of a macro");
  if (for_nesting_ > 0 && made.text == "loop")
    refuse(line, "'loop' cannot be assigned to within a for statement");
  made.signature = signature();
  macro_body(made, "endmacro");
  return &made;
}

const Statement* Parser::call_block(int line) {
  Statement& made = add(StatementKind::kCallBlock, line);
  if (current().is_operator("(")) made.signature = signature();
  made.expression = expression();
  if (made.expression->kind != Expression::Kind::kCall) refuse(line, "a call block needs a call");
  macro_body(made, "endcall");
  return &made;
}

const Statement* Parser::filter_block(int line) {
  Statement& made = add(StatementKind::kFilterBlock, line);
  made.expression = filters(nullptr, true);
  made.body = closed_body("endfilter");
  return &made;
}

const Statement* Parser::with_statement(int line) {
  Statement& made = add(StatementKind::kWith, line);
  while (current().type != Token::Type::kBlockEnd && !current().is_operator(":")) {
    if (!made.assignments.empty()) expect_operator(",");
    const Expression* assigned = target();
    expect_operator("=");
    made.assignments.emplace_back(assigned, expression());
  }
  made.body = closed_body("endwith");
  return &made;
}

const Statement* Parser::generation_block(int line) {
  Statement& made = add(StatementKind::kScope, line);
  const int loops = std::exchange(loops_, 0);
  made.body = closed_body("endgeneration");
  loops_ = loops;
  return &made;
}

const Statement* Parser::jump(StatementKind kind, int line) {
  if (loops_ == 0) refuse(line, "'break' and 'continue' belong into a for statement");
  return &add(kind, line);
}

}  // namespace

std::shared_ptr<const Program> parse_program(std::string_view source, std::string name) {
  auto program = std::make_shared<Program>();
  program->name = std::move(name);
  Parser(tokenize(source, program->name), *program).run();
  return program;
}

}  // namespace lacuna::jinja
