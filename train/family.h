// The model families that can be trained, and what sets them apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lacuna::train {

enum class Family : uint8_t { kLlada, kDream, kQwen2, kQwen3, kRefusion, kSdar };

/// What a family learns; objective.h has the losses.
enum class Objective : uint8_t { kMaskedTokens, kNextToken, kSlots, kBlocks };

struct FamilyTraits {
  Family family;
  std::string_view name;
  Objective objective;
  bool causal;          ///< a row attends to itself and to the rows before it; otherwise to all (blocks: to
                        ///< its own block and those before)
  bool shifted_logits;  ///< row p - 1 predicts position p; otherwise row p does (slots: of a masked token)
  bool qkv_bias;
  bool qk_norm;  ///< RMSNorm of each head of q and k, with weights that the heads share
  double norm_epsilon;
};

/// All of them, in the order of the enumeration.
std::span<const FamilyTraits> families();

const FamilyTraits& traits_of(Family family);

/// "llada, dream, ..."
std::string family_names();

/// Throws InputError with the list of names.
Family find_family(std::string_view name);

}  // namespace lacuna::train
