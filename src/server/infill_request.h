// The canvas of POST /v1/infill, which a body spells as parts, as tokens or as a text before and one after.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "server/generation_request.h"

namespace lacuna {

/// Tokens that are filled in at a cursor where n_predict leaves it open.
inline constexpr int32_t kCursorTokens = 16;

/// Whether a body has a text before the hole and one after it, as editors send them.
bool has_cursor(const nlohmann::ordered_json& body);

/// The parts of the canvas, as the body orders them. FieldError names `input`, `tokens`, `mask`, ... or the
/// member of a part whose value cannot be used.
std::vector<CanvasPart> parse_canvas(const nlohmann::ordered_json& body);

}  // namespace lacuna
