// A model that was loaded.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "model/model.h"

namespace lacuna {

/// A model ready to run.
struct LoadedModel {
  std::shared_ptr<const Model> weights;  ///< on this machine; null where another device has them
  std::shared_ptr<const BackendModel> model;
  std::shared_ptr<const CpuDevice> device;           ///< this machine's threads
  std::shared_ptr<const CudaDevice> cuda = nullptr;  ///< null: this machine computes
  double load_seconds = 0;

  KernelContext context() const { return device->context(); }
};

}  // namespace lacuna
