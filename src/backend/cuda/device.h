// Queries of the host to a device besides memory and streams: which devices there are, and how much memory
// one has. Bodies: device_cuda.cpp, and device_simulated.cpp without CUDA. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::cuda {

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H200"
  int64_t total = 0;
  int major = 0;  ///< of the compute capability: 9 of 9.0
  int minor = 0;
  int num_processors = 0;
};

/// Versions are 1000 * major + 10 * minor: 13000 is 13.0.
struct DeviceList {
  std::vector<DeviceInfo> devices;  ///< in the order of use_device()
  std::string why_none;             ///< reason for the lack of devices, a sentence; empty if there are some
  int driver_version = 0;           ///< the latest CUDA that the driver knows; 0: there is no driver
  int runtime_version = 0;          ///< 0: the simulator
};

/// Never throws: without a driver there are no devices, and a reason. Uses no memory of a device.
DeviceList list_devices();

/// "13.0" of 13000.
std::string version_text(int version);

struct DeviceMemory {
  int64_t total = 0;
  int64_t free = 0;
};

/// How many devices there are; the simulator has one.
int num_devices();
/// From now on, this thread allocates and launches on this device.
///   index  below num_devices()
void use_device(int index);
/// "cuda:0 (NVIDIA H200)", or "simulator".
std::string device_name(int index);
/// Memory of the device in use. The simulator has kSimulatedBytes in all.
DeviceMemory device_memory();
/// Shared memory that a block may have at most, in bytes, on the device in use. The simulator has Hopper's.
int64_t most_shared_bytes();

/// Memory that the simulator reports: enough for the mini models, and little to fill with NaN.
inline constexpr int64_t kSimulatedBytes = int64_t{256} << 20;

}  // namespace lacuna::cuda
