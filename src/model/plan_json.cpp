#include "model/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

// Names of enumeration values in order, for reading and writing.
constexpr std::array<std::string_view, 3> kOwnRows = {"bidirectional", "causal", "none"};
constexpr std::array<std::string_view, 7> kChoices = {
    "all", "all-and-remember", "remembered", "best-pages", "all-and-remember-scored", "all-and-keep", "kept"};
constexpr std::array<std::string_view, 3> kMeasures = {"probability", "margin", "negative-entropy"};
constexpr std::array<std::string_view, 3> kSources = {"raw-logits", "tempered", "sampled"};

constexpr std::array<std::string_view, 3> kCanvasRows = {"none", "fresh", "conditioned"};

constexpr int64_t kMaxRows = int64_t{1} << 24;
constexpr Range<int64_t> kIndex{0, kMaxRows - 1};
constexpr Range<int64_t> kToken{0, std::numeric_limits<TokenId>::max()};
constexpr Range<int64_t> kTokenOrNone{-1, std::numeric_limits<TokenId>::max()};

// Writing.

ordered_json range_json(const IndexRange& range) {
  return ordered_json::array({range.begin, range.end});
}

template <typename T>
void put(ordered_json& object, const char* key, const T& value, const T& usual) {
  if (!(value == usual)) object[key] = value;
}

template <typename Enum, size_t N>
void put_name(ordered_json& object, const char* key, Enum value, Enum usual,
              const std::array<std::string_view, N>& names) {
  if (value != usual) object[key] = names.at(static_cast<size_t>(value));
}

ordered_json sparse_json(const SparseAttention& sparse) {
  const SparseAttention usual;
  ordered_json object = ordered_json::object();
  put_name(object, "choice", sparse.choice, usual.choice, kChoices);
  if (!(sparse.among == usual.among)) object["among"] = range_json(sparse.among);
  put(object, "budget", sparse.budget, usual.budget);
  put(object, "page_size", sparse.page_size, usual.page_size);
  put(object, "dense_layers", sparse.dense_layers, usual.dense_layers);
  if (!(sparse.except == usual.except)) object["except"] = range_json(sparse.except);
  put(object, "pool", sparse.pool, usual.pool);
  put(object, "active_rows", sparse.active_rows, usual.active_rows);
  return object;
}

ordered_json reuse_json(const LayerReuse& reuse) {
  return {{"keeps", reuse.keeps}, {"num_computed", reuse.num_computed}};
}

ordered_json eviction_json(const MaskEviction& eviction) {
  return {{"target", eviction.target}, {"unread", eviction.unread}};
}

ordered_json group_json(const RowGroup& group) {
  const RowGroup usual;
  ordered_json object = {{"rows", range_json(group.rows)}};
  put(object, "sequence", group.sequence, usual.sequence);
  for (const IndexRange& range : group.visible) object["visible"].push_back(range_json(range));
  put_name(object, "own_rows", group.own_rows, usual.own_rows, kOwnRows);
  put(object, "only_kv", group.only_kv, usual.only_kv);
  if (!(group.sparse == usual.sparse)) object["sparse"] = sparse_json(group.sparse);
  if (!(group.reuse == usual.reuse)) object["reuse"] = reuse_json(group.reuse);
  if (!(group.eviction == usual.eviction)) object["eviction"] = eviction_json(group.eviction);
  put_name(object, "canvas", group.canvas, usual.canvas, kCanvasRows);
  put(object, "noise_level", group.noise_level, usual.noise_level);
  put(object, "wants_rollout", group.wants_rollout, usual.wants_rollout);
  return object;
}

ordered_json logit_json(const LogitRow& logit) {
  const LogitRow usual;
  ordered_json object = {{"row", logit.row}};
  put(object, "unconditional_row", logit.unconditional_row, usual.unconditional_row);
  put(object, "guidance", logit.guidance, usual.guidance);
  put(object, "rule", logit.rule, usual.rule);
  if (!(logit.noise == usual.noise)) object["noise"] = fmt::format("{:016x}", logit.noise.key());
  put(object, "num_likeliest", logit.num_likeliest, usual.num_likeliest);
  put(object, "scored", logit.scored, usual.scored);
  put(object, "soft_embedding_slack", logit.soft_embedding_slack, usual.soft_embedding_slack);
  return object;
}

ordered_json rule_json(const SamplingRule& rule) {
  const SamplingRule usual;
  ordered_json object = ordered_json::object();
  put(object, "temperature", rule.temperature, usual.temperature);
  put(object, "draws", rule.draws, usual.draws);
  put(object, "top_p", rule.top_p, usual.top_p);
  put(object, "top_k", rule.top_k, usual.top_k);
  put(object, "min_p", rule.min_p, usual.min_p);
  for (const LogitAdjustment& each : rule.adjusted)
    object["adjusted"].push_back({{"token", each.token}, {"factor", each.factor}, {"offset", each.offset}});
  put_name(object, "measure", rule.measure, usual.measure, kMeasures);
  put_name(object, "source", rule.source, usual.source, kSources);
  put(object, "forbidden", rule.forbidden, usual.forbidden);
  put(object, "undrawn", rule.undrawn, usual.undrawn);
  put(object, "unsure", rule.unsure, usual.unsure);
  put(object, "listed", rule.listed, usual.listed);
  put(object, "finds_second", rule.finds_second, usual.finds_second);
  put(object, "measures_all", rule.measures_all, usual.measures_all);
  return object;
}

// Reading.

void expect_keys(const JsonObject& object, std::initializer_list<std::string_view> known) {
  for (const std::string& key : object.keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    object.refuse(key, fmt::format("one of {}", fmt::join(known, ", ")));
  }
}

/// Calls read() for each object of an optional list.
template <typename Read>
void for_each_object(const nlohmann::json& parent, const char* key, const std::string& place, Read&& read) {
  const auto found = parent.find(key);
  if (found == parent.end()) return;
  if (!found->is_array()) throw InputError("{}: \"{}\" is not a list", place, key);
  for (size_t i = 0; i < found->size(); ++i) {
    const std::string prefix = fmt::format("{}[{}].", key, i);
    read((*found)[i], JsonObject((*found)[i], place, prefix));
  }
}

std::vector<int32_t> integers(const JsonObject& object, std::string_view key, Range<int64_t> range) {
  if (!object.has(key)) return {};
  const std::vector<int64_t> values = object.integers(key, range);
  return {values.begin(), values.end()};
}

IndexRange range_of(const std::vector<int64_t>& ends, const JsonObject& object, std::string_view key) {
  if (ends.size() != 2 || ends[0] > ends[1]) object.refuse(key, "[begin, end] with begin <= end");
  return {static_cast<int32_t>(ends[0]), static_cast<int32_t>(ends[1])};
}

IndexRange range_at(const JsonObject& object, std::string_view key) {
  return range_of(object.integers(key, {0, kMaxRows}), object, key);
}

int32_t index_at(const JsonObject& object, std::string_view key, int64_t usual, Range<int64_t> range) {
  return static_cast<int32_t>(object.integer(key, range, usual));
}

template <typename Enum, size_t N>
Enum name_at(const JsonObject& object, std::string_view key, Enum usual,
             const std::array<std::string_view, N>& names) {
  const std::string name = object.text(key, std::string(names.at(static_cast<size_t>(usual))));
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) object.refuse(key, fmt::format("one of {}", fmt::join(names, ", ")));
  return static_cast<Enum>(found - names.begin());
}

SparseAttention read_sparse(const JsonObject& object) {
  expect_keys(object,
              {"choice", "among", "budget", "page_size", "dense_layers", "except", "pool", "active_rows"});
  const SparseAttention usual;
  SparseAttention sparse;
  sparse.choice = name_at(object, "choice", usual.choice, kChoices);
  if (object.has("among")) sparse.among = range_at(object, "among");
  sparse.budget = index_at(object, "budget", usual.budget, kIndex);
  sparse.page_size = index_at(object, "page_size", usual.page_size, {1, kIndex.last});
  sparse.dense_layers = index_at(object, "dense_layers", usual.dense_layers, kIndex);
  if (object.has("except")) sparse.except = range_at(object, "except");
  sparse.pool = index_at(object, "pool", usual.pool, {1, kIndex.last});
  sparse.active_rows = index_at(object, "active_rows", usual.active_rows, kIndex);
  using Choice = SparseAttention::Choice;
  const bool may_except =
      sparse.choice == Choice::kRemembered || sparse.choice == Choice::kAllAndRememberScored;
  const bool is_within = sparse.except.begin >= sparse.among.begin && sparse.except.end <= sparse.among.end;
  if (sparse.except.size() > 0 && !(may_except && is_within))
    object.refuse("except", "a part of \"among\", with scored or remembered cells");
  return sparse;
}

LayerReuse read_reuse(const JsonObject& object) {
  expect_keys(object, {"keeps", "num_computed"});
  const LayerReuse usual;
  return {object.flag("keeps", usual.keeps),
          index_at(object, "num_computed", usual.num_computed, {-1, kIndex.last})};
}

MaskEviction read_eviction(const JsonObject& object) {
  expect_keys(object, {"target", "unread"});
  return {index_at(object, "target", 0, kIndex), index_at(object, "unread", 0, kIndex)};
}

RowGroup read_group(const nlohmann::json& value, const JsonObject& object) {
  expect_keys(object, {"rows", "sequence", "visible", "own_rows", "only_kv", "sparse", "reuse", "eviction",
                       "canvas", "noise_level", "wants_rollout"});
  const RowGroup usual;
  RowGroup group;
  group.rows = range_at(object, "rows");
  group.sequence = index_at(object, "sequence", usual.sequence, kIndex);
  if (const auto visible = value.find("visible"); visible != value.end()) {
    if (!visible->is_array()) object.refuse("visible", "a list of [begin, end]");
    for (const nlohmann::json& ends : *visible) {
      const nlohmann::json wrapped = {{"visible", ends}};
      group.visible.push_back(range_at(JsonObject(wrapped, object.file()), "visible"));
    }
  }
  group.own_rows = name_at(object, "own_rows", usual.own_rows, kOwnRows);
  group.only_kv = object.flag("only_kv", usual.only_kv);
  group.canvas = name_at(object, "canvas", usual.canvas, kCanvasRows);
  group.noise_level = object.number("noise_level", {0, 1e3}, usual.noise_level);
  if (object.has("reuse")) group.reuse = read_reuse(object.object("reuse"));
  if (object.has("eviction")) group.eviction = read_eviction(object.object("eviction"));
  if (object.has("sparse")) {
    group.sparse = read_sparse(object.object("sparse"));
    const bool is_visible = std::ranges::find(group.visible, group.sparse.among) != group.visible.end();
    if (!is_visible) object.refuse("sparse", "cells \"among\" that are one of the visible ranges");
  }
  group.wants_rollout = object.flag("wants_rollout", usual.wants_rollout);
  const bool is_whole = group.visible.size() == 1 && group.visible.front().begin == 0 &&
                        group.own_rows == OwnRows::kNone && !group.only_kv && group.sparse == usual.sparse &&
                        group.reuse == usual.reuse && group.eviction == usual.eviction;
  if (group.wants_rollout && !is_whole)
    object.refuse("wants_rollout", "false, or rows that all see one range of cells from 0 on");
  return group;
}

LogitRow read_logit(const JsonObject& object, int64_t num_rows, int64_t num_rules) {
  expect_keys(object, {"row", "unconditional_row", "guidance", "rule", "noise", "num_likeliest", "scored",
                       "soft_embedding_slack"});
  LogitRow logit;
  logit.row = static_cast<int32_t>(object.integer("row", {0, num_rows - 1}));
  logit.unconditional_row = index_at(object, "unconditional_row", -1, {-1, num_rows - 1});
  logit.guidance = object.number("guidance", {-1e6, 1e6}, 0.0F);
  logit.rule = index_at(object, "rule", 0, {0, num_rules - 1});
  logit.num_likeliest = static_cast<int32_t>(object.integer("num_likeliest", kIndex, 0));
  logit.scored = static_cast<TokenId>(object.integer("scored", kTokenOrNone, -1));
  logit.soft_embedding_slack = object.number("soft_embedding_slack", {-1, 1}, -1.0F);
  if (object.has("noise")) {
    const std::string digits = object.text("noise");
    uint64_t key = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), key, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() != 16) {
      object.refuse("noise", "16 hexadecimal digits");
    }
    logit.noise = RngStream::from_key(key);
  }
  return logit;
}

SamplingRule read_rule(const nlohmann::json& value, const JsonObject& object) {
  expect_keys(object, {"temperature", "draws", "top_p", "top_k", "min_p", "adjusted", "measure", "source",
                       "forbidden", "undrawn", "unsure", "listed", "finds_second", "measures_all"});
  const SamplingRule usual;
  SamplingRule rule;
  rule.temperature = object.number("temperature", {0, 1e3}, usual.temperature);
  rule.draws = object.flag("draws", usual.draws);
  rule.top_p = object.number("top_p", {1e-6, 1}, usual.top_p);
  rule.top_k = index_at(object, "top_k", usual.top_k, {0, kToken.last});
  rule.min_p = object.number("min_p", {0, 1}, usual.min_p);
  if (object.has("adjusted")) {
    for_each_object(value, "adjusted", object.path("adjusted"), [&](const auto&, const JsonObject& each) {
      expect_keys(each, {"token", "factor", "offset"});
      rule.adjusted.push_back({index_at(each, "token", 0, kToken), each.number("factor", {1e-3, 1e3}, 1.0F),
                               each.number("offset", {-1e5, 1e5}, 0.0F)});
    });
  }
  rule.measure = name_at(object, "measure", usual.measure, kMeasures);
  rule.source = name_at(object, "source", usual.source, kSources);
  rule.forbidden = integers(object, "forbidden", kToken);
  rule.undrawn = integers(object, "undrawn", kToken);
  rule.unsure = integers(object, "unsure", kToken);
  rule.listed = integers(object, "listed", kToken);
  rule.finds_second = object.flag("finds_second", usual.finds_second);
  rule.measures_all = object.flag("measures_all", usual.measures_all);
  return rule;
}

/// Checks that rows are complete and groups cover them in order.
void check_rows(const StepPlan& plan, const JsonObject& object) {
  const size_t rows = plan.tokens.size();
  if (rows == 0 || static_cast<int64_t>(rows) > kMaxRows) object.refuse("tokens", "at least one token");
  if (plan.positions.size() != rows) object.refuse("positions", fmt::format("a list of {}", rows));
  if (plan.cells.size() != rows) object.refuse("cells", fmt::format("a list of {}", rows));
  int32_t covered = 0;
  for (const RowGroup& group : plan.groups) {
    if (group.rows.begin != covered) break;
    covered = group.rows.end;
  }
  const bool is_covered = !plan.groups.empty() && plan.groups.back().rows.end == covered;
  if (!is_covered || covered != plan.num_rows()) {
    object.refuse("groups", fmt::format("groups that cover rows 0 to {} in order", rows - 1));
  }
}

}  // namespace

ordered_json to_json(const StepPlan& plan) {
  ordered_json object = {{"tokens", plan.tokens}, {"positions", plan.positions}, {"cells", plan.cells}};
  object["groups"] = ordered_json::array();
  for (const RowGroup& group : plan.groups) object["groups"].push_back(group_json(group));
  for (const MixedRow& each : plan.mixed)
    object["mixed"].push_back({{"row", each.row}, {"weight", each.weight}});
  object["logits"] = ordered_json::array();
  for (const LogitRow& logit : plan.logits) object["logits"].push_back(logit_json(logit));
  object["rules"] = ordered_json::array();
  for (const SamplingRule& rule : plan.rules) object["rules"].push_back(rule_json(rule));
  put(object, "measures_kv_drift", plan.measures_kv_drift, false);
  return object;
}

StepPlan plan_from_json(const nlohmann::json& value, const std::string& place) {
  const JsonObject object(value, place);
  expect_keys(object,
              {"tokens", "positions", "cells", "groups", "mixed", "logits", "rules", "measures_kv_drift"});
  StepPlan plan;
  plan.tokens = integers(object, "tokens", kToken);
  plan.positions = integers(object, "positions", kIndex);
  plan.cells = integers(object, "cells", kIndex);
  plan.measures_kv_drift = object.flag("measures_kv_drift", false);
  for_each_object(value, "groups", place, [&](const nlohmann::json& group, const JsonObject& keys) {
    plan.groups.push_back(read_group(group, keys));
  });
  check_rows(plan, object);
  for_each_object(value, "mixed", place, [&](const nlohmann::json&, const JsonObject& keys) {
    expect_keys(keys, {"row", "weight"});
    plan.mixed.push_back({static_cast<int32_t>(keys.integer("row", {0, plan.num_rows() - 1})),
                          keys.number("weight", {0, 1}, 1.0F)});
  });
  for_each_object(value, "rules", place, [&](const nlohmann::json& rule, const JsonObject& keys) {
    plan.rules.push_back(read_rule(rule, keys));
  });
  for_each_object(value, "logits", place, [&](const nlohmann::json&, const JsonObject& keys) {
    plan.logits.push_back(read_logit(keys, plan.num_rows(), static_cast<int64_t>(plan.rules.size())));
  });
  return plan;
}

}  // namespace lacuna
