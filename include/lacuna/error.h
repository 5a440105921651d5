// Exceptions of the library.
#pragma once

#include <stdexcept>

#include "lacuna/export.h"

namespace lacuna {

/// Thrown for an invalid model, prompt or option. what() is one sentence that names the file or the field,
/// the value and what is accepted. Other exceptions are failures of the machine (std::bad_alloc) or bugs of
/// the library (std::logic_error).
class LACUNA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lacuna
