// Reads the rotation of a checkpoint in all formats (rope.h).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/family_parts.h"
#include "model/rope.h"

namespace lacuna {
namespace {

constexpr std::string_view kTheta = "rope_theta";
constexpr std::string_view kShare = "partial_rotary_factor";
constexpr Range<double> kFactor{1, 1e6};

/// Whether the value means that the setting is absent. The published RND1 writes false.
bool is_nothing(const nlohmann::json& value) {
  return value == false || (value.is_object() && value.empty());
}

/// The objects with the rotation of a kind of layers, and the keys next to them, as one object.
class RopeKeys {
 public:
  RopeKeys(const JsonObject& json, const RopeRules& rules) : json_(json), outer_theta_(rules.outer_theta) {
    for (const char* const key : {"rope_parameters", "rope_scaling"}) {
      const nlohmann::json* const value = json.value(key);
      if (value == nullptr || is_nothing(*value)) continue;
      add(json.object(key), rules);
    }
  }

  bool has(std::string_view key) const { return find(key).object != nullptr; }
  float number(std::string_view key, Range<double> range, std::optional<float> fallback = {}) const {
    const Place place = owner(key);
    return place.object->number(place.key, range, fallback);
  }
  int64_t integer(std::string_view key, Range<int64_t> range, std::optional<int64_t> fallback = {}) const {
    const Place place = owner(key);
    return place.object->integer(place.key, range, fallback);
  }
  bool flag(std::string_view key, bool fallback) const {
    const Place place = owner(key);
    return place.object->flag(place.key, fallback);
  }

  /// The type; "default" if no object has one. Older files call the key "type".
  std::string type() const {
    const JsonObject* first = nullptr;
    std::string_view first_key;
    for (const JsonObject& object : objects_) {
      for (const std::string_view key : {"rope_type", "type"}) {
        if (!object.has(key)) continue;
        if (first == nullptr) {
          first = &object;
          first_key = key;
        } else {
          check_agreement(*first, first_key, object, key);
        }
      }
    }
    return first == nullptr ? "default" : first->text(first_key);
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const {
    const Place place = owner(key);
    place.object->refuse(place.key, expected);
  }
  [[noreturn]] void refuse_type(std::string_view expected) const {
    refuse(has("rope_type") ? "rope_type" : "type", expected);
  }

 private:
  struct Place {
    const JsonObject* object = nullptr;
    std::string_view key;
  };

  void add(const JsonObject& object, const RopeRules& rules) {
    constexpr std::array<std::string_view, 2> kKinds = {"full_attention", "sliding_attention"};
    bool is_by_kind = false;
    for (const std::string_view kind : kKinds) {
      const nlohmann::json* const value = object.value(kind);
      if (value == nullptr) continue;
      is_by_kind = true;
      if (kind == rules.layers) {
        objects_.push_back(object.object(kind));
      } else if (rules.is_only_kind && value->is_object()) {
        // No layer is of this kind, so mark its keys as read.
        const JsonObject other = object.object(kind);
        for (const std::string& key : other.keys()) other.has(key);
      }
    }
    if (is_by_kind && object.value(rules.layers) == nullptr)
      object.refuse(rules.layers, "an object, as other kinds of layers have");
    if (is_by_kind || rules.outer_theta == kTheta) objects_.push_back(object);
  }

  /// Keys that may also be outside the objects.
  static bool is_outer_key(std::string_view key) {
    return key == kTheta || key == kShare || key == "original_max_position_embeddings";
  }

  /// The key's first place, after checking that all places agree; without an object if none has the key.
  Place find(std::string_view key) const {
    Place first;
    const auto take = [&](const JsonObject& object, std::string_view name) {
      if (!object.has(name)) return;
      if (first.object != nullptr) check_agreement(*first.object, first.key, object, name);
      if (first.object == nullptr) first = {&object, name};
    };
    for (const JsonObject& object : objects_) take(object, key);
    if (is_outer_key(key)) take(json_, key == kTheta ? outer_theta_ : key);
    return first;
  }

  /// The place to name in messages about the key.
  Place owner(std::string_view key) const {
    const Place found = find(key);
    if (found.object != nullptr) return found;
    if (key == kTheta) return {&json_, outer_theta_};
    return {objects_.empty() ? &json_ : &objects_.front(), key};
  }

  static void check_agreement(const JsonObject& a, std::string_view a_key, const JsonObject& b,
                              std::string_view b_key) {
    if (*a.value(a_key) == *b.value(b_key)) return;
    throw InputError("{}: {} is {} and {} is {}; expected one value", a.file(), in_quotes(b.path(b_key)),
                     b.value(b_key)->dump(), in_quotes(a.path(a_key)), a.value(a_key)->dump());
  }

  const JsonObject& json_;
  std::string_view outer_theta_;
  std::vector<JsonObject> objects_;  // the most specific first
};

/// YaRN's factor for cos and sin, by default from the context's `factor`.
float read_attention_scaling(const RopeKeys& keys, float factor) {
  constexpr Range<double> kMscale{0, 1e3};
  const auto growth = [&](float mscale) { return factor <= 1 ? 1 : 0.1F * mscale * std::log(factor) + 1; };
  const float mscale = keys.number("mscale", kMscale, 0.0F);
  const float of_all = keys.number("mscale_all_dim", kMscale, 0.0F);
  const float usual = mscale > 0 && of_all > 0 ? growth(mscale) / growth(of_all) : growth(1);
  return keys.number("attention_factor", {1e-3, 1e3}, usual);
}

void read_yarn(const RopeKeys& keys, int64_t max_positions, RopeConfig& rope) {
  constexpr Range<double> kTurns{1e-3, 1e6};
  rope.scaling = RopeConfig::Scaling::kYarn;
  const std::string_view original = "original_max_position_embeddings";
  rope.original_positions = keys.integer(original, kPositionCount, max_positions);
  std::optional<float> ratio;
  if (keys.has(original))
    ratio =
        static_cast<float>(static_cast<double>(max_positions) / static_cast<double>(rope.original_positions));
  rope.factor = keys.number("factor", {1e-2, kFactor.last}, ratio);
  rope.beta_fast = keys.number("beta_fast", kTurns, rope.beta_fast);
  rope.beta_slow = keys.number("beta_slow", kTurns, rope.beta_slow);
  rope.whole_ramp = keys.flag("truncate", true);
  rope.attention_scaling = read_attention_scaling(keys, rope.factor);
}

void read_llama3(const RopeKeys& keys, int64_t max_positions, RopeConfig& rope) {
  constexpr Range<double> kTurns{1e-3, 1e6};
  rope.scaling = RopeConfig::Scaling::kLlama3;
  rope.factor = keys.number("factor", kFactor);
  rope.original_positions = keys.integer("original_max_position_embeddings", kPositionCount, max_positions);
  rope.low_turns = keys.number("low_freq_factor", kTurns);
  rope.high_turns = keys.number("high_freq_factor", kTurns);
  if (rope.high_turns <= rope.low_turns)
    keys.refuse("high_freq_factor", fmt::format("more than \"low_freq_factor\", {:g}", rope.low_turns));
}

/// Gemma's "proportional" type: frequencies are those of the whole head, and only this share of the pairs is
/// rotated.
void read_proportional(const RopeKeys& keys, int64_t head_dim, RopeConfig& rope) {
  const float share = keys.number(kShare, {0, 1}, 1.0F);
  rope.num_rotated_pairs = static_cast<int64_t>(share * static_cast<float>(head_dim)) / 2;
  if (rope.num_rotated_pairs < 1) keys.refuse(kShare, "a share that holds a pair of dimensions");
  rope.factor = keys.number("factor", kFactor, 1.0F);
  if (rope.factor > 1) rope.scaling = RopeConfig::Scaling::kLinear;
}

int64_t read_rotary_dim(const RopeKeys& keys, int64_t head_dim, const RopeRules& rules) {
  const float share = keys.number(kShare, {0, 1}, rules.usual_share);
  if (!rules.allows_partial_rotation && share != 1) keys.refuse(kShare, "1, the only value supported");
  const auto dim = static_cast<int64_t>(static_cast<float>(head_dim) * share);
  if (dim < 2) keys.refuse(kShare, "a share that holds a pair of dimensions");
  return dim;
}

void read_scaling(const RopeKeys& keys, int64_t max_positions, const RopeRules& rules, RopeConfig& rope) {
  const std::string type = keys.type();
  if (type == "default") return;
  if (!rules.scales)
    keys.refuse_type(rules.supports_proportional ? "\"default\" or \"proportional\""
                                                 : "\"default\", as the published class scales nothing");
  if (type == "yarn") return read_yarn(keys, max_positions, rope);
  if (type == "llama3") return read_llama3(keys, max_positions, rope);
  if (type == "linear" || type == "dynamic") {
    rope.scaling = type == "linear" ? RopeConfig::Scaling::kLinear : RopeConfig::Scaling::kDynamic;
    rope.factor = keys.number("factor", kFactor);
    return;
  }
  keys.refuse_type("\"default\", \"linear\", \"dynamic\", \"yarn\" or \"llama3\"");
}

}  // namespace

Rotation read_rope(const JsonObject& json, int64_t head_dim, int64_t max_positions, const RopeRules& rules) {
  const RopeKeys keys(json, rules);
  Rotation rotation;
  RopeConfig& rope = rotation.rope;
  std::optional<float> usual_theta;
  if (rules.usual_theta > 0) usual_theta = rules.usual_theta;
  rope.theta = keys.number(kTheta, kRopeTheta, usual_theta);
  if (rules.supports_proportional && keys.type() == "proportional") {
    read_proportional(keys, head_dim, rope);
    rotation.rotary_dim = head_dim;
    return rotation;
  }
  read_scaling(keys, max_positions, rules, rope);
  rotation.rotary_dim = read_rotary_dim(keys, head_dim, rules);
  if (rules.grows_queries) {
    rope.query_growth = keys.number("llama_4_scaling_beta", {0, 1e3}, 0.0F);
    if (rope.query_growth > 0)
      rope.original_positions = keys.integer("original_max_position_embeddings", kPositionCount);
  }
  return rotation;
}

}  // namespace lacuna
