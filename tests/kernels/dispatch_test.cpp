#include "kernels/dispatch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "definitions.h"

namespace lacuna::dispatch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr CpuFeatures kNothing{};

/// A CPU, and the table that is the widest there. Each has what the ones before have.
struct Cpu {
  std::string_view widest;
  CpuFeatures features;
};
#if defined(__x86_64__)
constexpr Cpu kCpus[] = {{"scalar", {}},
                         {"avx2", {.avx2 = true}},
                         {"avx512", {.avx2 = true, .avx512 = true}},
                         {"amx", {.avx2 = true, .avx512 = true, .amx = true}}};
constexpr const char* kNames = "scalar, avx2, avx512 or amx";
constexpr const char* kNameOfAnother = "neon";
#elif defined(__aarch64__)
constexpr Cpu kCpus[] = {
    {"scalar", {}}, {"neon", {.neon = true}}, {"neon-i8mm", {.neon = true, .neon_i8mm = true}}};
constexpr const char* kNames = "scalar, neon or neon-i8mm";
constexpr const char* kNameOfAnother = "avx2";
#else
constexpr Cpu kCpus[] = {{"scalar", {}}};
constexpr const char* kNames = "expected scalar";
constexpr const char* kNameOfAnother = "neon";
#endif

std::string refusal(const CpuFeatures& features, std::string_view wanted) {
  try {
    choose_table(features, wanted);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(ChooseTable, TakesTheWidestThatTheMachineHas) {
  for (const Cpu& cpu : kCpus) EXPECT_EQ(choose_table(cpu.features, "").name, cpu.widest);
}

TEST(ChooseTable, TakesANarrowerOneWhenAsked) {
  for (const Cpu& cpu : kCpus)
    EXPECT_EQ(choose_table(std::rbegin(kCpus)->features, cpu.widest).name, cpu.widest);
}

TEST(ChooseTable, RefusesWhatTheMachineLacks) {
  CpuFeatures lacking = kNothing;
  for (const Cpu& cpu : kCpus) {
    if (cpu.widest == "scalar") continue;
    EXPECT_THAT(refusal(lacking, cpu.widest),
                AllOf(HasSubstr("LACUNA_ISA"), HasSubstr(fmt::format("'{}'", cpu.widest))));
    lacking = cpu.features;
  }
}

TEST(ChooseTable, AnswersAnUnknownNameWithTheKnownOnes) {
  for (const std::string_view name :
       {"sse9", "AVX2", "avx2 ", "amx,avx2", "Neon", "neon_i8mm", kNameOfAnother})
    EXPECT_THAT(refusal(std::rbegin(kCpus)->features, name),
                AllOf(HasSubstr("LACUNA_ISA"), HasSubstr(std::string(name)), HasSubstr(kNames)));
}

TEST(ChooseTable, FillsEveryFunctionOfEveryTable) {
  for (const Cpu& cpu : kCpus) {
    const KernelTable table = choose_table(cpu.features, cpu.widest);
    EXPECT_TRUE(table.bf16_row_element_bytes == 2 || table.bf16_row_element_bytes == 4);
    EXPECT_TRUE(table.pack_row_bf16 && table.panel_product_f32 && table.panel_product_bf16);
    EXPECT_TRUE(table.panel_product_f32_quantized && table.panel_product_bf16_quantized);
    EXPECT_TRUE(table.softmax_numerators && table.rms_norm && table.rope && table.swiglu && table.geglu &&
                table.squared_relu && table.soft_cap && table.add_scaled && table.multiply);
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
  EXPECT_TRUE(features.neon || !features.neon_i8mm);
}

}  // namespace
}  // namespace lacuna::dispatch_test
