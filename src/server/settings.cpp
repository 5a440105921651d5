#include "server/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "options/names.h"
#include "server/api_error.h"
#include "server/generation_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr double kMinTopP = 1e-6;  // smallest value that strategies accept

// Primary names that model cards and other engines use, too. Aliases always come from other programs.
constexpr std::string_view kShared[] = {"steps", "gen-length", "block-length", "temperature", "top-p",
                                        "top-k", "seed",       "alg-temp",     "cfg-scale",   "ignore-eos"};

class Reader {
 public:
  Reader(const ordered_json& value, std::string_view place, std::string_view name)
      : value_(value), place_(place), name_(name) {}

  void read(bool& field) const {
    if (!value_.is_boolean()) refuse("true or false");
    field = value_.get<bool>();
  }

  void read(std::optional<std::string>& field) const {
    if (!value_.is_string()) refuse("a string");
    field = value_.get<std::string>();
  }

  void read(std::vector<std::string>& field) const {
    if (value_.is_string()) {
      field = {value_.get<std::string>()};
      return;
    }
    const auto is_text = [](const ordered_json& text) { return text.is_string(); };
    if (!value_.is_array() || !std::all_of(value_.begin(), value_.end(), is_text)) {
      refuse("a string or a list of strings");
    }
    field = value_.get<std::vector<std::string>>();
  }

  void read(std::optional<double>& field) const {
    if (!value_.is_number()) refuse("a number");
    field = value_.get<double>();
  }

  void read(AnswerLength& field) const {
    if (value_ == "auto") {
      field.is_auto = true;
    } else if (value_.is_string()) {
      refuse("a whole number or \"auto\"");
    } else {
      read(static_cast<std::optional<int32_t>&>(field));
    }
  }

  template <typename Integer>
  requires std::is_integral_v<Integer>
  void read(std::optional<Integer>& field) const {
    // Accepts floats such as 64.0, up to the largest integer that a double holds exactly.
    if (value_.is_number_integer() && value_ < 0) refuse("a whole number from 0");
    if (value_.is_number_unsigned()) {
      const auto number = value_.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<Integer>::max())) refuse("a smaller number");
      field = static_cast<Integer>(number);
    } else if (value_.is_number_float() && value_.get<double>() >= 0 &&
               value_.get<double>() <=
                   std::min(kMaxExactInteger, double(std::numeric_limits<Integer>::max())) &&
               std::trunc(value_.get<double>()) == value_.get<double>()) {
      field = static_cast<Integer>(value_.get<double>());
    } else {
      refuse("a whole number");
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    const std::string field = fmt::format("{}{}", place_, name_);
    throw FieldError(field,
                     fmt::format("{} is {}; expected {}", field, in_quotes(dump_json(value_)), expected));
  }

  const ordered_json& value_;
  std::string_view place_;
  std::string_view name_;
};

/// Converts other servers' values for a disabled filter (top_k -1, repeat_penalty 0) and for greedy decoding
/// (top_p 0) to this engine's; returns other values unchanged.
const ordered_json& normalize_value(std::string_view setting, const ordered_json& value) {
  static const ordered_json kNoTopK = 0U, kNoPenalty = 1U, kMinTopPValue = kMinTopP;
  if (!value.is_number()) return value;
  if (setting == "top-k" && value == -1) return kNoTopK;
  if (setting == "repeat-penalty" && value == 0) return kNoPenalty;
  return setting == "top-p" && value == 0 ? kMinTopPValue : value;
}

template <typename Field>
std::string_view type_of(const Field&) {
  if constexpr (std::is_same_v<Field, bool>) {
    return "boolean";
  } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
    return "strings";
  } else if constexpr (std::is_same_v<Field, std::optional<std::string>>) {
    return "string";
  } else if constexpr (std::is_same_v<Field, std::optional<double>>) {
    return "number";
  } else {
    return "integer";
  }
}

}  // namespace

bool read_setting(std::string_view name, const ordered_json& value, std::string_view place,
                  GenerationOptions& options) {
  return read_setting_as(name, value, place, name, options);
}

bool read_setting_as(std::string_view name, const ordered_json& value, std::string_view place,
                     std::string_view key, GenerationOptions& options) {
  const std::string_view wanted = setting_named(name);
  const ordered_json& known = normalize_value(wanted, value);
  visit_options(options, [&](const Setting& setting, auto& field) {
    if (setting.name == wanted && !known.is_null()) Reader(known, place, key).read(field);
  });
  return !wanted.empty();
}

void expect_setting(std::string_view key, const ordered_json& value, std::string_view place,
                    GenerationOptions& options) {
  if (read_setting(key, value, place, options)) return;
  throw FieldError(fmt::format("{}{}", place, key),
                   fmt::format("{}{} is not a setting; GET /props lists them", place, in_quotes(key)));
}

bool is_common_name(std::string_view name) {
  const std::string_view own = setting_named(name);
  const bool is_shared = std::find(std::begin(kShared), std::end(kShared), own) != std::end(kShared);
  return !own.empty() && (own != with_dashes(name) || is_shared);
}

std::optional<std::string> request_name(std::string_view field) {
  const std::string name = with_dashes(field);
  if (name == "gen-length") return "max_tokens";
  if (setting_named(name) != name && name != "guide") return {};
  return is_common_name(name) ? with_underscores(name) : "lacuna." + with_underscores(name);
}

std::optional<std::string> GenerationRequest::name_of(std::string_view field) const {
  if (field == "prompt" || field == "answer") return prompt_field;
  const auto sent = keys.find(field);
  return sent != keys.end() ? sent->second : request_name(field);
}

nlohmann::ordered_json describe_settings() {
  GenerationOptions options;
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  visit_options(options, [&](const Setting& setting, auto& field) {
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const std::string_view alias : setting.aliases) {
      if (alias.front() != '-') others.push_back(alias);
    }
    settings.push_back(
        {{"name", setting.name}, {"aliases", others}, {"type", type_of(field)}, {"help", setting.help}});
  });
  return settings;
}

}  // namespace lacuna
