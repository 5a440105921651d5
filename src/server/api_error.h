// Error replies to clients.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/field_error.h"

namespace lacuna {

/// A request that cannot be answered. InputErrors, too, reach clients as such, with status 400.
class ApiError : public std::runtime_error {
 public:
  ///   field  of the request that is at fault, as the request calls it; empty: none
  ApiError(int status, const std::string& sentence, std::string_view field = {})
      : std::runtime_error(cut_middle(sentence)), status_(status), field_(cut_middle(field)) {}

  int status() const { return status_; }
  const std::string& field() const { return field_; }

 private:
  int status_;
  std::string field_;
};

/// The object that OpenAI's clients read: {"error": {"message", "type", "param", "code"}}. Its texts have at
/// most kMaxErrorBytes each.
///   field  "param"; empty: null
nlohmann::ordered_json error_json(int status, std::string_view sentence, std::string_view field = {});

}  // namespace lacuna
