// Locations of a model's matrices and vectors in a checkpoint, under published names or those of another
// format. One tensor may stack several matrices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/families.h"

namespace lacuna {

/// Rows [first, first + count) of the tensor `module`.weight [total, inputs].
struct MatrixPlace {
  std::string key;  ///< identifies the matrix under any names: "3.q"
  std::string module;
  int64_t first = 0, count = 0, total = 0;
  int64_t inputs = 0;
  bool has_bias = false;  ///< [total], `module`.bias
};

/// A tensor that is not a matrix: a norm, a bias of experts, a learned key.
struct VectorPlace {
  std::string key;
  std::string tensor;  ///< the tensor's full name
  std::vector<int64_t> shape;
};

/// Whether a checkpoint holds a tensor.
using HoldsTensor = std::function<bool(const std::string& tensor)>;

/// Lists all matrices, including the head of tied embeddings.
///   holds  decides between a fused tensor and its parts if `names` has both; empty: lists both
std::vector<MatrixPlace> matrix_places(const ModelConfig& config, const TensorNames& names,
                                       const HoldsTensor& holds = {});
/// Lists all vectors except the biases of matrices.
std::vector<VectorPlace> vector_places(const ModelConfig& config, const TensorNames& names);

}  // namespace lacuna
