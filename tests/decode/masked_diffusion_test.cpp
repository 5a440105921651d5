#include "decode/masked_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "fake_model.h"

namespace lacuna::masked_diffusion_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr TokenId kMask = 2;
constexpr TokenId kEnd = 4;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

MaskedDiffusion settings(int32_t gen_length, int32_t steps, int32_t block_length) {
  MaskedDiffusion options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.steps = steps;
  options.block_length = block_length;
  options.unmask.count = EvenSplit{};
  return options;
}

MaskedDiffusion dream_settings(int32_t gen_length, int32_t steps) {
  MaskedDiffusion options = settings(gen_length, steps, gen_length);
  options.shifted_logits = true;
  options.unmask.count = TimeSchedule{};
  options.pass.sampling.source = ConfidenceSource::kSampled;
  return options;
}

struct Outcome {
  std::vector<TokenId> canvas;
  std::vector<std::vector<int32_t>> commits;  // positions of each pass that committed any

  bool operator==(const Outcome&) const = default;
};

Outcome decode(const FakeModel& model, const MaskedDiffusion& options, const std::vector<TokenId>& prompt) {
  MaskedDiffusionDecoder decoder(options, prompt);
  Outcome run;
  model.run(decoder, [&](const StepPlan&, const StepReport& report) {
    std::vector<int32_t> positions;
    for (const Commit& commit : report.committed) positions.push_back(commit.position);
    run.commits.push_back(positions);
  });
  run.canvas.assign(decoder.canvas().begin(), decoder.canvas().end());
  return run;
}

// The published samplers at temperature 0, step by step, over full logits in double.

struct Candidate {
  int32_t position;
  TokenId token;
  double confidence;
};

std::vector<double> softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const double logit : logits) p.push_back(std::exp(logit - max));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

double confidence(ConfidenceMeasure measure, const std::vector<double>& logits, TokenId token) {
  std::vector<double> p = softmax(logits);
  if (measure == ConfidenceMeasure::kProbability) return p[static_cast<size_t>(token)];
  if (measure == ConfidenceMeasure::kNegativeEntropy) {
    double sum = 0;
    for (const double value : p) sum += value > 0 ? value * std::log(value) : 0;
    return sum;
  }
  std::sort(p.begin(), p.end(), std::greater<>());
  return p[0] - p[1];
}

TokenId argmax(const std::vector<double>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void commit_surest(std::vector<Candidate> candidates, size_t count, std::vector<TokenId>& x, Outcome& run) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.confidence > b.confidence; });
  std::vector<int32_t> positions;
  for (size_t i = 0; i < std::min(count, candidates.size()); ++i) {
    x[static_cast<size_t>(candidates[i].position)] = candidates[i].token;
    positions.push_back(candidates[i].position);
  }
  std::sort(positions.begin(), positions.end());
  if (!positions.empty()) run.commits.push_back(positions);
}

Outcome llada_generate(const FakeModel& model, const MaskedDiffusion& o, std::vector<TokenId> x) {
  const auto prompt_length = static_cast<int32_t>(x.size());
  x.resize(x.size() + static_cast<size_t>(o.gen_length), o.mask_id);
  std::vector<bool> fixed;
  for (const TokenId token : x) fixed.push_back(token != o.mask_id);
  const int32_t num_blocks = o.gen_length / o.block_length;
  const int32_t steps = o.steps / num_blocks;
  const bool parallel = o.unmask.traits().runs_until_done;
  Outcome run;
  for (int32_t block = 0; block < num_blocks; ++block) {
    const int32_t lo = prompt_length + block * o.block_length;
    const int32_t hi = lo + o.block_length;
    const auto masks = static_cast<int32_t>(std::count(x.begin() + lo, x.begin() + hi, o.mask_id));
    for (int32_t step = 0; parallel || step < steps; ++step) {
      std::vector<Candidate> candidates;
      std::vector<TokenId> u = x;
      for (size_t p = 0; p < u.size(); ++p) {
        if (fixed[p]) u[p] = o.mask_id;
      }
      for (int32_t p = parallel && block > 0 ? lo : 0; p < hi; ++p) {
        if (x[static_cast<size_t>(p)] != o.mask_id) continue;
        std::vector<float> row = model.logits(x, p);
        if (o.pass.cfg_scale > 0) row = FakeModel::guided(row, model.logits(u, p), o.pass.cfg_scale);
        std::vector<double> logits(row.begin(), row.end());
        for (const TokenId token : o.pass.sampling.forbidden) logits[static_cast<size_t>(token)] = kNothing;
        std::vector<double> drawable = logits;
        for (const TokenId never : o.pass.sampling.undrawn) drawable[static_cast<size_t>(never)] = kNothing;
        const TokenId token = argmax(drawable);
        for (const TokenId unsure : o.pass.sampling.unsure) logits[static_cast<size_t>(unsure)] = kNothing;
        candidates.push_back({p, token, confidence(o.pass.sampling.measure, logits, token)});
      }
      if (parallel && candidates.empty()) break;
      size_t count = static_cast<size_t>(masks / steps + (step < masks % steps ? 1 : 0));
      std::vector<double> sorted;
      for (const Candidate& candidate : candidates) sorted.push_back(candidate.confidence);
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      if (const auto* threshold = std::get_if<Threshold>(&o.unmask.count)) {
        for (count = 1; count < sorted.size() && sorted[count] >= threshold->tau;) ++count;
      } else if (const auto* factor = std::get_if<Factor>(&o.unmask.count)) {
        for (count = 1; count < sorted.size();) {
          if (sorted[count] < 1 - factor->f / (static_cast<double>(count) + 2)) break;
          ++count;
        }
      }
      commit_surest(candidates, count, x, run);
    }
  }
  run.canvas = x;
  return run;
}

Outcome diffusion_generate(const FakeModel& model, const MaskedDiffusion& o, std::vector<TokenId> x) {
  x.resize(x.size() + static_cast<size_t>(o.gen_length), o.mask_id);
  const float eps = std::get<TimeSchedule>(o.unmask.count).eps;
  std::vector<float> times;  // linspace(1, eps, steps + 1) in f32, each half from its end
  const float spacing = (eps - 1.0F) / static_cast<float>(o.steps);
  for (int32_t i = 0; i <= o.steps; ++i) {
    times.push_back(i < (o.steps + 1) / 2 ? 1.0F + spacing * static_cast<float>(i)
                                          : eps - spacing * static_cast<float>(o.steps - i));
  }
  Outcome run;
  for (int32_t step = 0; step < o.steps; ++step) {
    std::vector<Candidate> candidates;
    for (int32_t p = 0; p < static_cast<int32_t>(x.size()); ++p) {
      if (x[static_cast<size_t>(p)] != o.mask_id) continue;
      const std::vector<float> row = model.logits(x, p == 0 ? 0 : p - 1);
      std::vector<double> logits(row.begin(), row.end());
      std::vector<double> sorted = logits;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      double least = kNothing;
      if (o.pass.sampling.top_p < 1) {
        const std::vector<double> p_sorted = softmax(sorted);
        double sum = 0;
        size_t last = 0;
        while (last < sorted.size() && (sum += p_sorted[last]) <= o.pass.sampling.top_p) ++last;
        least = sorted[std::min(last, sorted.size() - 1)];
      }
      if (o.pass.sampling.top_k > 0)
        least = std::max(least, sorted[static_cast<size_t>(o.pass.sampling.top_k) - 1]);
      for (double& logit : logits) logit = logit < least ? kNothing : logit;
      const TokenId token = argmax(logits);
      candidates.push_back({p, token, confidence(o.pass.sampling.measure, logits, token)});
    }
    const auto masks = static_cast<float>(candidates.size());
    const float share = 1.0F - times[static_cast<size_t>(step) + 1] / times[static_cast<size_t>(step)];
    const float count = step + 1 < o.steps ? masks * share : masks;
    commit_surest(candidates, static_cast<size_t>(count), x, run);
  }
  run.canvas = x;
  return run;
}

/// RND1's diffusion_sample; `masks` of the prompt are ordinary ones.
Outcome diffusion_sample(const FakeModel& model, const MaskedDiffusion& o, std::vector<TokenId> x) {
  x.resize(x.size() + static_cast<size_t>(o.gen_length), o.mask_id);
  std::vector<int32_t> open;
  for (int32_t p = 0; p < static_cast<int32_t>(x.size()); ++p) {
    if (x[static_cast<size_t>(p)] == o.mask_id) open.push_back(p);
  }
  const auto total = static_cast<float>(open.size());
  Outcome run;
  for (int32_t left = o.steps - 1; left >= 0; --left) {
    const auto kept = static_cast<size_t>(total * static_cast<float>(static_cast<double>(left) / o.steps));
    if (open.size() <= kept) continue;
    std::vector<Candidate> candidates;
    for (const int32_t p : open) {
      const std::vector<float> row = model.logits(x, p == 0 ? 0 : p - 1);
      const std::vector<double> logits(row.begin(), row.end());
      const TokenId token = argmax(logits);
      candidates.push_back({p, token, confidence(o.pass.sampling.measure, logits, token)});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.confidence > b.confidence; });
    std::vector<int32_t>& written = run.commits.emplace_back();
    for (size_t i = 0; i < candidates.size() - kept; ++i) {
      x[static_cast<size_t>(candidates[i].position)] = candidates[i].token;
      written.push_back(candidates[i].position);
      std::erase(open, candidates[i].position);
    }
    std::sort(written.begin(), written.end());
  }
  run.canvas = x;
  return run;
}

/// Open-dCoder's diffusion_generate with "p2".
Outcome p2_generate(const FakeModel& model, const MaskedDiffusion& o, std::vector<TokenId> x) {
  x.resize(x.size() + static_cast<size_t>(o.gen_length), o.mask_id);
  std::vector<int32_t> open;
  for (int32_t p = 0; p < static_cast<int32_t>(x.size()); ++p) {
    if (x[static_cast<size_t>(p)] == o.mask_id) open.push_back(p);
  }
  Outcome run;
  for (int32_t step = 0; step < o.steps && std::count(x.begin(), x.end(), o.mask_id) > 0; ++step) {
    std::vector<Candidate> candidates;
    for (const int32_t p : open) {
      const std::vector<float> row = model.logits(x, p == 0 ? 0 : p - 1);
      const std::vector<double> logits(row.begin(), row.end());
      const TokenId token = argmax(logits);
      candidates.push_back({p, token, confidence(o.pass.sampling.measure, logits, token)});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.confidence > b.confidence; });
    const auto share = static_cast<float>(1 - static_cast<double>(step + 1) / o.steps);
    const size_t kept = candidates.size() - static_cast<size_t>(static_cast<float>(open.size()) * share);
    std::vector<int32_t> written;
    for (size_t i = 0; i < candidates.size(); ++i) {
      TokenId& token = x[static_cast<size_t>(candidates[i].position)];
      if (i >= kept) {
        token = o.mask_id;
      } else if (token == o.mask_id) {
        token = candidates[i].token;
        written.push_back(candidates[i].position);
      }
    }
    std::sort(written.begin(), written.end());
    run.commits.push_back(written);
  }
  run.canvas = x;
  return run;
}

std::vector<std::vector<TokenId>> prompts() {
  return {{7, 8, 9}, {}, {5, kMask, 6, kMask, kMask, 7}, {11}};
}

TEST(MaskedDiffusion, FillsTheCanvasAsLladaDoes) {
  int runs = 0;
  for (const auto& [gen_length, block_length] :
       std::vector<std::pair<int32_t, int32_t>>{{1, 1}, {4, 2}, {6, 6}, {6, 3}, {12, 4}, {16, 8}}) {
    for (const int32_t steps_per_block : {1, 2, 3, 5, 9}) {
      for (const float cfg_scale : {0.0F, 1.5F}) {
        for (const bool draws_masks : {false, true}) {
          for (const std::vector<TokenId>& prompt : prompts()) {
            MaskedDiffusion options =
                settings(gen_length, steps_per_block * gen_length / block_length, block_length);
            options.pass.cfg_scale = cfg_scale;
            FakeModel model;
            model.seed = static_cast<uint64_t>(++runs);
            if (draws_masks) model.favour = {0, 0, 4};
            if (runs % 3 == 0) options.pass.sampling.forbidden = {kEnd};
            if (runs % 3 == 1) options.pass.sampling.unsure = {kEnd, 5};
            options.pass.sampling.measure = static_cast<ConfidenceMeasure>(runs % 5 % 3);
            EXPECT_EQ(decode(model, options, prompt), llada_generate(model, options, prompt))
                << "gen " << gen_length << " block " << block_length << " steps " << options.steps << " cfg "
                << cfg_scale << " run " << runs;
          }
        }
      }
    }
  }
}

TEST(MaskedDiffusion, DecodesInParallelAsFastDllmDoes) {
  uint64_t runs = 0;
  for (const auto& [gen_length, block_length] :
       std::vector<std::pair<int32_t, int32_t>>{{1, 1}, {6, 3}, {12, 12}, {16, 4}}) {
    for (const CountRule& rule : std::vector<CountRule>{Threshold{0.9}, Threshold{0.4}, Threshold{0.05},
                                                        Factor{0.3}, Factor{1}, Factor{2.5}}) {
      for (const double scale : {2.0, 8.0, 20.0}) {
        for (const std::vector<TokenId>& prompt : prompts()) {
          MaskedDiffusion options = settings(gen_length, gen_length / block_length, block_length);
          options.unmask.count = rule;
          options.pass.sampling.undrawn = {kMask};
          options.pass.cfg_scale = runs % 2 == 0 ? 0.0F : 0.5F;
          FakeModel model;
          model.seed = ++runs;
          model.scale = scale;
          EXPECT_EQ(decode(model, options, prompt), llada_generate(model, options, prompt)) << runs;
        }
      }
    }
  }
}

TEST(MaskedDiffusion, FillsTheCanvasAsDreamDoes) {
  uint64_t runs = 0;
  for (const int32_t gen_length : {1, 5, 12, 20}) {
    for (const int32_t steps : {1, 2, 7, 12, 30}) {
      for (const auto measure : {ConfidenceMeasure::kProbability, ConfidenceMeasure::kMargin,
                                 ConfidenceMeasure::kNegativeEntropy}) {
        for (const float top_p : {1.0F, 0.8F}) {
          for (const int32_t top_k : {0, 4}) {
            for (const std::vector<TokenId>& prompt : prompts()) {
              MaskedDiffusion options = dream_settings(gen_length, steps);
              options.pass.sampling.measure = measure;
              options.pass.sampling.top_p = top_p;
              options.pass.sampling.top_k = top_k;
              options.unmask.count = TimeSchedule{runs % 2 == 0 ? 1e-3F : 0.05F};
              FakeModel model;
              model.seed = ++runs;
              if (runs % 7 == 0) model.favour = {0, 0, 4};  // the mask token itself
              EXPECT_EQ(decode(model, options, prompt), diffusion_generate(model, options, prompt))
                  << "gen " << gen_length << " steps " << steps << " run " << runs;
            }
          }
        }
      }
    }
  }
}

TEST(MaskedDiffusion, FillsTheCanvasAsRnd1Does) {
  uint64_t runs = 0;
  size_t num_masks = 0;
  for (const int32_t gen_length : {1, 5, 12, 22}) {
    for (const int32_t steps : {1, 2, 7, 22, 256}) {
      for (const auto measure : {ConfidenceMeasure::kProbability, ConfidenceMeasure::kMargin,
                                 ConfidenceMeasure::kNegativeEntropy}) {
        for (const std::vector<TokenId>& prompt : prompts()) {
          MaskedDiffusion options = dream_settings(gen_length, steps);
          options.pass.sampling.measure = measure;
          options.unmask.count = LinearSchedule{};
          FakeModel model;
          model.seed = ++runs;
          if (runs % 4 == 0) model.favour = {0, 0, 4};  // the mask token itself, which stays
          const Outcome expected = diffusion_sample(model, options, prompt);
          EXPECT_EQ(decode(model, options, prompt), expected)
              << "gen " << gen_length << " steps " << steps << " run " << runs;
          num_masks += std::count(expected.canvas.begin(), expected.canvas.end(), kMask) > 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(num_masks, 20U) << "a mask token that stays is not tested";
}

MaskedDiffusion p2_settings(int32_t gen_length, int32_t steps, int32_t block_length) {
  MaskedDiffusion options = dream_settings(gen_length, steps);
  options.block_length = block_length;
  options.unmask.count = Remasking{};
  return options;
}

TEST(MaskedDiffusion, FillsTheCanvasAsOpenDcoderDoesWithP2) {
  uint64_t runs = 0;
  size_t num_remasked = 0;
  for (const int32_t gen_length : {1, 5, 12, 20}) {
    for (const int32_t steps : {1, 2, 7, 12, 30}) {
      for (const double scale : {2.0, 8.0}) {
        for (const std::vector<TokenId>& prompt : prompts()) {
          const MaskedDiffusion options = p2_settings(gen_length, steps, gen_length);
          FakeModel model;
          model.seed = ++runs;
          model.scale = scale;
          if (runs % 7 == 0) model.favour = {0, 0, 4};  // the mask token itself
          const Outcome expected = p2_generate(model, options, prompt);
          EXPECT_EQ(decode(model, options, prompt), expected)
              << "gen " << gen_length << " steps " << steps << " run " << runs;
          size_t num_written = 0;
          for (const auto& positions : expected.commits) num_written += positions.size();
          num_remasked += num_written > static_cast<size_t>(gen_length) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(num_remasked, 50U) << "a rule that never masks a token again is not tested";
}

TEST(MaskedDiffusion, ThatRemasksChangesNothingBeforeItsBlock) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeModel model;
    model.seed = seed;
    MaskedDiffusion options = p2_settings(12, 12, 4);
    const bool draws_masks = seed % 2 == 0;  // which leaves positions of a block to the next one
    if (!draws_masks) options.pass.sampling.undrawn = {kMask};
    MaskedDiffusionDecoder decoder(options, {7, 8, 9});
    std::vector<TokenId> final_tokens;
    bool was_remasked = false;
    while (!decoder.done()) {
      const auto answer = decoder.canvas().subspan(3);
      const auto count = static_cast<size_t>(decoder.num_final());
      ASSERT_GE(count, final_tokens.size());
      EXPECT_TRUE(std::equal(final_tokens.begin(), final_tokens.end(), answer.begin()));
      final_tokens.assign(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(count));
      const StepPlan plan = decoder.plan();
      const std::vector<int32_t> sampled = decoder.sampled_positions();
      ASSERT_EQ(sampled.size(), plan.logits.size());
      was_remasked = was_remasked || std::count(sampled.begin(), sampled.end(), -1) > 0;
      for (const int32_t position : sampled)
        EXPECT_TRUE(position < 0 || decoder.canvas()[static_cast<size_t>(position)] == kMask);
      decoder.apply({model.forward(plan)});
    }
    EXPECT_TRUE(was_remasked);
    if (!draws_masks) {
      EXPECT_EQ(decoder.num_final(), 12);
    }
  }
}

TEST(MaskedDiffusion, OfKlassCommitsOnceDriftsAreKnown) {
  FakeModel model;
  MaskedDiffusion options = settings(6, 6, 6);
  options.unmask.count = Klass{0.01, 0.1, 2};
  options.pass.sampling.undrawn = {kMask};
  MaskedDiffusionDecoder decoder(options, {7, 8});
  EXPECT_TRUE(decoder.needs().remembers_outputs);
  const auto step = [&](double kl) {
    const StepPlan plan = decoder.plan();
    StepReport report = decoder.apply({model.forward(plan)});
    if (const FollowUp wanted = decoder.follow_up(); !wanted.empty()) {
      EXPECT_THAT(report.committed, IsEmpty());
      EXPECT_EQ(wanted.probes.size(), decoder.sampled_positions().size());
      for (size_t i = 0; i < wanted.probes.size(); ++i) {
        EXPECT_EQ(wanted.probes[i].row, plan.logits[i].row);
        EXPECT_EQ(wanted.probes[i].cell, decoder.sampled_positions()[i]);
      }
      const std::vector<Drift> drifts(wanted.probes.size(), Drift{kl, 0});
      decoder.apply_follow_up({.drifts = drifts}, report);
    }
    EXPECT_TRUE(decoder.follow_up().empty());
    return report.committed.size();
  };
  EXPECT_EQ(step(0), 1U) << "the first pass has nothing to compare with, and asks for nothing";
  EXPECT_EQ(step(0.2), 1U);
  EXPECT_EQ(step(0), 1U) << "stable in one pass";
  EXPECT_EQ(step(0), 3U) << "stable in two";
  EXPECT_TRUE(decoder.done());
}

TEST(MaskedDiffusion, OfKlassLocksRowsAfterItsCommits) {
  FakeModel model;
  MaskedDiffusion options = settings(4, 4, 4);
  options.unmask.count = Klass{0.01, 0.1, 1};
  options.pass.sampling.undrawn = {kMask};
  options.pass.lock.emplace();
  options.pass.lock->gate = 100;
  MaskedDiffusionDecoder decoder(options, {7, 8});
  std::vector<int32_t> locked;
  int rounds = 0;
  while (!decoder.done()) {
    StepReport report = decoder.apply({model.forward(decoder.plan())});
    for (bool first = true; first || !decoder.follow_up().empty(); first = false) {
      const std::vector<Drift> drifts(decoder.follow_up().probes.size(), Drift{rounds == 1 ? 0.2 : 0, 0});
      decoder.apply_follow_up({.drifts = drifts}, report);
    }
    locked.insert(locked.end(), report.locked.begin(), report.locked.end());
    EXPECT_THAT(report.committed, Not(IsEmpty()));
    ++rounds;
  }
  EXPECT_EQ(rounds, 3);
  EXPECT_THAT(locked, Not(IsEmpty()));
}

TEST(MaskedDiffusion, ThatRevokesFillsEveryMaskInTheEnd) {
  for (const CountRule& rule : std::vector<CountRule>{Wino{0.05, 0.99}, Saber{2}, Saber{5}}) {
    size_t num_written = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      FakeModel model;
      model.seed = seed;
      MaskedDiffusion options = settings(12, 12, seed % 2 == 0 ? 4 : 12);
      options.unmask.count = rule;
      options.pass.sampling.undrawn = {kMask};
      options.pass.verified_block = options.unmask.traits().verifies ? options.block_length : 0;
      // The second position of the answer is given.
      std::vector<TokenId> answer(12, kMask);
      answer[1] = 9;
      MaskedDiffusionDecoder decoder(options, {7, 8, 9}, answer);
      std::vector<TokenId> final_tokens;
      while (!decoder.done()) {
        const auto now = decoder.canvas().subspan(3);
        const auto count = static_cast<size_t>(decoder.num_final());
        ASSERT_GE(count, final_tokens.size());
        EXPECT_TRUE(std::equal(final_tokens.begin(), final_tokens.end(), now.begin()));
        final_tokens.assign(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(count));
        num_written += decoder.apply({model.forward(decoder.plan())}).committed.size();
        EXPECT_EQ(decoder.canvas()[4], 9) << "what is given stays";
      }
      EXPECT_EQ(decoder.num_final(), 12);
      EXPECT_EQ(std::count(decoder.canvas().begin(), decoder.canvas().end(), kMask), 0);
    }
    EXPECT_GT(num_written, 30U * 11U) << "nothing was masked again";
  }
}

TEST(MaskedDiffusion, OfProphetWritesEveryMaskOnceItsLeadSuffices) {
  for (const double bound : {1e-9, 1e6}) {
    FakeModel model;
    MaskedDiffusion options = settings(8, 8, 4);
    options.unmask.count = Prophet{1e6, bound, bound};
    options.pass.sampling.forbidden = {kMask};
    MaskedDiffusionDecoder decoder(options, {7, 8});
    std::vector<size_t> commits;
    model.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
      EXPECT_EQ(plan.logits.size(), 8 - static_cast<size_t>(report.step) + 8) << "masks, then the answer";
      commits.push_back(report.committed.size());
    });
    // The first 33% of 8 steps are 2.
    const std::vector<size_t> early = {1, 1, 6};
    EXPECT_EQ(commits, bound < 1 ? early : std::vector<size_t>(8, 1));
  }
}

TEST(MaskedDiffusion, OfSlowFastFillsASpanWithoutSeeingWhatIsBehind) {
  int num_cut = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeModel model;
    model.seed = seed;
    MaskedDiffusion options = settings(12, 12, seed % 2 == 0 ? 6 : 12);
    options.shifted_logits = seed % 3 == 0;
    options.unmask.count = SlowFast{.tau = 0.9, .slow = 0.9, .span = 0.3, .explore = 2};
    options.pass.sampling.undrawn = {kMask};
    MaskedDiffusionDecoder decoder(options, {7, 8});
    size_t num_written = 0;
    model.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
      ASSERT_THAT(plan.groups, SizeIs(1));
      ASSERT_THAT(plan.groups[0].visible, SizeIs(1));
      const IndexRange seen = plan.groups[0].visible[0];
      EXPECT_EQ(seen.begin, 0);
      EXPECT_EQ(plan.num_rows(), seen.end) << "what is seen is computed";
      for (const Commit& commit : report.committed) EXPECT_LT(commit.position, seen.end);
      num_written += report.committed.size();
      num_cut += seen.end < 14 ? 1 : 0;
    });
    EXPECT_EQ(num_written, 12U);
  }
  EXPECT_GT(num_cut, 10);
}

TEST(MaskedDiffusion, OfDsbWritesInAPartOfTheBlockThatSlides) {
  FakeModel model;
  MaskedDiffusion options = settings(12, 12, 12);
  options.unmask.count = SlidingBlock{.tau = 1, .start = 3, .most = 4};
  options.pass.sampling.undrawn = {kMask};
  MaskedDiffusionDecoder decoder(options, {7, 8});
  std::vector<size_t> drawn;
  model.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
    drawn.push_back(plan.logits.size());
    EXPECT_EQ(report.committed.size(), 1U);
    EXPECT_THAT(plan.groups.front().visible, ElementsAre(IndexRange{0, 14})) << "all is seen";
  });
  EXPECT_THAT(drawn, SizeIs(12));
  EXPECT_LE(*std::max_element(drawn.begin(), drawn.end()), 3U);
  EXPECT_EQ(drawn.front(), 3U);
}

/// A model that predicts the token 9 at the positions of `delimiters`, and 7 elsewhere.
RowStatistics delimited(const LogitRow& logit, const std::vector<int32_t>& delimiters) {
  RowStatistics row;
  row.token = std::ranges::find(delimiters, logit.row) != delimiters.end() ? 9 : 7;
  row.confidence = row.token == 9 ? 0.5 : 0.2;
  return row;
}

TEST(MaskedDiffusion, OfAdaBlockEndsABlockAtADelimiter) {
  for (const CachePolicy& cache : std::vector<CachePolicy>{NoCache{}, PrefixCache{}, DualCache{}}) {
    MaskedDiffusion options = settings(16, 16, 8);
    options.unmask.count = AdaptiveBlock{.tau = 0.9, .delimiter = 0.5};
    options.delimiters = {9};
    options.pass.cache = cache;
    MaskedDiffusionDecoder decoder(options, {7, 8});
    const std::vector<int32_t> delimiters = {4, 8, 17};
    std::vector<IndexRange> blocks;
    int32_t num_drawn = 8;  // the usual length, which is more than the window
    while (!decoder.done()) {
      const StepPlan plan = decoder.plan();
      num_drawn = std::max(num_drawn, static_cast<int32_t>(plan.logits.size()));
      std::vector<RowStatistics> rows;
      for (LogitRow logit : plan.logits) {
        logit.row = plan.positions[static_cast<size_t>(logit.row)];
        rows.push_back(delimited(logit, delimiters));
      }
      const bool is_whole = plan.num_rows() == 18;
      const IndexRange before = decoder.block();
      const StepReport report = decoder.apply({rows});
      ASSERT_EQ(report.committed.size(), 1U);
      if (blocks.empty() || static_cast<size_t>(report.block) == blocks.size()) {
        EXPECT_TRUE(is_whole) << "a block's first pass computes everything";
        blocks.push_back({before.begin, 0});
      } else {
        EXPECT_EQ(is_whole, std::holds_alternative<NoCache>(cache) || before.begin == 0);
      }
      blocks.back().end = std::max(blocks.back().end, report.committed[0].position + 1);
    }
    // The window has 4 positions: the delimiter at 17 is the last position anyway.
    EXPECT_THAT(blocks,
                ElementsAre(IndexRange{2, 5}, IndexRange{5, 9}, IndexRange{9, 17}, IndexRange{17, 18}));
    EXPECT_EQ(num_drawn, 8);
  }
}

TEST(MaskedDiffusion, OfAdaBlockLooksFurtherThanAShortBlock) {
  MaskedDiffusion options = settings(16, 16, 2);
  options.unmask.count = AdaptiveBlock{.tau = 0.9, .delimiter = 0.5};
  options.delimiters = {9};
  // The first block's usual length is given: it needs no pass.
  std::vector<TokenId> answer(16, kMask);
  answer[0] = answer[1] = 6;
  MaskedDiffusionDecoder decoder(options, {7, 8}, answer);
  const StepPlan plan = decoder.plan();
  EXPECT_EQ(plan.logits.size(), 4U) << "a quarter of the answer";
  std::vector<RowStatistics> rows;
  for (const LogitRow& logit : plan.logits) rows.push_back(delimited(logit, {7}));
  EXPECT_EQ(decoder.apply({rows}).block, 1);
  EXPECT_EQ(decoder.block(), (IndexRange{4, 8}));
  EXPECT_EQ(decoder.plan().logits.size(), 3U) << "what is left of the block";
}

TEST(MaskedDiffusion, OfD3llmBeginsBlocksBeforeOthersEnd) {
  MaskedDiffusion options = settings(12, 12, 4);
  options.unmask.count = MultiBlock{.bound = 1.5, .add = 0.1};
  options.pass.sampling.measure = ConfidenceMeasure::kNegativeEntropy;
  options.pass.sampling.undrawn = {kMask};
  MaskedDiffusionDecoder decoder(options, {7, 8});
  size_t most_drawn = 0;
  std::vector<size_t> drawn;
  FakeModel().run(decoder, [&](const StepPlan& plan, const StepReport& report) {
    drawn.push_back(plan.logits.size());
    EXPECT_THAT(plan.groups.front().visible, ElementsAre(IndexRange{0, 14})) << "all is seen";
    EXPECT_FALSE(report.committed.empty());
    most_drawn = std::max(most_drawn, plan.logits.size());
  });
  EXPECT_EQ(drawn.front(), 4U) << "one block at first";
  EXPECT_GT(most_drawn, 4U) << "then several";
  EXPECT_EQ(decoder.num_final(), 12);
}

TEST(MaskedDiffusion, OfD3llmEndsTheAnswerAtTheFirstEndToken) {
  MaskedDiffusion options = settings(8, 8, 4);
  options.unmask.count = MultiBlock{.bound = 0.5, .add = 0.1};
  options.eos_exit = true;
  MaskedDiffusionDecoder decoder(options, {7});
  const auto pass = [&](TokenId token, const std::vector<int32_t>& sure) {
    const StepPlan& plan = decoder.plan();
    std::vector<RowStatistics> rows(plan.logits.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t position = plan.positions[static_cast<size_t>(plan.logits[i].row)];
      rows[i].token = position == 4 || position == 7 ? kEnd : token;
      rows[i].confidence = std::ranges::find(sure, position) != sure.end() ? -0.1 : -2;
    }
    return decoder.apply({rows});
  };
  pass(9, {1});
  const StepReport ended = pass(9, {4, 6, 7});
  std::vector<int32_t> positions;
  for (const Commit& each : ended.committed) {
    positions.push_back(each.position);
    EXPECT_EQ(each.token, kEnd);
  }
  EXPECT_THAT(positions, ElementsAre(4, 5, 6, 7, 8)) << "end tokens overwrite what follows the first";
  EXPECT_FALSE(decoder.done());
  pass(9, {2, 3});
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
}

std::vector<UnmaskPolicy> many_policies() {
  std::vector<UnmaskPolicy> policies;
  for (const CountRule& rule :
       std::vector<CountRule>{EvenSplit{}, TimeSchedule{}, AncestralSampling{}, LinearSchedule{},
                              Threshold{0.5}, Factor{1}, LocalLeap{0.5, 0.2, 2}, SlowFast{0.5, 0.5, 0.2, 2},
                              SlidingBlock{0.5, 3, 5}, AdaptiveBlock{0.5, 0.2}}) {
    policies.push_back({rule});
  }
  policies.push_back({EvenSplit{}, UnmaskOrder::kRandom});
  policies.push_back({TimeSchedule{}, UnmaskOrder::kRandom});
  policies.push_back({TimeSchedule{}, UnmaskOrder::kConfidence, 0.3F});
  return policies;
}

TEST(MaskedDiffusion, FillsEveryMaskAndChangesNothingElse) {
  for (const UnmaskPolicy& policy : many_policies()) {
    for (const float temperature : {0.0F, 0.8F}) {
      for (const bool shifted : {false, true}) {
        for (const std::vector<TokenId>& prompt : prompts()) {
          MaskedDiffusion options = settings(12, 9, 4);
          options.unmask = policy;
          options.shifted_logits = shifted;
          options.pass.sampling.temperature = temperature;
          options.pass.sampling.forbidden = {kMask};
          MaskedDiffusionDecoder decoder(options, prompt);
          std::vector<TokenId> before(decoder.canvas().begin(), decoder.canvas().end());
          std::set<int32_t> filled;
          FakeModel().run(decoder, [&](const StepPlan&, const StepReport& report) {
            EXPECT_THAT(report.committed, Not(IsEmpty()));
            for (const Commit& commit : report.committed) {
              EXPECT_EQ(before[static_cast<size_t>(commit.position)], kMask);
              EXPECT_TRUE(filled.insert(commit.position).second) << "committed twice: " << commit.position;
              before[static_cast<size_t>(commit.position)] = commit.token;
            }
            EXPECT_TRUE(std::equal(before.begin(), before.end(), decoder.canvas().begin()));
          });
          // An even split counts the block's masks alone, so masks of the prompt leave as many unfilled.
          const bool even = std::holds_alternative<EvenSplit>(policy.count);
          EXPECT_EQ(std::count(before.begin(), before.end(), kMask),
                    even ? std::count(prompt.begin(), prompt.end(), kMask) : 0);
        }
      }
    }
  }
}

TEST(MaskedDiffusion, FinishesBlocksFromLeftToRight) {
  for (const UnmaskPolicy& policy : many_policies()) {
    MaskedDiffusion options = settings(12, 12, 3);
    options.unmask = policy;
    options.pass.sampling.forbidden = {kMask};
    MaskedDiffusionDecoder decoder(options, {7, 8});
    int32_t last_step = -1;
    int32_t last_block = 0;
    FakeModel().run(decoder, [&](const StepPlan&, const StepReport& report) {
      EXPECT_EQ(report.kind, "denoise");
      EXPECT_GT(report.step, last_step);
      EXPECT_GE(report.block, last_block);
      last_step = report.step;
      last_block = report.block;
      for (const Commit& commit : report.committed) EXPECT_EQ((commit.position - 2) / 3, report.block);
      if (!policy.traits().runs_until_done) {
        EXPECT_EQ(report.step / 3, report.block);
      }
    });
    EXPECT_EQ(last_block, 3);
  }
}

TEST(MaskedDiffusion, NumbersStepsAsIfNoneWereSkipped) {
  // 2 masks in 5 steps a block: passes 0 and 1, then 5 and 6.
  MaskedDiffusionDecoder decoder(settings(4, 10, 2), {7});
  std::vector<int32_t> steps;
  FakeModel().run(decoder, [&](const StepPlan&, const StepReport& report) { steps.push_back(report.step); });
  EXPECT_THAT(steps, ElementsAre(0, 1, 5, 6));
}

TEST(MaskedDiffusion, ComputesTheWholeCanvasAndDrawsOnlyWhereMasked) {
  MaskedDiffusionDecoder decoder(settings(4, 4, 2), {7, 8, 9});
  const StepPlan& plan = decoder.plan();
  EXPECT_THAT(plan.tokens, ElementsAre(7, 8, 9, kMask, kMask, kMask, kMask));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(plan.cells, plan.positions);
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0], (RowGroup{0, {0, 7}, {{0, 7}}, OwnRows::kNone}));
  ASSERT_EQ(plan.logits.size(), 2U);  // the first block
  EXPECT_EQ(plan.logits[0].row, 3);
  EXPECT_EQ(plan.logits[1].row, 4);
  EXPECT_NE(plan.logits[0].noise, plan.logits[1].noise);
  EXPECT_EQ(plan, decoder.plan());
  EXPECT_EQ(decoder.num_cells(), 7);
  EXPECT_EQ(decoder.num_sequences(), 1);
}

TEST(MaskedDiffusion, ShiftedLogitsComeFromTheRowBefore) {
  MaskedDiffusionDecoder decoder(dream_settings(2, 2), {kMask, 8});
  std::vector<int32_t> rows;
  for (const LogitRow& logit : decoder.plan().logits) rows.push_back(logit.row);
  EXPECT_THAT(rows, ElementsAre(0, 1, 2));  // positions 0, 2 and 3
}

TEST(MaskedDiffusion, GuidanceAddsASequenceWithoutThePrompt) {
  MaskedDiffusion options = settings(2, 2, 2);
  options.pass.cfg_scale = 1.5F;
  MaskedDiffusionDecoder decoder(options, {7, kMask, 9});
  EXPECT_EQ(decoder.num_sequences(), 2);
  const std::vector<RowStatistics> draws = {{20, 0.2}, {21, 0.9}, {22, 0.1}};
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(7, kMask, 9, kMask, kMask,  //
                                                 kMask, kMask, kMask, kMask, kMask));
  decoder.apply({draws});  // position 3 gets its token, which both sequences show
  const StepPlan& plan = decoder.plan();
  EXPECT_THAT(plan.tokens, ElementsAre(7, kMask, 9, 21, kMask,  //
                                       kMask, kMask, kMask, 21, kMask));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4));
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[1], (RowGroup{1, {5, 10}, {{0, 5}}, OwnRows::kNone}));
  for (const LogitRow& logit : plan.logits) {
    EXPECT_EQ(logit.unconditional_row, logit.row + 5);
    EXPECT_EQ(logit.guidance, 1.5F);
  }
}

TEST(MaskedDiffusion, AsksForLogitsOnlyWhereABlindRuleCommits) {
  for (const UnmaskPolicy& policy : many_policies()) {
    if (!policy.ignores_logits()) continue;
    MaskedDiffusion options = settings(16, 6, 8);
    options.unmask = policy;
    options.pass.sampling.forbidden = {kMask};
    MaskedDiffusionDecoder decoder(options, {7});
    size_t draws = 0;
    FakeModel().run(decoder, [&](const StepPlan& plan, const StepReport& report) {
      EXPECT_EQ(plan.logits.size(), report.committed.size());
      draws += plan.logits.size();
    });
    EXPECT_EQ(draws, 16U);
  }
}

TEST(MaskedDiffusion, AMaskThatIsDrawnTakesItsQuotaAndStaysAMask) {
  FakeModel model;
  model.favour = {0, 0, 100};
  MaskedDiffusionDecoder decoder(settings(4, 4, 2), {7});
  int passes = 0;
  model.run(decoder, [&](const StepPlan&, const StepReport& report) {
    EXPECT_THAT(report.committed, testing::SizeIs(1));
    ++passes;
  });
  EXPECT_EQ(passes, 4);
  EXPECT_THAT(decoder.canvas().subspan(1), Each(kMask));
}

TEST(MaskedDiffusion, EarlyExitLeavesOutBlocksButNotTheAnswer) {
  int exits = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    MaskedDiffusion options = settings(12, 12, 3);
    options.pass.sampling.temperature = seed % 2 == 0 ? 0.0F : 0.9F;
    options.seed = seed;
    FakeModel model;
    model.seed = seed;
    model.favour = {0, 0, seed % 3 == 0 ? 4.0 : 0.0, 0, 2};  // masks and end tokens are sampled often
    MaskedDiffusionDecoder whole(options, {7, 8});
    options.eos_exit = true;
    MaskedDiffusionDecoder early(options, {7, 8});
    int whole_passes = 0;
    int early_passes = 0;
    model.run(whole, [&](const StepPlan&, const StepReport&) { ++whole_passes; });
    model.run(early, [&](const StepPlan&, const StepReport&) { ++early_passes; });
    EXPECT_LE(early_passes, whole_passes);
    exits += early_passes < whole_passes ? 1 : 0;
    EXPECT_EQ(early.stop_reason(), whole.stop_reason());
    const auto answer = [](const Decoder& decoder) {
      const std::span<const TokenId> tokens = decoder.canvas().subspan(2);
      return std::vector<TokenId>(tokens.begin(), std::find(tokens.begin(), tokens.end(), kEnd));
    };
    EXPECT_EQ(answer(early), answer(whole)) << seed;
  }
  EXPECT_GT(exits, 50);
}

TEST(MaskedDiffusion, StopReasonTellsWhetherTheAnswerEnds) {
  FakeModel model;
  MaskedDiffusion options = settings(3, 3, 3);
  options.pass.sampling.forbidden = {kMask, kEnd};
  MaskedDiffusionDecoder open(options, {kEnd});  // an end token in the prompt ends nothing
  model.run(open);
  EXPECT_EQ(open.stop_reason(), StopReason::kLength);
  model.favour = {0, 0, 0, 0, 100};
  MaskedDiffusionDecoder ended(settings(3, 3, 3), {7});
  model.run(ended);
  EXPECT_EQ(ended.stop_reason(), StopReason::kEndToken);
}

TEST(MaskedDiffusion, DrawsDependOnTheSeedAndOnNothingElse) {
  MaskedDiffusion options = settings(16, 8, 8);
  options.pass.sampling.temperature = 1;
  options.seed = 3;
  const Outcome once = decode({}, options, {7});
  EXPECT_EQ(decode({}, options, {7}), once);
  options.seed = 4;
  EXPECT_NE(decode({}, options, {7}).canvas, once.canvas);
}

TEST(MaskedDiffusion, RefusesAnotherNumberOfDrawsThanPlanned) {
  MaskedDiffusionDecoder decoder(settings(2, 2, 2), {7});
  EXPECT_THROW(decoder.apply({}), std::logic_error);
}

}  // namespace
}  // namespace lacuna::masked_diffusion_test
