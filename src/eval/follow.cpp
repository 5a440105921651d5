#include "eval/follow.h"

#include <array>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cache/output_cache.h"
#include "engine/pass_loop.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, kRegions> kRegionNames = {
    "sink", "prompt", "rest past", "previous", "current", "next", "rest future", "filler"};

}  // namespace

std::string_view name_of(Region region) {
  return kRegionNames[static_cast<size_t>(region)];
}

Region region_of(const BlockWindow& window, int32_t position) {
  if (position < window.answer.begin) return Region::kPrompt;
  if (contains(window.block, position)) return Region::kCurrent;
  if (position < window.block.begin) {
    return position < window.block.begin - window.block_length ? Region::kRestPast : Region::kPrevious;
  }
  if (position >= window.answer.end) return Region::kFiller;
  return position < window.block.end + window.block_length ? Region::kNext : Region::kRestFuture;
}

void expect_blocks(const ModelConfig& config) {
  if (!config.causal) return;
  throw InputError("analyze needs a model that denoises blocks of noise or masks");
}

void expect_uncached_plan(const Decoder& decoder) {
  if (decoder.uncached_plan()) return;
  throw InputError("analyze staleness needs a GIDD model, whose --cache it compares with full passes");
}

// Following a decoder.

namespace {

/// Runs the passes of one request for an instrument.
class Follower final : public PassRunner {
 public:
  Follower(const Model& model, const KernelContext& context, Decoder& decoder, Instrument& instrument)
      : model_(model), context_(context), decoder_(decoder), instrument_(instrument) {
    expect_blocks(model.config());
    window_.block = decoder.block();
    window_.block_length = window_.block.size();
    window_.answer = {decoder.prompt_length(), static_cast<int32_t>(decoder.canvas().size())};
    // Masked diffusion's cells behind the canvas are no positions.
    window_.num_positions = model.config().fills_canvas() ? window_.answer.end : decoder.num_cells();
    make_stores();
  }

  void run_all() {
    instrument_.begin(decoder_);
    const PassMember member{&decoder_, caches_, outputs_};
    while (!decoder_.done()) {
      const IndexRange block = decoder_.block();
      at_boundary_ = !(block == window_.block);
      window_.block = block;
      const PassPart& part = loop_.make_pass(*this, {&member, 1}).front();
      if (!part.failure.empty()) throw InputError("{}", part.failure);
      instrument_.finished(*pass_, part.report);
    }
  }

 private:
  void make_stores() {
    const auto count = static_cast<size_t>(decoder_.num_sequences());
    caches_.reserve(count);
    outputs_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      caches_.push_back(model_.make_cache(decoder_.num_cells()));
      if (decoder_.remembers_outputs()) {
        outputs_.emplace_back(decoder_.num_cells(), model_.config().hidden_dim);
      }
    }
  }

  PassResult run(const StepPlan& plan, std::span<KvCache* const> caches) override {
    pass_.emplace(FollowedPass{decoder_, window_, at_boundary_, plan, {}, caches_.front(), workspace_});
    instrument_.prepare(*pass_);
    const Stopwatch clock;
    pass_->result = model_.forward(context_, pass_->plan, caches, workspace_);
    count_time(clock);
    instrument_.computed(*pass_);
    return pass_->result;
  }

  FollowUpResult follow_up(const FollowUp& wanted, std::span<OutputCache* const> outputs) override {
    const Stopwatch clock;
    const FollowUpResult result = model_.follow_up(context_, pass_->plan, wanted, outputs, workspace_);
    count_time(clock);
    return result;
  }

  void count_time(const Stopwatch& clock) {
    pass_->seconds += clock.seconds();
    pass_->times += workspace_.times;
  }

  const Model& model_;
  const KernelContext& context_;
  Decoder& decoder_;
  Instrument& instrument_;
  BlockWindow window_;
  bool at_boundary_ = false;
  PassLoop loop_;
  Workspace workspace_;
  std::optional<FollowedPass> pass_;
  std::vector<KvCache> caches_;
  std::vector<OutputCache> outputs_;
};

}  // namespace

void follow(const Model& model, const KernelContext& context, Decoder& decoder, Instrument& instrument) {
  Follower(model, context, decoder, instrument).run_all();
}

}  // namespace lacuna
