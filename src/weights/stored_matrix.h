// Interface through which models load weights, for any file format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "weights/packed_matrix.h"
#include "weights/quantize.h"

namespace lacuna {

/// A matrix as stored in a file. Safe for concurrent reads.
class StoredMatrix {
 public:
  virtual ~StoredMatrix() = default;

  /// Reads row n as f32, without loss. out  [inputs]
  virtual void read(int64_t n, float* out) const = 0;
  /// File and tensor names, for messages.
  virtual std::string place() const { return "the matrix"; }

  /// Quantization that holds these weights without loss; empty if they are dense.
  virtual std::optional<Quantization> quantization() const { return {}; }
  /// Reads row n in quantization(); `out` must have its sizes.
  virtual void read_codes(int64_t n, QuantizedRow& out) const;

  /// Rows [first, first + count) without a copy, if they are stored as whole panels of this format; else
  /// empty.
  virtual std::optional<PackedMatrix> panels(const WeightFormat& format, int64_t first, int64_t count) const;
};

/// A checkpoint. Members throw InputError naming file and tensor if a tensor is missing or has another shape.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual bool contains(std::string_view tensor) const = 0;
  virtual std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const = 0;
  /// Returns the weights of a module: the tensor `module`.weight, dense or quantized. The source must outlive
  /// the matrix.
  virtual std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                               int64_t inputs) const = 0;

  /// Lets the system reclaim mapped pages that were read so far.
  virtual void release_pages() const = 0;
};

/// Packs rows [first, first + count) of a matrix: without loss if it is stored in `format`, and without a
/// copy if it is stored as panels. Throws InputError naming the first row with an infinite or NaN weight;
/// panels are not checked again.
PackedMatrix pack(ThreadPool& threads, const WeightFormat& format, const StoredMatrix& stored, int64_t first,
                  int64_t count, int64_t inputs);

/// Throws InputError if a value is infinite or NaN.
///   place  file and tensor, for the message
void expect_finite(std::span<const float> values, std::string_view place);

}  // namespace lacuna
