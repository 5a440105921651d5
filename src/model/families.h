// The table of model families.
#pragma once

#include <deque>
#include <string_view>

#include "model/family.h"

namespace lacuna {

/// One entry for each supported architecture. Entries keep their address.
const std::deque<FamilyEntry>& families();

/// Adds a custom family; call it before the first config is read. The entry's views must stay valid. Throws
/// std::logic_error if the name or the architecture exists already.
void add_family(const FamilyEntry& entry);

/// The entry with this name.
const FamilyEntry& family_entry(std::string_view name);

}  // namespace lacuna
