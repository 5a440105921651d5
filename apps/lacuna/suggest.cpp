#include "suggest.h"

#include <cctype>
#include <optional>

#include "base/nearest.h"

namespace lacuna {
namespace {

/// The text between `before` and `after`; empty if either is missing.
std::optional<std::string> between(const std::string& text, std::string_view before, std::string_view after) {
  size_t begin = text.find(before);
  if (begin == std::string::npos) return {};
  begin += before.size();
  const size_t end = text.find(after, begin);
  if (end == std::string::npos) return {};
  return text.substr(begin, end - begin);
}

/// The names in a list such as "none, prefix or threshold=TAU".
std::vector<std::string> names_in(std::string_view list) {
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  };
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size();) {
    size_t end = i;
    while (end < list.size() && is_of_name(list[end])) ++end;
    if (end > i + 1) names.emplace_back(list.substr(i, end - i));
    if (end < list.size() && list[end] == '=') {  // skips the value after "="
      while (end < list.size() && list[end] != ' ' && list[end] != ',') ++end;
    }
    i = end + 1;
  }
  return names;
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

std::vector<std::string> names_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string with_nearest_value(std::string message) {
  const std::optional<std::string> set = between(message, " not in {", "}");
  if (set) {
    const std::optional<std::string> value = between(message, ": ", " not in {");
    return value ? message + did_you_mean(*value, names_in(*set)) : message;
  }
  std::optional<std::string> value = between(message, " is '", "'");
  if (!value) value = between(message, " is \"", "\"");
  const size_t expected = message.find("; expected ");
  if (!message.starts_with("--") || !value || expected == std::string::npos) return message;
  const std::string name = value->substr(0, value->find('='));
  return message + did_you_mean(name, names_in(message.substr(expected + 11)));
}

}  // namespace lacuna
