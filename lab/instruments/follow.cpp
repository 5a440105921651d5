#include "instruments/follow.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
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
  throw InputError(
      "--model: this instrument needs a model that denoises blocks of noise or masks; analyze profile takes "
      "every model");
}

void expect_uncached_plan(const Decoder& decoder) {
  if (decoder.uncached_plan()) return;
  throw InputError("analyze staleness needs a GIDD model, whose --cache it compares with full passes");
}

namespace {

/// Whether a step may replace any token of the current block, and the positions after it hold no masks.
bool replaces_tokens(const ModelConfig& config) {
  return config.canvas.has_value() || (config.noise && config.noise->uniform_shift > 0);
}

}  // namespace

Content content_of(const ModelConfig& config, const FollowedPass& pass, int32_t position) {
  const BlockWindow& window = pass.window;
  if (position < window.answer.begin) return Content::kPrompt;
  if (position >= window.answer.end && !contains(window.block, position)) return Content::kFiller;
  if (replaces_tokens(config)) return position < window.block.begin ? Content::kDecoded : Content::kMasked;
  const std::span<const TokenId> canvas = pass.decoder.canvas();
  const auto index = static_cast<size_t>(position);
  return index < canvas.size() && canvas[index] != config.mask_id ? Content::kDecoded : Content::kMasked;
}

// Following a decoder.

namespace {

/// Ticket of a pass that an instrument inspects once it is computed. Times only the pass loop's own calls.
class FollowedTicket final : public PassTicket {
 public:
  FollowedTicket(std::unique_ptr<PassTicket> ticket, FollowedPass& pass, Instrument& instrument)
      : ticket_(std::move(ticket)), pass_(pass), instrument_(instrument) {
    pass_.ticket = ticket_.get();
  }

  const PassResult& wait() override {
    const Stopwatch clock;
    pass_.result = ticket_->wait();
    pass_.seconds += clock.seconds();
    const PassTimes before = pass_.times = ticket_->times();
    instrument_.computed(pass_);
    of_instrument_ = ticket_->times() - before;
    return pass_.result;
  }
  FollowUpResult follow_up(const FollowUp& wanted) override {
    const Stopwatch clock;
    const FollowUpResult result = ticket_->follow_up(wanted);
    count_time(clock);
    return result;
  }
  void remember_outputs() override {
    const Stopwatch clock;
    ticket_->remember_outputs();
    count_time(clock);
  }
  void read_logits(std::span<const LogitRow> wanted, Matrix<float> out) override {
    ticket_->read_logits(wanted, out);
  }
  PassTimes times() const override { return ticket_->times(); }

 private:
  void count_time(const Stopwatch& clock) {
    pass_.seconds += clock.seconds();
    pass_.times = ticket_->times() - of_instrument_;
  }

  std::unique_ptr<PassTicket> ticket_;
  FollowedPass& pass_;
  Instrument& instrument_;
  PassTimes of_instrument_;  // time spent on the instrument's own calls of the ticket
};

/// Runs the passes of one request for an instrument.
class Follower {
 public:
  Follower(const BackendModel& model, const BackendModel* guide, Decoder& decoder, Instrument& instrument)
      : model_(model), guide_(guide), decoder_(decoder), instrument_(instrument) {
    if (instrument.reads_blocks()) lay_window();
    const std::unique_ptr<KvPool> pool = model.make_pool();
    for (int32_t i = 0; i < decoder.num_sequences(); ++i) {
      sequences_.push_back(pool->make_sequence({decoder.num_cells(), decoder.needs().remembers_outputs}));
    }
    if (decoder.num_guide_cells() == 0) return;
    expects(guide != nullptr, "follow: a guided request needs a guide");
    of_guide_.push_back(guide->make_pool()->make_sequence({decoder.num_guide_cells()}));
  }

  void run_all() {
    instrument_.begin(decoder_);
    while (!decoder_.done()) {
      if (instrument_.reads_blocks()) move_window();
      const bool is_guide = decoder_.role() == ModelRole::kGuide;
      const BackendModel& model = is_guide ? *guide_ : model_;
      const PassMember member{&decoder_, is_guide ? of_guide_ : sequences_};
      const auto submit = [&](const StepPlan& plan, std::span<KvSequence* const> sequences) {
        return begin(model, plan, sequences);
      };
      const PassPart& part = loop_.make_pass(submit, {&member, 1}).front();
      if (!part.failure.empty()) throw InputError("{}", part.failure);
      instrument_.finished(*pass_, part.report);
    }
  }

 private:
  void lay_window() {
    const ModelConfig& config = model_.config();
    expect_blocks(config);
    expects(decoder_.num_guide_cells() == 0, "follow: a guided request has no blocks");
    window_.block = decoder_.block();
    window_.block_length = window_.block.size();
    window_.answer = {decoder_.prompt_length(), static_cast<int32_t>(decoder_.canvas().size())};
    // Masked diffusion's cells after the canvas are not positions.
    window_.num_positions = config.fills_canvas() ? window_.answer.end : decoder_.num_cells();
  }

  void move_window() {
    if (model_.config().fills_canvas() && std::ssize(decoder_.canvas()) != window_.answer.end) {
      throw InputError(
          "analyze follows a canvas that keeps its length; expected --grow none and a number as "
          "--gen-length");
    }
    const IndexRange block = decoder_.block();
    at_boundary_ = !(block == window_.block);
    window_.block = block;
  }

  std::unique_ptr<PassTicket> begin(const BackendModel& model, const StepPlan& plan,
                                    std::span<KvSequence* const> sequences) {
    pass_.emplace(FollowedPass{decoder_, window_, at_boundary_, plan, {}, *sequences.front()});
    instrument_.prepare(*pass_);
    const Stopwatch clock;
    std::unique_ptr<PassTicket> ticket = model.submit(pass_->plan, sequences, pass_->options);
    pass_->seconds = clock.seconds();
    return std::make_unique<FollowedTicket>(std::move(ticket), *pass_, instrument_);
  }

  const BackendModel& model_;
  const BackendModel* guide_;
  Decoder& decoder_;
  Instrument& instrument_;
  BlockWindow window_;
  bool at_boundary_ = false;
  PassLoop loop_;
  std::vector<std::unique_ptr<KvSequence>> sequences_, of_guide_;
  std::optional<FollowedPass> pass_;
};

}  // namespace

void follow(const BackendModel& model, Decoder& decoder, Instrument& instrument, const BackendModel* guide) {
  Follower(model, guide, decoder, instrument).run_all();
}

void follow_all(const BackendModel& model, Requests requests, Instrument& instrument,
                const AnalysisProgress& progress, const BackendModel* guide) {
  int32_t done = 0;
  for (const std::unique_ptr<Decoder>& decoder : requests) {
    follow(model, *decoder, instrument, guide);
    if (progress) progress(++done);
  }
}

}  // namespace lacuna
