// Tunings of settings whose risks are known, to count how often a promise is broken. A prompt's difficulty is
// one uniform number that all settings share, and a setting loses more the less it is: settings are as
// dependent as those of one model on the same prompts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "tune/certify.h"
#include "tune/race.h"

namespace lacuna {

/// How losses are spread over prompts.
enum class LossShape : uint8_t {
  kAnswer,  ///< changed-answer and wrong-answer: 0 or 1
  kToken,   ///< shares of 32 tokens, of some prompts
  kKl,      ///< a little for most prompts, 1 for some: what is cut at 1 nat
  kJudge,   ///< nothing for most prompts, small and large amounts for the others
};

struct NamedLossShape {
  LossShape shape;
  std::string_view name;
};
inline constexpr NamedLossShape kLossShapes[] = {{LossShape::kAnswer, "changed-answer, wrong-answer"},
                                                 {LossShape::kToken, "token"},
                                                 {LossShape::kKl, "kl"},
                                                 {LossShape::kJudge, "judge"}};

inline LossKind kind_of(LossShape shape) {
  return shape == LossShape::kAnswer ? LossKind::kBinary : LossKind::kBounded;
}

/// Most that a setting may risk here.
inline constexpr double kMaxRisk = 0.33;

/// The loss on a prompt of a setting; its mean over difficulties that are uniform in (0, 1) is the risk.
///   risk  in [0, kMaxRisk]
inline double loss_at(LossShape shape, double difficulty, double risk) {
  if (risk <= 0) return 0;
  switch (shape) {
    case LossShape::kAnswer:
      return difficulty < risk ? 1 : 0;
    case LossShape::kToken: {  // of the prompts that lose, 1/32, ..., 32/32 alike: 33/64 on average
      const double share = risk * 64 / 33;
      return difficulty < share ? std::ceil(32 * difficulty / share) / 32 : 0;
    }
    case LossShape::kKl:
      return difficulty < risk / 2 ? 1 : risk / 2 / (1 - risk / 2);
    case LossShape::kJudge:
      break;
  }
  const double share = 3 * risk;
  return difficulty < share ? (difficulty / share) * (difficulty / share) : 0;
}

inline LossSum losses_at(LossShape shape, const std::vector<double>& difficulties, double risk, size_t first,
                         size_t count) {
  LossSum sum{static_cast<int64_t>(count), 0};
  for (size_t i = first; i < first + count; ++i) sum.losses += loss_at(shape, difficulties[i], risk);
  return sum;
}

inline std::vector<double> random_difficulties(int prompts, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform;
  std::vector<double> difficulties(static_cast<size_t>(prompts));
  for (double& difficulty : difficulties) difficulty = uniform(random);
  return difficulties;
}

/// Outcomes of many tunings, as shares of them.
struct Frequencies {
  double broken = 0;     ///< some certified setting has a higher risk than what was promised
  double certified = 0;  ///< some setting was certified
};

/// The allowed frequency and three standard deviations of it over the repetitions.
inline double allowed_frequency(double confidence, int repetitions) {
  const double level = 1 - confidence;
  return level + 3 * std::sqrt(level * (1 - level) / repetitions);
}

/// Adds the outcome of one certification of settings with these risks.
template <typename RiskOf>
void count_outcome(const Certification& result, const Promise& promise, RiskOf&& risk_of, int repetitions,
                   Frequencies& frequencies) {
  bool breaks = false;
  bool certifies = false;
  for (const TestedSetting& test : result.tested) {
    certifies = certifies || test.certified;
    breaks = breaks || (test.certified && risk_of(test.setting) > promise.risk);
  }
  frequencies.broken += breaks ? 1.0 / repetitions : 0;
  frequencies.certified += certifies ? 1.0 / repetitions : 0;
}

/// Settings in chains, each on all prompts.
inline Frequencies simulate_certification(LossShape shape, const Promise& promise,
                                          const std::vector<double>& risks, size_t chains, int prompts,
                                          int repetitions, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Chain> order(chains);
  for (size_t setting = 0; setting < risks.size(); ++setting) order[setting % chains].push_back(setting);
  Frequencies frequencies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::vector<double> difficulties = random_difficulties(prompts, random);
    const Certification result = certify(promise, order, prompts, [&](size_t setting) {
      return losses_at(shape, difficulties, risks[setting], 0, difficulties.size());
    });
    count_outcome(
        result, promise, [&](size_t setting) { return risks[setting]; }, repetitions, frequencies);
  }
  return frequencies;
}

/// Risk curves with many settings just above what is allowed: the hardest case.
inline std::vector<std::vector<double>> risk_curves(double risk, size_t settings) {
  std::vector<double> rising, just_above(settings, risk * 1.0001), zigzag;
  for (size_t i = 0; i < settings; ++i) {
    rising.push_back(2 * risk * static_cast<double>(i + 1) / static_cast<double>(settings));
    zigzag.push_back(i % 2 == 0 ? risk * 0.5 : risk * 1.01);
  }
  return {rising, just_above, zigzag};
}

/// Paths of one method each whose levels save more and risk more.
struct SimulatedPaths {
  size_t paths = 1;
  size_t levels = 1;
  double risk = 0.05;  ///< promised risk: some levels have less, others up to twice as much

  double risk_of(const Levels& chosen) const {
    double sum = 0;
    for (size_t path = 0; path < chosen.size(); ++path) {
      const double boldness = static_cast<double>(chosen[path]) / static_cast<double>(levels);
      sum += 2 * risk * boldness * (0.55 + 0.15 * static_cast<double>(path % 4));
    }
    return std::min(sum, kMaxRisk);
  }
  double cost_of(const Levels& chosen) const {
    double cost = 1;
    for (size_t path = 0; path < chosen.size(); ++path) {
      cost *= 1 - 0.6 * static_cast<double>(chosen[path]) / static_cast<double>(levels + path % 3);
    }
    return cost;
  }
};

/// The whole procedure: a race on a quarter of the prompts chooses, the others certify.
inline Frequencies simulate_tuning(LossShape shape, const Promise& promise, const SimulatedPaths& family,
                                   int prompts, int repetitions, uint32_t seed) {
  std::mt19937 random(seed);
  RaceRules rules;
  rules.promise = promise;
  rules.levels.assign(family.paths, static_cast<int32_t>(family.levels));
  for (size_t path = 0; path < family.paths; ++path) rules.methods.push_back(static_cast<int32_t>(path % 5));
  rules.prompts = prompts / 4;
  const auto is_valid = [&](const Levels& levels) {  // paths of one method exclude each other
    std::vector<int> chosen(5, 0);
    for (size_t path = 0; path < levels.size(); ++path) chosen[path % 5] += levels[path] > 0 ? 1 : 0;
    return *std::max_element(chosen.begin(), chosen.end()) <= 1;
  };
  Frequencies frequencies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::vector<double> difficulties = random_difficulties(prompts, random);
    const auto measure = [&](const Levels& levels, size_t first, size_t count) {
      return Measured{losses_at(shape, difficulties, family.risk_of(levels), first, count),
                      family.cost_of(levels) * static_cast<double>(count), static_cast<double>(count)};
    };
    const RaceResult raced = race(rules, is_valid, [&](const Levels& levels, int32_t count) {
      return measure(levels, 0, static_cast<size_t>(count));
    });
    std::vector<Levels> settings;
    std::vector<Chain> chains;
    for (const std::vector<Levels>& chain : raced.chains) {
      chains.emplace_back();
      for (const Levels& levels : chain) {
        chains.back().push_back(settings.size());
        settings.push_back(levels);
      }
    }
    const auto first = static_cast<size_t>(rules.prompts);
    const size_t rest = difficulties.size() - first;
    const Certification result = certify(promise, chains, static_cast<int64_t>(rest), [&](size_t setting) {
      return measure(settings[setting], first, rest).sum;
    });
    count_outcome(
        result, promise, [&](size_t setting) { return family.risk_of(settings[setting]); }, repetitions,
        frequencies);
  }
  return frequencies;
}

}  // namespace lacuna
