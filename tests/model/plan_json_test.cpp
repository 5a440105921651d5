#include "model/plan_json.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::plan_json_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

/// Three rows of two sequences with every field away from its default.
StepPlan full_plan() {
  StepPlan plan;
  plan.add_row(5, 7, 3);
  plan.add_row(6, 8, 4);
  plan.add_row(9, 0, 0);
  RowGroup first{0, {0, 2}, {{0, 3}, {10, 12}}, OwnRows::kCausal};
  first.sparse = {SparseAttention::Choice::kKept, {0, 3}, 2, 1, 4};
  first.sparse.active_rows = 2;
  RowGroup second{1, {2, 3}, {}, OwnRows::kNone};
  second.only_kv = true;
  second.visible = {{0, 9}};
  second.sparse = {SparseAttention::Choice::kAllAndRememberScored, {0, 9}, 3};
  second.sparse.except = {2, 5};
  second.sparse.pool = 5;
  second.reuse = {.keeps = true, .num_computed = 2};
  second.eviction = {.target = 3, .unread = 4};
  plan.groups = {first, second};
  plan.mixed = {{1, 0.3F}};
  SamplingRule rule;
  rule.temperature = 0.7F;
  rule.draws = false;
  rule.top_p = 0.9F;
  rule.top_k = 5;
  rule.measure = ConfidenceMeasure::kNegativeEntropy;
  rule.source = ConfidenceSource::kTempered;
  rule.forbidden = {1};
  rule.undrawn = {2, 3};
  rule.unsure = {4};
  rule.listed = {5, 2};
  rule.measures_all = true;
  plan.rules = {SamplingRule(), rule};
  LogitRow logit{.row = 1, .unconditional_row = 2, .guidance = 1.5F, .rule = 1};
  logit.noise = RngStream(11, 22, 33);
  logit.scored = 8;
  logit.num_likeliest = 4;
  plan.logits = {logit, LogitRow()};
  plan.measures_kv_drift = true;
  return plan;
}

json full_json() {
  return json::parse(to_json(full_plan()).dump());
}

void expect_refused(const json& plan, const std::string& key, const std::string& expected) {
  EXPECT_THAT(
      [&] { plan_from_json(plan, "t.jsonl, line 2"); },
      ThrowsMessage<InputError>(AllOf(StartsWith("t.jsonl, line 2"), HasSubstr(key), HasSubstr(expected))))
      << plan.dump();
}

TEST(PlanJson, KeepsEveryField) {
  EXPECT_EQ(plan_from_json(full_json(), "plan"), full_plan());
}

TEST(PlanJson, KeepsARolloutOfRowsThatSeeOneRange) {
  StepPlan plan;
  plan.add_row(5, 7, 3);
  plan.groups = {{0, {0, 1}, {{0, 6}}, OwnRows::kNone}};
  plan.groups.front().wants_rollout = true;
  const json object = json::parse(to_json(plan).dump());
  EXPECT_EQ(plan_from_json(object, "plan"), plan);
  json parted = object;
  parted["groups"][0]["visible"] = {{0, 2}, {3, 6}};
  expect_refused(parted, "wants_rollout", "one range of cells");
}

TEST(PlanJson, LeavesOutWhatIsUsual) {
  StepPlan plan;
  plan.add_row(1, 0, 0);
  plan.groups.emplace_back().rows = {0, 1};
  plan.rules.resize(1);
  plan.logits.resize(1);
  EXPECT_EQ(
      to_json(plan).dump(),
      R"({"tokens":[1],"positions":[0],"cells":[0],"groups":[{"rows":[0,1]}],"logits":[{"row":0}],"rules":[{}]})");
}

TEST(PlanJson, RefusesPlansWhosePartsDoNotFit) {
  json plan = full_json();
  plan["cells"].push_back(1);
  expect_refused(plan, "cells", "a list of 3");
  plan = full_json();
  plan["tokens"] = plan["positions"] = plan["cells"] = json::array();
  expect_refused(plan, "tokens", "at least one");
  plan = full_json();
  plan["groups"][1]["rows"] = {1, 3};
  expect_refused(plan, "groups", "cover rows 0 to 2");
  plan = full_json();
  plan["groups"].erase(1);
  expect_refused(plan, "groups", "cover rows");
  plan = full_json();
  plan["logits"][0]["row"] = 3;
  expect_refused(plan, "logits[0].row", "from 0 to 2");
  plan = full_json();
  plan["logits"][0]["rule"] = 2;
  expect_refused(plan, "logits[0].rule", "from 0 to 1");
  plan = full_json();
  plan["groups"][0]["sparse"]["among"] = {0, 2};
  expect_refused(plan, "groups[0].sparse", "visible");
}

TEST(PlanJson, RefusesOtherValuesAndKeys) {
  json plan = full_json();
  plan["extra"] = 1;
  expect_refused(plan, "extra", "one of tokens");
  plan = full_json();
  plan["groups"][0]["own_rows"] = "some";
  expect_refused(plan, "groups[0].own_rows", "bidirectional, causal, none");
  plan = full_json();
  plan["groups"][0]["visible"][0] = {3, 1};
  expect_refused(plan, "visible", "begin <= end");
  plan = full_json();
  plan["groups"] = 1;
  expect_refused(plan, "groups", "not a list");
  plan = full_json();
  plan["logits"][0]["noise"] = "12";
  expect_refused(plan, "logits[0].noise", "16 hexadecimal");
  plan = full_json();
  plan["rules"][1]["temperature"] = -1;
  expect_refused(plan, "rules[1].temperature", "from 0");
  plan = full_json();
  plan["tokens"][0] = -1;
  expect_refused(plan, "tokens", "from 0");
}

}  // namespace
}  // namespace lacuna::plan_json_test
