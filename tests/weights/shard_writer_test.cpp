#include "weights/shard_writer.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"

namespace lacuna {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name, int64_t count) {
  return checkpoint.values(name, std::vector<int64_t>{count});
}

TEST(ShardWriter, WritesWhatFitsIntoOneFile) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path());
  writer.add(value_tensor("a", {2}, {1, 2}));
  writer.finish();
  EXPECT_EQ(writer.total_bytes(), 8);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.num_files(), 1);
  EXPECT_EQ(values_of(checkpoint, "a", 2), std::vector<float>({1, 2}));
}

TEST(ShardWriter, BeginsAnotherFileOnceOneIsFull) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path(), 12);
  for (const char* name : {"a", "b", "c"}) writer.add(value_tensor(name, {2}, {1, 2}));
  writer.finish();
  EXPECT_EQ(writer.total_bytes(), 24);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.num_files(), 2);
  EXPECT_EQ(checkpoint.total_bytes(), 24);
  EXPECT_EQ(values_of(checkpoint, "c", 2), std::vector<float>({1, 2}));
}

TEST(ShardWriter, BeginsTensorsOfWholeCacheLinesAtOne) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path());
  writer.add(value_tensor("norm", {3}, {1, 2, 3}));
  writer.add(value_tensor("matrix", {16}, std::vector<float>(16, 7)));
  writer.finish();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(checkpoint.raw("matrix").bytes.data()) % 64, 0U);
  EXPECT_EQ(values_of(checkpoint, "matrix", 16), std::vector<float>(16, 7));
}

TEST(ShardWriter, SaysWhichFileItCannotWrite) {
  ShardWriter writer("/no/such/folder");
  writer.add(value_tensor("a", {1}, {1}));
  EXPECT_THAT([&] { writer.finish(); }, ThrowsMessage<InputError>(HasSubstr("/no/such/folder")));
}

}  // namespace
}  // namespace lacuna
