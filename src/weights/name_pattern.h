// Regular expressions over module names, as in adapter configurations: a common subset of the syntaxes of
// Python and of PCRE2, which runs them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

struct pcre2_real_code_8;

namespace lacuna {

/// A parsed expression: characters, ".", escapes (\d, \w, \s, their opposites and escaped punctuation), sets,
/// groups, alternatives, "*", "+", "?" and "{m,n}", also lazy ones, "^" and "$". Lookaround, backreferences
/// and flags are not supported.
class NamePattern {
 public:
  /// Empty for other syntax and for more than 1,000 characters.
  static std::optional<NamePattern> parse(std::string_view text);

  /// Whether the expression matches the whole name; empty if that takes more than 100,000 steps or the name
  /// has more than 400 characters.
  std::optional<bool> matches(std::string_view name) const;

 private:
  using Code = std::shared_ptr<const pcre2_real_code_8>;
  explicit NamePattern(Code code) : code_(std::move(code)) {}

  static Code compile(std::string_view text);

  Code code_;
};

}  // namespace lacuna
