// In which formats a model's weights and K/V are kept, from the names that people type, and whether a run
// with them fits into memory. Sizes are in bytes.
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
  std::string activations = "auto";   ///< "int8": those that quantized weights meet
  /// Whether the CPU computes: fp8 weights are for other devices, where `dtype` auto is bf16 whatever is
  /// stored.
  bool for_cpu = true;
};

/// How many times as fast as bf16 weights the matmuls of a format are on CPUs of an instruction set, in one
/// run of `lacuna bench formats` on one machine of each kind
/// (docs/guide/faster.md has the machines). Others with these instructions differ.
struct FormatSpeed {
  std::string_view isa, weights, activations;  ///< names of LACUNA_ISA and FormatNames
  double at_1_row, at_32_rows, at_512_rows;
};

/// The formats that are faster than bf16 at 32 rows, where diffusion models work, the fastest first; none
/// where bf16 is, or nothing has been measured. "fastest" weights are the first, and its activations where
/// rows are bf16 and nothing else was named. So the choice depends on the instruction set alone.
std::vector<FormatSpeed> faster_formats(std::string_view isa);

/// The flags that choose it, how much faster it is, and what certifies the loss, in one line.
std::string describe(const FormatSpeed& speed);

/// describe() of the fastest format, the first of faster_formats(isa), for a model with dense bf16 weights.
/// Empty where no format is known to be faster than bf16, where weights are f32 or quantized, and below 256
/// MiB, which caches may hold.
///   weight_bytes  of the model as it was loaded
std::string faster_weights(const WeightFormats& formats, const ModelConfig& config, int64_t weight_bytes,
                           std::string_view isa);

/// Parses format names. Throws SettingError with these fields if one is not a format or they contradict each
/// other.
WeightFormats weight_formats(const FormatNames& names, const ModelSource& source);

/// Predicted memory of a run over `canvas` tokens. Opens the files, reads no weights; a model without weights
/// is taken for a dense one. Throws InputError.
RunMemory predict_run_memory(const ModelSource& source, const WeightFormats& formats, int64_t canvas);

/// SettingError, of `ignore_memory`, where a run cannot fit into the memory that is available now. Its
/// sentence lists the formats of `weights` that would.
///   name  of the model, for the sentence
void check_memory(const std::string& name, const ModelSource& source, const WeightFormats& formats);

}  // namespace lacuna
