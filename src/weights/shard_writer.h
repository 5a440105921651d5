// Writes checkpoints that may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weights/safetensors_writer.h"

namespace lacuna {

/// Tensors and the owner of their memory.
struct HeldTensors {
  std::vector<TensorToWrite> tensors;
  std::shared_ptr<const void> memory;
};

/// An f32 tensor that owns its values.
HeldTensors value_tensor(const std::string& name, const std::vector<int64_t>& shape,
                         std::vector<float> values);

/// Writes tensors into model.safetensors, or into shards and an index once they exceed `shard_bytes`; at most
/// one shard is held in memory. In each file, tensors whose size is a multiple of a page come first, then
/// multiples of half a page, and so on. Each tensor is thereby aligned to that unit, from which kernels read
/// panels fastest.
class ShardWriter {
 public:
  explicit ShardWriter(std::filesystem::path folder, int64_t shard_bytes = int64_t{2} << 30)
      : folder_(std::move(folder)), shard_bytes_(shard_bytes) {}

  /// Adds tensors that must be in the same file. Throws InputError if a file cannot be written.
  void add(HeldTensors held);
  void finish();

  /// Bytes of the tensors added so far.
  int64_t total_bytes() const { return written_ + pending_; }

 private:
  void write(const std::string& name);

  std::filesystem::path folder_;
  int64_t shard_bytes_;
  std::vector<HeldTensors> held_;
  std::map<std::string, std::string> weight_map_;
  int64_t pending_ = 0;
  int64_t written_ = 0;
  int shards_ = 0;
};

}  // namespace lacuna
