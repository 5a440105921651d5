#include "model/statistics_bytes.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

namespace lacuna::statistics_bytes_test {
namespace {

std::vector<RowStatistics> two_rows() {
  RowStatistics row;
  row.token = 5;
  row.confidence = 1.0 / 3;
  row.best_logit = 0.1F;
  row.best_token = 6;
  row.second_token = 7;
  row.scored_rank = 8;
  row.scored_logit = 0.2F;
  row.scored_probability = 0.3;
  row.entropy = 0.4;
  row.margin = 0.5;
  row.listed_logprobs = {-1, -2.5};
  row.likeliest = {{9, -0.5}, {10, -0.75}, {11, -3}};
  row.is_finite = false;
  return {row, RowStatistics()};
}

TEST(StatisticsBytes, KeepEveryField) {
  std::vector<RowStatistics> read(2);
  from_bytes(to_bytes(two_rows()), read);
  EXPECT_EQ(read, two_rows());
}

TEST(StatisticsBytes, AreThoseOfAsManyRows) {
  std::vector<RowStatistics> one(1), three(3);
  EXPECT_THROW(from_bytes(to_bytes(two_rows()), one), std::logic_error);
  EXPECT_THROW(from_bytes(to_bytes(two_rows()), three), std::logic_error);
}

}  // namespace
}  // namespace lacuna::statistics_bytes_test
