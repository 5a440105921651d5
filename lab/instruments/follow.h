// Follows one request pass by pass: the base of the instruments (instruments/instruments.h,
// instruments/recall.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"
#include "decode/decoder.h"

namespace lacuna {

// Where a position lies, seen from the current block.

enum class Region : uint8_t {
  kSink,        ///< the learned key and value of a GIDD model
  kPrompt,      ///< all positions before the answer
  kRestPast,    ///< finished blocks except the last
  kPrevious,    ///< the last finished block
  kCurrent,     ///< the current block, including its positions beyond the answer
  kNext,        ///< the block after it, within the answer
  kRestFuture,  ///< the rest of the answer, after kNext
  kFiller,      ///< after the answer
};
inline constexpr size_t kRegions = 8;

std::string_view name_of(Region region);

inline size_t index_of(Region region) {
  return static_cast<size_t>(region);
}

inline bool contains(IndexRange range, int32_t index) {
  return index >= range.begin && index < range.end;
}

struct BlockWindow {
  IndexRange block;           ///< positions of the current block
  IndexRange answer;          ///< positions to generate
  int32_t block_length = 0;   ///< length of a whole block
  int32_t num_positions = 0;  ///< prompt, answer and filler
};

Region region_of(const BlockWindow& window, int32_t position);

/// Throws InputError unless the model denoises blocks of noise or masks.
void expect_blocks(const ModelConfig& config);

/// Throws InputError unless the decoder has an uncached plan, for comparison with its passes.
void expect_uncached_plan(const Decoder& decoder);

// One decoder, pass by pass.

struct FollowedPass {
  const Decoder& decoder;
  BlockWindow window;            ///< before the pass changed anything
  bool at_boundary;              ///< the previous pass, if any, had another current block
  StepPlan plan;                 ///< plan of the pass
  PassResult result;             ///< set once computed
  const KvSequence& sequence;    ///< the request's first sequence (the second is that of guidance)
  PassOptions options = {};      ///< options of the submitted pass
  PassTicket* ticket = nullptr;  ///< set once computed
  PassTimes times = {};          ///< times of the pass and the decoder's sampling; set once finished
  double seconds = 0;            ///< wall time of the work in `times`
};

/// Kind of input token of a pass at a position.
enum class Content : uint8_t {
  kPrompt,
  kDecoded,  ///< a committed token of the answer; with uniform noise, a token of a finished block
  kMasked,   ///< a mask of the answer; with uniform noise, a token of the current block or after it
  kFiller,   ///< after the answer
};

/// The kind of token at `position`. Call it before the decoder takes the pass's samples.
Content content_of(const ModelConfig& config, const FollowedPass& pass, int32_t position);

class Instrument {
 public:
  virtual ~Instrument() = default;
  /// Whether the instrument reads FollowedPass::window and at_boundary. Otherwise it can follow any decoder.
  virtual bool reads_blocks() const { return true; }
  /// Called before a request's first pass.
  virtual void begin(const Decoder& /*decoder*/) {}
  /// Called before each pass. May extend the plan (rules at its end) and the options.
  virtual void prepare(FollowedPass& /*pass*/) {}
  /// Called with the results of a pass, while the decoder still has the pass's input tokens.
  virtual void computed(const FollowedPass& /*pass*/) {}
  /// Called after the decoder took the samples.
  virtual void finished(const FollowedPass& /*pass*/, const StepReport& /*report*/) {}
};

/// Runs one request until it is done. Throws InputError if a model computes infinite or NaN logits. If the
/// instrument reads blocks, also throws like expect_blocks(), and for a canvas that changes its length.
///   guide  guide of guided diffusion, for instruments that do not read blocks; null: none
void follow(const BackendModel& model, Decoder& decoder, Instrument& instrument,
            const BackendModel* guide = nullptr);

using Requests = std::span<const std::unique_ptr<Decoder>>;
/// Called after each request with the number of finished ones.
using AnalysisProgress = std::function<void(int32_t requests_done)>;

/// Calls follow() for each request in turn.
void follow_all(const BackendModel& model, Requests requests, Instrument& instrument,
                const AnalysisProgress& progress, const BackendModel* guide = nullptr);

/// Calls visit(row, position, group) for each row of the request itself. Skips rows of guidance, and probes,
/// which write their K/V to scratch cells.
template <typename Visit>
void for_each_row(const StepPlan& plan, Visit&& visit) {
  for (const RowGroup& group : plan.groups) {
    if (group.sequence != 0) continue;
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      const int32_t position = plan.positions[static_cast<size_t>(row)];
      if (plan.cells[static_cast<size_t>(row)] == position) visit(row, position, group);
    }
  }
}

}  // namespace lacuna
