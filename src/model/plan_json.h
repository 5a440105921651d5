// Plans as JSON: what `lacuna run --trace-plans` writes, to be read, compared and run again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/plan.h"

namespace lacuna {

/// All of the plan. Fields with their default value are left out; a random stream is its key in 16
/// hexadecimal digits.
nlohmann::ordered_json to_json(const StepPlan& plan);

/// The plan that to_json() wrote: plan_from_json(to_json(plan), place) == plan. Its rows, groups, logits and
/// rules fit each other; whether its tokens, positions and cells fit a model is the caller's to check. Throws
/// InputError.
///   place  begins messages, such as "trace.jsonl, line 3"
StepPlan plan_from_json(const nlohmann::json& json, const std::string& place);

}  // namespace lacuna
