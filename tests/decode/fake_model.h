// Models of a few lines. FakeModel: the logits of a row depend on every token of its sequence and on the row,
// at random. FakeCells adds K/V: the logits of a row depend on what the cells that it sees hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/rng.h"
#include "decode/decoder.h"
#include "kernels/dispatch.h"

namespace lacuna {

struct FakeModel {
  uint64_t seed = 1;
  int64_t vocab = 23;
  double scale = 8;                 ///< how far logits spread
  std::vector<double> favour = {};  ///< added to the logits of the first tokens

  std::vector<float> logits(std::span<const TokenId> sequence, int64_t row) const {
    uint64_t hash = seed;
    for (const TokenId token : sequence) hash = mix_bits(hash * 31 + static_cast<uint64_t>(token) + 1);
    return logits(RngStream(hash, row));
  }

  std::vector<float> logits(const RngStream& stream) const {
    std::vector<float> values;
    for (int64_t n = 0; n < vocab; ++n) {
      double value = (stream.uniform(static_cast<uint64_t>(n)) - 0.5) * scale;
      if (n < static_cast<int64_t>(favour.size())) value += favour[static_cast<size_t>(n)];
      values.push_back(static_cast<float>(value));
    }
    return values;
  }

  /// With classifier-free guidance: u + (scale + 1) (l - u).
  static std::vector<float> guided(std::vector<float> l, const std::vector<float>& u, float guidance) {
    for (size_t i = 0; i < l.size(); ++i) l[i] = u[i] + (guidance + 1) * (l[i] - u[i]);
    return l;
  }

  /// Samples of a forward pass over a plan without old cells.
  std::vector<RowStatistics> forward(const StepPlan& plan) const {
    const auto row_logits = [&](int32_t row) {
      for (const RowGroup& group : plan.groups) {
        if (row < group.rows.begin || row >= group.rows.end) continue;
        const std::span<const TokenId> tokens(plan.tokens);
        return logits(
            tokens.subspan(static_cast<size_t>(group.rows.begin), static_cast<size_t>(group.rows.size())),
            row - group.rows.begin);
      }
      return std::vector<float>();
    };
    std::vector<RowStatistics> drawn;
    for (const LogitRow& logit : plan.logits) {
      std::vector<float> l = row_logits(logit.row);
      if (logit.unconditional_row >= 0) l = guided(l, row_logits(logit.unconditional_row), logit.guidance);
      drawn.push_back(draw(default_table(), plan.rules[static_cast<size_t>(logit.rule)], logit.noise, l,
                           logit.scored, logit.num_likeliest));
    }
    return drawn;
  }

  /// Runs a decoder to its end; watch() sees the plan and the report of each step.
  void run(Decoder& decoder,
           const std::function<void(const StepPlan&, const StepReport&)>& watch = {}) const {
    for (int steps = 0; !decoder.done(); ++steps) {
      if (steps > 10'000) throw std::runtime_error("the decoder does not end");
      const StepPlan plan = decoder.plan();
      const StepReport report = decoder.apply({forward(plan)});
      if (watch) watch(plan, report);
    }
  }
};

/// The cells that a row of a group sees, in the order of `visible`, then those of its own group.
inline std::vector<int32_t> cells_seen_by(const StepPlan& plan, const RowGroup& group, int32_t row) {
  std::vector<int32_t> cells;
  for (const IndexRange& range : group.visible) {
    for (int32_t cell = range.begin; cell < range.end; ++cell) cells.push_back(cell);
  }
  const int32_t own_end = group.own_rows == OwnRows::kBidirectional ? group.rows.end
                          : group.own_rows == OwnRows::kCausal      ? row + 1
                                                                    : group.rows.begin;
  cells.insert(cells.end(), plan.cells.begin() + group.rows.begin, plan.cells.begin() + own_end);
  return cells;
}

/// Consecutive positions that a pass computes together.
struct Group {
  IndexRange positions;
  int32_t sees = 0;  ///< end of the cells that every row sees, which begin at 0; -1: they are others
  bool only_kv = false;

  bool operator==(const Group&) const = default;
  friend void PrintTo(const Group& group, std::ostream* out) {
    *out << "[" << group.positions.begin << ", " << group.positions.end << ") sees " << group.sees
         << (group.only_kv ? ", K/V only" : "");
  }
};

inline constexpr bool kOnlyKv = true;

inline std::vector<Group> groups(const StepPlan& plan) {
  std::vector<Group> result;
  for (const RowGroup& group : plan.groups) {
    const int32_t last = group.rows.end - 1;
    std::vector<int32_t> seen = cells_seen_by(plan, group, group.rows.begin);
    std::vector<int32_t> all(seen.size());
    std::iota(all.begin(), all.end(), 0);
    const bool is_same = seen == cells_seen_by(plan, group, last);
    std::sort(seen.begin(), seen.end());
    const int32_t first_position = plan.positions.at(static_cast<size_t>(group.rows.begin));
    result.push_back({{first_position, plan.positions.at(static_cast<size_t>(last)) + 1},
                      is_same && seen == all ? static_cast<int32_t>(all.size()) : -1,
                      group.only_kv});
  }
  return result;
}

/// A model of two layers with the K/V of one sequence. A cell's first layer depends on its row's token and
/// position, its second layer on the first layer of every cell that the row sees, and the row's logits on the
/// second layer of those cells: a stale cell, and one too few or too many, change the logits. Sparse
/// attention attends to all.
class FakeCells {
 public:
  FakeCells(const FakeModel& model, int32_t num_cells)
      : model_(model), cells_(static_cast<size_t>(num_cells)) {}

  std::vector<RowStatistics> forward(const StepPlan& plan) {
    for (const RowGroup& group : plan.groups) {
      if (group.sequence != 0) throw std::runtime_error("there are K/V of one sequence");
    }
    std::vector<uint64_t> inputs;
    for (size_t row = 0; row < plan.tokens.size(); ++row) {
      inputs.push_back(RngStream(model_.seed, plan.tokens[row], plan.positions[row]).bits(0));
    }
    for (const MixedRow& mixed : plan.mixed) {
      uint64_t& input = inputs.at(static_cast<size_t>(mixed.row));
      input = mix_bits(input + static_cast<uint64_t>(mixed.weight * 1e6));
    }
    for (const size_t layer : {0U, 1U}) {  // all rows write before any reads
      for (size_t row = 0; row < inputs.size(); ++row) {
        cells_.at(static_cast<size_t>(plan.cells[row]))[layer] = inputs[row];
      }
      for (const RowGroup& group : plan.groups) {
        for (int32_t i = group.rows.begin; i < group.rows.end; ++i) {
          uint64_t sum = 0;  // sum for attention, which has no order
          for (const int32_t cell : cells_seen_by(plan, group, i)) {
            sum += mix_bits(cells_.at(static_cast<size_t>(cell))[layer]);
          }
          inputs[static_cast<size_t>(i)] = mix_bits(inputs[static_cast<size_t>(i)] + mix_bits(sum));
        }
      }
    }
    outputs_ = inputs;
    return sample(plan, plan.logits);
  }

  /// Statistics of rows of the last pass, such as FollowUp::logits.
  std::vector<RowStatistics> sample(const StepPlan& plan, std::span<const LogitRow> wanted) const {
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : wanted) {
      std::vector<float> l = logits(logit.row);
      const SamplingRule& rule = plan.rules.at(static_cast<size_t>(logit.rule));
      samples.push_back(draw(default_table(), rule, logit.noise, l, logit.scored));
    }
    return samples;
  }

  /// Runs a decoder to its end; watch() sees the plan and the report of each step.
  void run(Decoder& decoder, const std::function<void(const StepPlan&, const StepReport&)>& watch = {}) {
    for (int steps = 0; !decoder.done(); ++steps) {
      if (steps > 10'000) throw std::runtime_error("the decoder does not end");
      const StepPlan plan = decoder.plan();
      const std::vector<RowStatistics> samples = forward(plan);
      StepReport report = decoder.apply({samples, kv_drift()});
      const FollowUp wanted = decoder.follow_up();
      if (!wanted.empty()) decoder.apply_follow_up({.samples = sample(plan, wanted.logits)}, report);
      if (watch) watch(plan, report);
    }
  }

  /// Logits of a row of the last pass.
  std::vector<float> logits(int32_t row) const {
    return model_.logits(RngStream(outputs_.at(static_cast<size_t>(row))));
  }

  /// A fake drift of the K/V of the last pass's rows, in [0, 1): PassResult::kv_drift of two layers.
  std::vector<float> kv_drift() const {
    std::vector<float> drift;
    for (const uint64_t output : outputs_) {
      for (uint64_t i = 0; i < 4; ++i) drift.push_back(static_cast<float>(RngStream(output).uniform(i)));
    }
    return drift;
  }

 private:
  FakeModel model_;
  std::vector<std::array<uint64_t, 2>> cells_;  // K/V of each layer; 0: never written
  std::vector<uint64_t> outputs_;               // of the last pass's rows
};

}  // namespace lacuna
