// The canvas of POST /v1/infill, which a body spells as parts, as tokens or as a text before and one after.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "server/api_request.h"

namespace lacuna {

/// The parts of the canvas, as the body orders them. FieldError names `input`, `tokens`, `mask`, ... or the
/// member of a part whose value cannot be used.
std::vector<CanvasPart> parse_canvas(const nlohmann::json& body);

}  // namespace lacuna
