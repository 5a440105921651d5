// References of a JSON Schema by anchor or by URI as JSON pointers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace lacuna {

/// The document with all references that are resolved within it as JSON pointers in "$ref"
/// ("#/$defs/node"): those to an "$anchor", by a URI relative to an "$id" (RFC 3986, JSON Schema core 8.2),
/// and a "$dynamicRef" or "$recursiveRef" that has one target however its schema is reached. None where they
/// are pointers already. References that lead out of the document, or nowhere, stay as they are. Charges the
/// thread's Budget.
std::optional<nlohmann::ordered_json> with_plain_references(const nlohmann::ordered_json& document);

}  // namespace lacuna
