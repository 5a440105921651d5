#include "backend/cuda/pass_graphs.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda::pass_graphs_test {
namespace {

PassShape shape_of_rows(int64_t rows) {
  return rounded_up({.rows = rows,
                     .pages = 5,
                     .attention = {.tasks = 3, .merges = 1, .runs = 8, .masks = 33},
                     .sliding = {.tasks = 5}});
}

TEST(PassGraphs, RoundUpSoThatPassesOfAboutTheSameSizeAreOneShape) {
  const PassShape shape = shape_of_rows(17);
  EXPECT_EQ(shape.rows, 32);
  EXPECT_EQ(shape.pages, 8);
  EXPECT_EQ(shape.attention.tasks, 4);
  EXPECT_EQ(shape.attention.merges, 1);
  EXPECT_EQ(shape.attention.runs, 8);
  EXPECT_EQ(shape.attention.masks, 64);
  EXPECT_EQ(shape.sliding.tasks, 8);
  EXPECT_EQ(shape, shape_of_rows(32));
  EXPECT_NE(shape, shape_of_rows(33));
}

TEST(PassGraphs, RoundUpWhatTheLastLayerComputesUnlessItIsNothing) {
  const auto shape_of = [](int64_t output_rows, int64_t output_tasks) {
    return rounded_up({.rows = 40,
                       .output_rows = output_rows,
                       .attention = {.tasks = 9,
                                     .merges = 3,
                                     .output_tasks = output_tasks,
                                     .output_merges = output_rows > 0 ? 1 : 0}});
  };
  EXPECT_EQ(shape_of(17, 5).output_rows, 32);
  EXPECT_EQ(shape_of(17, 5).attention.output_tasks, 8);
  EXPECT_EQ(shape_of(17, 5), shape_of(30, 6));
  EXPECT_EQ(shape_of(0, 0).output_rows, 0);
  EXPECT_EQ(shape_of(0, 0).attention.output_tasks, 0);
  EXPECT_NE(shape_of(0, 0), shape_of(1, 0));
}

/// Passes that copy one number to the next of a buffer.
struct Copies {
  Stream stream;
  PassGraphs graphs;
  DeviceBuffer numbers = upload(stream, std::vector<int32_t>{7, 0, 0});
  int num_sent = 0;

  void launch(int64_t rows, uint64_t place, int from) {
    graphs.launch(stream, shape_of_rows(rows), place, [&] {
      ++num_sent;
      stream.copy(numbers.as<int32_t>() + from + 1, numbers.as<int32_t>() + from, sizeof(int32_t));
    });
    stream.wait();
  }
};

TEST(PassGraphs, RecordAShapeOnceAndAgainWhenAddressesHaveChanged) {
  Copies copies;
  EXPECT_FALSE(copies.graphs.has_seen(shape_of_rows(10)));
  EXPECT_TRUE(copies.graphs.has_seen(shape_of_rows(16)));
  for (int i = 0; i < 3; ++i) copies.launch(10, 1, 0);
  EXPECT_EQ(copies.num_sent, 1);
  EXPECT_EQ(download<int32_t>(copies.stream, copies.numbers), (std::vector<int32_t>{7, 7, 0}));
  copies.launch(10, 2, 1);
  EXPECT_EQ(copies.num_sent, 2);
  EXPECT_EQ(download<int32_t>(copies.stream, copies.numbers), (std::vector<int32_t>{7, 7, 7}));
}

TEST(PassGraphs, ForgetTheShapeThatWasNotUsedForTheLongestTime) {
  PassGraphs graphs;
  for (size_t i = 0; i <= PassGraphs::kMax; ++i) {
    graphs.has_seen(shape_of_rows(16 * static_cast<int64_t>(i + 1)));
    EXPECT_TRUE(graphs.has_seen(shape_of_rows(16)));
  }
  EXPECT_EQ(graphs.size(), PassGraphs::kMax);
  EXPECT_TRUE(graphs.has_seen(shape_of_rows(16)));
  EXPECT_FALSE(graphs.has_seen(shape_of_rows(32)));
}

}  // namespace
}  // namespace lacuna::cuda::pass_graphs_test
