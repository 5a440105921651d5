// Files and connections that the process may open at a time.
#pragma once

#include <cstddef>

namespace lacuna {

/// Raises the process's limit of open files to what the system allows it. Returns the limit.
size_t raise_descriptor_limit();

/// How many more files the process may open now.
size_t free_descriptors();

}  // namespace lacuna
