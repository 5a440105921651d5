#include "backend/cuda/device.h"
#include "backend/cuda/simt/scheduler.h"

namespace lacuna::cuda {

DeviceList list_devices() {
  DeviceList list;
  list.devices.push_back({.name = "simulator", .total = kSimulatedBytes, .major = 9, .minor = 0});
  return list;
}

int num_devices() {
  return 1;
}

void use_device(int /*index*/) {}

std::string device_name(int /*index*/) {
  return "simulator";
}

DeviceMemory device_memory() {
  return {kSimulatedBytes, kSimulatedBytes};
}

int64_t most_shared_bytes() {
  return simt::simulator_options().max_shared_bytes;
}

}  // namespace lacuna::cuda
