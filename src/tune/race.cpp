#include "tune/race.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

/// Runs one race.
class Race {
 public:
  Race(const RaceRules& rules, const std::function<bool(const Levels&)>& is_valid,
       const MeasureSetting& measure, const std::function<bool()>& may_continue)
      : rules_(rules), is_valid_(is_valid), measure_(measure), may_continue_(may_continue) {}

  RaceResult run() {
    std::vector<Lead> field = first_field();
    for (int32_t prompts = std::min(rules_.first_prompts, rules_.prompts);;
         prompts = std::min(2 * prompts, rules_.prompts)) {
      for (Lead& lead : field) settle(lead, prompts);
      std::erase_if(field, [](const Lead& lead) { return lead.level == 0; });
      field = cheaper_half(std::move(field));
      if (prompts == rules_.prompts || field.empty() || !continues()) break;
    }
    walk(field);
    return std::move(result_);
  }

 private:
  /// The boldest level of a path that is not refuted; 0: all levels are refuted.
  struct Lead {
    size_t path = 0;
    int32_t level = 0;
    double ratio = 1;
  };

  bool continues() const { return !may_continue_ || may_continue_(); }

  std::vector<Lead> first_field() const {
    std::vector<Lead> field;
    for (size_t path = 0; path < rules_.levels.size(); ++path) {
      expects(rules_.levels[path] >= 1, "race: a path has levels");
      field.push_back({path, rules_.levels[path]});
    }
    return field;
  }

  /// The cheaper half of each method's paths, the cheapest first.
  std::vector<Lead> cheaper_half(std::vector<Lead> field) const {
    std::stable_sort(field.begin(), field.end(),
                     [](const Lead& a, const Lead& b) { return a.ratio < b.ratio; });
    std::map<int32_t, int32_t> paths, kept;  // by method
    for (const Lead& lead : field) ++paths[rules_.methods[lead.path]];
    std::erase_if(field, [&](const Lead& lead) {
      const int32_t method = rules_.methods[lead.path];
      return ++kept[method] > std::max((paths[method] + 1) / 2, rules_.kept_paths);
    });
    return field;
  }

  Levels alone(size_t path, int32_t level) const {
    Levels levels(rules_.levels.size(), 0);
    levels[path] = level;
    return levels;
  }

  RaceResult::Entrant& entrant_of(const Levels& levels) {
    for (RaceResult::Entrant& each : result_.entrants) {
      if (each.levels == levels) return each;
    }
    result_.entrants.push_back({levels, {}});
    return result_.entrants.back();
  }

  /// Whether the setting is refuted on the first `prompts` prompts. After the last round its mean loss must
  /// not exceed the risk either: a setting that fails on the race's own prompts is a bad candidate.
  const RaceResult::Entrant& examine(const Levels& levels, int32_t prompts) {
    RaceResult::Entrant& entrant = entrant_of(levels);
    if (entrant.refuted) return entrant;
    entrant.measured = measure_(levels, prompts);
    const LossSum& sum = entrant.measured.sum;
    const double p = p_value_of_safety(rules_.promise.kind, sum, rules_.promise.risk);
    const bool is_last = prompts >= rules_.prompts;
    entrant.refuted = p < kRefutes || (is_last && sum.mean() > rules_.promise.risk) ||
                      entrant.measured.cost_ratio() > 1 - kMinSaving;
    return entrant;
  }

  /// Goes down a path to its boldest level that is not refuted; levels above it stay refuted. Once the budget
  /// is spent, a level of an earlier round stays, and a path without one drops out.
  void settle(Lead& lead, int32_t prompts) {
    for (; lead.level > 0; --lead.level, lead.ratio = 1) {
      if (!continues()) {
        if (lead.ratio >= 1) lead.level = 0;
        return;
      }
      const Levels levels = alone(lead.path, lead.level);
      if (!is_valid_(levels)) continue;
      const RaceResult::Entrant& entrant = examine(levels, prompts);
      if (entrant.refuted) continue;
      lead.ratio = entrant.measured.cost_ratio();
      return;
    }
  }

  /// The boldest level of the path that, joined to `levels`, saves work and is not refuted.
  std::optional<Levels> join(const Levels& levels, double ratio, const Lead& lead) {
    for (int32_t level = lead.level; level > 0 && continues(); --level) {
      Levels joined = levels;
      joined[lead.path] = level;
      if (!is_valid_(joined)) continue;
      const int32_t first = std::min(rules_.first_prompts, rules_.prompts);
      if (saves(examine(joined, first), ratio) && saves(examine(joined, rules_.prompts), ratio)) {
        return joined;
      }
    }
    return {};
  }

  static bool saves(const RaceResult::Entrant& entrant, double ratio) {
    return !entrant.refuted && entrant.measured.cost_ratio() <= ratio * (1 - kMinSaving);
  }

  /// Walks from each of the cheapest paths that no earlier walk has joined.
  void walk(const std::vector<Lead>& field) {
    std::vector<bool> is_used(rules_.levels.size(), false);
    for (const Lead& start : field) {
      if (std::ssize(result_.chains) == rules_.most_chains) return;
      if (is_used[start.path]) continue;
      std::vector<Lead> steps = {start};
      Levels levels = alone(start.path, start.level);
      double ratio = start.ratio;
      for (const Lead& lead : field) {
        if (lead.path == start.path) continue;
        const std::optional<Levels> joined = join(levels, ratio, lead);
        if (!joined) continue;
        levels = *joined;
        ratio = entrant_of(levels).measured.cost_ratio();
        steps.push_back({lead.path, levels[lead.path], ratio});
      }
      for (const Lead& step : steps) is_used[step.path] = true;
      result_.chains.push_back(chain_of(steps));
    }
  }

  /// A monotone sequence up to the end of the walk: the first path rises from four levels below its last one,
  /// because a chain ends where its first setting fails, the others from one below.
  std::vector<Levels> chain_of(const std::vector<Lead>& steps) const {
    std::vector<Levels> chain;
    Levels levels(rules_.levels.size(), 0);
    for (size_t step = 0; step < steps.size(); ++step) {
      const Lead& lead = steps[step];
      const int32_t below = step == 0 ? 4 : 1;
      for (int32_t level = std::max(1, lead.level - below); level <= lead.level; ++level) {
        levels[lead.path] = level;
        if (is_valid_(levels)) chain.push_back(levels);
      }
    }
    const auto most = static_cast<size_t>(rules_.most_tested);
    // The last settings matter most: earlier ones are thinned out, from the front.
    while (chain.size() > most) chain.erase(chain.begin() + 1);
    return chain;
  }

  const RaceRules& rules_;
  const std::function<bool(const Levels&)>& is_valid_;
  const MeasureSetting& measure_;
  const std::function<bool()>& may_continue_;
  RaceResult result_;
};

}  // namespace

RaceResult race(const RaceRules& rules, const std::function<bool(const Levels&)>& is_valid,
                const MeasureSetting& measure, const std::function<bool()>& may_continue) {
  expects(rules.methods.size() == rules.levels.size(), "race: a method for each path");
  expects(rules.prompts >= 1 && rules.first_prompts >= 1, "race: there are prompts");
  return Race(rules, is_valid, measure, may_continue).run();
}

}  // namespace lacuna
