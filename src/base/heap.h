// Memory that the process holds, and what of it the allocator keeps without need.
#pragma once

#include <cstdint>

namespace lacuna {

/// Memory of the process that is in use or was freed and kept by the allocator, mapped files included; 0
/// where the system does not say.
int64_t resident_memory();

/// The most that resident_memory() has been since the program began; 0 where the system does not say.
int64_t most_resident_memory();

/// Gives freed memory that the allocator keeps back to the system. Does nothing where the C library is not
/// glibc.
void return_free_memory();

}  // namespace lacuna
