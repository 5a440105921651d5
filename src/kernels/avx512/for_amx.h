// What AMX borrows from AVX-512.
#pragma once

#include "base/dtype.h"
#include "kernels/table.h"

namespace lacuna {

/// Weights of inputs [begin, begin + depth) of one quantised panel, rounded to bf16, as a bf16 panel has
/// them. Both are multiples of 32.
///   layout  of the product's panels
void widen_to_bf16(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t begin,
                   int64_t depth, bf16* out);

}  // namespace lacuna
