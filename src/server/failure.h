// Error replies for exceptions.
#pragma once

#include <exception>
#include <string>

namespace lacuna {

struct Failure {
  int status = 500;
  std::string sentence;
  std::string field = {};  ///< field of the request that is at fault; empty: unknown
};

/// ApiError, SchedulingError, WorkCancelled, FieldError and InputError become what they say; anything else
/// has status 500.
Failure describe_failure(const std::exception_ptr& error);

}  // namespace lacuna
