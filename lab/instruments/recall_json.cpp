// The findings of instruments/recall.h as lists of flat objects.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "instruments/recall.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

class Spread {
 public:
  void add(double value) { values_.push_back(value); }
  size_t count() const { return values_.size(); }
  double mean() const {
    Average average;
    for (const double value : values_) average.add(value);
    return average.mean();
  }
  /// Nearest-rank quantile at tenths / 10; 0: the minimum, 10: the maximum.
  double quantile(size_t tenths) const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const size_t rank = (sorted.size() * tenths + 9) / 10;
    return sorted[std::max<size_t>(rank, 1) - 1];
  }

 private:
  std::vector<double> values_;
};

void add_with_low_end(Json& row, const std::string& name, const Spread& spread) {
  row[name] = spread.mean();
  row[name + "_p10"] = spread.quantile(1);
  row[name + "_min"] = spread.quantile(0);
}

/// Labels of rows, in order.
enum class SplitBy : uint8_t { kNone, kLayer, kStep, kMasked };

constexpr int kMaskedBins = 8;

int bin_of(const RecallPlace& place, SplitBy split_by) {
  switch (split_by) {
    case SplitBy::kLayer:
      return place.layer;
    case SplitBy::kStep:
      return place.step;
    case SplitBy::kMasked:
      // Bins include their upper end, so that first steps, at which all is masked, are in the last bin.
      return std::max(static_cast<int>(std::ceil(place.masked * kMaskedBins)), 1) - 1;
    case SplitBy::kNone:
      break;
  }
  return 0;
}

void add_label(Json& row, SplitBy split_by, int bin) {
  if (split_by == SplitBy::kLayer) row["layer"] = bin;
  if (split_by == SplitBy::kStep) row["step"] = bin;
  if (split_by == SplitBy::kMasked) {
    row["masked"] = fmt::format("{:.3f}-{:.3f}", static_cast<double>(bin) / kMaskedBins,
                                static_cast<double>(bin + 1) / kMaskedBins);
  }
}

bool counts(const RecallPlace& place, SplitBy split_by) {
  const bool is_curve = split_by == SplitBy::kStep || split_by == SplitBy::kMasked;
  return is_curve || place.step > 1;
}

/// Calls add(row with its label, observations) for each label with observations.
template <typename Observation, typename Add>
void for_each_bin(const std::vector<Observation>& observations, SplitBy split_by, Add&& add) {
  std::map<int, std::vector<const Observation*>> bins;
  for (const Observation& observation : observations) {
    if (counts(observation.place, split_by))
      bins[bin_of(observation.place, split_by)].push_back(&observation);
  }
  for (const auto& [bin, of_bin] : bins) add(bin, of_bin);
}

void add_recall_rows(const std::vector<CellObservation>& cells, int32_t budget, SplitBy split_by,
                     Json& rows) {
  for_each_bin(cells, split_by, [&](int bin, const std::vector<const CellObservation*>& of_bin) {
    Spread of_recall;
    Spread of_union;
    for (const CellObservation* observation : of_bin) {
      of_recall.add(observation->recall);
      of_union.add(observation->union_ratio);
    }
    Json row{{"budget", budget}};
    add_label(row, split_by, bin);
    add_with_low_end(row, "recall", of_recall);
    add_with_low_end(row, "union_ratio", of_union);
    row["observations"] = of_bin.size();
    rows.push_back(row);
  });
}

void add_policy_rows(const std::vector<CellObservation>& cells, int32_t budget, SplitBy split_by,
                     Json& rows) {
  for_each_bin(cells, split_by, [&](int bin, const std::vector<const CellObservation*>& of_bin) {
    for (size_t p = 0; p < kChosenBy; ++p) {
      Spread accuracy;
      Spread mass;
      Spread error;
      for (const CellObservation* observation : of_bin) {
        const std::optional<PolicyFigures>& figures = observation->policies[p];
        if (!figures) continue;
        accuracy.add(figures->accuracy);
        mass.add(figures->mass);
        error.add(figures->error);
      }
      if (accuracy.count() == 0) continue;
      Json row{{"budget", budget}};
      add_label(row, split_by, bin);
      row["cells_of"] = name_of(static_cast<ChosenBy>(p));
      add_with_low_end(row, "accuracy", accuracy);
      add_with_low_end(row, "mass", mass);
      row["error"] = error.mean();
      row["error_p90"] = error.quantile(9);
      row["error_max"] = error.quantile(10);
      row["observations"] = accuracy.count();
      rows.push_back(row);
    }
  });
}

/// Adds columns of the mean gap, per position and of the block's average, each absolute and relative.
void add_gap(Json& row, const std::string& name, const std::string& block_name,
             const std::vector<const StateObservation*>& observations, StateGap StateObservation::*which) {
  const auto mean = [&](double StateGap::*part) {
    Average average;
    for (const StateObservation* observation : observations) average.add(observation->*which.*part);
    return average.mean();
  };
  row[name] = mean(&StateGap::row);
  row[name + "_relative"] = mean(&StateGap::row_relative);
  row[block_name] = mean(&StateGap::block);
  row[block_name + "_relative"] = mean(&StateGap::block_relative);
}

void add_state_rows(const std::vector<StateObservation>& states, SplitBy split_by, Json& rows) {
  for_each_bin(states, split_by, [&](int bin, const std::vector<const StateObservation*>& of_bin) {
    Json row = Json::object();
    add_label(row, split_by, bin);
    add_gap(row, "hidden_gap", "hidden_block_gap", of_bin, &StateObservation::hidden);
    add_gap(row, "query_gap", "block_gap", of_bin, &StateObservation::query);
    Average share;
    for (const StateObservation* observation : of_bin) share.add(observation->prefix_share);
    row["prefix_share"] = share.mean();
    row["observations"] = of_bin.size();
    rows.push_back(row);
  });
}

void add_prediction_rows(const std::vector<PredictionObservation>& predictions, SplitBy split_by,
                         Json& rows) {
  for_each_bin(predictions, split_by, [&](int bin, const std::vector<const PredictionObservation*>& of_bin) {
    Spread kl;
    for (const PredictionObservation* observation : of_bin) kl.add(observation->divergence);
    Json row = Json::object();
    add_label(row, split_by, bin);
    row["kl"] = kl.mean();
    row["kl_p90"] = kl.quantile(9);
    row["kl_max"] = kl.quantile(10);
    row["observations"] = kl.count();
    rows.push_back(row);
  });
}

Json decoding_row(const RecallFindings& findings) {
  Spread steps;
  for (const int32_t taken : findings.block_steps) steps.add(taken);
  const auto passes = static_cast<double>(findings.forward_passes);
  return {{"blocks", steps.count()},
          {"steps_per_block", steps.mean()},
          {"fewest_steps", steps.quantile(0)},
          {"most_steps", steps.quantile(10)},
          {"tokens", findings.tokens},
          {"forward_passes", findings.forward_passes},
          {"tokens_per_forward", passes > 0 ? static_cast<double>(findings.tokens) / passes : 0},
          {"commits", findings.commits}};
}

}  // namespace

nlohmann::ordered_json to_json(const RecallFindings& findings) {
  constexpr std::array kSplits = {SplitBy::kNone, SplitBy::kLayer, SplitBy::kStep, SplitBy::kMasked};
  std::map<int32_t, std::vector<CellObservation>> by_budget;
  for (const CellObservation& observation : findings.cells)
    by_budget[observation.budget].push_back(observation);
  Json rows = Json::array();
  for (const SplitBy split_by : kSplits) {
    for (const auto& [budget, cells] : by_budget) add_recall_rows(cells, budget, split_by, rows);
  }
  for (const SplitBy split_by : {SplitBy::kNone, SplitBy::kLayer}) {
    for (const auto& [budget, cells] : by_budget) add_policy_rows(cells, budget, split_by, rows);
  }
  for (const SplitBy split_by : kSplits) add_state_rows(findings.states, split_by, rows);
  for (const SplitBy split_by : {SplitBy::kNone, SplitBy::kStep, SplitBy::kMasked}) {
    add_prediction_rows(findings.predictions, split_by, rows);
  }
  rows.push_back(decoding_row(findings));
  for (const int32_t budget : findings.settings.budgets) {
    if (by_budget.contains(budget)) continue;
    rows.push_back(
        {{"budget", budget}, {"left_out", fmt::format("no block has more than {} cells before it", budget)}});
  }
  return rows;
}

}  // namespace lacuna
