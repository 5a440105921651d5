// In which formats a model's weights and K/V are kept, from the names that people type, and whether a run
// with them fits into memory. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "engine/opened_model.h"
#include "model/parameters.h"

namespace lacuna {

/// Names of formats as docs/reference/flags.md lists them ("Model"). "auto": as stored.
struct FormatNames {
  std::string dtype = "auto";  ///< dtype of activations, and of weights and K/V without a format of their own
  std::string weights = "auto";       ///< of layers
  std::string head_weights = "auto";  ///< of embedding and output head
  std::string kv_cache = "auto";      ///< "int8": 8 bits per element, with a scale per head
  std::string activations = "auto";   ///< "int8": those that quantized weights meet
  /// Whether the CPU computes: fp8 weights are for other devices, where `dtype` auto is bf16 whatever is
  /// stored.
  bool for_cpu = true;
};

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
