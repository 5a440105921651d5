// The API description of GET /openapi.json, generated from the lists of endpoints and fields.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/endpoints.h"

namespace lacuna {

/// An OpenAPI 3.1 document, as JSON.
std::string describe_api(std::span<const Endpoint> endpoints, std::string_view version);

}  // namespace lacuna
