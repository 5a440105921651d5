// Regular expressions of tokenizer files, run by PCRE2.
//
// The files are written for Oniguruma (Ruby's syntax), with which PCRE2 agrees on nearly everything they use.
// Where the two differ, the expression is rewritten (\s, \S, \w, \W, [:punct:] and its like; `^` and `$`
// always match at lines) or refused (\h, \H, nested character classes, `&&` inside a class). Unicode's tables
// are those of the installed PCRE2; letters newer than it may count as unassigned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"

struct pcre2_real_code_8;

namespace lacuna {

/// Threads may share a Regex.
class Regex {
 public:
  enum class Syntax { kExpression, kLiteral };

  /// `name` begins every error about this expression. Throws InputError for a refused pattern.
  Regex(std::string_view pattern, Syntax syntax, std::string name);

  /// All matches in well-formed `text`, left to right, without overlaps. As in Oniguruma's iteration, an
  /// empty match right after the previous one does not count. Subtracts the work of matching (tried items
  /// of the expression plus bytes moved over) from `work_left`, and throws InputError below 0, so that no
  /// expression hangs.
  std::vector<TextRange> find_all(std::string_view text, int64_t& work_left) const;

  /// Work that is allowed for a text: far more than any published expression needs.
  static int64_t work_for(std::string_view text);

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string name_;
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace lacuna
