#include "options/assign.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "base/json.h"
#include "base/overloaded.h"
#include "decode/setting_error.h"
#include "options/names.h"

namespace lacuna {
namespace {

std::string text_of(const OptionValue& value) {
  return std::visit(Overloaded{[](bool flag) { return std::string(flag ? "true" : "false"); },
                               [](const std::string& text) { return fmt::format("'{}'", text); },
                               [](const std::vector<std::string>& texts) {
                                 return fmt::format("['{}']", fmt::join(texts, "', '"));
                               },
                               [](auto number) { return fmt::to_string(number); }},
                    value);
}

/// Puts a value into a field of GenerationOptions.
struct Assignment {
  const std::string field;
  const OptionValue& value;

  void to(bool& option) const { option = expect<bool>("true or false"); }
  void to(std::optional<std::string>& option) const { option = expect<std::string>("a text"); }
  void to(std::vector<std::string>& option) const {
    const auto* text = std::get_if<std::string>(&value);
    option = text != nullptr ? std::vector{*text} : expect<std::vector<std::string>>("a text or several");
  }
  void to(std::optional<double>& option) const {
    const auto* whole = std::get_if<int64_t>(&value);
    option = whole != nullptr ? static_cast<double>(*whole) : expect<double>("a number");
  }
  void to(AnswerLength& option) const {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) {
      to(static_cast<std::optional<int32_t>&>(option));
    } else if (*text == "auto") {
      option.is_auto = true;
    } else {
      refuse("a whole number or auto");
    }
  }
  template <typename Integer>
  requires std::is_integral_v<Integer>
  void to(std::optional<Integer>& option) const {
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    const auto number = expect<int64_t>("a whole number");
    if (number < 0 || static_cast<uint64_t>(number) > kMax) refuse(fmt::format("0 to {}", kMax));
    option = static_cast<Integer>(number);
  }

 private:
  template <typename T>
  T expect(const char* expected) const {
    const auto* given = std::get_if<T>(&value);
    if (given == nullptr) refuse(expected);
    return *given;
  }
  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string text = text_of(value);
    throw SettingError(
        {field, text, expected, fmt::format("`{}` is {}; expected {}", field, text, expected)});
  }
};

/// Puts a text into a field of GenerationOptions that has no value.
struct TextAssignment {
  const std::string_view name;
  const std::string_view text;

  void to(bool& option) const { option = true; }
  void to(std::optional<std::string>& option) const {
    if (!option) option = std::string(text);
  }
  void to(std::vector<std::string>& option) const {
    if (option.empty()) option.emplace_back(text);
  }
  void to(AnswerLength& option) const {
    if (option.is_auto) return;
    if (text == "auto") {
      option.is_auto = !option;
    } else {
      to(static_cast<std::optional<int32_t>&>(option));
    }
  }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void to(std::optional<Number>& option) const {
    if (option) return;
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) {
      const std::string field = with_underscores(name);
      const std::string value(text);
      throw SettingError(
          {field, value, "a number", fmt::format("`{}` is {}; expected a number", field, in_quotes(value))});
    }
    option = number;
  }
};

SettingError unknown_setting(std::string_view name) {
  const std::string field = with_underscores(name);
  return SettingError(
      {field, "", "",
       fmt::format("`{}` is not a setting; docs/reference/flags.md lists them under \"Generation\"", field)});
}

}  // namespace

void set_if_unset(GenerationOptions& options, std::string_view name, std::string_view value) {
  bool is_known = false;
  visit_options(options, [&](const Setting& setting, auto& field) {
    if (setting.name != name) return;
    TextAssignment{name, value}.to(field);
    is_known = true;
  });
  if (!is_known) throw unknown_setting(name);
}

void assign_option(GenerationOptions& options, std::string_view name, const OptionValue& value) {
  const std::string_view wanted = setting_named(name);
  if (wanted.empty()) throw unknown_setting(name);
  visit_options(options, [&](const Setting& setting, auto& field) {
    if (setting.name == wanted) Assignment{with_underscores(setting.name), value}.to(field);
  });
}

GenerationOptions generation_options(const Options& values) {
  GenerationOptions options;
  for (const auto& [name, value] : values) assign_option(options, name, value);
  return options;
}

}  // namespace lacuna
