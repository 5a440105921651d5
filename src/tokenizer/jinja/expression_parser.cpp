#include <algorithm>

#include "base/error.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/parser.h"

namespace lacuna::jinja {

namespace {
constexpr size_t kMaxArguments = 255;
}

void ParserBase::refuse(int line, const std::string& sentence) const {
  throw InputError("{}: line {}: {}", program_.name, line, sentence);
}

void ParserBase::refuse_token(std::string_view expected) const {
  refuse(current().line, fmt::format("{} stands where {} is expected", describe(current()), expected));
}

const Token& ParserBase::advance() {
  const Token& token = tokens_[position_];
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool ParserBase::skip_operator(std::string_view symbol) {
  if (!current().is_operator(symbol)) return false;
  advance();
  return true;
}

bool ParserBase::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  advance();
  return true;
}

void ParserBase::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) refuse_token(fmt::format("'{}'", symbol));
}

std::string ParserBase::expect_name(std::string_view what) {
  if (current().type != Token::Type::kName) refuse_token(what);
  return advance().text;
}

Expression& ParserBase::add(Expression::Kind kind, int line, std::vector<const Expression*> operands) {
  Expression& made = program_.expressions.emplace_back();
  made.kind = kind;
  made.line = line;
  made.operands = std::move(operands);
  return made;
}

Statement& ParserBase::add(Statement::Kind kind, int line) {
  Statement& made = program_.statements.emplace_back();
  made.kind = kind;
  made.line = line;
  return made;
}

ParserBase::Level::Level(ParserBase& parser) : parser_(parser) {
  if (++parser_.level_ > kMaxNesting) {
    --parser_.level_;
    parser_.refuse(parser_.current().line, fmt::format("more than {} levels of nesting", kMaxNesting));
  }
}

const Expression* ExpressionParser::expression() {
  const Level level(*this);
  const int line = current().line;
  const bool may_lack = may_lack_filter_;
  const Expression* result = without_condition();
  int chained = 0;
  while (skip_name("if")) {
    if (++chained > kMaxNesting) refuse(line, fmt::format("more than {} levels of nesting", kMaxNesting));
    may_lack_filter_ = true;
    const Expression* condition = without_condition();
    const Expression* other = skip_name("else") ? expression() : nullptr;
    may_lack_filter_ = may_lack;
    result = &add(ExpressionKind::kConditional, line, {condition, result, other});
  }
  return result;
}

const Expression* ExpressionParser::binary(Operator op, int line, const Expression* left,
                                           const Expression* right) {
  Expression& made = add(ExpressionKind::kBinary, line, {left, right});
  made.op = op;
  return &made;
}

const Expression* ExpressionParser::without_condition() {
  const Expression* left = conjunction();
  while (current().is_name("or")) {
    const int line = advance().line;
    left = &add(ExpressionKind::kOr, line, {left, conjunction()});
  }
  return left;
}

const Expression* ExpressionParser::conjunction() {
  const Expression* left = negation();
  while (current().is_name("and")) {
    const int line = advance().line;
    left = &add(ExpressionKind::kAnd, line, {left, negation()});
  }
  return left;
}

const Expression* ExpressionParser::negation() {
  if (!current().is_name("not")) return comparison();
  const Level level(*this);
  const int line = advance().line;
  return &add(ExpressionKind::kNot, line, {negation()});
}

const Expression* ExpressionParser::comparison() {
  constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  const int line = current().line;
  const Expression* first = sum();
  Expression* made = nullptr;
  while (true) {
    Operator op = Operator::kIn;
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](const auto& each) { return current().is_operator(each.first); });
    if (found != std::end(kOperators)) {
      op = found->second;
    } else if (current().is_name("not") && following().is_name("in")) {
      op = Operator::kNotIn;
      advance();
    } else if (!current().is_name("in")) {
      break;
    }
    advance();
    if (made == nullptr) made = &add(ExpressionKind::kCompare, line, {first});
    made->operators.push_back(op);
    made->operands.push_back(sum());
  }
  return made == nullptr ? first : made;
}

const Expression* ExpressionParser::sum() {
  const Expression* left = concatenation();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Token& token = advance();
    const Operator op = token.text == "+" ? Operator::kAdd : Operator::kSubtract;
    const int line = token.line;
    left = binary(op, line, left, concatenation());
  }
  return left;
}

const Expression* ExpressionParser::concatenation() {
  const int line = current().line;
  const Expression* first = product();
  if (!current().is_operator("~")) return first;
  std::vector<const Expression*> operands = {first};
  while (skip_operator("~")) operands.push_back(product());
  return &add(ExpressionKind::kConcat, line, std::move(operands));
}

const Expression* ExpressionParser::product() {
  constexpr std::pair<std::string_view, Operator> kOperators[] = {{"*", Operator::kMultiply},
                                                                  {"/", Operator::kDivide},
                                                                  {"//", Operator::kFloorDivide},
                                                                  {"%", Operator::kModulo}};
  const Expression* left = power();
  while (true) {
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](const auto& each) { return current().is_operator(each.first); });
    if (found == std::end(kOperators)) return left;
    const int line = advance().line;
    left = binary(found->second, line, left, power());
  }
}

const Expression* ExpressionParser::power() {
  const Expression* left = unary(true);
  while (current().is_operator("**")) {
    const int line = advance().line;
    left = binary(Operator::kPower, line, left, unary(true));
  }
  return left;
}

const Expression* ExpressionParser::unary(bool has_filters) {
  const Expression* operand = nullptr;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Level level(*this);
    const Token& sign = advance();
    operand =
        &add(sign.text == "-" ? ExpressionKind::kNegate : ExpressionKind::kPlus, sign.line, {unary(false)});
  } else {
    operand = primary(false);
  }
  operand = postfix(operand);
  return has_filters ? filtered(operand) : operand;
}

const Expression* ExpressionParser::named_primary(bool allows_member) {
  const Token token = advance();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    Expression& made = add(ExpressionKind::kConstant, token.line);
    made.value = Value::boolean(name == "true" || name == "True");
    return &made;
  }
  if (name == "none" || name == "None") return &add(ExpressionKind::kConstant, token.line);
  if (allows_member && skip_operator(".")) {
    Expression& made = add(ExpressionKind::kMember, token.line);
    made.text = name;
    made.member = expect_name("the name of a namespace's member");
    return &made;
  }
  for (Signature* macro : macros_) {
    macro->reads_caller = macro->reads_caller || name == "caller";
    macro->reads_varargs = macro->reads_varargs || name == "varargs";
    macro->reads_kwargs = macro->reads_kwargs || name == "kwargs";
  }
  Expression& made = add(ExpressionKind::kName, token.line);
  made.text = name;
  return &made;
}

const Expression* ExpressionParser::primary(bool allows_member) {
  const Token& token = current();
  const int line = token.line;
  if (token.type == Token::Type::kName) return named_primary(allows_member);
  if (token.type == Token::Type::kString) {
    std::string text;
    while (current().type == Token::Type::kString) text += advance().text;
    Expression& made = add(ExpressionKind::kConstant, line);
    made.value = Value::literal(text);
    return &made;
  }
  if (token.type == Token::Type::kInteger || token.type == Token::Type::kFloat) {
    Expression& made = add(ExpressionKind::kConstant, line);
    made.value =
        token.type == Token::Type::kInteger ? Value::integer(token.integer) : Value::real(token.real);
    advance();
    return &made;
  }
  if (skip_operator("(")) {
    const Expression* inside = tuple(true, {}, true);
    expect_operator(")");
    return inside;
  }
  if (token.is_operator("[")) return bracketed(ExpressionKind::kList, "]");
  if (token.is_operator("{")) return bracketed(ExpressionKind::kDict, "}");
  refuse_token("an expression");
}

bool ExpressionParser::is_tuple_end(std::string_view end_name) const {
  return current().type == Token::Type::kVariableEnd || current().type == Token::Type::kBlockEnd ||
         current().is_operator(")") || (!end_name.empty() && current().is_name(end_name));
}

const Expression* ExpressionParser::tuple(bool has_conditions, std::string_view end_name,
                                          bool is_in_parentheses) {
  const Level level(*this);
  const int line = current().line;
  std::vector<const Expression*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (is_tuple_end(end_name)) break;
    items.push_back(has_conditions ? expression() : without_condition());
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items.front();
    if (!is_in_parentheses) refuse_token("an expression");
  }
  return &add(ExpressionKind::kTuple, line, std::move(items));
}

const Expression* ExpressionParser::target(std::string_view end_name, bool allows_member) {
  const Level level(*this);
  const int line = current().line;
  std::vector<const Expression*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (is_tuple_end(end_name)) break;
    // Names alone, and parentheses with names.
    items.push_back(primary(allows_member));
    check_target(*items.back());
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (items.empty()) refuse_token("a name");
  if (!is_tuple) return items.front();
  return &add(ExpressionKind::kTuple, line, std::move(items));
}

void ExpressionParser::check_target(const Expression& target) const {
  if (target.kind == ExpressionKind::kName || target.kind == ExpressionKind::kMember) return;
  if (target.kind != ExpressionKind::kTuple)
    refuse(target.line, "only names, and tuples of names, can be assigned to");
  for (const Expression* part : target.operands) check_target(*part);
}

const Expression* ExpressionParser::bracketed(ExpressionKind kind, std::string_view close) {
  const Level level(*this);
  Expression& made = add(kind, advance().line);
  while (!current().is_operator(close)) {
    if (!made.operands.empty()) expect_operator(",");
    if (current().is_operator(close)) break;
    made.operands.push_back(expression());
    if (kind != ExpressionKind::kDict) continue;
    expect_operator(":");
    made.operands.push_back(expression());
  }
  advance();
  return &made;
}

const Expression* ExpressionParser::postfix(const Expression* operand) {
  while (true) {
    if (current().is_operator(".") || current().is_operator("[")) {
      operand = subscript(operand);
    } else if (current().is_operator("(")) {
      operand = call(operand);
    } else {
      return operand;
    }
  }
}

const Expression* ExpressionParser::filtered(const Expression* operand) {
  while (true) {
    if (current().is_operator("|")) {
      operand = filters(operand, false);
    } else if (current().is_name("is")) {
      operand = test(operand);
    } else if (current().is_operator("(")) {
      operand = call(operand);
    } else {
      return operand;
    }
  }
}

const Expression* ExpressionParser::subscript(const Expression* operand) {
  const Level level(*this);
  const Token token = advance();
  if (token.text == ".") {
    if (current().type == Token::Type::kInteger) {
      Expression& key = add(ExpressionKind::kConstant, current().line);
      key.value = Value::integer(advance().integer);
      return &add(ExpressionKind::kItem, token.line, {operand, &key});
    }
    Expression& made = add(ExpressionKind::kAttribute, token.line, {operand});
    made.text = expect_name("a name or a number behind '.'");
    return &made;
  }
  std::vector<const Expression*> bounds;
  const Expression* key = nullptr;
  if (!current().is_operator(":") && !current().is_operator("]")) key = expression();
  if (!current().is_operator(":")) {
    if (key == nullptr || current().is_operator(",")) {
      std::vector<const Expression*> items;
      if (key != nullptr) items.push_back(key);
      while (!current().is_operator("]")) {
        expect_operator(",");
        items.push_back(expression());
      }
      key = &add(ExpressionKind::kTuple, token.line, std::move(items));
    }
    expect_operator("]");
    return &add(ExpressionKind::kItem, token.line, {operand, key});
  }
  bounds.push_back(key);
  while (bounds.size() < 3) {
    if (!skip_operator(":")) break;
    const bool is_given =
        !current().is_operator(":") && !current().is_operator("]") && !current().is_operator(",");
    bounds.push_back(is_given ? expression() : nullptr);
  }
  bounds.resize(3);
  if (!skip_operator("]")) refuse_token("']' behind a slice");
  return &add(ExpressionKind::kSlice, token.line, {operand, bounds[0], bounds[1], bounds[2]});
}

void ExpressionParser::arguments(Expression& call) {
  const Level level(*this);
  const int line = current().line;
  const auto ensure = [&](bool holds) {
    if (!holds) refuse(line, "arguments are given in the order: values, name=value, *values, **names");
  };
  expect_operator("(");
  bool has_one = false;
  while (!current().is_operator(")")) {
    if (has_one) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    has_one = true;
    if (call.arguments.size() + call.named.size() >= kMaxArguments) {
      refuse(line, fmt::format("a call has more than {} arguments", kMaxArguments));
    }
    if (skip_operator("*")) {
      ensure(call.rest == nullptr && call.named_rest == nullptr);
      call.rest = expression();
    } else if (skip_operator("**")) {
      ensure(call.named_rest == nullptr);
      call.named_rest = expression();
    } else if (current().type == Token::Type::kName && following().is_operator("=")) {
      ensure(call.named_rest == nullptr);
      std::string name = advance().text;
      advance();
      for (const auto& [other, value] : call.named) {
        if (other == name) refuse(line, fmt::format("the argument '{}' is given twice", name));
      }
      call.named.emplace_back(std::move(name), expression());
    } else {
      ensure(call.rest == nullptr && call.named_rest == nullptr && call.named.empty());
      call.arguments.push_back(expression());
    }
  }
  advance();
}

const Expression* ExpressionParser::call(const Expression* operand) {
  Expression& made = add(ExpressionKind::kCall, current().line, {operand});
  arguments(made);
  return &made;
}

const Expression* ExpressionParser::filters(const Expression* operand, bool begins_at_name) {
  while (begins_at_name || current().is_operator("|")) {
    if (!begins_at_name) advance();
    begins_at_name = false;
    Expression& made = add(ExpressionKind::kFilter, current().line, {operand});
    made.text = expect_name("the name of a filter");
    while (skip_operator(".")) made.text += "." + expect_name("the name of a filter");
    if (find_filter(made.text) == nullptr && !may_lack_filter_) {
      refuse(made.line, fmt::format("there is no filter '{}'; supported: {}", made.text, filter_names()));
    }
    if (current().is_operator("(")) arguments(made);
    operand = &made;
  }
  return operand;
}

const Expression* ExpressionParser::test(const Expression* operand) {
  const int line = advance().line;
  const bool is_negated = skip_name("not");
  Expression& made = add(ExpressionKind::kTest, line, {operand});
  made.text = expect_name("the name of a test");
  while (skip_operator(".")) made.text += "." + expect_name("the name of a test");
  if (!has_test(made.text) && !may_lack_filter_) {
    refuse(line, fmt::format("there is no test '{}'; supported: {}", made.text, test_names()));
  }
  const Token& next = current();
  const bool has_operand = (next.type == Token::Type::kName && !next.is_name("else") && !next.is_name("or") &&
                            !next.is_name("and")) ||
                           next.type == Token::Type::kString || next.type == Token::Type::kInteger ||
                           next.type == Token::Type::kFloat || next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    arguments(made);
  } else if (has_operand) {
    if (next.is_name("is")) refuse(next.line, "tests cannot be chained");
    made.arguments.push_back(postfix(primary(false)));
  }
  return is_negated ? &add(ExpressionKind::kNot, line, {&made}) : &made;
}

}  // namespace lacuna::jinja
