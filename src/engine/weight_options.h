// Parses the names of weight and K/V formats and checks that a run with them fits into memory. Sizes are in
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/opened_model.h"
#include "model/parameters.h"

namespace lacuna {

/// Names of formats as docs/reference/flags.md lists them ("Model"). "auto": as stored.
struct FormatNames {
  std::string dtype = "auto";  ///< dtype of activations, and of weights and K/V without a format of their own
  std::string weights = "auto";       ///< of layers; "fastest": see FormatSpeed
  std::string head_weights = "auto";  ///< of embedding and output head
  std::string kv_cache = "auto";      ///< "int8": 8 bits per element, with a scale per head
  std::string activations = "auto";   ///< "int8": for matmuls with quantized weights
  /// Whether the CPU computes. Other devices also support fp8 weights; there, `dtype` auto is always bf16.
  bool for_cpu = true;
};

/// Speedup of a format's matmuls over bf16 weights for one CPU instruction set. Measured once by `lacuna
/// bench formats` on one machine each (docs/guide/faster.md); other machines differ.
struct FormatSpeed {
  std::string_view isa, weights, activations;  ///< names of LACUNA_ISA and FormatNames
  double at_1_row, at_32_rows, at_512_rows;
};

/// The formats faster than bf16 at 32 rows, a typical size for diffusion models, the fastest first; empty if
/// bf16 is fastest or nothing was measured. Weights "fastest" means the first, with its activations if the
/// dtype is bf16 and no other activations were named. So the choice depends on the instruction set alone.
std::vector<FormatSpeed> faster_formats(std::string_view isa);

/// Describes a format in one line: its flags, its speedup, and how to measure its loss.
std::string describe(const FormatSpeed& speed);

/// describe() of the fastest format, the first of faster_formats(isa), for a model with dense bf16 weights.
/// Empty if no format is known to be faster than bf16, if weights are f32 or quantized, and below 256 MiB,
/// which may fit in caches.
///   weight_bytes  size of the loaded weights
std::string faster_weights(const WeightFormats& formats, const ModelConfig& config, int64_t weight_bytes,
                           std::string_view isa);

/// Parses format names. Throws SettingError with the field if a name is not a format or formats contradict
/// each other.
WeightFormats weight_formats(const FormatNames& names, const ModelSource& source);

/// Predicts the memory of a run over `canvas` tokens. Opens the files but reads no weights; a model without
/// files counts as dense. Throws InputError.
RunMemory predict_run_memory(const ModelSource& source, const WeightFormats& formats, int64_t canvas);

/// Throws SettingError for `ignore_memory` if a run does not fit into the available memory. The sentence
/// lists the formats of `weights` that would fit.
///   name  the model's name, for the sentence
void check_memory(const std::string& name, const ModelSource& source, const WeightFormats& formats);

}  // namespace lacuna
