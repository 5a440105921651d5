// How much two answers to the same prompt differ.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

/// Share of the longer answer's positions at which the tokens differ, in [0, 1]; 0 if both are empty.
///   a, b  token ids
double token_difference(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace lacuna
