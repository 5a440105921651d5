// Where each matrix and vector of a model lies in its checkpoint, under the names of the published files or
// of another format, which may hold several below each other in one tensor.
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
  std::string key;  ///< the same for the same matrix under all names: "3.q"
  std::string module;
  int64_t first = 0, count = 0, total = 0;
  int64_t inputs = 0;
  bool has_bias = false;  ///< [total], `module`.bias
};

/// A tensor that is no matrix: a norm, a bias of experts, a learned key.
struct VectorPlace {
  std::string key;
  std::string tensor;  ///< its whole name
  std::vector<int64_t> shape;
};

/// Whether a checkpoint holds a tensor.
using HoldsTensor = std::function<bool(const std::string& tensor)>;

/// All matrices, the head of tied embeddings among them.
///   holds  decides between a fused tensor and its parts where names has both; empty: both are listed
std::vector<MatrixPlace> matrix_places(const ModelConfig& config, const TensorNames& names,
                                       const HoldsTensor& holds = {});
/// All vectors but the biases of matrices.
std::vector<VectorPlace> vector_places(const ModelConfig& config, const TensorNames& names);

}  // namespace lacuna
