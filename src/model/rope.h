// Rotary position embedding: what a checkpoint says of it, and the frequencies that follow.
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
    kLinear,   ///< all pairs are slowed by `factor`
    kYarn,     ///< slow pairs are slowed by `factor`, fast ones are not, and a ramp lies between
    kLlama3,   ///< the same with a ramp over the turns that a pair makes in `original_positions`
    kDynamic,  ///< as kNone up to max_positions; a context that scale_rope() stretches changes theta
  };

  float theta = 10000;
  Scaling scaling = Scaling::kNone;
  float factor = 1;                ///< how many times longer the context became
  int64_t original_positions = 0;  ///< YaRN, Llama 3: the context before scaling
  float beta_fast = 32;    ///< YaRN: pairs that turn more often than this in the old context keep their speed
  float beta_slow = 1;     ///< YaRN: pairs that turn less often than this are slowed by `factor`
  bool whole_ramp = true;  ///< YaRN: the ramp begins and ends at pairs, not between two
  float low_turns = 1;     ///< Llama 3: pairs with fewer turns in the old context are slowed by `factor`
  float high_turns = 4;    ///< Llama 3: pairs with more turns keep their speed
  int64_t num_turning = 0;      ///< number of leading pairs that rotate; 0: all
  float attention_scaling = 1;  ///< YaRN: multiplies cos and sin
  /// b of Llama 4's temperature: the rotated query of position p is multiplied by
  /// 1 + b ln(1 + floor(p / original_positions)); 0: it is not.
  float query_growth = 0;
  std::vector<float> divisors =
      {};  ///< [rotary_dim / 2] what frequencies are divided by at last; empty: nothing

  bool operator==(const RopeConfig&) const = default;
};

/// Radians per position of each pair: [rotary_dim / 2], the first turns fastest. Rounded to f32 where the
/// reference implementation rounds: modeling_rope_utils of transformers 5.
std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t rotary_dim);

/// Factor of the rotated query of a position (RopeConfig::query_growth).
float query_scale(const RopeConfig& rope, int64_t position);

/// Stretches the context that RoPE tells apart `factor` times, in the NTK-aware form: theta becomes
/// theta * factor^(r / (r - 2)), so that the slowest pair turns exactly `factor` times more slowly and the
/// fastest as before. LongLLaDA (arXiv 2506.14429) shows that it works for diffusion models without training.
/// Under kDynamic, theta becomes what the published code has for a sequence `factor` times as long as
/// max_positions: theta * (f * factor - f + 1)^(r / (r - 2)), f being RopeConfig::factor.
///   factor      context wanted / context trained on, >= 1
///   rotary_dim  r: ModelConfig::rotary_dim
/// Throws InputError where r leaves no second pair to slow down.
void scale_rope(RopeConfig& rope, double factor, int64_t rotary_dim);

/// The reading that a family's class has of the keys of its rotation.
struct RopeRules {
  float usual_theta = 0;       ///< where no key says it; 0: one must
  float usual_share = 1;       ///< "partial_rotary_factor" where it is absent
  bool turns_shares = false;   ///< whether another share of each head than all of it can turn
  bool scales = true;          ///< whether the class has other types than "default"
  bool stops_turning = false;  ///< whether "proportional" is computed: Gemma's, where slow pairs do not turn
  bool grows_queries = false;  ///< whether "llama_4_scaling_beta" is computed (RopeConfig::query_growth)
  std::string_view layers = "full_attention";  ///< the kind of layers, where a file has an object for each
  bool is_only_kind = true;                    ///< whether all layers are of that kind
  /// The key of theta next to the objects. Gemma 3's windows have their own, and what an object without kinds
  /// of layers says is not theirs.
  std::string_view outer_theta = "rope_theta";
};

struct Rotation {
  RopeConfig rope;
  int64_t rotary_dim = 0;  ///< dimensions of a head, the first ones, that turn; may be odd or 0 in a bad file
};

/// The rotation of a checkpoint, from all forms in which files have it: "rope_theta", "partial_rotary_factor"
/// and "rope_scaling" as the transformers library wrote them up to version 4, "rope_parameters" since, either
/// with one object for each kind of layers. A file may have several if they agree.
///   json           config.json, or the object of the language model in it
///   head_dim       dimensions of a head
///   max_positions  "max_position_embeddings"
/// Throws InputError that names the key, for types that are not computed (longrope, mrope and others), values
/// out of range, and two keys that disagree.
Rotation read_rope(const JsonObject& json, int64_t head_dim, int64_t max_positions,
                   const RopeRules& rules = {});

}  // namespace lacuna
