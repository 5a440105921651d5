#include "parse_message.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "command_list.h"
#include "numbers.h"
#include "suggest.h"
#include "words.h"

namespace lacuna {
namespace {

/// Joins names: "a, b or c".
std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return list;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// Shortens a number: "0.000000" becomes "0".
std::string short_number(const std::string& text) {
  const std::optional<double> number = parse_number<double>(text);
  return number ? fmt::format("{}", *number) : text;
}

std::string needed_model(const CLI::App& command) {
  return fmt::format("no model is given; expected {}, and lacuna list shows the models", usage_of(command));
}

std::string sentence_of_missing(const std::string& name, const CLI::App& command) {
  if (name == "A subcommand") {
    std::vector<std::string> names;
    for (const CLI::App* each : commands_of(command)) names.push_back(each->get_name());
    return fmt::format("no subcommand is given; expected {}", listed(names));
  }
  if (name == "--model") return needed_model(command);
  if (!name.starts_with('-')) return fmt::format("{} is missing; expected {}", name, usage_of(command));
  return fmt::format("{} is missing; this command needs it", name);
}

/// The sentence for an option with too many values or none.
std::string wrong_number(const std::string& name, const CLI::App& command) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option != nullptr && option->count() > 1)
    return fmt::format("{} is given {} times; expected it once", name, option->count());
  return fmt::format("{} has no value; expected one after it", name);
}

/// Rewords a message of CLI11.
std::string reworded(const CLI::ParseError& error, const CLI::App& command) {
  const std::string text = error.what();
  const auto matched = [&](const char* pattern) {
    std::smatch parts;
    std::regex_match(text, parts, std::regex(pattern));
    return parts;
  };
  if (const auto parts = matched("(.+) is required"); !parts.empty())
    return sentence_of_missing(parts[1], command);
  if (const auto parts = matched("(\\S+) excludes (\\S+)"); !parts.empty())
    return fmt::format("{} and {} are both given; expected one of them", parts[1].str(), parts[2].str());
  if (const auto parts = matched("(\\S+) requires (\\S+)"); !parts.empty())
    return fmt::format("{} has no effect without {}; expected both", parts[1].str(), parts[2].str());
  if (const auto parts = matched("Could not convert: (\\S+) = ([^]*)"); !parts.empty())
    return fmt::format("{} is '{}'; expected a number in its range", parts[1].str(), parts[2].str());
  if (const auto parts = matched("(\\S+): ([^]*) not in \\{([^]*)\\}"); !parts.empty())
    return fmt::format("{} is '{}'; expected {}", parts[1].str(), parts[2].str(),
                       listed(split_at_commas(parts[3])));
  if (const auto parts = matched("(\\S+): Value ([^]*) not in range (\\S+) to (\\S+)"); !parts.empty())
    return fmt::format("{} is '{}'; expected a number from {} to {}", parts[1].str(), parts[2].str(),
                       short_number(parts[3]), short_number(parts[4]));
  if (const auto parts = matched("(\\S+): Number less (or equal to|than) 0: ([^]*)"); !parts.empty())
    return fmt::format("{} is '{}'; expected a number {} 0", parts[1].str(), parts[3].str(),
                       parts[2] == "than" ? "of at least" : "above");
  if (const auto parts = matched("(\\S+): Failed parsing number \\(?([^]*?)\\)?"); !parts.empty())
    return fmt::format("{} is '{}'; expected a number", parts[1].str(), parts[2].str());
  if (error.get_name() != "ArgumentMismatch") return text;
  if (const auto parts = matched("(\\S+) was given a disallowed flag override.*"); !parts.empty())
    return fmt::format("{} has a value; expected the flag alone", parts[1].str());
  if (const auto parts = matched("([^\\s:]+): [^]*"); !parts.empty()) return wrong_number(parts[1], command);
  return text;
}

}  // namespace

std::string sentence_of(const CLI::ParseError& error, const CLI::App& command) {
  // Reports unknown arguments first: CLI11 reports a wrong subcommand as a missing one.
  const std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) return with_nearest_value(reworded(error, command));
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  return fmt::format("unknown argument '{}'{}", unknown.front(), did_you_mean(word, names_of(command)));
}

}  // namespace lacuna
