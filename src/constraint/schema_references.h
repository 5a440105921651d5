// Rewrites references by anchor or URI in a JSON Schema as JSON pointers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace lacuna {

/// A copy of the document with references as JSON pointers in "$ref" ("#/$defs/node"): references to an
/// "$anchor", by a URI relative to an "$id" (RFC 3986, JSON Schema core 8.2), and each "$dynamicRef" or
/// "$recursiveRef" with a single possible target. Empty if all references are pointers already. External and
/// dangling references stay unchanged. Charges the thread's Budget.
std::optional<nlohmann::ordered_json> with_plain_references(const nlohmann::ordered_json& document);

}  // namespace lacuna
