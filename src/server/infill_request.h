// Parses the canvas of POST /v1/infill: parts, tokens, or a prefix and a suffix.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "server/generation_request.h"

namespace lacuna {

/// Default number of tokens that are filled in at a cursor, without n_predict.
inline constexpr int32_t kCursorTokens = 16;

/// Whether a body has the prefix and suffix fields that editors send.
bool has_cursor(const nlohmann::ordered_json& body);

/// The parts of the canvas, in order. FieldError names `input`, `tokens`, `mask`, ... or the
/// member of a part whose value cannot be used.
std::vector<CanvasPart> parse_canvas(const nlohmann::ordered_json& body);

}  // namespace lacuna
