#include "backend/shard/command.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"

namespace lacuna::command_test {
namespace {

TEST(Command, KeepsEverythingAsBytes) {
  Command command;
  command.number = 7;
  command.changes = {
      {.kind = SequenceChange::Kind::kMake, .sequence = 3, .num_cells = 100, .from = 1, .prefix = 64},
      {.kind = SequenceChange::Kind::kTakePrefix, .sequence = 4, .from = 3, .prefix = 5},
      {.kind = SequenceChange::Kind::kKeepSoftEmbeddings,
       .sequence = 4,
       .cells = {2, 9},
       .distributions = {0.1F, 0.9F, 1.0F / 3, 2.0F / 3}},
      {.kind = SequenceChange::Kind::kFree, .sequence = 1}};
  command.plan = canvas_plan(random_tokens(1, 9, 50), OwnRows::kCausal);
  command.plan.rules[0].temperature = 0.1F;
  command.plan.logits[2].noise = RngStream(5, 6);
  command.plan.measures_kv_drift = true;
  command.sequences = {4, 3};
  EXPECT_EQ(command_from_bytes(to_bytes(command)), command);
}

TEST(Command, SaysThatNothingFollows) {
  const Command command{.number = 8, .stops = true};
  EXPECT_EQ(command_from_bytes(to_bytes(command)), command);
}

TEST(Command, RefusesOtherBytes) {
  std::vector<std::byte> bytes = to_bytes({.number = 8, .stops = true});
  bytes.resize(bytes.size() / 2);
  EXPECT_THROW(command_from_bytes(bytes), InputError);
  EXPECT_THROW(command_from_bytes({}), InputError);
}

}  // namespace
}  // namespace lacuna::command_test
