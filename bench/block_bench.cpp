#include "bench/block_bench.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/timing.h"
#include "model/cost.h"

namespace lacuna {
namespace {

using Choice = SparseAttention::Choice;

/// Fills cells [0, num_cells) with a few random patterns of keys and values, repeated.
void fill(const ModelConfig& config, const KernelContext& context, uint64_t seed, int32_t num_cells,
          KvCache& cache) {
  const auto dim = static_cast<uint64_t>(config.kv_dim());
  constexpr uint64_t kPatterns = 61;
  std::vector<float> values;
  for (uint64_t i = 0; i < dim + kPatterns; ++i) {
    values.push_back(2 * static_cast<float>(RngStream(seed).uniform(i)) - 1);
  }
  context.threads.parallel_for(num_cells, [&](int64_t cell, int) {
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      const auto pattern = static_cast<uint64_t>(7 * layer + cell) % kPatterns;
      cache.write(layer, cell, values.data() + pattern, values.data() + (pattern + 17) % kPatterns);
    }
  });
}

/// Properties that distinguish passes over the block with one prefix.
struct PassKind {
  SparseAttention attention;
  bool commits = false;

  bool operator==(const PassKind&) const = default;
};

StepPlan plan_of(const PassKind& kind, int32_t prefix, const BlockBenchOptions& options) {
  StepPlan plan;
  plan.rules.emplace_back();
  for (int32_t position = prefix; position < prefix + options.block_length; ++position) {
    plan.add_row(1, position, position);
  }
  RowGroup group{0, {0, options.block_length}, {{0, prefix}}, OwnRows::kBidirectional};
  group.only_kv = kind.commits;
  group.sparse = kind.attention;
  plan.groups.push_back(group);
  for (int32_t row = 0; !kind.commits && row < (options.block_length + 1) / 2; ++row) {
    plan.logits.emplace_back().row = row;
  }
  return plan;
}

/// One policy with one prefix: its kinds of passes, and how often each occurs in a block.
struct BlockPasses {
  PassKind first, later;
  double exact_share = 0;  // fraction of the steps that are like `first`
};

/// Steps write one token each.
BlockPasses passes_of(SparsePolicy policy, int32_t prefix, int32_t steps, int32_t rows) {
  BlockPasses passes;
  passes.exact_share = 1.0 / steps;
  if (auto* sparsed = std::get_if<SparseD>(&policy)) {
    passes.exact_share = sparsed->exact_share;
    sparsed->exact_share = 0;
  }
  if (const auto* flashblock = std::get_if<FlashBlock>(&policy))
    passes.exact_share = std::ceil(static_cast<double>(steps) / flashblock->updates) / steps;
  SparseSchedule schedule(policy, steps, 0);
  passes.first.attention = schedule.denoise(prefix, 0, rows);
  schedule.advance(passes.first.attention, 1);
  passes.later.attention = schedule.denoise(prefix, 1, rows);
  return passes;
}

class BlockBench {
 public:
  BlockBench(const Model& model, const KernelContext& context, const BlockBenchOptions& options)
      : model_(model),
        context_(context),
        options_(options),
        cache_(model.make_cache(*std::max_element(options.prefixes.begin(), options.prefixes.end()) +
                                options.block_length)) {
    fill(model.config(), context, options.seed, static_cast<int32_t>(cache_.num_cells()), cache_);
  }

  std::vector<BlockTiming> run(int32_t prefix) {
    kinds_.clear();
    std::vector<BlockPasses> passes;
    const PassKind commit{{}, true};
    add(commit);
    for (const auto& [name, policy] : options_.policies) {
      passes.push_back(passes_of(policy, prefix, options_.steps, options_.block_length));
      add(passes.back().first);
      add(passes.back().later);
    }
    // Interleaved, so that a slow moment of the machine affects all; the first round only warms up.
    for (int32_t i = 0; i <= options_.repeat; ++i) {
      for (auto& [kind, runs] : kinds_) {
        if (i == 1) runs = {};
        time(kind, prefix, runs);
      }
    }

    std::vector<BlockTiming> timings;
    for (size_t i = 0; i < passes.size(); ++i) {
      BlockTiming timing;
      timing.prefix = prefix;
      timing.policy = options_.policies[i].first;
      timing.first = timing_of(passes[i].first, prefix);
      timing.later = timing_of(passes[i].later, prefix);
      timing.commit = timing_of(commit, prefix);
      const double share = passes[i].exact_share;
      const auto block = [&](double first, double later, double kept) {
        return options_.steps * (share * first + (1 - share) * later) + kept;
      };
      timing.seconds = block(timing.first.seconds, timing.later.seconds, timing.commit.seconds);
      timing.flops = block(timing.first.flops, timing.later.flops, timing.commit.flops);
      timings.push_back(timing);
    }
    return timings;
  }

 private:
  struct Runs {
    std::vector<double> seconds, attention, selection;
  };

  void add(const PassKind& kind) {
    if (find(kind) == kinds_.end()) kinds_.emplace_back(kind, Runs());
  }

  std::vector<std::pair<PassKind, Runs>>::iterator find(const PassKind& kind) {
    return std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& entry) { return entry.first == kind; });
  }

  void time(const PassKind& kind, int32_t prefix, Runs& runs) {
    const bool uses_kept = kind.attention.choice == Choice::kKept;
    if (uses_kept || kind.attention.choice == Choice::kRemembered) {
      PassKind remembering = kind;
      remembering.attention.choice = uses_kept ? Choice::kAllAndKeep : Choice::kAllAndRemember;
      if (remembered_ != remembering.attention) forward(plan_of(remembering, prefix, options_));
      remembered_ = remembering.attention;
    }
    if (kind.attention.choice == Choice::kAllAndRemember || kind.attention.choice == Choice::kAllAndKeep)
      remembered_ = kind.attention;
    const StepPlan plan = plan_of(kind, prefix, options_);
    const Stopwatch clock;
    forward(plan);
    runs.seconds.push_back(clock.seconds());
    runs.attention.push_back(workspace_.times.attention);
    runs.selection.push_back(workspace_.times.selection);
  }

  void forward(const StepPlan& plan) {
    KvCache* caches[] = {&cache_};
    model_.forward(context_, plan, caches, workspace_);
  }

  BlockPassTiming timing_of(const PassKind& kind, int32_t prefix) {
    const Runs& runs = find(kind)->second;
    const StepCost work =
        cost(model_.config(), model_.bytes_of_passes(), work_of(plan_of(kind, prefix, options_)));
    return {median(runs.seconds), median(runs.attention), median(runs.selection), work.flops()};
  }

  const Model& model_;
  const KernelContext& context_;
  const BlockBenchOptions& options_;
  KvCache cache_;
  Workspace workspace_;
  std::vector<std::pair<PassKind, Runs>> kinds_;
  SparseAttention remembered_;
};

nlohmann::ordered_json pass_json(const BlockPassTiming& pass) {
  return {{"seconds", pass.seconds},
          {"attention", pass.attention},
          {"selection", pass.selection},
          {"rest", pass.seconds - pass.attention - pass.selection},
          {"flops", pass.flops}};
}

}  // namespace

std::vector<BlockTiming> bench_blocks(const Model& model, const KernelContext& context,
                                      const BlockBenchOptions& options) {
  BlockBench bench(model, context, options);
  std::vector<BlockTiming> timings;
  for (const int32_t prefix : options.prefixes) {
    for (BlockTiming& timing : bench.run(prefix)) timings.push_back(std::move(timing));
  }
  return timings;
}

nlohmann::ordered_json to_json(const std::vector<BlockTiming>& timings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BlockTiming& timing : timings) {
    nlohmann::ordered_json row{{"prefix", timing.prefix},
                               {"sparse", timing.policy},
                               {"first_step", pass_json(timing.first)},
                               {"later_step", pass_json(timing.later)},
                               {"commit", pass_json(timing.commit)},
                               {"block_seconds", timing.seconds},
                               {"block_flops", timing.flops}};
    const auto exact = std::find_if(timings.begin(), timings.end(), [&](const BlockTiming& other) {
      return other.prefix == timing.prefix && other.policy == "exact";
    });
    if (exact != timings.end()) {
      row["speedup"] = exact->seconds / timing.seconds;
      row["flops_allow"] = exact->flops / timing.flops;
      row["first_step_ratio"] = timing.first.seconds / exact->first.seconds;
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace lacuna
