#include "model/families.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/family_parts.h"

namespace lacuna {

std::span<const FamilyEntry> families() {
  static const std::array entries = {llada_family(),     llada_moe_family(), dream_family(),
                                     qwen2_family(),     qwen3_family(),     sdar_family(),
                                     fast_dllm_family(), llada2_family(),    gidd_family()};
  return entries;
}

const FamilyEntry& family_entry(Family family) {
  const auto entries = families();
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const FamilyEntry& entry) { return entry.family == family; });
  expects(found != entries.end(), "every Family has an entry");
  return *found;
}

}  // namespace lacuna
