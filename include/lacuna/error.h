// Exceptions of the library.
#pragma once

#include <stdexcept>

#include "lacuna/export.h"

namespace lacuna {

/// Input that cannot be used: a model, a prompt or an option. what() is one sentence that names the file or
/// the field, the value and what is accepted. Anything else that is thrown is a failure of the machine
/// (std::bad_alloc) or of the library (std::logic_error).
class LACUNA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lacuna
