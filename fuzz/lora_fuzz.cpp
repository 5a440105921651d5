// adapter_config.json of an adapter: refused with InputError, or numbers for modules that are finite.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "weights/lora_config.h"

using fuzz::check;

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try {
    const lacuna::LoraConfig config = lacuna::LoraConfig::parse(text, "the file");
    for (const char* const module :
         {"model.layers.3.self_attn.q_proj", "layers.0.mlp.experts.12.down_proj", "lm_head", ""}) {
      const int64_t rank = config.rank_of(module);
      check(rank >= 1 && std::isfinite(config.scaling_of(module)));
      config.expect_targeted(module, "tensor");
    }
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
