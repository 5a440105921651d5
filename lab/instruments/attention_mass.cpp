#include "instruments/attention_mass.h"

#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

/// Rounds to multiples of 2^-28, whose sums are exact and thus do not depend on the order of threads.
double rounded(double value) {
  constexpr double kUnit = 1 << 28;
  return std::round(kUnit * value) / kUnit;
}

AttendedPart part_of(Content content, int32_t position) {
  switch (content) {
    case Content::kPrompt:
      return position == 0 ? AttendedPart::kFirstToken : AttendedPart::kPrompt;
    case Content::kDecoded:
      return AttendedPart::kDecoded;
    case Content::kMasked:
      return AttendedPart::kMasked;
    case Content::kFiller:
      break;
  }
  return AttendedPart::kFiller;
}

/// Mass of one pass in one layer, summed over queries and heads.
struct LayerMass {
  int64_t queries = 0;            ///< number of queries, times heads
  std::vector<double> of_cell;    ///< [cells]
  std::vector<double> of_itself;  ///< [cells] the part of `of_cell` from the cell's own query

  explicit LayerMass(size_t cells) : of_cell(cells, 0.0), of_itself(cells, 0.0) {}
};

class AttentionInstrument final : public Instrument {
 public:
  AttentionInstrument(const ModelConfig& config, const std::optional<MapSettings>& map) : config_(config) {
    if (map) findings_.map.emplace(*map);
  }

  void prepare(FollowedPass& pass) override {
    // Otherwise the last layer would drop rows and renumber groups and rows.
    for (RowGroup& group : pass.plan.groups) {
      if (group.sparse.hides() || group.reuse.skips()) {
        throw InputError(
            "analyze attention: the run leaves out a part of the cells or of the rows; expected --sparse "
            "exact, and no --cache sparse-dllm or dllm-cache");
      }
      group.only_kv = false;
    }
    // Whole tiles, and a cell after them that every row sees.
    const int64_t tiles = (pass.sequence.shape().num_cells + kCellTile) / kCellTile + 1;
    const auto cells = static_cast<size_t>(tiles * kCellTile);
    regions_.assign(cells, Region::kFiller);
    parts_.assign(cells, AttendedPart::kFiller);
    for (int32_t position = 0; position < pass.window.num_positions; ++position) {
      regions_[static_cast<size_t>(position)] = region_of(pass.window, position);
      parts_[static_cast<size_t>(position)] = part_of(content_of(config_, pass, position), position);
    }
    if (pass.sequence.sink_cell() >= 0) {
      regions_[static_cast<size_t>(pass.sequence.sink_cell())] = Region::kSink;
      parts_[static_cast<size_t>(pass.sequence.sink_cell())] = AttendedPart::kSink;
    }
    own_cell_.assign(pass.plan.tokens.size(), -1);
    for_each_row(pass.plan, [&](int32_t row, int32_t position, const RowGroup&) {
      if (contains(pass.window.block, position)) own_cell_[static_cast<size_t>(row)] = position;
    });
    layers_.assign(findings_.map ? static_cast<size_t>(config_.num_layers) : 0, LayerMass(cells));
    pass.options.observe_attention = [this](const ObservedAttention& row) { count(row); };
  }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (layers_[layer].queries == 0) continue;
      MapPlace place{report.step, static_cast<int32_t>(layer)};
      if (findings_.map->settings().has_positions()) {
        add_positions(layers_[layer], pass.window, place);
      } else {
        add_parts(layers_[layer], place);
      }
    }
  }

  AttentionFindings take_findings() { return std::move(findings_); }

 private:
  void count(const ObservedAttention& row) {
    const int32_t own = own_cell_[static_cast<size_t>(row.row)];
    if (own < 0) return;
    std::array<double, kRegions> sums{};
    size_t weight = 0;
    for (const IndexRange& run : row.tile_runs) {
      const auto end = static_cast<size_t>(run.end * kCellTile);
      for (auto cell = static_cast<size_t>(run.begin * kCellTile); cell < end; ++cell, ++weight) {
        sums[index_of(regions_[cell])] += double{row.weights[weight]};
      }
    }
    const std::lock_guard lock(mutex_);
    for (size_t region = 0; region < kRegions; ++region) {
      findings_.mass[region].add(rounded(sums[region] / double{row.sum}));
    }
    if (!layers_.empty()) count_cells(row, static_cast<size_t>(own));
  }

  void count_cells(const ObservedAttention& row, size_t own) {
    LayerMass& layer = layers_[static_cast<size_t>(row.layer)];
    ++layer.queries;
    size_t weight = 0;
    for (const IndexRange& run : row.tile_runs) {
      const auto end = static_cast<size_t>(run.end * kCellTile);
      for (auto cell = static_cast<size_t>(run.begin * kCellTile); cell < end; ++cell, ++weight) {
        const double mass = rounded(double{row.weights[weight]} / double{row.sum});
        layer.of_cell[cell] += mass;
        if (cell == own) layer.of_itself[cell] += mass;
      }
    }
  }

  void add_positions(const LayerMass& layer, const BlockWindow& window, MapPlace place) {
    for (int32_t position = 0; position < window.num_positions; ++position) {
      place.position = position - window.answer.begin;
      add(layer.of_cell[static_cast<size_t>(position)], layer, 0, place);
    }
  }

  void add_parts(const LayerMass& layer, const MapPlace& place) {
    std::array<double, kAttendedParts> sums{};
    std::array<bool, kAttendedParts> exists{};
    const auto itself = static_cast<size_t>(AttendedPart::kSelf);
    exists[itself] = true;
    for (size_t cell = 0; cell < parts_.size(); ++cell) {
      const auto part = static_cast<size_t>(parts_[cell]);
      sums[part] += layer.of_cell[cell] - layer.of_itself[cell];
      sums[itself] += layer.of_itself[cell];
      exists[part] = exists[part] || layer.of_cell[cell] > 0;
    }
    for (size_t part = 0; part < kAttendedParts; ++part) {
      if (exists[part]) add(sums[part], layer, static_cast<int32_t>(part), place);
    }
  }

  void add(double sum, const LayerMass& layer, int32_t part, const MapPlace& place) {
    findings_.map->add(place, part, std::array{sum / static_cast<double>(layer.queries)});
  }

  const ModelConfig& config_;
  std::vector<Region> regions_;      // by cell
  std::vector<AttendedPart> parts_;  // by cell
  std::vector<int32_t> own_cell_;    // by row of the plan; -1: no query of the block
  std::mutex mutex_;
  std::vector<LayerMass> layers_;  // of the pass; empty without a map
  AttentionFindings findings_;
};

}  // namespace

std::string_view name_of(AttendedPart part) {
  constexpr std::array<std::string_view, kAttendedParts> kNames = {
      "sink", "first token", "prompt", "decoded", "masked", "self", "filler"};
  return kNames[static_cast<size_t>(part)];
}

AttentionFindings analyze_attention(const BackendModel& model, Requests requests,
                                    const std::optional<MapSettings>& map, const AnalysisProgress& progress) {
  AttentionInstrument instrument(model.config(), map);
  follow_all(model, requests, instrument, progress);
  return instrument.take_findings();
}

nlohmann::ordered_json to_json(const AttentionFindings& findings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t region = 0; region < kRegions; ++region) {
    const Average& mass = findings.mass[region];
    rows.push_back(
        {{"region", name_of(static_cast<Region>(region))}, {"mass", mass.mean()}, {"count", mass.count}});
  }
  if (!findings.map) return rows;
  const auto part_name = [](int32_t part) { return name_of(static_cast<AttendedPart>(part)); };
  add_map_rows(*findings.map, "part", part_name, std::array{"mass"}, rows);
  return rows;
}

}  // namespace lacuna
