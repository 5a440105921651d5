// Canvas changes of each step: version 2 of the event format of docs/reference/server.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/token.h"
#include "engine/engine.h"
#include "engine/trace.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

inline constexpr int kEventVersion = 2;

/// Follows one request and describes the changes since the last event. Applying the lists of all events to
/// the first event's canvas gives the final canvas. Positions count after the step; those in "drop", before
/// it.
class EventLog {
 public:
  ///   tokenizer  null: events have ids but no text     mask_id  -1: none
  EventLog(const Tokenizer* tokenizer, TokenId mask_id) : pieces_(tokenizer), mask_id_(mask_id) {}

  /// {"v", "type": "start", "prompt", "mask", "canvas": [id, ...], "pieces"}.
  nlohmann::ordered_json start(const Decoder& decoder);
  /// {"v", "type": "step", "pass", "step", "kind", "block": [begin, end], "final", "drop", "insert", "set",
  /// "remask", "edit", "lock", "unlock", "length", "computed", "rows", "rows_uncached", "rows_baseline",
  /// "flops", "flops_uncached", "flops_baseline", "ms", "pieces"}. Empty lists and an unchanged length are
  /// left out.
  nlohmann::ordered_json step(const StepEvent& event);

 private:
  void add_edits(nlohmann::ordered_json& json, const CanvasEdits& edits);
  void add_changes(nlohmann::ordered_json& json, const StepEvent& event);

  PieceLog pieces_;
  TokenId mask_id_;
  std::vector<TokenId> canvas_;  // after the last event
  StepCost uncached_;            // after the last event
  int64_t guide_rows_ = 0;
};

}  // namespace lacuna
