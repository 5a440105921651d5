#include <cstdlib>
#include <new>

#include "backend/cuda/device.h"

namespace lacuna::cuda {

DeviceList list_devices() {
  DeviceList list;
  list.devices.push_back(
      {.number = 0, .name = "simulator", .total = kSimulatedBytes, .major = 9, .minor = 0});
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

HostBuffer::HostBuffer(size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  memory_ = {memory, std::free};
}

}  // namespace lacuna::cuda
