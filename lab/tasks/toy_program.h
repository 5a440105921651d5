// A toy language for programs that models write. It is safe to run: no loops, so every program ends, and
// programs and values are bounded.
//
//   program   = statement { ";" statement } "."
//   statement = [ variable ">" variable "?" ] variable "=" operand [ ( "+" | "-" | "*" ) operand ]
//   operand   = variable | number
//   variable  = "a" | "b" | "c"
//   number    = one to three digits
//
// White space may separate any two tokens. A statement with a condition has no effect if the condition is
// false. a and b are the inputs, c is initially 0, and the final values of a and b are the output.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lacuna {

class ToyProgram {
 public:
  static constexpr size_t kMaxStatements = 32;
  static constexpr int64_t kMaxValue = 1'000'000;  ///< largest absolute value

  /// Values of a and b.
  using Numbers = std::array<int64_t, 2>;

  /// Empty if `text` is not exactly one program, or has more than kMaxStatements statements.
  static std::optional<ToyProgram> parse(std::string_view text);

  /// Empty if a variable would leave [-kMaxValue, kMaxValue].
  std::optional<Numbers> run(const Numbers& inputs) const;

 private:
  friend class ToyParser;

  /// A variable by its index, or a constant.
  struct Operand {
    std::optional<size_t> variable;
    int64_t constant = 0;
  };
  struct Statement {
    std::optional<std::array<size_t, 2>> greater;  // runs only if the first is greater than the second
    size_t target = 0;
    Operand left;
    char operation = '+';
    Operand right;  // the constant 0 for a statement without an operation
  };

  std::vector<Statement> statements_;
};

/// Whether both give the same outputs for each of 40 fixed inputs: pairs of small numbers, in a third of
/// which a equals b. False if a value exceeds its bounds.
bool behave_alike(const ToyProgram& one, const ToyProgram& other);

}  // namespace lacuna
