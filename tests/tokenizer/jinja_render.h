// Renders templates in tests.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/jinja.h"

namespace lacuna {

inline std::vector<jinja::Piece> render_pieces(std::string_view source, const std::string& values = "{}",
                                               const std::string& trusted = "{}",
                                               const jinja::Limits& limits = {}) {
  using Json = nlohmann::ordered_json;
  return jinja::Template::parse(source, "t.jinja")
      .render(Json::parse(values), Json::parse(trusted), 1767323045, limits);
}

inline std::string render_text(std::string_view source, const std::string& values = "{}",
                               const jinja::Limits& limits = {}) {
  return jinja::text_of(render_pieces(source, values, "{}", limits));
}

/// The sentence with which a template is refused, or "" where it gives a text.
inline std::string refusal(std::string_view source, const std::string& values = "{}",
                           const jinja::Limits& limits = {}) {
  try {
    render_text(source, values, limits);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace lacuna
