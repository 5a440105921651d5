// Whether a JSON Schema is one: the forms of its keywords, as the metaschemas of its drafts say them.
#pragma once

#include "constraint/schema_reader.h"

namespace lacuna {

/// Throws InputError that names the path of the first keyword whose value has a form that no draft allows,
/// whether or not the keyword can matter ({"type": "string", "minItems": -1}), or of a reference that leads
/// nowhere. Looks at every schema that the root has or refers to, and at the forms of definitions that
/// nothing refers to. A "required" that is a flag, as draft 3 has it, is let pass. Charges the thread's
/// Budget.
void check_forms(const SchemaReader& root);

}  // namespace lacuna
