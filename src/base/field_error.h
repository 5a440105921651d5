// Errors about one field of a JSON object that a client sent.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace lacuna {

/// The value of a request's field is invalid. The sentence names the field as the request does.
class FieldError : public InputError {
 public:
  FieldError(std::string_view field, const std::string& sentence)
      : InputError(sentence), field_(cut_middle(field)) {}

  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

/// Returns the result of read(). Rethrows its InputError as a FieldError of `field`; a FieldError passes
/// through.
template <typename Read>
auto in_field(std::string_view field, const Read& read) {
  try {
    return read();
  } catch (const FieldError&) {
    throw;
  } catch (const InputError& error) {
    throw FieldError(field, error.what());
  }
}

}  // namespace lacuna
