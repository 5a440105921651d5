#include "options/names.h"

#include <algorithm>

#include "base/error.h"

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
  visit_options(options, [&](const Setting& setting, auto&) {
    const bool is_alias = std::ranges::find(setting.aliases, wanted) != setting.aliases.end();
    if (setting.name == wanted || is_alias) found = setting.name;
  });
  return found;
}

bool is_given(const GenerationOptions& options, std::string_view name) {
  std::optional<bool> given;
  visit_options(options, [&](const Setting& setting, const auto& field) {
    if (setting.name == name) given = is_given(field);
  });
  expects(given.has_value(), "is_given: visit_options() lists the setting");
  return *given;
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
