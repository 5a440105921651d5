#include "tasks/toy_program.h"

#include <cstdlib>

#include "base/rng.h"

namespace lacuna {

/// Reads from the front of a text; each read function returns whether it succeeded.
class ToyParser {
 public:
  explicit ToyParser(std::string_view text) : rest_(text) {}

  bool read_program(std::vector<ToyProgram::Statement>& statements) {
    do {
      if (statements.size() == ToyProgram::kMaxStatements) return false;
      if (!read_statement(statements.emplace_back())) return false;
    } while (read(';'));
    return read('.') && at_end();
  }

 private:
  /// Skips white space.
  bool at_end() {
    const size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
    return rest_.empty();
  }
  /// The next character that is not white space; 0 at the end.
  char peek() { return at_end() ? '\0' : rest_.front(); }
  bool read(char wanted) {
    if (peek() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool read_variable(size_t& variable) {
    const char name = peek();
    if (name < 'a' || name > 'c') return false;
    variable = static_cast<size_t>(name - 'a');
    return read(name);
  }
  bool read_operand(ToyProgram::Operand& operand) {
    size_t variable = 0;
    if (read_variable(variable)) {
      operand.variable = variable;
      return true;
    }
    constexpr size_t kMaxDigits = 3;
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!is_digit(peek())) return false;
    size_t digits = 0;
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1)) {
      if (++digits > kMaxDigits) return false;
      operand.constant = 10 * operand.constant + (rest_.front() - '0');
    }
    return true;
  }
  bool read_statement(ToyProgram::Statement& statement) {
    if (!read_variable(statement.target)) return false;
    if (read('>')) {
      statement.greater = {statement.target, 0};
      if (!read_variable((*statement.greater)[1]) || !read('?')) return false;
      if (!read_variable(statement.target)) return false;
    }
    if (!read('=') || !read_operand(statement.left)) return false;
    for (const char operation : {'+', '-', '*'}) {
      if (!read(operation)) continue;
      statement.operation = operation;
      return read_operand(statement.right);
    }
    return true;
  }

  std::string_view rest_;
};

std::optional<ToyProgram> ToyProgram::parse(std::string_view text) {
  ToyProgram program;
  if (!ToyParser(text).read_program(program.statements_)) return {};
  return program;
}

std::optional<ToyProgram::Numbers> ToyProgram::run(const Numbers& inputs) const {
  std::array<int64_t, 3> values = {inputs[0], inputs[1], 0};
  const auto value = [&](const Operand& operand) {
    return operand.variable ? values[*operand.variable] : operand.constant;
  };
  for (const Statement& statement : statements_) {
    const auto& greater = statement.greater;
    if (greater && values[(*greater)[0]] <= values[(*greater)[1]]) continue;
    const int64_t left = value(statement.left);
    const int64_t right = value(statement.right);
    // Values are small enough for their product to fit.
    const int64_t result = statement.operation == '+'   ? left + right
                           : statement.operation == '-' ? left - right
                                                        : left * right;
    if (std::abs(result) > kMaxValue) return {};
    values[statement.target] = result;
  }
  return Numbers{values[0], values[1]};
}

bool behave_alike(const ToyProgram& one, const ToyProgram& other) {
  constexpr uint64_t kInputs = 40;
  constexpr uint32_t kRange = 50;
  const RngStream draws(1, 2);
  for (uint64_t i = 0; i < kInputs; ++i) {
    const int64_t a = draws.below(2 * i, kRange);
    const int64_t b = i % 3 == 0 ? a : int64_t{draws.below(2 * i + 1, kRange)};
    const auto result = one.run({a, b});
    if (!result || result != other.run({a, b})) return false;
  }
  return true;
}

}  // namespace lacuna
