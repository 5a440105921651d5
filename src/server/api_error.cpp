#include "server/api_error.h"

#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

std::string_view type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "unavailable_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

nlohmann::ordered_json error_json(int status, std::string_view sentence, std::string_view field) {
  return {{"error",
           {{"message", replace_ill_formed(cut_middle(sentence))},
            {"type", type_of(status)},
            {"param", field.empty() ? nlohmann::ordered_json()
                                    : nlohmann::ordered_json(replace_ill_formed(cut_middle(field)))},
            {"code", status}}}};
}

}  // namespace lacuna
