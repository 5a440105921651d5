#include "base/variant.h"

#include <gmock/gmock.h>

#include <new>
#include <string>
#include <vector>

namespace lacuna::variant_test {
namespace {

/// Can be copied as often as `copies_left` says.
struct Rare {
  static inline int copies_left = 0;
  int number = 0;

  explicit Rare(int value) : number(value) {}
  Rare(const Rare& other) : number(other.number) {
    if (copies_left-- == 0) throw std::bad_alloc();
  }
  Rare(Rare&&) noexcept = default;
  Rare& operator=(const Rare&) = default;
  Rare& operator=(Rare&&) noexcept = default;
  ~Rare() = default;
};
using Value = Variant<int, std::string, std::vector<Rare>>;

Value two_rare() {
  std::vector<Rare> list;
  list.emplace_back(1);
  list.emplace_back(2);
  return list;
}

TEST(Variant, IsUsedAsStdVariant) {
  using Text = Variant<int, std::string>;
  Text value = "text";
  EXPECT_EQ(value, Text("text"));
  const Text copy = value;
  value = 7;
  EXPECT_EQ(std::get<std::string>(copy), "text");
  EXPECT_TRUE(std::holds_alternative<int>(value));
  value = copy;
  EXPECT_EQ(std::visit([](const auto& each) { return testing::PrintToString(each); }, value), "\"text\"");
}

TEST(Variant, ACopyThatThrowsLeavesTheOriginal) {
  const Value original = two_rare();
  for (int copies = 0; copies < 2; ++copies) {
    Rare::copies_left = copies;
    EXPECT_THROW(const Value copy = original, std::bad_alloc);
  }
  Rare::copies_left = 2;
  const Value copy = original;
  ASSERT_EQ(std::get<std::vector<Rare>>(copy).size(), 2U);
  EXPECT_EQ(std::get<std::vector<Rare>>(copy)[1].number, 2);
}

TEST(Variant, AnAssignmentThatThrowsLeavesBothValues) {
  const Value original = two_rare();
  Value other = "before";
  Rare::copies_left = 1;
  EXPECT_THROW(other = original, std::bad_alloc);
  EXPECT_EQ(std::get<std::string>(other), "before");
}

}  // namespace
}  // namespace lacuna::variant_test
