// Forms of chat prompts for checkpoints that carry no template of their own.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace lacuna {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view program;                           ///< Jinja
  std::span<const std::string_view> required_tokens;  ///< without which it makes no sense
};

/// llada, chatml, nemotron, seed-coder and gemma; null for another name.
const BuiltInTemplate* find_built_in_template(std::string_view name);

}  // namespace lacuna
