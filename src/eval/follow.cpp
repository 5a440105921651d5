#include "eval/follow.h"

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
  throw InputError("analyze needs a model that denoises blocks of noise or masks");
}

void expect_uncached_plan(const Decoder& decoder) {
  if (decoder.uncached_plan()) return;
  throw InputError("analyze staleness needs a GIDD model, whose --cache it compares with full passes");
}

// Following a decoder.

namespace {

/// A pass that an instrument looks into once it is computed. The time of what the loop asks is counted.
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
  Follower(const BackendModel& model, Decoder& decoder, Instrument& instrument)
      : model_(model), decoder_(decoder), instrument_(instrument), pool_(model.make_pool()) {
    expect_blocks(model.config());
    window_.block = decoder.block();
    window_.block_length = window_.block.size();
    window_.answer = {decoder.prompt_length(), static_cast<int32_t>(decoder.canvas().size())};
    // Masked diffusion's cells after the canvas are not positions.
    window_.num_positions = model.config().fills_canvas() ? window_.answer.end : decoder.num_cells();
    for (int32_t i = 0; i < decoder.num_sequences(); ++i) {
      sequences_.push_back(pool_->make_sequence({decoder.num_cells(), decoder.remembers_outputs()}));
    }
  }

  void run_all() {
    instrument_.begin(decoder_);
    const PassMember member{&decoder_, sequences_};
    while (!decoder_.done()) {
      if (model_.config().fills_canvas() && std::ssize(decoder_.canvas()) != window_.answer.end) {
        throw InputError(
            "analyze follows a canvas that keeps its length; expected --grow none and a number as "
            "--gen-length");
      }
      const IndexRange block = decoder_.block();
      at_boundary_ = !(block == window_.block);
      window_.block = block;
      const auto submit = [&](const StepPlan& plan, std::span<KvSequence* const> sequences) {
        return begin(plan, sequences);
      };
      const PassPart& part = loop_.make_pass(submit, {&member, 1}).front();
      if (!part.failure.empty()) throw InputError("{}", part.failure);
      instrument_.finished(*pass_, part.report);
    }
  }

 private:
  std::unique_ptr<PassTicket> begin(const StepPlan& plan, std::span<KvSequence* const> sequences) {
    pass_.emplace(FollowedPass{decoder_, window_, at_boundary_, plan, {}, *sequences_.front()});
    instrument_.prepare(*pass_);
    const Stopwatch clock;
    std::unique_ptr<PassTicket> ticket = model_.submit(pass_->plan, sequences, pass_->options);
    pass_->seconds = clock.seconds();
    return std::make_unique<FollowedTicket>(std::move(ticket), *pass_, instrument_);
  }

  const BackendModel& model_;
  Decoder& decoder_;
  Instrument& instrument_;
  BlockWindow window_;
  bool at_boundary_ = false;
  PassLoop loop_;
  std::unique_ptr<KvPool> pool_;
  std::vector<std::unique_ptr<KvSequence>> sequences_;
  std::optional<FollowedPass> pass_;
};

}  // namespace

void follow(const BackendModel& model, Decoder& decoder, Instrument& instrument) {
  Follower(model, decoder, instrument).run_all();
}

}  // namespace lacuna
