// Where tests find models and golden files.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lacuna {

/// The source tree: LACUNA_SOURCE_DIR of the environment, for tests that run on another machine than they
/// were built on, or that of the build.
inline std::filesystem::path source_folder() {
  const char* named = std::getenv("LACUNA_SOURCE_DIR");
  return named != nullptr ? named : LACUNA_SOURCE_DIR;
}

}  // namespace lacuna
