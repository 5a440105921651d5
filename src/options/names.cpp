#include "options/names.h"

#include <algorithm>

#include "options/options.h"

namespace lacuna {

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

std::string with_underscores(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

std::string_view setting_named(std::string_view name) {
  const std::string wanted = with_dashes(name);
  GenerationOptions options;
  std::string_view found;
  visit_options(options, [&](std::string_view own, const Aliases& aliases, auto&, std::string_view) {
    const bool is_alias = std::find(aliases.begin(), aliases.end(), wanted) != aliases.end();
    if (own == wanted || is_alias) found = own;
  });
  return found;
}

std::optional<std::string> flag_name(std::string_view field) {
  const std::string name = with_dashes(field);
  if (setting_named(name) != name && name != "guide") return {};
  return "--" + name;
}

std::string sentence_of(const std::exception& error, const FieldNames& names) {
  const auto* setting = dynamic_cast<const SettingError*>(&error);
  return setting != nullptr ? rename_fields(setting->problem().sentence, names) : error.what();
}

void throw_setting_error(std::string_view field, std::string_view value, const std::string& sentence) {
  constexpr std::string_view kExpected = "expected ";
  const size_t at = sentence.rfind(kExpected);
  const std::string expected = at == std::string::npos ? "" : sentence.substr(at + kExpected.size());
  throw SettingError({std::string(field), std::string(value), expected, sentence}, flag_name);
}

}  // namespace lacuna
