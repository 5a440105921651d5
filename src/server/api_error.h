// What a client is told instead of an answer.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lacuna {

/// A request that cannot be answered. InputErrors, too, reach clients as such, with status 400.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}

  int status() const { return status_; }

 private:
  int status_;
};

/// The object that OpenAI's clients read: {"error": {"message", "type", "param", "code"}}.
nlohmann::ordered_json error_json(int status, std::string_view sentence);

}  // namespace lacuna
