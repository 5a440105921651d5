// Prints how often simulated tunings break their promise, as decision 22 has it: for every loss, 50, 200 and
// 1,000 prompts and 1 to 500 settings, at a confidence of 0.9.
//
//   tune_simulation [REPETITIONS]
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "simulation.h"

namespace lacuna {
namespace {

struct Size {
  size_t settings, paths, levels;
};
constexpr Size kSizes[] = {{1, 1, 1}, {2, 2, 1}, {20, 4, 5}, {100, 20, 5}, {500, 50, 10}};

double risk_for(int prompts) {
  return prompts == 50 ? 0.1 : 0.05;
}

/// The most frequent failure over curves of risks and numbers of chains.
double worst_certification(LossShape shape, const Promise& promise, size_t settings, int prompts,
                           int repetitions) {
  double worst = 0;
  uint32_t seed = 7;
  for (const size_t chains : {size_t{1}, size_t{2}, size_t{4}}) {
    if (chains > settings) continue;
    for (const std::vector<double>& risks : risk_curves(promise.risk, settings)) {
      worst = std::max(
          worst, simulate_certification(shape, promise, risks, chains, prompts, repetitions, ++seed).broken);
    }
  }
  return worst;
}

void print_simulation(int repetitions) {
  fmt::print("| loss | prompts | risk |");
  for (const Size& size : kSizes) fmt::print(" {} |", size.settings);
  fmt::print("\n| --- | --- | --- |");
  for (size_t i = 0; i < std::size(kSizes); ++i) fmt::print(" --- |");
  fmt::print("\n");
  for (const NamedLossShape& loss : kLossShapes) {
    for (const int prompts : {50, 200, 1000}) {
      const Promise promise{kind_of(loss.shape), risk_for(prompts), 0.9};
      fmt::print("| {} | {} | {} |", loss.name, prompts, promise.risk);
      for (const Size& size : kSizes) {
        const double certified =
            worst_certification(loss.shape, promise, size.settings, prompts, repetitions);
        const Frequencies tuned = simulate_tuning(
            loss.shape, promise, {size.paths, size.levels, promise.risk}, prompts, repetitions, 5);
        fmt::print(" {:.1f}%, {:.1f}% |", 100 * certified, 100 * tuned.broken);
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
  fmt::print("\nAllowed: {:.1f}%\n", 100 * allowed_frequency(0.9, repetitions));
}

}  // namespace
}  // namespace lacuna

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (repetitions < 1) {
    fmt::print(stderr, "REPETITIONS is {}; expected a number above 0\n", argv[1]);
    return 2;
  }
  lacuna::print_simulation(repetitions);
  return 0;
}
