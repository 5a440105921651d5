#include "kernels/dispatch.h"

#include <cstdlib>

#include "base/error.h"
#include "definitions.h"

namespace lacuna::dispatch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr CpuFeatures kNothing{};
constexpr CpuFeatures kAvx2{.avx2 = true};
constexpr CpuFeatures kAvx512{.avx2 = true, .avx512 = true};
constexpr CpuFeatures kAmx{.avx2 = true, .avx512 = true, .amx = true};

std::string refusal(const CpuFeatures& features, std::string_view wanted) {
  try {
    choose_table(features, wanted);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(ChooseTable, TakesTheWidestThatTheMachineHas) {
  EXPECT_EQ(choose_table(kNothing, "").name, "scalar");
  EXPECT_EQ(choose_table(kAvx2, "").name, "avx2");
  EXPECT_EQ(choose_table(kAvx512, "").name, "avx512");
  EXPECT_EQ(choose_table(kAmx, "").name, "amx");
}

TEST(ChooseTable, TakesANarrowerOneWhenAsked) {
  for (const std::string_view name : {"scalar", "avx2", "avx512", "amx"}) {
    EXPECT_EQ(choose_table(kAmx, name).name, name);
  }
}

TEST(ChooseTable, RefusesWhatTheMachineLacks) {
  EXPECT_THAT(refusal(kNothing, "avx2"), AllOf(HasSubstr("LACUNA_ISA"), HasSubstr("'avx2'")));
  EXPECT_THAT(refusal(kAvx2, "avx512"), AllOf(HasSubstr("LACUNA_ISA"), HasSubstr("'avx512'")));
  EXPECT_THAT(refusal(kAvx512, "amx"), AllOf(HasSubstr("LACUNA_ISA"), HasSubstr("'amx'")));
}

TEST(ChooseTable, AnswersAnUnknownNameWithTheKnownOnes) {
  for (const std::string_view name : {"sse9", "AVX2", "avx2 ", "amx,avx2"}) {
    EXPECT_THAT(refusal(kAmx, name), AllOf(HasSubstr("LACUNA_ISA"), HasSubstr(std::string(name)),
                                           HasSubstr("scalar, avx2, avx512 or amx")));
  }
}

TEST(ChooseTable, FillsEveryFunctionOfEveryTable) {
  for (const std::string_view name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelTable table = choose_table(kAmx, name);
    EXPECT_TRUE(table.bf16_row_element_bytes == 2 || table.bf16_row_element_bytes == 4);
    EXPECT_TRUE(table.pack_row_bf16 && table.panel_product_f32 && table.panel_product_bf16);
    EXPECT_TRUE(table.softmax_numerators && table.rms_norm && table.rope && table.swiglu &&
                table.squared_relu && table.soft_cap && table.add_scaled);
    EXPECT_TRUE(table.max_index && table.exp_sums && table.sum);
  }
}

TEST(SupportedTables, BeginWithScalarAndEndWithTheWidest) {
  const std::vector<KernelTable> tables = supported_tables();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables.front().name, "scalar");
  EXPECT_EQ(tables.back().name, choose_table(detect_cpu(), "").name);
}

TEST(DefaultTable, IsTheOneThatTheEnvironmentNamesOrTheWidest) {
  const char* wanted = std::getenv("LACUNA_ISA");
  EXPECT_EQ(default_table().name, choose_table(detect_cpu(), wanted == nullptr ? "" : wanted).name);
}

TEST(DetectCpu, GivesWiderInstructionSetsOnlyWithTheNarrowerOnes) {
  const CpuFeatures features = detect_cpu();
  EXPECT_TRUE(features.avx512 || !features.amx);
  EXPECT_TRUE(features.avx2 || !features.avx512);
}

}  // namespace
}  // namespace lacuna::dispatch_test
