// Changes of each step, in a compact form: version 2 of the event format that docs/reference/server.md
// describes.
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

/// Follows one request and says what changed since the last event. Applying the lists of all events to the
/// canvas of the first one gives the canvas of the last. All positions are those after the step, but those
/// that it drops.
class EventLog {
 public:
  ///   tokenizer  null: ids alone     mask_id  -1: none
  EventLog(const Tokenizer* tokenizer, TokenId mask_id) : pieces_(tokenizer), mask_id_(mask_id) {}

  /// {"v", "type": "start", "prompt", "mask", "canvas": [id, ...], "pieces"}.
  nlohmann::ordered_json start(const Decoder& decoder);
  /// {"v", "type": "step", "pass", "step", "kind", "block": [begin, end], "final", "drop", "insert", "set",
  /// "remask", "edit", "lock", "unlock", "length", "computed", "rows", "rows_uncached", "rows_baseline",
  /// "flops", "flops_uncached", "flops_baseline", "ms", "pieces"}; lists that are empty, and a length that
  /// stays, are left out.
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
