// The process's limit on open files and connections.
#pragma once

#include <cstddef>

namespace lacuna {

/// Raises the soft limit on open files to the hard limit, at most 2^20. Returns the limit.
size_t raise_descriptor_limit();

/// How many more files the process may open now.
size_t free_descriptors();

}  // namespace lacuna
