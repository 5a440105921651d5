// Event files of TensorBoard's scalar dashboard.
//
// A file is a sequence of records of TFRecord: the length of the data (8 bytes), the masked CRC-32C of these
// bytes (4), the data, the masked CRC-32C of the data (4), all little-endian. The data is a protobuf message
// `Event`, of which these fields are written: wall_time = 1 (double), step = 2 (int64), file_version = 3
// (string, in the first record), summary = 5, whose values (1) have tag = 1 (string) and simple_value = 2
// (float).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/written_file.h"

namespace lacuna::train {

struct Scalar {
  std::string tag;  ///< "loss", "accuracy/stories"
  double value = 0;
};

/// CRC-32C (Castagnoli), with the reflected polynomial 0x82f63b78.
uint32_t crc32c(std::string_view bytes);

/// A TFRecord record with this data.
std::string event_record(std::string_view data);
/// Serialized Event messages: that of the first record, and one with the scalars of a step.
std::string version_event(double wall_time);
std::string scalar_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

/// Appends records to an event file.
class EventFile {
 public:
  /// Creates events.out.tfevents.SECONDS.PROCESS in `folder`. Throws InputError if that fails.
  explicit EventFile(const std::filesystem::path& folder);

  /// Appends the scalars of a step, without NaNs.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  GrowingFile file_;
};

}  // namespace lacuna::train
