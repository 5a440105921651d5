// Renders templates for tests/reference/check_jinja.py: reads one JSON object a line, {"template", "values",
// "trusted", "now"}, and writes {"pieces": [[text, is_input] ...]} or {"error": sentence} for each.
#include <fmt/core.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "tokenizer/jinja.h"

int main() {
  using Json = nlohmann::ordered_json;
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json input = Json::parse(line);
      const auto program =
          lacuna::jinja::Template::parse(input.at("template").get<std::string>(), "template");
      const auto pieces =
          program.render(input.at("values"), input.value("trusted", Json()), input.value("now", int64_t{0}));
      answer["pieces"] = Json::array();
      for (const auto& piece : pieces) answer["pieces"].push_back(Json::array({piece.text, piece.is_input}));
    } catch (const lacuna::InputError& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump() << '\n' << std::flush;
  }
  return 0;
}
