// This machine as a backend: a pass is computed when it is submitted.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/threads.h"
#include "kernels/table.h"
#include "model/model.h"

namespace lacuna {

/// `kernels` and `threads` outlive it, and one pass at a time uses the threads.
std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model, const KernelTable& kernels,
                                           ThreadPool& threads);

}  // namespace lacuna
