#include "model/families.h"

#include <algorithm>

#include "base/error.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

std::deque<FamilyEntry>& table() {
  static std::deque<FamilyEntry> entries = {llada_family(),         llada_moe_family(),
                                            dream_family(),         qwen2_family(),
                                            qwen3_family(),         sdar_family(),
                                            fast_dllm_family(),     llada2_family(),
                                            gidd_family(),          qwen3_moe_family(),
                                            sdar_moe_family(),      rnd1_family(),
                                            coda_family(),          a2d_qwen2_family(),
                                            a2d_qwen3_family(),     diffusion_gemma_family(),
                                            llama_family(),         stable_diffcoder_family(),
                                            a2d_llama_family(),     sumi_family(),
                                            nemotron_labs_family(), gemma3_family(),
                                            nemotron_family(),      sdlm_family(),
                                            lfm2_family()};
  return entries;
}

}  // namespace

const std::deque<FamilyEntry>& families() {
  return table();
}

void add_family(const FamilyEntry& entry) {
  for (const FamilyEntry& known : families()) {
    expects(known.name != entry.name && known.architecture != entry.architecture,
            "add_family: the name and the architecture are new");
  }
  table().push_back(entry);
}

const FamilyEntry& family_entry(std::string_view name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const FamilyEntry& entry) { return entry.name == name; });
  expects(found != families().end(), "family_entry: the name of a family");
  return *found;
}

}  // namespace lacuna
