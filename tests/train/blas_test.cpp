#include "train/blas.h"

#include <gtest/gtest.h>

namespace lacuna::train::blas_test {
namespace {

TEST(BlasCore, IsReplacedWhereItsVectorsAreNarrowerThanThoseOfTheProcessor) {
  EXPECT_EQ(better_blas_core("Prescott", true, true), "SKYLAKEX");
  EXPECT_EQ(better_blas_core("Haswell", true, true), "SKYLAKEX");
  EXPECT_EQ(better_blas_core("Zen", true, true), "SKYLAKEX");
  EXPECT_EQ(better_blas_core("Nehalem", true, false), "HASWELL");
}

TEST(BlasCore, StaysWhereItHasTheWidestVectors) {
  EXPECT_EQ(better_blas_core("SkylakeX", true, true), std::nullopt);
  EXPECT_EQ(better_blas_core("Sapphirerapids", true, true), std::nullopt);
  EXPECT_EQ(better_blas_core("Zen", true, false), std::nullopt);
  EXPECT_EQ(better_blas_core("Nehalem", false, false), std::nullopt);
}

}  // namespace
}  // namespace lacuna::train::blas_test
