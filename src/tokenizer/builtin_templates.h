// Built-in chat templates for checkpoints without a template of their own.
#pragma once

#include <span>
#include <string_view>

namespace lacuna {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view program;                           ///< Jinja
  std::span<const std::string_view> required_tokens;  ///< tokens that the tokenizer must have
};

/// Finds llada, chatml, nemotron, seed-coder or gemma; null for another name.
const BuiltInTemplate* find_built_in_template(std::string_view name);

}  // namespace lacuna
