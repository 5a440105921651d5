#include "weights/shard_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"

namespace lacuna::shard_writer_test {
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

TEST(ShardWriter, BeginsTensorsOfWholePagesOrPartsOfThemAtSuchParts) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path());
  writer.add(value_tensor("norm", {3}, {1, 2, 3}));
  const std::vector<int64_t> sizes = {16, 48, 1024, 3072, 256, 16};  // a cache line, three, a page, ...
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<float> values(static_cast<size_t>(sizes[i]), static_cast<float>(i));
    writer.add(value_tensor(fmt::format("matrix {}", i), {sizes[i]}, values));
  }
  writer.finish();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = fmt::format("matrix {}", i);
    const auto bytes = checkpoint.raw(name).bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % std::gcd(bytes.size(), size_t{4096}), 0U) << name;
    EXPECT_EQ(values_of(checkpoint, name, sizes[i]).back(), static_cast<float>(i));
  }
  EXPECT_EQ(values_of(checkpoint, "norm", 3), std::vector<float>({1, 2, 3}));
}

TEST(ShardWriter, SaysWhichFileItCannotWrite) {
  ShardWriter writer("/no/such/folder");
  writer.add(value_tensor("a", {1}, {1}));
  EXPECT_THAT([&] { writer.finish(); }, ThrowsMessage<InputError>(HasSubstr("/no/such/folder")));
}

}  // namespace
}  // namespace lacuna::shard_writer_test
