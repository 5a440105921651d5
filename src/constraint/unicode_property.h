// Sets of code points that \p{...} names.
#pragma once

#include <optional>
#include <string_view>

#include "constraint/expression.h"

namespace lacuna {

/// General categories of Unicode by their short or long names, alone or after "General_Category=" and "gc="
/// ("L", "Letter", "gc=Lu"), Any, Assigned and ASCII; empty for other properties and scripts. Charges the
/// thread's Budget.
std::optional<CodePointSet> unicode_property(std::string_view name);

}  // namespace lacuna
