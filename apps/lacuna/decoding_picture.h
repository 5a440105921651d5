// A picture of one decoding of a model that plans slots.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report_page.h"

namespace lacuna {

/// An SVG with one row for each forward pass and one column for each position of the answer. The same bytes
/// for the same trace.
std::string draw_decoding(const DecodingTrace& trace, std::string_view title);

/// A token's text, no longer than `letters`, without what XML forbids.
std::string fitted_text(std::string_view text, size_t letters);

}  // namespace lacuna
