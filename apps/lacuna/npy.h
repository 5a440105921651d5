// Matrices in NumPy's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/matrix.h"

namespace lacuna {

/// Writes float32 [rows, cols]. Throws InputError.
void write_npy(const std::filesystem::path& path, ConstMatrix<float> values);

/// Reads a float32 or float64 matrix of this shape into row-major order. Throws InputError.
std::vector<float> read_npy(const std::filesystem::path& path, int64_t rows, int64_t cols);

}  // namespace lacuna
