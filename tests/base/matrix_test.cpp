#include "base/matrix.h"

#include <gmock/gmock.h>

#include <array>

namespace lacuna::matrix_test {
namespace {

using testing::ElementsAre;

TEST(Matrix, ViewsRowsAndColumnsByItsStride) {
  std::array<int, 12> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Matrix<int> matrix(values.data(), 3, 3, 4);  // one element of padding per row
  EXPECT_THAT(matrix.row_span(1), ElementsAre(4, 5, 6));
  const Matrix<int> part = matrix.columns(1, 2);
  EXPECT_EQ(part.rows, 3);
  EXPECT_THAT(part.row_span(2), ElementsAre(9, 10));
  EXPECT_EQ(matrix.first_rows(2).rows, 2);
  part.row(0)[0] = -1;
  EXPECT_EQ(values[1], -1) << "a view owns nothing";
}

TEST(Matrix, IsContiguousWithoutAStride) {
  std::array<int, 4> values = {0, 1, 2, 3};
  const ConstMatrix<int> matrix = Matrix<int>(values.data(), 2, 2);
  EXPECT_THAT(matrix.row_span(1), ElementsAre(2, 3));
}

}  // namespace
}  // namespace lacuna::matrix_test
