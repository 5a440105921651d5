// The message of an exception, for the user.
#pragma once

#include <exception>
#include <new>

namespace lacuna {

/// Returns error.what(), but a readable sentence for std::bad_alloc.
inline const char* text_of(const std::exception& error) {
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return is_memory ? "there is not enough memory for it; try again later" : error.what();
}

}  // namespace lacuna
