#include "model/random_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/config_texts.h"
#include "model/families.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

constexpr std::string_view kPrefix = "random:";

std::string published_names() {
  std::vector<std::string_view> names;
  for (const FamilyEntry& family : families()) {
    for (const PublishedConfig& published : family.published) names.push_back(published.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

int64_t parse_layers(std::string_view option, std::string_view argument) {
  constexpr std::string_view kKey = "layers=";
  int64_t layers = 0;
  const char* const end = option.data() + option.size();
  const bool has_key = option.starts_with(kKey);
  if (has_key) {
    const auto [stop, error] = std::from_chars(option.data() + kKey.size(), end, layers);
    if (error == std::errc() && stop == end && layers >= kLayerCount.first && layers <= kLayerCount.last) {
      return layers;
    }
  }
  throw InputError("{}: option {} is not known; expected layers=N with N from {} to {}", in_quotes(argument),
                   in_quotes(option), kLayerCount.first, kLayerCount.last);
}

}  // namespace

bool is_random_spec(std::string_view argument) {
  return argument.starts_with(kPrefix);
}

nlohmann::json published_config(std::string_view name) {
  for (const FamilyEntry& family : families()) {
    for (const PublishedConfig& published : family.published) {
      if (published.name != name) continue;
      nlohmann::json config = nlohmann::json::parse(published.json);
      config.merge_patch(nlohmann::json::parse(published.changes));
      return config;
    }
  }
  return {};
}

ModelConfig parse_random_spec(std::string_view argument) {
  expects(is_random_spec(argument), "parse_random_spec() is given a random: argument");
  const std::string_view spec = argument.substr(kPrefix.size());
  const size_t comma = std::min(spec.find(','), spec.size());
  const std::string_view name = spec.substr(0, comma);
  const nlohmann::json published = published_config(name);
  if (published.is_null()) {
    throw InputError("{}: there is no published model {}; expected one of {}", in_quotes(argument),
                     in_quotes(name), published_names());
  }
  const std::string text = published.dump();
  ModelConfig config = read_config_texts({.config = text}, std::string(argument));
  if (comma < spec.size()) {
    const int64_t published_layers = config.num_layers;
    config.num_layers = parse_layers(spec.substr(comma + 1), argument);
    const auto repeat = [&](std::vector<bool>& kinds) {
      for (int64_t layer = published_layers; layer < config.num_layers; ++layer)
        kinds.push_back(kinds[static_cast<size_t>(layer - published_layers)]);
      kinds.resize(static_cast<size_t>(config.num_layers));
    };
    if (config.sliding) repeat(config.sliding->layers);
    if (config.convolution) repeat(config.convolution->layers);
    // GIDD's residual_scale is proportional to 1 / depth.
    if (config.residual_scale != 1) {
      config.residual_scale *= static_cast<float>(published_layers) / static_cast<float>(config.num_layers);
    }
  }
  return config;
}

}  // namespace lacuna
