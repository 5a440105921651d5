// Resident memory of the process, and freed memory that the allocator keeps.
#pragma once

#include <cstdint>

namespace lacuna {

/// Resident set size in bytes, mapped files included; 0 if the system does not report it.
int64_t resident_memory();

/// Peak of resident_memory() since the program began; 0 if the system does not report it.
int64_t most_resident_memory();

/// Returns memory that the allocator keeps, though freed, to the system. Does nothing without glibc.
void return_free_memory();

}  // namespace lacuna
