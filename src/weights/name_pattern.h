// Regular expressions over the names of modules, as adapters' configurations have them: the part of Python's
// syntax that people use there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// A parsed expression: characters, ".", escapes (\d, \w, \s, their opposites and escaped punctuation), sets,
/// groups, alternatives, "*", "+", "?" and "{m,n}", also lazy ones, "^" and "$". Look-around, references
/// back and flags are not known.
class NamePattern {
 public:
  /// Empty for other syntax, and beyond 1,000 characters.
  static std::optional<NamePattern> parse(std::string_view text);

  /// Whether the expression matches the whole name; empty where that would take more than 100,000 steps,
  /// and for a name of more than 400 characters.
  std::optional<bool> matches(std::string_view name) const;

  struct Node;

 private:
  explicit NamePattern(std::shared_ptr<const Node> root) : root_(std::move(root)) {}

  std::shared_ptr<const Node> root_;
};

}  // namespace lacuna
