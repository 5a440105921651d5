// The findings of instruments/instruments.h as lists of flat objects.
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "instruments/instruments.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& figure) {
  return figure ? Json(*figure) : Json();
}

void add_drift_rows(std::string_view passes, const std::array<KvAverage, kRegions>& regions, Json& rows) {
  KvAverage all;
  const auto add_row = [&](std::string_view name, const KvAverage& drift) {
    if (drift.key.count == 0) return;
    rows.push_back({{"region", name},
                    {"passes", passes},
                    {"drift", drift.mean()},
                    {"key", drift.key.mean()},
                    {"value", drift.value.mean()},
                    {"count", drift.key.count}});
  };
  for (size_t region = 0; region < kRegions; ++region) {
    const KvAverage& drift = regions[region];
    add_row(name_of(static_cast<Region>(region)), drift);
    all.key.sum += drift.key.sum;
    all.value.sum += drift.value.sum;
    all.key.count += drift.key.count;
    all.value.count += drift.value.count;
  }
  add_row("all", all);
}

}  // namespace

nlohmann::ordered_json to_json(const DriftFindings& findings) {
  Json rows = Json::array();
  add_drift_rows("within", findings.within, rows);
  add_drift_rows("boundary", findings.boundary, rows);
  rows.push_back({{"correlation", "keys and values"}, {"pearson", or_null(findings.key_value)}});
  rows.push_back({{"correlation", "keys of two layers"}, {"pearson", or_null(findings.key_layers)}});
  rows.push_back({{"correlation", "values of two layers"}, {"pearson", or_null(findings.value_layers)}});
  if (!findings.map) return rows;
  const auto part_name = [](int32_t part) { return name_of(static_cast<DriftPart>(part)); };
  add_map_rows(*findings.map, "part", part_name, std::array{"key", "value"}, rows);
  return rows;
}

nlohmann::ordered_json to_json(const EntropyFindings& findings) {
  Json rows = Json::array();
  for (const auto& [index, step] : findings.steps) {
    rows.push_back({{"step", index},
                    {"entropy", step.entropy.mean()},
                    {"largest_probability", step.largest_probability.mean()},
                    {"passes", step.entropy.count}});
  }
  return rows;
}

nlohmann::ordered_json to_json(const ChangeFindings& findings) {
  Json rows = Json::array();
  for (const auto& [index, step] : findings.steps) {
    rows.push_back({{"step", index},
                    {"of_answer", step.of_answer.mean()},
                    {"of_block", step.of_block.mean()},
                    {"committed", step.committed},
                    {"passes", step.of_answer.count}});
  }
  return rows;
}

nlohmann::ordered_json to_json(const StalenessFindings& findings) {
  Json rows = Json::array();
  for (size_t region = 0; region < kRegions; ++region) {
    for (size_t age = 0; age < kAges; ++age) {
      const KvAverage& error = findings.error[region][age];
      if (error.key.count == 0) continue;
      rows.push_back({{"region", name_of(static_cast<Region>(region))},
                      {"age", name_of_age(age)},
                      {"error", error.mean()},
                      {"key", error.key.mean()},
                      {"value", error.value.mean()},
                      {"count", error.key.count}});
    }
  }
  rows.push_back({{"output", "block"},
                  {"kl", findings.kl.mean()},
                  {"flips", findings.flips.mean()},
                  {"count", findings.kl.count}});
  return rows;
}

namespace {

void add_operations(std::string_view kind, const ProfileFindings::Passes& passes, Json& rows) {
  const PassTimes& times = passes.times;
  const double total = times.total();
  const std::pair<const char*, double> operations[] = {{"qkv", times.qkv},
                                                       {"attention", times.attention},
                                                       {"selection", times.selection},
                                                       {"output", times.output},
                                                       {"ffn", times.ffn},
                                                       {"norms", times.norms},
                                                       {"head", times.head},
                                                       {"draws", times.draws},
                                                       {"other", times.other},
                                                       {"sum", total},
                                                       {"clock", passes.seconds}};
  for (const auto& [operation, seconds] : operations) {
    rows.push_back({{"operation", operation},
                    {"passes_of", kind},
                    {"seconds", seconds},
                    {"share", total > 0 ? seconds / total : 0}});
  }
}

}  // namespace

nlohmann::ordered_json to_json(const ProfileFindings& findings) {
  Json rows = Json::array();
  if (findings.by_kind.size() > 1) add_operations("all kinds", findings.all, rows);
  for (const auto& [kind, passes] : findings.by_kind) add_operations(kind, passes, rows);
  for (const auto& [kind, passes] : findings.by_kind) {
    rows.push_back({{"kind", kind},
                    {"passes", passes.count},
                    {"rows_mean", static_cast<double>(passes.rows) / static_cast<double>(passes.count)},
                    {"seconds", passes.seconds}});
  }
  for (const auto& [num_rows, passes] : findings.by_rows) {
    rows.push_back({{"rows", num_rows}, {"passes", passes.count}, {"seconds", passes.seconds}});
  }
  return rows;
}

}  // namespace lacuna
