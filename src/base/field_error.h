// Errors about one field of a JSON object that a client sent.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace lacuna {

/// A field of a request whose value cannot be used. The sentence names the field as the request does.
class FieldError : public InputError {
 public:
  FieldError(std::string_view field, const std::string& sentence)
      : InputError(sentence), field_(cut_middle(field)) {}

  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

/// Runs `read` and returns its result. An InputError of it becomes a FieldError of `field`, unless it is one
/// already.
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
