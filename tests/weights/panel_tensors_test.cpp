#include "weights/panel_tensors.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "random_matrix.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"

namespace lacuna::panel_tensors_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

constexpr int64_t kOutputs = 40;

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

class PackedCheckpoint : public testing::Test {
 protected:
  PackedMatrix packed(const WeightFormat& format, int64_t inputs, int64_t first = 0,
                      int64_t count = kOutputs) {
    return pack(threads_, format, RandomMatrix(inputs), first, count, inputs);
  }

  /// In the order given, whatever that does to their alignment.
  Checkpoint written(const std::vector<TensorToWrite>& tensors) const {
    write_safetensors(folder_.path() / "model.safetensors", tensors, {});
    return Checkpoint::open(folder_.path());
  }

  TemporaryFolder folder_;
  ThreadPool threads_{2};
};

TEST_F(PackedCheckpoint, GivesTheBytesThatWerePackedWithoutACopy) {
  std::vector<WeightFormat> formats;
  for (const std::string& name : cpu_format_names()) formats.push_back(*weight_format(name));
  formats.emplace_back(Quantization{.bits = 8, .group = 16, .wide_scales = true});
  formats.emplace_back(Quantization{.bits = 4, .group = 32, .has_minimum = true, .wide_scales = true});
  for (const int64_t inputs : {33, 64}) {
    for (const WeightFormat& format : formats) {
      const PackedMatrix original = packed(format, inputs);
      const HeldTensors held = panel_tensors("module", packed(format, inputs));
      const Checkpoint checkpoint = written(held.tensors);
      EXPECT_TRUE(checkpoint.is_packed());
      const auto stored = checkpoint.matrix("module", kOutputs, inputs);
      const PackedMatrix loaded = pack(threads_, format, *stored, 0, kOutputs, inputs);
      EXPECT_TRUE(loaded.is_mapped()) << describe(format);
      EXPECT_EQ(loaded.format(), format);
      EXPECT_TRUE(same_bytes(loaded.panels(), original.panels())) << describe(format);
      EXPECT_THAT(panel_formats(checkpoint), UnorderedElementsAre(Pair(format, original.bytes())));
    }
  }
}

TEST_F(PackedCheckpoint, StaysMappedAsLongAsAMatrixNeedsIt) {
  PackedMatrix loaded;
  {
    const HeldTensors held = panel_tensors("module", packed(DType::kBF16, 64));
    const Checkpoint checkpoint = written(held.tensors);
    loaded = pack(threads_, DType::kBF16, *checkpoint.matrix("module", kOutputs, 64), 0, kOutputs, 64);
  }
  EXPECT_TRUE(same_bytes(loaded.panels(), packed(DType::kBF16, 64).panels()));
}

TEST_F(PackedCheckpoint, GivesPartsWithoutACopyWhereTheyAreWholePanels) {
  const WeightFormat int8 = *weight_format("int8-group");
  const HeldTensors held = panel_tensors("qkv", packed(int8, 64));
  const Checkpoint checkpoint = written(held.tensors);
  const auto stored = checkpoint.matrix("qkv", kOutputs, 64);
  struct Part {
    int64_t first, count;
    bool is_whole_panels;
  };
  for (const Part& part : {Part{0, 16, true}, Part{16, 24, true}, Part{32, 8, true}, Part{16, 8, false},
                           Part{8, 8, false}, Part{8, 32, false}, Part{10, 5, false}}) {
    const PackedMatrix loaded = pack(threads_, int8, *stored, part.first, part.count, 64);
    EXPECT_EQ(loaded.is_mapped(), part.is_whole_panels) << part.first;
    EXPECT_TRUE(same_bytes(loaded.panels(), packed(int8, 64, part.first, part.count).panels())) << part.first;
  }
}

TEST_F(PackedCheckpoint, IsPackedAgainWhereAnotherFormatIsWanted) {
  const HeldTensors held = panel_tensors("module", packed(DType::kF32, 64));
  const Checkpoint checkpoint = written(held.tensors);
  const auto stored = checkpoint.matrix("module", kOutputs, 64);
  for (const char* name : {"bf16", "int4"}) {
    const WeightFormat format = *weight_format(name);
    const PackedMatrix loaded = pack(threads_, format, *stored, 0, kOutputs, 64);
    EXPECT_FALSE(loaded.is_mapped());
    EXPECT_TRUE(same_bytes(loaded.panels(), packed(format, 64).panels())) << name;
  }
}

TEST_F(PackedCheckpoint, IsRefusedWhereItIsNotWhatWasExpected) {
  const HeldTensors held = panel_tensors("module", packed(DType::kBF16, 64));
  const TensorToWrite& panels = held.tensors[0];
  const TensorToWrite& format = held.tensors[1];
  const auto expect_refused = [&](const std::vector<TensorToWrite>& tensors, auto... texts) {
    const Checkpoint checkpoint = written(tensors);
    EXPECT_THAT([&] { checkpoint.matrix("module", kOutputs, 64); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(folder_.path().string()), HasSubstr(texts)...)));
  };
  const auto with_numbers = [&](const std::array<int64_t, 6>& numbers, auto... texts) {
    TensorToWrite other = format;
    other.bytes = std::as_bytes(std::span(numbers));
    expect_refused({panels, other}, texts...);
  };
  EXPECT_NO_THROW(written(held.tensors).matrix("module", kOutputs, 64));

  expect_refused({panels}, "\"module.weight_format\" is missing");
  const TensorToWrite elsewhere = {"elsewhere.weight_panels", DType::kF32, {0}, {}};
  expect_refused({elsewhere, format}, "\"module.weight_panels\" is missing");
  with_numbers({40, 64, 17, 0, 0, 0}, "\"module.weight_format\" holds [40, 64, 17, 0, 0, 0]",
               "expected outputs, inputs");
  with_numbers({40, 64, 16, 32, 0, 0}, "holds [40, 64, 16, 32, 0, 0]");
  with_numbers({40, 64, 8, 32, 2, 0}, "holds [40, 64, 8, 32, 2, 0]");
  with_numbers({39, 64, 16, 0, 0, 0}, "packs weights of shape [39, 64]; expected [40, 64]");
  with_numbers({40, 64, 32, 0, 0, 0}, "is U8 of shape [3, 2048]; expected U8 of shape [3, 4096] for f32");
  with_numbers({40, 64, 8, 32, 0, 0},
               "is U8 of shape [3, 2048]; expected U8 of shape [3, 1088] for int8-group");

  TensorToWrite other = format;
  other.shape = {3, 2};
  expect_refused({panels, other}, "is I64 of shape [3, 2]; expected I64 of shape [6]");
  other = panels;
  other.shape = {6, 1024};
  expect_refused({other, format}, "is U8 of shape [6, 1024]; expected U8 of shape [3, 2048]");
  expect_refused({format, panels}, "begins 48 bytes after a multiple of 64");
}

TEST_F(PackedCheckpoint, IsRefusedWhereItsFileIsCut) {
  const HeldTensors held = panel_tensors("module", packed(DType::kBF16, 64));
  written(held.tensors);
  const auto file = folder_.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THAT([&] { Checkpoint::open(folder_.path()); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("\"module.weight_format\" ends at"),
                                              HasSubstr("expected a complete file"))));
}

}  // namespace
}  // namespace lacuna::panel_tensors_test
