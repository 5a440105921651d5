#include "bench/decode_bench.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "bench/timing.h"
#include "engine/pass_loop.h"
#include "model/cost.h"
#include "options/choose.h"

namespace lacuna {
namespace {

/// Properties shared by passes of about the same cost: model, rows, logits.
using DecodePassKind = std::tuple<ModelRole, int32_t, size_t>;

/// A pass of all requests of a batch, ready to be computed.
struct RecordedPass {
  ModelRole role = ModelRole::kMain;
  StepPlan plan;
  std::vector<KvSequence*> sequences;
  std::vector<LogitRow> further;
  std::vector<DriftProbe> probes;
};

/// One request that gets synthetic posteriors.
class Simulation {
 public:
  Simulation(std::unique_ptr<Decoder> decoder, const ModelConfig& config, const DecodeBenchOptions& options,
             uint64_t request)
      : decoder_(std::move(decoder)),
        mask_id_(config.mask_id),
        plans_slots_(config.paradigm() == Paradigm::kSlots),
        options_(options),
        noise_(options.seed, request) {}

  Decoder& decoder() { return *decoder_; }

  /// Records that a row of the main model's pass computes `token` at `position`.
  void count_read(int32_t position, TokenId token) {
    int32_t& reads = reads_[position];
    reads = token == mask_id_ ? 0 : reads + 1;
  }

  RowStatistics sample(const StepPlan& plan, const LogitRow& logit) {
    return plans_slots_ ? slot_statistics(plan, logit) : statistics();
  }

  Drift drift(const DriftProbe& probe) {
    const bool converged = reads_[probe.cell] > options_.passes_to_converge;
    return {converged ? 0 : 1e9, 0};
  }

 private:
  RowStatistics statistics() {
    RowStatistics made_up;
    made_up.token = 1;
    made_up.confidence = noise_.uniform(drawn_++);
    made_up.scored_rank = made_up.confidence < options_.accept_rate ? 0 : 1 << 20;
    return made_up;
  }

  /// Acceptance of a draft depends only on its position and on how often the position was drafted, so that
  /// all acceptance rules have the same simulated rate. A token that the verification wrote is accepted when
  /// it is verified again.
  RowStatistics slot_statistics(const StepPlan& plan, const LogitRow& logit) {
    RowStatistics made_up;
    made_up.token = 1;
    const int32_t position = plan.positions[static_cast<size_t>(logit.row)] + (logit.scored >= 0 ? 1 : 0);
    int32_t& drafts = drafts_[position];
    if (logit.scored < 0) ++drafts;
    const double luck =
        noise_.uniform((static_cast<uint64_t>(position) << 32) + static_cast<uint64_t>(drafts));
    constexpr TokenId kJudges = 2;
    const bool is_sure =
        logit.scored == kJudges || luck < (logit.scored >= 0 ? options_.accept_rate : options_.select_rate);
    made_up.confidence = is_sure ? 1 : 0;
    if (logit.scored >= 0 && !is_sure) made_up.token = kJudges;
    made_up.scored_probability = made_up.confidence;
    return made_up;
  }

  std::unique_ptr<Decoder> decoder_;
  TokenId mask_id_;
  bool plans_slots_;
  const DecodeBenchOptions& options_;
  RngStream noise_;
  uint64_t drawn_ = 0;
  std::map<int32_t, int32_t> reads_;   // passes that computed the token of each position
  std::map<int32_t, int32_t> drafts_;  // number of times that each position was drafted
};

/// Records passes instead of computing them, and answers with the synthetic posteriors of their requests.
class Recorder {
 public:
  ///   request_of_sequence  request of each sequence of the next pass
  void begin(ModelRole role, std::vector<Simulation*> request_of_sequence) {
    pass_ = {};
    pass_.role = role;
    request_of_sequence_ = std::move(request_of_sequence);
  }
  RecordedPass& pass() { return pass_; }

  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences) {
    pass_.plan = plan;
    pass_.sequences.assign(sequences.begin(), sequences.end());
    request_of_row_.resize(plan.tokens.size());
    for (const RowGroup& group : plan.groups) {
      Simulation* request = request_of_sequence_[static_cast<size_t>(group.sequence)];
      for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
        const auto index = static_cast<size_t>(row);
        request_of_row_[index] = request;
        if (pass_.role == ModelRole::kMain) request->count_read(plan.positions[index], plan.tokens[index]);
      }
    }
    return std::make_unique<Ticket>(*this);
  }

 private:
  /// Ticket that returns the simulated results.
  class Ticket final : public PassTicket {
   public:
    explicit Ticket(Recorder& recorder) : recorder_(recorder) {
      const StepPlan& plan = recorder.pass_.plan;
      recorder.sample(plan.logits);
      recorder.kv_drift_.assign(plan.measures_kv_drift ? plan.tokens.size() : 0, 0);
      result_ = {recorder.samples_, recorder.kv_drift_};
    }
    const PassResult& wait() override { return result_; }
    FollowUpResult follow_up(const FollowUp& wanted) override { return recorder_.follow_up(wanted); }
    void remember_outputs() override {}
    void read_logits(std::span<const LogitRow> /*wanted*/, Matrix<float> /*out*/) override {
      expects(false, "a pass that was not computed has no logits");
    }
    PassTimes times() const override { return {}; }

   private:
    Recorder& recorder_;
    PassResult result_;
  };

  FollowUpResult follow_up(const FollowUp& wanted) {
    pass_.further.assign(wanted.logits.begin(), wanted.logits.end());
    pass_.probes.assign(wanted.probes.begin(), wanted.probes.end());
    sample(wanted.logits);
    drifts_.clear();
    for (const DriftProbe& probe : wanted.probes) drifts_.push_back(request_of(probe.row).drift(probe));
    return {samples_, drifts_};
  }

  Simulation& request_of(int32_t row) { return *request_of_row_[static_cast<size_t>(row)]; }

  void sample(std::span<const LogitRow> wanted) {
    samples_.clear();
    for (const LogitRow& logit : wanted) samples_.push_back(request_of(logit.row).sample(pass_.plan, logit));
  }

  RecordedPass pass_;
  std::vector<Simulation*> request_of_sequence_, request_of_row_;
  std::vector<RowStatistics> samples_;
  std::vector<float> kv_drift_;
  std::vector<Drift> drifts_;
};

/// Decodes a batch of equal requests and keeps selected passes.
class Run {
 public:
  Run(const BackendModel& model, const BackendModel* guide, const GenerationOptions& generation,
      const DecodeBenchOptions& options)
      : models_{&model, guide}, generation_(generation), options_(options) {
    for (size_t role = 0; role < 2; ++role) {
      if (models_[role] != nullptr) pools_[role] = models_[role]->make_pool();
    }
  }

  /// Counts passes and costs, and keeps the passes for which keeps(index) is true.
  template <typename Keeps>
  void decode(Keeps&& keeps) {
    std::vector<Simulation> batch = start();
    timing_ = {};
    for (bool active = true; active;) {
      active = false;
      for (const ModelRole role : {ModelRole::kMain, ModelRole::kGuide}) {
        const bool is_main = role == ModelRole::kMain;
        const auto& sequences = sequences_[static_cast<size_t>(role)];
        std::vector<PassMember> members;
        std::vector<Simulation*> request_of_sequence;
        size_t sequence = 0;
        for (Simulation& request : batch) {
          Decoder& decoder = request.decoder();
          const size_t first = sequence;
          const auto count = static_cast<size_t>(is_main ? decoder.num_sequences() : 1);
          sequence += count;
          if (decoder.done() || decoder.role() != role) continue;
          PassMember& member = members.emplace_back();
          member.decoder = &decoder;
          member.sequences = std::span(sequences).subspan(first, count);
          request_of_sequence.insert(request_of_sequence.end(), count, &request);
        }
        if (members.empty()) continue;
        recorder_.begin(role, std::move(request_of_sequence));
        loop_.make_pass([&](const StepPlan& plan,
                            std::span<KvSequence* const> of_pass) { return recorder_.submit(plan, of_pass); },
                        members);
        RecordedPass& pass = recorder_.pass();
        active = true;
        count(pass);
        const DecodePassKind kind{role, pass.plan.num_rows(), pass.plan.logits.size()};
        if (keeps(timing_.passes - 1)) kept_.push_back(std::move(pass));
        kinds_.resize(static_cast<size_t>(timing_.passes));
        kinds_.back() = kind;
      }
    }
  }

  /// Computes a kept pass and times it.
  double compute(size_t index) {
    const RecordedPass& pass = kept_[index];
    const BackendModel& model = *models_[static_cast<size_t>(pass.role)];
    const Stopwatch clock;
    const std::unique_ptr<PassTicket> ticket = model.submit(pass.plan, pass.sequences);
    ticket->wait();
    const FollowUp follow_up{pass.further, pass.probes};
    if (!follow_up.empty()) ticket->follow_up(follow_up);
    ticket->remember_outputs();
    return clock.seconds();
  }

  size_t num_kept() const { return kept_.size(); }
  int32_t rows_of_kept(size_t index) const { return kept_[index].plan.num_rows(); }
  /// Shape of each pass of the last decode().
  const std::vector<DecodePassKind>& kinds() const { return kinds_; }
  DecodeTiming& timing() { return timing_; }

 private:
  std::vector<Simulation> start() {
    const ModelConfig& config = models_[0]->config();
    std::vector<Simulation> batch;
    for (auto& sequences : sequences_) sequences.clear();
    for (int32_t i = 0; i < options_.batch; ++i) {
      const std::vector<TokenId> prompt(static_cast<size_t>(options_.prompt_length), 1);
      DecoderContext context;
      if (models_[1] != nullptr) {
        context.guide =
            GuideContext{&models_[1]->config(), prompt, shared_vocabulary(config, models_[1]->config())};
      }
      std::unique_ptr<Decoder> decoder = make_decoder(config, generation_, prompt, context);
      for (int32_t s = 0; s < decoder->num_sequences(); ++s) {
        sequences_[0].push_back(
            pools_[0]->make_sequence({decoder->num_cells(), decoder->needs().remembers_outputs}));
      }
      if (models_[1] != nullptr) {
        sequences_[1].push_back(pools_[1]->make_sequence({decoder->num_guide_cells()}));
      }
      batch.emplace_back(std::move(decoder), config, options_, static_cast<uint64_t>(i));
    }
    return batch;
  }

  void count(const RecordedPass& pass) {
    const BackendModel& model = *models_[static_cast<size_t>(pass.role)];
    PassWork work = work_of(pass.plan);
    work.logit_rows += logit_rows_of({.logits = pass.further, .probes = pass.probes});
    const StepCost cost = lacuna::cost(model.config(), model.bytes_of_passes(), work);
    ++timing_.passes;
    timing_.rows += cost.rows;
    timing_.layer_flops += cost.layer_flops;
    timing_.flops += cost.flops();
  }

  const BackendModel* models_[2];     // by ModelRole
  std::unique_ptr<KvPool> pools_[2];  // likewise
  GenerationOptions generation_;
  const DecodeBenchOptions& options_;
  DecodeTiming timing_;
  std::vector<DecodePassKind> kinds_;
  std::vector<RecordedPass> kept_;
  std::vector<std::unique_ptr<KvSequence>> sequences_[2];  // by ModelRole
  Recorder recorder_;
  PassLoop loop_;
};

/// Indices of the passes to time, each with the number of passes that it represents.
std::map<int64_t, double> choose_passes(const std::vector<DecodePassKind>& kinds, int32_t wanted) {
  std::map<DecodePassKind, std::vector<int64_t>> strata;
  for (size_t pass = 0; pass < kinds.size(); ++pass)
    strata[kinds[pass]].push_back(static_cast<int64_t>(pass));
  auto each = static_cast<size_t>(std::max(1, wanted / 8));
  if (strata.size() > static_cast<size_t>(wanted)) {
    each = static_cast<size_t>(wanted);
    strata.clear();
    for (size_t pass = 0; pass < kinds.size(); ++pass) strata[{}].push_back(static_cast<int64_t>(pass));
  }
  std::map<int64_t, double> chosen;
  for (const auto& [kind, passes] : strata) {
    const size_t kept = std::min(each, passes.size());
    for (size_t i = 0; i < kept; ++i) {  // the middle of each of `kept` equal stretches
      chosen[passes[(2 * i + 1) * passes.size() / (2 * kept)]] =
          static_cast<double>(passes.size()) / static_cast<double>(kept);
    }
  }
  return chosen;
}

/// Decodes once to list the passes, and again to keep some. Returns the passes that each stands for.
std::vector<double> record(Run& run, int32_t wanted) {
  run.decode([](int64_t) { return false; });
  const std::map<int64_t, double> chosen = choose_passes(run.kinds(), wanted);
  run.decode([&](int64_t pass) { return chosen.contains(pass); });
  std::vector<double> weights(chosen.size());
  std::transform(chosen.begin(), chosen.end(), weights.begin(), [](const auto& each) { return each.second; });
  return weights;
}

/// Touches the weights and the memory of the largest kept pass.
void warm_up_run(Run& run) {
  size_t largest = 0;
  for (size_t i = 0; i < run.num_kept(); ++i) {
    if (run.rows_of_kept(i) > run.rows_of_kept(largest)) largest = i;
  }
  run.compute(largest);
}

/// Median seconds of each timed pass.
std::vector<double> median_pass_seconds(const DecodeTiming& timing) {
  std::vector<double> medians;
  for (size_t pass = 0; pass < timing.pass_seconds.front().size(); ++pass) {
    std::vector<double> of_pass;
    for (const std::vector<double>& round : timing.pass_seconds) of_pass.push_back(round[pass]);
    medians.push_back(median(std::move(of_pass)));
  }
  return medians;
}

nlohmann::ordered_json to_json(const DecodeTiming& timing) {
  const auto [least, most] = std::minmax_element(timing.total_seconds.begin(), timing.total_seconds.end());
  return {{"passes", timing.passes},
          {"rows", timing.rows},
          {"layer_flops", timing.layer_flops},
          {"flops", timing.flops},
          {"pass_seconds", median_pass_seconds(timing)},
          {"seconds", median(timing.total_seconds)},
          {"seconds_min", *least},
          {"seconds_max", *most}};
}

}  // namespace

void DecodeTiming::add_round(std::vector<double> seconds, const std::vector<double>& weights) {
  total_seconds.push_back(std::inner_product(weights.begin(), weights.end(), seconds.begin(), 0.0));
  pass_seconds.push_back(std::move(seconds));
}

std::pair<DecodeTiming, DecodeTiming> bench_decode(const BackendModel& model, const BackendModel* guide,
                                                   const GenerationOptions& generation,
                                                   const DecodeBenchOptions& options) {
  GenerationOptions plain_generation;
  plain_generation.gen_length = generation.gen_length;
  plain_generation.block_length = generation.block_length;
  plain_generation.steps = generation.steps;
  plain_generation.cfg_scale = generation.cfg_scale;
  const Paradigm paradigm = model.config().paradigm();
  if (paradigm == Paradigm::kSlots) {
    plain_generation.refusion = "released";
    plain_generation.slot_size = generation.slot_size;
    plain_generation.slot_threshold = generation.slot_threshold;
  } else if (paradigm == Paradigm::kUniform) {
    plain_generation.ignore_eos = generation.ignore_eos;
    plain_generation.context = generation.context;
    plain_generation.sampler = generation.sampler;
    plain_generation.tokens_per_step = generation.tokens_per_step;
    plain_generation.block_exit = "steps";
    plain_generation.last_layer = "all";
  } else {
    plain_generation.suppress_mask = paradigm == Paradigm::kMasked;
  }
  Run plain(model, nullptr, plain_generation, options);
  Run run(model, guide, generation, options);
  const std::vector<double> plain_weights = record(plain, options.timed_passes);
  const std::vector<double> weights = record(run, options.timed_passes);

  warm_up_run(plain);
  warm_up_run(run);
  const size_t turns = std::max(plain.num_kept(), run.num_kept());
  for (int32_t round = 0; round < options.repeat; ++round) {
    std::vector<double> plain_seconds, seconds;
    for (size_t i = 0; i < turns; ++i) {
      if (i < plain.num_kept()) plain_seconds.push_back(plain.compute(i));
      if (i < run.num_kept()) seconds.push_back(run.compute(i));
    }
    plain.timing().add_round(std::move(plain_seconds), plain_weights);
    run.timing().add_round(std::move(seconds), weights);
  }
  return {plain.timing(), run.timing()};
}

nlohmann::ordered_json to_json(const DecodeTiming& plain, const DecodeTiming& timing) {
  const double time_ratio = median_ratio(timing.total_seconds, plain.total_seconds);
  const double flops_ratio = timing.flops / plain.flops;
  return {{"plain", to_json(plain)},
          {"setting", to_json(timing)},
          {"row_ratio", static_cast<double>(timing.rows) / static_cast<double>(plain.rows)},
          {"layer_flops_ratio", timing.layer_flops / plain.layer_flops},
          {"flops_ratio", flops_ratio},
          {"time_ratio", time_ratio},
          {"speedup", 1 / time_ratio},
          {"saved_flops_turned_into_time", flops_ratio < 1 ? (1 - time_ratio) / (1 - flops_ratio) : 0}};
}

}  // namespace lacuna
