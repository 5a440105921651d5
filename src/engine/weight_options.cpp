#include "engine/weight_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/gguf.h"
#include "base/memory.h"
#include "decode/setting_error.h"
#include "kernels/dispatch.h"
#include "model/adapters.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

[[noreturn]] void refuse(std::string_view field, std::string_view value, std::string_view expected,
                         std::string sentence) {
  throw SettingError({std::string(field), std::string(value), std::string(expected), std::move(sentence)});
}

/// Throws "`field` is VALUE; expected EXPECTED" unless `name` is "auto" or in `known`.
void expect_known(std::string_view field, const std::string& name, std::vector<std::string> known) {
  if (name == "auto" || std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string expected = fmt::format("auto, {}", fmt::join(known, ", "));
  refuse(field, name, expected, fmt::format("`{}` is {}; expected {}", field, name, expected));
}

/// Throws if the CPU has no kernels for the format.
void expect_cpu_format(std::string_view field, const std::optional<WeightFormat>& format) {
  if (!format || format->is_for_cpu()) return;
  const std::string name = describe(*format);
  const std::string expected = fmt::format("auto, {}", fmt::join(cpu_format_names(), ", "));
  refuse(field, name, expected,
         fmt::format("`{}` is {}, for which CUDA devices alone have kernels; expected {}", field, name,
                     expected));
}

/// The named dtype. For "auto": the dtype of a packed copy, else f32 if the checkpoint stores f32, else bf16.
DType choose_dtype(const std::string& name, const ModelSource& source) {
  const std::filesystem::path& folder = source.folder;
  if (name == "f32") return DType::kF32;
  if (name == "bf16" || folder.empty() || GgufFile::is_gguf(folder)) return DType::kBF16;
  if (source.config.packed_for) return *source.config.packed_for;
  return Checkpoint::open(folder).dtype() == DType::kF32 ? DType::kF32 : DType::kBF16;
}

constexpr FormatSpeed kFormatSpeeds[] = {
    {"avx2", "int4", "int8", 3.44, 1.88, 1.93},       {"avx2", "int8", "auto", 2.07, 1.34, 1.33},
    {"avx512-fma", "int4", "int8", 2.90, 2.73, 3.01}, {"avx512-fma", "int8", "int8", 2.08, 2.61, 3.06},
    {"avx512-fma", "int4", "auto", 2.81, 2.00, 1.92}, {"avx512-fma", "int8", "auto", 2.12, 1.88, 1.99},
    {"avx512", "int8", "int8", 1.73, 1.73, 1.84},     {"avx512", "int4", "int8", 1.86, 1.59, 1.77},
    {"avx512", "int8", "auto", 1.64, 1.04, 1.00},     {"amx", "int4", "int8", 2.80, 2.24, 1.28},
    {"amx", "int4", "auto", 1.67, 1.71, 0.90},        {"amx", "int8", "auto", 1.56, 1.55, 0.91},
    {"amx", "int8", "int8", 1.95, 1.47, 1.09},
};

/// Replaces "fastest" by the fastest format of this CPU.
FormatNames without_fastest(FormatNames names, const ModelSource& source) {
  if (names.weights != "fastest") return names;
  const std::vector<FormatSpeed> known = faster_formats(default_table().name);
  if (!names.for_cpu || known.empty()) {
    names.weights = "auto";
    return names;
  }
  names.weights = known.front().weights;
  if (names.activations == "auto" && choose_dtype(names.dtype, source) == DType::kBF16)
    names.activations = known.front().activations;
  return names;
}

std::optional<WeightFormat> chosen_format(const std::string& name) {
  return name == "auto" ? std::nullopt : weight_format(name);
}

std::unique_ptr<WeightSource> open_source(const ModelSource& source) {
  return source.folder.empty() ? nullptr : open_weights(source.folder, source.config);
}

/// The formats of weights with which a run would take no more than `available` bytes.
std::vector<std::string> formats_that_fit(const ModelConfig& config, WeightFormats formats, int64_t canvas,
                                          const WeightSource* stored, int64_t available) {
  std::vector<std::string> fitting;
  if (config.packed_for) return fitting;  // packed weights cannot change their format
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (!known.format.is_quantized() || !known.format.is_for_cpu()) continue;
    formats.layers = known.format;
    const int64_t bytes = predict_cpu_memory(config, formats, canvas, stored).total();
    if (bytes <= available) fitting.push_back(fmt::format("{} ({})", known.name, human_bytes(bytes)));
  }
  return fitting;
}

}  // namespace

std::vector<FormatSpeed> faster_formats(std::string_view isa) {
  std::vector<FormatSpeed> found;
  std::copy_if(std::begin(kFormatSpeeds), std::end(kFormatSpeeds), std::back_inserter(found),
               [&](const FormatSpeed& each) { return each.isa == isa; });
  return found;
}

std::string describe(const FormatSpeed& speed) {
  return fmt::format(
      "--weights {}{}: {:.2f}, {:.2f} and {:.2f} times bf16 at 1, 32 and 512 rows; lacuna tune "
      "certifies what it costs",
      speed.weights, speed.activations == "auto" ? "" : fmt::format(" --activations {}", speed.activations),
      speed.at_1_row, speed.at_32_rows, speed.at_512_rows);
}

std::string faster_weights(const WeightFormats& formats, const ModelConfig& config, int64_t weight_bytes,
                           std::string_view isa) {
  constexpr int64_t kMinBytes = int64_t{256} << 20;
  const std::vector<FormatSpeed> known = faster_formats(isa);
  const bool is_bf16 = formats.dtype == DType::kBF16 && !formats.layers;
  // Weights stored quantized take less than two bytes a parameter.
  const bool is_dense = weight_bytes / 2 >= count_parameters(config) * 9 / 10;
  return is_bf16 && is_dense && weight_bytes >= kMinBytes && !known.empty() ? describe(known.front()) : "";
}

WeightFormats weight_formats(const FormatNames& given, const ModelSource& source) {
  const FormatNames names = without_fastest(given, source);
  expect_known("dtype", names.dtype, {"f32", "bf16"});
  std::vector<std::string> known = weight_format_names();
  known.insert(known.begin(), "fastest");
  expect_known("weights", names.weights, std::move(known));
  expect_known("head_weights", names.head_weights, weight_format_names());
  expect_known("kv_cache", names.kv_cache, {"f32", "bf16", "int8"});
  expect_known("activations", names.activations, {"int8"});
  const std::optional<WeightFormat> layers = chosen_format(names.weights);
  const std::optional<WeightFormat> embedding = chosen_format(names.head_weights);
  if (names.for_cpu) {
    expect_cpu_format("weights", layers);
    expect_cpu_format("head_weights", embedding);
  }
  std::string dtype = names.dtype;
  if (dtype == "auto" && layers && !layers->is_quantized()) dtype = names.weights;
  if (dtype == "auto" && !names.for_cpu) dtype = "bf16";
  WeightFormats formats(choose_dtype(dtype, source));
  formats.layers = layers;
  formats.embedding = embedding;
  const std::string_view rows = name_of(formats.dtype);
  const auto check = [&](std::string_view field, const std::optional<WeightFormat>& format) {
    if (!format || format->is_quantized() || format->dtype == formats.dtype) return;
    const std::string_view value = name_of(format->dtype);
    refuse(field, value, fmt::format("{}, or a quantized format", rows),
           fmt::format("`{}` is {}, and rows are {}; expected the same, or a quantized format", field, value,
                       rows));
  };
  check("weights", layers);
  check("head_weights", embedding);
  formats.kv_int8 = names.kv_cache == "int8";
  if (!formats.kv_int8 && names.kv_cache != "auto" && names.kv_cache != rows) {
    refuse(
        "kv_cache", names.kv_cache, fmt::format("{} or int8", rows),
        fmt::format("`kv_cache` is {}, and rows are {}; expected the same, or int8", names.kv_cache, rows));
  }
  formats.int8_activations = names.activations == "int8";
  if (formats.int8_activations && formats.dtype != DType::kBF16) {
    refuse("activations", "int8", "auto",
           fmt::format("`activations` is int8, and rows are {}; expected `dtype` bf16", rows));
  }
  return formats;
}

RunMemory predict_run_memory(const ModelSource& source, const WeightFormats& formats, int64_t canvas) {
  return predict_cpu_memory(source.config, formats, canvas, open_source(source).get());
}

void check_memory(const std::string& name, const ModelSource& source, const WeightFormats& formats) {
  const ModelConfig& config = source.config;
  const int64_t canvas = std::min<int64_t>(config.max_positions, 1024);
  const AvailableMemory available = available_memory();
  // No stored format is larger than the dense one. Most models fit as dense, and need no second look at their
  // files.
  if (predict_cpu_memory(config, formats, canvas, nullptr).total() <= available.bytes) return;
  const std::unique_ptr<WeightSource> stored = open_source(source);
  const RunMemory needed = predict_cpu_memory(config, formats, canvas, stored.get());
  if (needed.total() <= available.bytes) return;
  const std::vector<std::string> fitting =
      formats_that_fit(config, formats, canvas, stored.get(), available.bytes);
  refuse(
      "ignore_memory", "false", "true, or formats that take less",
      fmt::format(
          "{} needs {} of memory (weights {}, K/V and buffers {} for {} tokens), and {} are available{}; {}; "
          "`ignore_memory` loads it nevertheless",
          name, human_bytes(needed.total()), human_bytes(needed.weights),
          human_bytes(needed.kv + needed.buffers), canvas, human_bytes(available.bytes),
          available.limited_by_group ? " in this control group" : "",
          fitting.empty() ? "no format of `weights` would fit"
                          : fmt::format("`weights` {} would fit", fmt::join(fitting, ", "))));
}

}  // namespace lacuna
