// Error replies for exceptions.
#pragma once

#include <exception>
#include <string>

namespace lacuna {

struct Failure {
  int status = 500;
  std::string sentence;
  std::string field = {};  ///< the request's invalid field; empty: unknown
};

/// Status and sentence of ApiError, SchedulingError, WorkCancelled, FieldError and InputError; status 500 for
/// other exceptions.
Failure describe_failure(const std::exception_ptr& error);

}  // namespace lacuna
