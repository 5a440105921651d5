// The model families that there are.
#pragma once

#include <deque>
#include <string_view>

#include "model/family.h"

namespace lacuna {

/// One entry for each supported architecture. Entries keep their address.
const std::deque<FamilyEntry>& families();

/// Adds a family of the program's own, before the first config is read; its views stay alive.
/// std::logic_error for a name or an architecture that is there already.
void add_family(const FamilyEntry& entry);

/// By its name.
const FamilyEntry& family_entry(std::string_view name);

}  // namespace lacuna
