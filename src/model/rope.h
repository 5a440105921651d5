// Rotary position embedding: a checkpoint's settings and the resulting frequencies.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lacuna {

class JsonObject;

/// Rotary position embedding of the first ModelConfig::rotary_dim dimensions of a head, in pairs
/// (j, j + rotary_dim / 2).
struct RopeConfig {
  enum class Scaling : uint8_t {
    kNone,
    kLinear,   ///< all frequencies are divided by `factor`
    kYarn,     ///< low frequencies are divided by `factor`, high ones are not; a ramp lies between
    kLlama3,   ///< same with a ramp over the turns that a pair makes in `original_positions`
    kDynamic,  ///< as kNone up to max_positions; scale_rope() changes theta for longer contexts
  };

  float theta = 10000;
  Scaling scaling = Scaling::kNone;
  float factor = 1;                ///< new context length / original context length
  int64_t original_positions = 0;  ///< YaRN, Llama 3: the context before scaling
  float beta_fast = 32;    ///< YaRN: pairs with more turns in the original context keep their frequency
  float beta_slow = 1;     ///< YaRN: pairs with fewer turns have their frequency divided by `factor`
  bool whole_ramp = true;  ///< YaRN: the ramp's ends are rounded to whole pairs
  float low_turns = 1;     ///< Llama 3: pairs with fewer turns in the original context have their frequency
                           ///< divided by `factor`
  float high_turns = 4;    ///< Llama 3: pairs with more turns keep their frequency
  int64_t num_rotated_pairs = 0;  ///< number of leading pairs that rotate; 0: all
  float attention_scaling = 1;    ///< YaRN: multiplies cos and sin
  /// b of Llama 4's temperature: the rotated query of position p is multiplied by 1 + b ln(1 + floor(p /
  /// original_positions)); 0: no scaling.
  float query_growth = 0;
  std::vector<float> divisors = {};  ///< [rotary_dim / 2] final divisors of the frequencies; empty: none

  bool operator==(const RopeConfig&) const = default;
};

/// Radians per position of each pair: [rotary_dim / 2], highest frequency first. Rounded to f32 at the same
/// points as the reference implementation, modeling_rope_utils of transformers 5.
std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t rotary_dim);

/// Factor of the rotated query of a position (RopeConfig::query_growth).
float query_scale(const RopeConfig& rope, int64_t position);

/// NTK-aware context extension: with r = rotary_dim, theta becomes theta * factor^(r / (r - 2)), which
/// divides the lowest frequency by exactly `factor` and keeps the highest. LongLLaDA (arXiv 2506.14429) shows
/// that it works for diffusion models without training. Under kDynamic, theta becomes theta * (f * factor - f
/// + 1)^(r / (r - 2)) with f = RopeConfig::factor, as in the published code for a sequence of factor *
/// max_positions.
///   factor      context wanted / context trained on, >= 1
///   rotary_dim  see ModelConfig
/// Throws InputError if r is too small for a second pair.
void scale_rope(RopeConfig& rope, double factor, int64_t rotary_dim);

/// A family's rules for reading the keys of its rotation.
struct RopeRules {
  float usual_theta = 0;                 ///< default theta; 0: a key is required
  float usual_share = 1;                 ///< default of "partial_rotary_factor"
  bool allows_partial_rotation = false;  ///< whether a part of each head may be rotated instead of all of it
  bool scales = true;                    ///< whether the class supports types other than "default"
  bool supports_proportional = false;    ///< whether "proportional" is supported: Gemma's type, in which
                                         ///< low-frequency pairs are not rotated
  bool grows_queries = false;  ///< whether "llama_4_scaling_beta" is supported (RopeConfig::query_growth)
  std::string_view layers = "full_attention";  ///< layers to read, if a file has one object per kind
  bool is_only_kind = true;                    ///< whether all layers are of that kind
  /// The key of theta outside the objects. Gemma 3's sliding-window layers have their own key and ignore an
  /// object that is not per kind of layers.
  std::string_view outer_theta = "rope_theta";
};

struct Rotation {
  RopeConfig rope;
  int64_t rotary_dim = 0;  ///< leading dimensions of a head that rotate; unchecked: may be odd or 0
};

/// Reads the rotation of a checkpoint in all formats of files: "rope_theta", "partial_rotary_factor" and
/// "rope_scaling" of the transformers library up to version 4, or "rope_parameters" since; either may have
/// one object per kind of layers. A file may use several formats if they agree.
///   json           config.json, or the object of the language model in it
///   head_dim       dimensions of a head
///   max_positions  "max_position_embeddings"
/// Throws InputError naming the key for unsupported types (longrope, mrope and others), values out of range,
/// and two keys that disagree.
Rotation read_rope(const JsonObject& json, int64_t head_dim, int64_t max_positions,
                   const RopeRules& rules = {});

}  // namespace lacuna
