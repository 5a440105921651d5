// A toy language whose programs can be run on anything a model writes: no loops, so that every program ends,
// and bounds on all it may hold.
//
//   program   = statement { ";" statement } "."
//   statement = [ variable ">" variable "?" ] variable "=" operand [ ( "+" | "-" | "*" ) operand ]
//   operand   = variable | number
//   variable  = "a" | "b" | "c"
//   number    = one to three digits
//
// White space may stand between any two of these. A statement with a question does nothing where the answer
// is no. The inputs are in a and b, c begins with 0, and what a and b hold in the end is the output.
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

  /// Empty where `text` is not exactly one program, or has more than kMaxStatements.
  static std::optional<ToyProgram> parse(std::string_view text);

  /// Empty where a variable would leave [-kMaxValue, kMaxValue].
  std::optional<Numbers> run(const Numbers& inputs) const;

 private:
  friend class ToyParser;

  /// The variable of that number, or a constant.
  struct Operand {
    std::optional<size_t> variable;
    int64_t constant = 0;
  };
  struct Statement {
    std::optional<std::array<size_t, 2>> greater;  // runs only where the first is greater than the second
    size_t target = 0;
    Operand left;
    char operation = '+';
    Operand right;  // the constant 0 where there is no operation
  };

  std::vector<Statement> statements_;
};

/// Whether both give the same numbers for each of 40 fixed inputs: small ones, a third of which are equal.
/// False where either runs out of bounds.
bool behave_alike(const ToyProgram& one, const ToyProgram& other);

}  // namespace lacuna
