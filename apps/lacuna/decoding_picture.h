// A picture of one decoding of a model that plans slots.
#pragma once

#include <string>
#include <string_view>

#include "report_page.h"

namespace lacuna {

/// An SVG with one row for each forward pass and one column for each position of the answer. The same bytes
/// for the same trace.
std::string draw_decoding(const DecodingTrace& trace, std::string_view title);

}  // namespace lacuna
