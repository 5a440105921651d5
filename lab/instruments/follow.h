// Following one request pass by pass: what instruments (instruments/instruments.h, instruments/recall.h)
// build on.
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
  kPrompt,      ///< all before the answer
  kRestPast,    ///< finished blocks but the last
  kPrevious,    ///< the block that was finished last
  kCurrent,     ///< the current block, with what of it reaches beyond the answer
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
  int32_t block_length = 0;   ///< of a whole block
  int32_t num_positions = 0;  ///< prompt, answer and filler
};

Region region_of(const BlockWindow& window, int32_t position);

/// Throws InputError unless the model denoises blocks of noise or masks.
void expect_blocks(const ModelConfig& config);

/// Throws InputError unless the decoder has an uncached plan to compare its passes with.
void expect_uncached_plan(const Decoder& decoder);

// One decoder, pass by pass.

struct FollowedPass {
  const Decoder& decoder;
  BlockWindow window;            ///< before the pass changed anything
  bool at_boundary;              ///< the pass before, if there was one, had another current block
  StepPlan plan;                 ///< plan of the pass
  PassResult result;             ///< of the pass, once computed
  const KvSequence& sequence;    ///< the request's first (the second is that of guidance)
  PassOptions options = {};      ///< options of the submitted pass
  PassTicket* ticket = nullptr;  ///< once computed
  PassTimes times = {};          ///< with all samples that the decoder wanted; once finished
  double seconds = 0;            ///< wall time of what `times` covers
};

/// Kind of token that a pass reads at a position.
enum class Content : uint8_t {
  kPrompt,
  kDecoded,  ///< a token of the answer that is decided; of uniform noise, one of a finished block
  kMasked,   ///< a mask of the answer; of uniform noise, a token of the current block or of the answer after
             ///< it
  kFiller,   ///< after the answer
};

/// Before the decoder takes the pass's samples.
Content content_of(const ModelConfig& config, const FollowedPass& pass, int32_t position);

class Instrument {
 public:
  virtual ~Instrument() = default;
  /// Whether it needs the positions of blocks. One that does not follows every decoder, and reads neither
  /// FollowedPass::window nor at_boundary.
  virtual bool reads_blocks() const { return true; }
  /// Before a request's first pass.
  virtual void begin(const Decoder& /*decoder*/) {}
  /// Before each pass: may ask for more, of the plan (rules at its end) or of the options.
  virtual void prepare(FollowedPass& /*pass*/) {}
  /// Once the results are there, while the decoder still has the tokens that were read.
  virtual void computed(const FollowedPass& /*pass*/) {}
  /// After the decoder took the samples.
  virtual void finished(const FollowedPass& /*pass*/, const StepReport& /*report*/) {}
};

/// Runs one request until it is done. InputError where a model computes infinite or NaN logits; where the
/// instrument reads blocks also as expect_blocks(), and for a canvas that changes its length.
///   guide  of guided diffusion, which an instrument of blocks does not follow; null: none
void follow(const BackendModel& model, Decoder& decoder, Instrument& instrument,
            const BackendModel* guide = nullptr);

using Requests = std::span<const std::unique_ptr<Decoder>>;
/// Called after each request with how many are done.
using AnalysisProgress = std::function<void(int32_t requests_done)>;

/// follow() of each request in turn.
void follow_all(const BackendModel& model, Requests requests, Instrument& instrument,
                const AnalysisProgress& progress, const BackendModel* guide = nullptr);

/// Calls visit(row, position, group) for each row of the request itself: neither those that guide it nor
/// probes, whose K/V go to scratch cells.
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
