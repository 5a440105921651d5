#include "server/events.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "decode/edits.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// Rounds to six decimals, which distinguish confidences and keep events short.
double rounded(double value) {
  if (!(std::abs(value) < 1e12)) return value;  // NaN and infinities become null in JSON
  return static_cast<double>(static_cast<int64_t>(value * 1e6 + (value < 0 ? -0.5 : 0.5))) / 1e6;
}

/// Converts row positions before the step's edits to sorted ranges [[begin, end], ...] after the edits.
///   positions  in any order, possibly repeated
///   before     size of the canvas before the step     after  size after it
ordered_json ranges_of(const std::vector<int32_t>& positions, const CanvasEdits& edits, size_t before,
                       size_t after) {
  std::vector<char> is_computed(std::max(before, edits.empty() ? after : before), 0);
  for (const int32_t position : positions) {
    if (static_cast<size_t>(position) < is_computed.size()) is_computed[static_cast<size_t>(position)] = 1;
  }
  apply_edits(edits, char{0}, is_computed);
  is_computed.resize(after);
  is_computed.push_back(0);  // sentinel: ends the last range
  ordered_json ranges = ordered_json::array();
  size_t begin = 0;
  for (size_t i = 0; i <= after; ++i) {
    if (is_computed[i] != 0) continue;
    if (begin < i) ranges.push_back({begin, i});
    begin = i + 1;
  }
  return ranges;
}

}  // namespace

ordered_json EventLog::start(const Decoder& decoder) {
  canvas_.assign(decoder.canvas().begin(), decoder.canvas().end());
  ordered_json json{{"v", kEventVersion},
                    {"type", "start"},
                    {"prompt", decoder.prompt_length()},
                    {"mask", mask_id_},
                    {"canvas", canvas_}};
  pieces_.add(json, canvas_);
  return json;
}

ordered_json EventLog::step(const StepEvent& event) {
  const StepReport& report = event.report;
  const IndexRange block = event.decoder.block();
  ordered_json json{{"v", kEventVersion},
                    {"type", "step"},
                    {"pass", event.statistics.forward_passes - 1},
                    {"step", report.step},
                    {"kind", report.kind},
                    {"block", {block.begin, block.end}},
                    {"final", event.decoder.prompt_length() + event.decoder.num_final()}};
  const size_t before = canvas_.size();
  add_edits(json, report.edits);
  add_changes(json, event);
  if (!report.locked.empty()) json["lock"] = report.locked;
  if (!report.unlocked.empty()) json["unlock"] = report.unlocked;
  // Positions of a guide's rows are not positions of the canvas.
  const bool is_guides = event.statistics.guide_rows > guide_rows_;
  guide_rows_ = event.statistics.guide_rows;
  if (!is_guides) json["computed"] = ranges_of(event.plan.positions, report.edits, before, canvas_.size());
  const StepCost& uncached = event.statistics.uncached;
  json["rows"] = event.cost.rows;
  json["rows_uncached"] = uncached.rows - uncached_.rows;
  json["rows_baseline"] = event.statistics.baseline.rows;
  json["flops"] = event.cost.flops();
  json["flops_uncached"] = uncached.flops() - uncached_.flops();
  json["flops_baseline"] = event.statistics.baseline.flops();
  json["ms"] = rounded(1e3 * event.pass_seconds);
  uncached_ = uncached;
  return json;
}

void EventLog::add_edits(ordered_json& json, const CanvasEdits& edits) {
  if (!edits.dropped.empty()) json["drop"] = edits.dropped;
  if (!edits.inserted.empty()) json["insert"] = ordered_json::array();
  for (const InsertedMasks& each : edits.inserted) {
    json["insert"].push_back(ordered_json{each.position, each.count});
  }
  apply_edits(edits, mask_id_, canvas_);
}

void EventLog::add_changes(ordered_json& json, const StepEvent& event) {
  const std::span<const TokenId> now = event.decoder.canvas();
  std::unordered_map<int32_t, double> confidences;  // by committed position
  for (const Commit& commit : event.report.committed) confidences.emplace(commit.position, commit.confidence);
  ordered_json set = ordered_json::array();
  ordered_json edit = ordered_json::array();
  ordered_json remask = ordered_json::array();
  std::vector<TokenId> ids;
  for (size_t i = 0; i < now.size(); ++i) {
    const bool is_new = i >= canvas_.size();
    if (!is_new && now[i] == canvas_[i]) continue;
    const auto position = static_cast<int32_t>(i);
    if (now[i] == mask_id_) {
      remask.push_back(position);
      continue;
    }
    const auto found = confidences.find(position);
    ordered_json change{position, now[i],
                        found == confidences.end() ? ordered_json() : ordered_json(rounded(found->second))};
    (is_new || canvas_[i] == mask_id_ ? set : edit).push_back(std::move(change));
    ids.push_back(now[i]);
  }
  if (!set.empty()) json["set"] = std::move(set);
  if (!remask.empty()) json["remask"] = std::move(remask);
  if (!edit.empty()) json["edit"] = std::move(edit);
  if (now.size() != canvas_.size()) json["length"] = now.size();
  pieces_.add(json, ids);
  canvas_.assign(now.begin(), now.end());
}

}  // namespace lacuna
