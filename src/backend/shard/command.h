// Commands of rank 0 to the other ranks of a sharded model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/plan.h"

namespace lacuna {

/// Changes of a sequence since the last command.
struct SequenceChange {
  enum class Kind : uint8_t { kMake, kTakePrefix, kKeepSoftEmbeddings, kFree };
  Kind kind = Kind::kMake;
  int64_t sequence = 0;
  int64_t num_cells = 0;  ///< kMake
  // kMake, kTakePrefix:
  int64_t from = -1;   ///< sequence whose first cells it gets; -1: none
  int64_t prefix = 0;  ///< cells
  // kKeepSoftEmbeddings:
  std::vector<int32_t> cells = {};
  std::vector<float> distributions = {};  ///< [cells, vocab_size]

  bool operator==(const SequenceChange&) const = default;
};

/// One pass, after some changes of sequences.
struct Command {
  uint64_t number = 0;  ///< counted from 0
  std::vector<SequenceChange> changes = {};
  StepPlan plan = {};
  std::vector<int64_t> sequences = {};  ///< of the plan, in its order
  bool stops = false;                   ///< nothing is to be computed; no command follows
  bool is_ping = false;                 ///< nothing is to be computed; all ranks gather nothing

  bool operator==(const Command&) const = default;
};

std::vector<std::byte> to_bytes(const Command& command);

/// The command whose bytes these are. Throws InputError if they are not a command.
Command command_from_bytes(std::span<const std::byte> bytes);

}  // namespace lacuna
