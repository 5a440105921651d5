#include "engine/tuned_formats.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/adapters.h"

namespace lacuna {
namespace {

/// The field of a setting; null for other settings.
std::string* field_of(FormatNames& names, std::string_view setting) {
  if (setting == "weights") return &names.weights;
  return setting == "kv-cache" ? &names.kv_cache : nullptr;
}

}  // namespace

std::vector<TuningPath> format_paths(const FormatNames& given, const ModelSource& source,
                                     const ModelSource* guide) {
  std::vector<TuningPath> paths;
  const WeightFormats loaded = weight_formats(given, source);
  const bool is_packed = source.config.packed_for || (guide != nullptr && guide->config.packed_for);
  if (given.weights == "auto" && !is_packed) {
    const std::unique_ptr<WeightSource> stored =
        source.folder.empty() ? nullptr : open_weights(source.folder, source.config);
    TuningPath path{"weights", "weights", {}};
    path.is_of_loading = true;
    int64_t bytes = predicted_bytes(source.config, loaded, stored.get());
    for (const char* const name : {"bf16", "int8", "int4"}) {
      const TuningSetting setting{"weights", name};
      // bf16 weights imply bf16 activations and K/V, which a given `dtype` or `kv_cache` may contradict.
      if (setting.value == "bf16" && (given.dtype != "auto" || given.kv_cache != "auto")) continue;
      const WeightFormats formats = weight_formats(with_formats(given, {&setting, 1}), source);
      const int64_t taken = predicted_bytes(source.config, formats, stored.get());
      if (taken >= bytes) continue;
      bytes = taken;
      path.levels.push_back({setting});
    }
    if (!path.levels.empty()) paths.push_back(std::move(path));
  }
  if (given.kv_cache == "auto") {
    TuningPath path{"kv", "kv", {{{"kv-cache", "int8"}}}};
    path.is_of_loading = true;
    paths.push_back(std::move(path));
  }
  return paths;
}

FormatNames with_formats(FormatNames given, std::span<const TuningSetting> loading) {
  for (const TuningSetting& setting : loading) {
    std::string* const field = field_of(given, setting.name);
    expects(field != nullptr, "with_formats: weights and kv-cache are formats");
    if (*field == "auto") *field = setting.value;
  }
  return given;
}

}  // namespace lacuna
