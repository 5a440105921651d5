#include "weights/quantized_tensors.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "random_matrix.h"
#include "weights/checkpoint.h"

namespace lacuna::quantized_tensors_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class QuantizedCheckpoint : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Checkpoint written(const std::vector<TensorToWrite>& tensors) const {
    write_safetensors(folder_ / "model.safetensors", tensors, {});
    return Checkpoint::open(folder_);
  }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
  ThreadPool threads_{2};
};

TEST_F(QuantizedCheckpoint, GivesTheWeightsThatQuantizingAtLoadGives) {
  for (const int64_t inputs : {13, 32, 33, 64}) {
    const RandomMatrix matrix(inputs);
    for (const NamedWeightFormat& known : kWeightFormats) {
      if (!known.format.is_quantized() || !known.format.is_for_cpu()) continue;
      const QuantizedTensors tensors =
          quantize_tensors(threads_, known.format.quantization, "some.module", matrix, 20, inputs);
      const Checkpoint checkpoint = written(tensors.tensors);
      const auto stored = checkpoint.matrix("some.module", 20, inputs);
      EXPECT_EQ(stored->quantization(), known.format.quantization) << known.name << " of " << inputs;
      EXPECT_EQ(stored->quantization(), known.format.quantization) << known.name;
      const PackedMatrix from_file = pack(threads_, known.format, *stored, 0, 20, inputs);
      const PackedMatrix at_load = pack(threads_, known.format, matrix, 0, 20, inputs);
      double error = 0;
      std::vector<float> a(static_cast<size_t>(inputs));
      std::vector<float> b(a);
      std::vector<float> original(a);
      for (int64_t n = 0; n < 20; ++n) {
        from_file.read_row(n, a.data());
        at_load.read_row(n, b.data());
        ASSERT_EQ(a, b) << known.name;
        stored->read(n, b.data());
        ASSERT_EQ(a, b) << known.name;
        matrix.read(n, original.data());
        for (size_t k = 0; k < a.size(); ++k) error += (original[k] - a[k]) * (original[k] - a[k]);
      }
      EXPECT_NEAR(tensors.squared_error, error, 1e-6 * error);
    }
  }
}

TEST_F(QuantizedCheckpoint, GivesPartsOfAMatrix) {
  const RandomMatrix matrix(32);
  const Quantization int8 = weight_format("int8")->quantization;
  const Checkpoint checkpoint = written(quantize_tensors(threads_, int8, "qkv", matrix, 40, 32).tensors);
  const auto stored = checkpoint.matrix("qkv", 40, 32);
  const PackedMatrix part = pack(threads_, int8, *stored, 10, 5, 32);
  std::vector<float> a(32);
  std::vector<float> b(32);
  part.read_row(3, a.data());
  stored->read(13, b.data());
  EXPECT_EQ(a, b);
}

TEST_F(QuantizedCheckpoint, OfAnotherShapeIsRefused) {
  const RandomMatrix matrix(64);
  const Quantization int8 = weight_format("int8")->quantization;
  const Checkpoint checkpoint = written(quantize_tensors(threads_, int8, "module", matrix, 16, 64).tensors);
  using Shape = std::pair<int64_t, int64_t>;
  for (const Shape& shape : {Shape(16, 96), Shape(17, 64), Shape(16, 32)}) {
    const auto open = [&] { checkpoint.matrix("module", shape.first, shape.second); };
    EXPECT_THAT(open,
                ThrowsMessage<InputError>(HasSubstr("the codes of \"module\" are U8 of shape [16, 64]")));
  }
  EXPECT_THAT([&] { checkpoint.matrix("other", 16, 64); },
              ThrowsMessage<InputError>(HasSubstr("\"other.weight\" is missing")));
  // Programs that do not know the format find no weight under the usual name.
  EXPECT_FALSE(checkpoint.holds("module.weight"));
}

TEST_F(QuantizedCheckpoint, OfTwoLevelsIsRefusedWhereValuesLeaveTheirRange) {
  const RandomMatrix matrix(64);
  const Quantization int4 = weight_format("int4")->quantization;
  QuantizedTensors tensors = quantize_tensors(threads_, int4, "module", matrix, 16, 64);
  tensors.scales[5] = std::byte{3};
  tensors.minimums[5] = std::byte{211};
  EXPECT_THAT(
      [&] { written(tensors.tensors).matrix("module", 16, 64); },
      ThrowsMessage<InputError>(HasSubstr("tensor \"module.weight_minimums\" holds 211 with a scale of 3")));
  tensors.minimums[5] = std::byte{210};
  EXPECT_NE(written(tensors.tensors).matrix("module", 16, 64), nullptr);
  std::erase_if(tensors.tensors,
                [](const TensorToWrite& t) { return t.name.ends_with(kOutputScalesSuffix); });
  EXPECT_THAT([&] { written(tensors.tensors).matrix("module", 16, 64); },
              ThrowsMessage<InputError>(HasSubstr("weight_output_scales")));
}

}  // namespace
}  // namespace lacuna::quantized_tensors_test
