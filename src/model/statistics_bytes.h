// Serialization of sampled rows' statistics, for exchange between ranks of one program.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/sampling.h"

namespace lacuna {

std::vector<std::byte> to_bytes(std::span<const RowStatistics> rows);

/// Throws std::logic_error if the bytes do not hold exactly `rows.size()` rows.
void from_bytes(std::span<const std::byte> bytes, std::span<RowStatistics> rows);

}  // namespace lacuna
