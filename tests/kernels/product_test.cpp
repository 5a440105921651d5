// The GEMM of every instruction set's table, called through the table.
#include "definitions.h"

namespace lacuna::product_test {
namespace {

using test::Expected;
using test::Panels;

constexpr float kUntouched = -12345.0F;

// Around every instruction set's row tile (2, 5, 6, 14, 16 and 32) and the blocks of 224 rows.
std::vector<int64_t> row_counts() {
  std::vector<int64_t> counts;
  for (int64_t rows = 1; rows <= 50; ++rows) counts.push_back(rows);
  counts.insert(counts.end(), {95, 96, 97, 223, 224, 225, 239});
  return counts;
}

/// Rows packed for a table, starting at any element and with any stride.
class TableRows {
 public:
  TableRows(const KernelTable& table, DType dtype, const std::vector<float>& values, int64_t num_rows,
            int64_t depth, int64_t stride, int64_t start)
      : element_bytes_(dtype == DType::kBF16 ? table.bf16_row_element_bytes : 4),
        begin_(start * element_bytes_),
        memory_((start + num_rows * stride) * element_bytes_) {
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* source = values.data() + row * depth;
      std::byte* target = memory_.data() + begin_ + row * stride * element_bytes_;
      if (dtype == DType::kBF16) {
        table.pack_row_bf16(source, depth, padded_depth(dtype, depth), target);
      } else {
        std::memcpy(target, source, static_cast<size_t>(depth) * sizeof(float));
      }
    }
  }

  const void* data() const { return memory_.data() + begin_; }

 private:
  int64_t element_bytes_;
  int64_t begin_;
  Buffer<std::byte> memory_;
};

class PanelMatmul : public testing::TestWithParam<KernelTable> {
 protected:
  void run(DType dtype, const PanelProduct& product) const {
    (dtype == DType::kBF16 ? GetParam().panel_product_bf16 : GetParam().panel_product_f32)(product);
  }

  struct Layout {
    int64_t unused_in_rows = 0;
    int64_t unused_in_out = 0;
    int64_t unused_in_panels = 0;
    int64_t start = 0;  ///< elements before the first row and before out
    bool accumulate = false;
  };

  /// Every row count and panel count of one depth.
  void check(DType dtype, int64_t depth, const Layout& layout) const {
    const std::vector<int64_t> counts = row_counts();
    const int64_t most_rows = counts.back();
    std::vector<float> a = test::random_values(1, most_rows * depth);
    test::round_all(dtype, a);
    const int64_t stride = padded_depth(dtype, depth) + layout.unused_in_rows;
    const TableRows rows(GetParam(), dtype, a, most_rows, depth, stride, layout.start);
    for (const int64_t panels : {1, 2, 3, 7}) {
      const int64_t outputs = panels * kPanelWidth;
      std::vector<float> w = test::random_values(2, outputs * depth);
      test::round_all(dtype, w);
      const Panels packed(dtype, w, outputs, depth, layout.unused_in_panels);
      const std::vector<float> initial = test::random_values(3, most_rows * outputs);
      std::vector<Expected> expected;
      for (int64_t row = 0; row < most_rows; ++row) {
        for (int64_t n = 0; n < outputs; ++n) {
          const float start = layout.accumulate ? initial[static_cast<size_t>(row * outputs + n)] : 0;
          expected.push_back(test::dot(a.data() + row * depth, w.data() + n * depth, depth, start));
        }
      }
      for (const int64_t num_rows : counts) {
        const int64_t out_stride = outputs + layout.unused_in_out;
        std::vector<float> out(static_cast<size_t>(layout.start + (num_rows + 1) * out_stride), kUntouched);
        float* first = out.data() + layout.start;
        for (int64_t row = 0; row < num_rows; ++row) {
          std::copy_n(initial.data() + row * outputs, outputs, first + row * out_stride);
        }
        PanelProduct product =
            test::product_of(rows.data(), stride, num_rows, packed.view(), first, out_stride);
        product.accumulate = layout.accumulate;
        run(dtype, product);
        ASSERT_TRUE(test::meets(first, out_stride, expected.data(), num_rows, outputs))
            << name_of(dtype) << ", " << num_rows << " rows, " << outputs << " outputs, depth " << depth;
        for (int64_t row = 0; row < num_rows; ++row) {
          for (int64_t gap = outputs; gap < out_stride; ++gap)
            ASSERT_EQ(first[row * out_stride + gap], kUntouched);
        }
        for (int64_t column = 0; column < out_stride; ++column) {
          ASSERT_EQ(first[num_rows * out_stride + column], kUntouched) << "a row after the last was written";
        }
      }
    }
  }
};

TEST_P(PanelMatmul, OfF32EqualTheDefinitionAtEveryShape) {
  for (const int64_t depth :
       {1, 2, 7, 31, 32, 33, 64, 255, 256, 257, 383, 384, 385, 511, 512, 513, 700, 800}) {
    check(DType::kF32, depth, {});
  }
}

TEST_P(PanelMatmul, OfBf16EqualTheDefinitionAtEveryShape) {
  for (const int64_t depth :
       {1, 2, 7, 31, 32, 33, 64, 255, 256, 257, 383, 384, 385, 511, 512, 513, 700, 800}) {
    check(DType::kBF16, depth, {});
  }
}

TEST_P(PanelMatmul, TakeAnyStrideAndStart) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check(dtype, 65, {.unused_in_rows = 5, .unused_in_out = 3, .unused_in_panels = 64, .start = 1});
    check(dtype, 300, {.unused_in_rows = 32, .unused_in_out = 17, .unused_in_panels = 96, .start = 7});
  }
}

TEST_P(PanelMatmul, AccumulateIntoOut) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t depth : {1, 33, 600}) check(dtype, depth, {.unused_in_out = 2, .accumulate = true});
  }
}

// Attention relies on this: its runs of tiles are parts of one accumulation.
TEST_P(PanelMatmul, SplitAlongKHaveTheBitsOfOneCall) {
  constexpr int64_t kRows = 29;
  constexpr int64_t kDepth = 1600;
  constexpr int64_t kOutputs = 48;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<float> a = test::random_values(4, kRows * kDepth);
    const TableRows rows(GetParam(), dtype, a, kRows, kDepth, kDepth, 0);
    const Panels w(dtype, test::random_values(5, kOutputs * kDepth), kOutputs, kDepth);
    const int64_t row_bytes = dtype == DType::kBF16 ? GetParam().bf16_row_element_bytes : 4;
    const auto product_of = [&](int64_t num_rows, const std::vector<int64_t>& cuts) {
      std::vector<float> out(static_cast<size_t>(num_rows * kOutputs));
      for (size_t part = 0; part + 1 < cuts.size(); ++part) {
        PanelProduct product =
            test::product_of(rows.data(), kDepth, num_rows, w.view(), out.data(), kOutputs);
        product.a = static_cast<const std::byte*>(rows.data()) + cuts[part] * row_bytes;
        product.panels = static_cast<const std::byte*>(w.view().data) +
                         cuts[part] * kPanelWidth * static_cast<int64_t>(size_of(dtype));
        product.depth = cuts[part + 1] - cuts[part];
        product.accumulate = part > 0;
        run(dtype, product);
      }
      return out;
    };
    for (const int64_t num_rows : {int64_t{1}, int64_t{2}, kRows}) {
      const std::vector<float> whole = product_of(num_rows, {0, kDepth});
      for (const std::vector<int64_t>& cuts :
           {std::vector<int64_t>{0, 32, kDepth}, {0, 512, 544, kDepth}, {0, 96, 832, 1568, kDepth}}) {
        const std::vector<float> parts = product_of(num_rows, cuts);
        EXPECT_TRUE(test::same_bits(parts.data(), whole.data(), num_rows * kOutputs))
            << name_of(dtype) << ", " << num_rows << " rows";
      }
    }
  }
}

// AMX tiles flush subnormals to zero, whatever their height.
TEST_P(PanelMatmul, OfFewRowsHaveTheBitsOfManyForSubnormalsToo) {
  constexpr int64_t kRows = 33;
  constexpr int64_t kDepth = 96;
  constexpr int64_t kOutputs = 48;
  // PanelMatmul around the smallest normal f32, so that about half of the accumulators are subnormal.
  const auto tiny = [](std::vector<float> values) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::ldexp(values[i], -60 - static_cast<int>(i % 7));
    return values;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TableRows rows(GetParam(), dtype, tiny(test::random_values(6, kRows * kDepth)), kRows, kDepth,
                         kDepth, 0);
    const Panels w(dtype, tiny(test::random_values(7, kOutputs * kDepth)), kOutputs, kDepth);
    const auto product_of = [&](int64_t num_rows) {
      std::vector<float> out(static_cast<size_t>(num_rows * kOutputs));
      run(dtype, test::product_of(rows.data(), kDepth, num_rows, w.view(), out.data(), kOutputs));
      return out;
    };
    const std::vector<float> many = product_of(kRows);
    for (const int64_t few : {1, 2, 3, 32}) {
      EXPECT_TRUE(test::same_bits(product_of(few).data(), many.data(), few * kOutputs))
          << name_of(dtype) << ", " << few << " rows";
    }
  }
}

// Accumulators over more than 256 inputs are spilled between slices, block by block of 32 rows.
TEST_P(PanelMatmul, OfManyRowsInTheTablesLayoutHaveTheBitsOfEachRowAlone) {
  const int64_t element_bytes = GetParam().bf16_row_element_bytes;
  constexpr int64_t kMaxRows = 1030;
  constexpr int64_t kOutputs = 80;
  for (const int64_t depth : {32, 256, 288, 512, 800}) {
    const std::vector<float> a = test::random_values(8, kMaxRows * depth);
    const std::vector<float> initial = test::random_values(9, kMaxRows * kOutputs);
    const TableRows rows(GetParam(), DType::kBF16, a, kMaxRows, depth, depth, 0);
    const auto* packed = static_cast<const std::byte*>(rows.data());
    const Panels w(DType::kBF16, test::random_values(10, kOutputs * depth), kOutputs, depth);
    for (const bool accumulate : {false, true}) {
      std::vector<float> alone = initial;
      for (int64_t row = 0; row < kMaxRows; ++row) {
        PanelProduct product = test::product_of(packed + row * depth * element_bytes, depth, 1, w.view(),
                                                alone.data() + row * kOutputs, kOutputs);
        product.accumulate = accumulate;
        run(DType::kBF16, product);
      }
      for (const int64_t num_rows : {1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 49, 512, 513, 529, 545, 1030}) {
        const RowStrides strides = GetParam().takes_bf16_rows_in_tiles ? RowStrides::in_tiles(num_rows, depth)
                                                                       : RowStrides::in_rows(depth);
        const Buffer<std::byte> laid_out((strides.offset(num_rows - 1, depth - 1) + 1) * element_bytes);
        for (int64_t row = 0; row < num_rows; ++row) {
          for (int64_t k = 0; k < depth; ++k) {
            std::memcpy(laid_out.data() + strides.offset(row, k) * element_bytes,
                        packed + (row * depth + k) * element_bytes, static_cast<size_t>(element_bytes));
          }
        }
        std::vector<float> out(initial.begin(), initial.begin() + num_rows * kOutputs);
        PanelProduct product =
            test::product_of(laid_out.data(), depth, num_rows, w.view(), out.data(), kOutputs);
        product.a_strides = strides;
        product.accumulate = accumulate;
        run(DType::kBF16, product);
        EXPECT_TRUE(test::same_bits(out.data(), alone.data(), num_rows * kOutputs))
            << num_rows << " rows, depth " << depth << (accumulate ? ", added to what was there" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, PanelMatmul, testing::ValuesIn(supported_tables()), test::table_name);

}  // namespace
}  // namespace lacuna::product_test
