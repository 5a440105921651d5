#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "model/model.h"

namespace lacuna {

/// A model ready to run.
struct LoadedModel {
  std::shared_ptr<const Model> weights;  ///< null if ranks or another device hold them
  std::shared_ptr<const BackendModel> model;
  std::shared_ptr<const CpuDevice> device;           ///< threads of the CPU
  std::shared_ptr<const CudaDevice> cuda = nullptr;  ///< null: the CPU computes
  double load_seconds = 0;

  KernelContext context() const { return device->context(); }
};

}  // namespace lacuna
