// Error replies to clients.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/field_error.h"

namespace lacuna {

/// An error reply with its HTTP status. InputErrors are sent to clients with status 400.
class ApiError : public std::runtime_error {
 public:
  ///   field  the invalid field of the request, by the name that was sent; empty: none
  ApiError(int status, const std::string& sentence, std::string_view field = {})
      : std::runtime_error(cut_middle(sentence)), status_(status), field_(cut_middle(field)) {}

  int status() const { return status_; }
  const std::string& field() const { return field_; }

 private:
  int status_;
  std::string field_;
};

/// OpenAI's error object: {"error": {"message", "type", "param", "code"}}. Each text has at most
/// kMaxErrorBytes.
///   field  "param"; empty: null
nlohmann::ordered_json error_json(int status, std::string_view sentence, std::string_view field = {});

}  // namespace lacuna
