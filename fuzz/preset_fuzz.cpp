// A saved preset: refused with InputError, or a value that its own file gives again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "options/saved_preset.h"

using fuzz::check;

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try {
    const lacuna::SavedPreset preset = lacuna::parse_saved_preset(text, "the file");
    check(lacuna::is_preset_name(preset.name));
    const lacuna::Certificate& certificate = preset.certificate;
    check(certificate.risk > 0 && certificate.risk < 1);
    check(certificate.confidence > 0 && certificate.confidence < 1);
    check(certificate.prompts >= 1 && certificate.losses <= static_cast<double>(certificate.prompts));
    check(lacuna::parse_saved_preset(lacuna::to_json(preset).dump(), "its own file") == preset);
    const lacuna::GenerationOptions options = lacuna::with_saved_preset(preset, {});
    check(!options.preset && lacuna::overridden_settings(preset, {}).empty());
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
