// A model of a few lines: the logits of a row depend on every token of its sequence and on the row, at
// random.
#pragma once

#include <cstdint>
#include <functional>
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
    const RngStream stream(hash, row);
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

  /// What a forward pass over plans without old cells would draw.
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
      drawn.push_back(draw(default_table(), plan.rules[static_cast<size_t>(logit.rule)], logit.noise, l));
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

}  // namespace lacuna
