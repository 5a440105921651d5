// Checks that a JSON Schema is well formed: its keywords have the types that the drafts' metaschemas demand.
#pragma once

#include "constraint/schema_reader.h"

namespace lacuna {

/// Throws InputError with the path of a keyword whose value no draft allows, even if it has no effect
/// ({"type": "string", "minItems": -1}), or of a dangling reference. Visits all schemas that the root
/// contains or refers to, and definitions that nothing refers to. Accepts draft 3's boolean "required".
/// Charges the thread's Budget.
void check_forms(const SchemaReader& root);

}  // namespace lacuna
