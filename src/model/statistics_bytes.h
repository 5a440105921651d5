// Statistics of sampled rows as bytes, which ranks of one program exchange.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/sampling.h"

namespace lacuna {

std::vector<std::byte> to_bytes(std::span<const RowStatistics> rows);

/// std::logic_error where the bytes are not those of as many rows.
void from_bytes(std::span<const std::byte> bytes, std::span<RowStatistics> rows);

}  // namespace lacuna
