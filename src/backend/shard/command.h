// Commands of rank 0 to the other ranks of a sharded model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/plan.h"

namespace lacuna {

/// One change of a sequence since the last command.
struct SequenceChange {
  enum class Kind : uint8_t { kMake, kTakePrefix, kKeepSoftEmbeddings, kFree };
  Kind kind = Kind::kMake;
  int64_t sequence = 0;
  int64_t num_cells = 0;  ///< kMake
  // kMake, kTakePrefix:
  int64_t from = -1;   ///< sequence with the shared prefix; -1: none
  int64_t prefix = 0;  ///< cells of the prefix
  // kKeepSoftEmbeddings:
  std::vector<int32_t> cells = {};
  std::vector<float> distributions = {};  ///< [cells, vocab_size]

  bool operator==(const SequenceChange&) const = default;
};

/// Changes of sequences, then one pass.
struct Command {
  uint64_t number = 0;  ///< counted from 0
  std::vector<SequenceChange> changes = {};
  StepPlan plan = {};
  std::vector<int64_t> sequences = {};  ///< sequences of the plan, in its order
  bool stops = false;                   ///< the last command; there is no pass
  bool is_ping = false;                 ///< no pass: all ranks only join an empty all-gather

  bool operator==(const Command&) const = default;
};

std::vector<std::byte> to_bytes(const Command& command);

/// Inverse of to_bytes(). Throws InputError for bytes that are not a command.
Command command_from_bytes(std::span<const std::byte> bytes);

}  // namespace lacuna
