// Input of the tests of single families: the published config.json of a family with one key changed.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/config.h"
#include "model/config_texts.h"
#include "model/random_spec.h"

namespace lacuna {

inline ModelConfig read_json_config(const nlohmann::json& config, const nlohmann::json& generation = {},
                                    const nlohmann::json& tokenizer = {}, const ConfigChoices& choices = {}) {
  const auto text = [](const nlohmann::json& value) { return value.is_null() ? "" : value.dump(); };
  const std::string texts[] = {text(config), text(generation), text(tokenizer)};
  return read_config_texts({.config = texts[0], .generation_config = texts[1], .tokenizer_config = texts[2]},
                           "folder", choices);
}

/// Null leaves the key out.
inline nlohmann::json with_key(nlohmann::json config, const std::string& key, const nlohmann::json& value) {
  if (value.is_null()) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  return config;
}

inline void expect_config_refused(const nlohmann::json& base, const std::string& key,
                                  const nlohmann::json& value, const std::string& text) {
  EXPECT_THAT(
      [&] { read_json_config(with_key(base, key, value)); },
      testing::ThrowsMessage<InputError>(testing::AllOf(testing::HasSubstr("folder/config.json"),
                                                        testing::HasSubstr(key), testing::HasSubstr(text))))
      << key << " = " << value;
}

}  // namespace lacuna
