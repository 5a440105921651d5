// config.json, generation_config.json and tokenizer_config.json, separated by zero bytes: refused with
// InputError, or sizes whose products fit and tokens inside the vocabulary.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace {

/// Cuts `rest` after its first zero byte and returns what was before it.
std::string_view next_text(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  lacuna::ConfigTexts texts;
  texts.config = next_text(rest);
  texts.generation_config = next_text(rest);
  texts.tokenizer_config = next_text(rest);
  try {
    const lacuna::ModelConfig config = lacuna::read_config_texts(texts, "fuzz");
    check(config.num_layers > 0 && config.hidden_dim > 0 && config.vocab_size > 0 &&
          config.max_positions > 0);
    check(config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
    check((config.ffn_dim > 0) != config.has_experts());
    check(config.q_dim() > 0 && config.q_dim() <= int64_t{1} << 20);
    for (const lacuna::TokenId id : config.end_ids) check(id >= 0 && id < config.vocab_size);
    check(config.mask_id < config.vocab_size);
    for (const float frequency : lacuna::rope_frequencies(config.rope, config.head_dim)) {
      check(std::isfinite(frequency));
    }
    lacuna::family_entry(config.family).tensors.layer(config.num_layers - 1);
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
