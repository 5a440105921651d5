// Matrices in NumPy's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/matrix.h"

namespace lacuna {

/// float32 [rows, cols]. Throws InputError.
void write_npy(const std::filesystem::path& path, ConstMatrix<float> values);

/// A matrix of this shape, float32 or float64, in row-major order. Throws InputError.
std::vector<float> read_npy(const std::filesystem::path& path, int64_t rows, int64_t cols);

}  // namespace lacuna
