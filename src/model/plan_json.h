// Plans as JSON, the format of `lacuna run --trace-plans`, for reading, comparison and replay.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/plan.h"

namespace lacuna {

/// Converts the whole plan. Default values are left out; a random stream is its key in 16 hexadecimal digits.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// The inverse of to_json(): plan_from_json(to_json(plan), place) == plan. Checks that rows, groups, logits
/// and rules are consistent; the caller must check tokens, positions and cells against the model. Throws
/// InputError.
///   place  prefix of messages, such as "trace.jsonl, line 3"
StepPlan plan_from_json(const nlohmann::json& json, const std::string& place);

}  // namespace lacuna
