// Splits a template into tokens: text, and names, literals and operators within its tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::jinja {

struct Token {
  enum class Type : uint8_t {
    kText,        ///< outside of tags, after whitespace control
    kBlockBegin,  ///< {%
    kBlockEnd,
    kVariableBegin,  ///< {{
    kVariableEnd,
    kName,
    kString,  ///< the value, without quotes and with escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd  ///< of the template
  };

  Type type = Type::kEnd;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const { return type == Type::kName && text == name; }
  bool is_operator(std::string_view symbol) const { return type == Type::kOperator && text == symbol; }
};

/// Names a token for messages.
std::string describe(const Token& token);

/// The tokens of `source`; the last one is kEnd. Throws InputError that names `name` and the line.
std::vector<Token> tokenize(std::string_view source, std::string_view name);

}  // namespace lacuna::jinja
