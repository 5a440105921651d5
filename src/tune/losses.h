// How much two answers to the same prompt differ.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

/// Share of the places, of the longer answer, at which the tokens differ: 0 to 1. 0 where both are empty.
///   a, b  token ids
double token_difference(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace lacuna
