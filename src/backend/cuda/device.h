// Device queries: the list of devices and their memory. Implemented by device_cuda.cpp and, without CUDA,
// device_simulated.cpp. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::cuda {

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H200"
  int64_t total = 0;
  int major = 0;  ///< compute capability major.minor
  int minor = 0;
  int num_processors = 0;
};

/// Versions are 1000 * major + 10 * minor: 13000 is 13.0.
struct DeviceList {
  std::vector<DeviceInfo> devices;  ///< in the order of use_device()
  std::string why_none;             ///< reason for the lack of devices, a sentence; empty if there are some
  int driver_version = 0;           ///< latest CUDA version that the driver supports; 0: no driver
  int runtime_version = 0;          ///< 0: the simulator
};

/// Never throws: without a driver the list is empty, with a reason. Allocates no device memory.
DeviceList list_devices();

/// "13.0" for 13000.
std::string version_text(int version);

struct DeviceMemory {
  int64_t total = 0;
  int64_t free = 0;
};

/// How many devices there are; the simulator has one.
int num_devices();
/// Makes this thread allocate and launch on this device.
///   index  below num_devices()
void use_device(int index);
/// "cuda:0 (NVIDIA H200)", or "simulator".
std::string device_name(int index);
/// Memory of the device in use. The simulator has kSimulatedBytes in all.
DeviceMemory device_memory();
/// Maximum shared memory of a block on the device in use; the simulator has an option.
int64_t most_shared_bytes();

/// Memory that the simulator reports: enough for the mini models, and quick to fill with NaN.
inline constexpr int64_t kSimulatedBytes = int64_t{256} << 20;

}  // namespace lacuna::cuda
