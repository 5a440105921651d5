// The task `outside` of tasks.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "tasks/sample.h"

namespace lacuna {

/// Question number `index` modulo 300 for any seed. Throws InputError for the train split.
Sample draw_outside(Split split, uint64_t seed, uint64_t index, const TaskOptions& options);

/// Whether the last number of `text` is the result.
bool check_outside(const Sample& sample, std::string_view text);

}  // namespace lacuna
