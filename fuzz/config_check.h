// Checks the invariants of every config that was read.
#pragma once

#include <cmath>
#include <cstdint>

#include "fuzz.h"
#include "model/config.h"

namespace fuzz {

inline void check_config(const lacuna::ModelConfig& config) {
  check(config.num_layers > 0 && config.hidden_dim > 0 && config.vocab_size > 0 && config.max_positions > 0);
  check(config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
  check(config.ffn_dim > 0 || config.has_experts());
  check(config.q_dim() > 0 && config.q_dim() <= int64_t{1} << 20);
  for (const lacuna::TokenId id : config.end_ids) check(id >= 0 && id < config.vocab_size);
  check(config.mask_id < config.vocab_size);
  for (const float frequency : lacuna::rope_frequencies(config.rope, config.head_dim)) {
    check(std::isfinite(frequency));
  }
}

}  // namespace fuzz
