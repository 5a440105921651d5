#include "kernels/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "definitions.h"

namespace lacuna::dispatch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr CpuFeatures kNothing{};

/// A CPU, and the table that is the fastest there. Each has what the ones before have.
struct Cpu {
  std::string_view fastest;
  CpuFeatures features;
};
#if defined(__x86_64__)
constexpr Cpu kCpus[] = {
    {"scalar", {}},
    {"avx2", {.avx2 = true}},
    {"avx512-fma", {.avx2 = true, .avx512_fma = true}},
    {"avx512", {.avx2 = true, .avx512_fma = true, .avx512 = true, .fast_bf16_dots = true}},
    {"amx", {.avx2 = true, .avx512_fma = true, .avx512 = true, .fast_bf16_dots = true, .amx = true}}};
constexpr const char* kNames = "scalar, avx2, avx512-fma, avx512 or amx";
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

TEST(ChooseTable, TakesTheFastestThatTheMachineHas) {
  for (const Cpu& cpu : kCpus) EXPECT_EQ(choose_table(cpu.features, "").name, cpu.fastest);
}

TEST(ChooseTable, TakesANarrowerOneWhenAsked) {
  for (const Cpu& cpu : kCpus)
    EXPECT_EQ(choose_table(std::rbegin(kCpus)->features, cpu.fastest).name, cpu.fastest);
}

#if defined(__x86_64__)
// Intel's bf16 dot products of AVX-512 run at half the rate of its FMA.
TEST(ChooseTable, TakesDotProductsOfBf16OnlyWhereTheyAreFast) {
  CpuFeatures intel{.avx2 = true, .avx512_fma = true, .avx512 = true};
  EXPECT_EQ(choose_table(intel, "").name, "avx512-fma");
  EXPECT_EQ(choose_table(intel, "avx512").name, "avx512");
  intel.amx = true;
  EXPECT_EQ(choose_table(intel, "").name, "amx");
}
#endif

TEST(ChooseTable, RefusesWhatTheMachineLacks) {
  CpuFeatures lacking = kNothing;
  for (const Cpu& cpu : kCpus) {
    if (cpu.fastest == "scalar") continue;
    EXPECT_THAT(refusal(lacking, cpu.fastest),
                AllOf(HasSubstr("LACUNA_ISA"), HasSubstr(fmt::format("'{}'", cpu.fastest))));
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
    const KernelTable table = choose_table(cpu.features, cpu.fastest);
    EXPECT_TRUE(table.bf16_row_element_bytes == 2 || table.bf16_row_element_bytes == 4);
    EXPECT_TRUE(table.pack_row_bf16 && table.panel_product_f32 && table.panel_product_bf16);
    EXPECT_TRUE(table.panel_product_f32_quantized && table.panel_product_bf16_quantized);
    EXPECT_TRUE(table.softmax_numerators && table.rms_norm && table.rope && table.swiglu && table.geglu &&
                table.squared_relu && table.soft_cap && table.add_scaled && table.multiply);
    EXPECT_TRUE(table.max_index && table.exp_sums && table.sum);
  }
}

TEST(SupportedTables, BeginWithScalarAndHaveTheDefault) {
  const std::vector<KernelTable> tables = supported_tables();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables.front().name, "scalar");
  const std::string_view fastest = choose_table(detect_cpu(), "").name;
  EXPECT_TRUE(std::ranges::any_of(tables, [&](const KernelTable& table) { return table.name == fastest; }));
}

TEST(DefaultTable, IsTheOneThatTheEnvironmentNamesOrTheFastest) {
  const char* wanted = std::getenv("LACUNA_ISA");
  EXPECT_EQ(default_table().name, choose_table(detect_cpu(), wanted == nullptr ? "" : wanted).name);
}

TEST(DetectCpu, GivesWiderInstructionSetsOnlyWithTheNarrowerOnes) {
  const CpuFeatures features = detect_cpu();
  EXPECT_TRUE(features.avx512 || !features.amx);
  EXPECT_TRUE(features.avx2 || !features.avx512_fma);
  EXPECT_TRUE(features.avx512_fma || !features.avx512);
  EXPECT_TRUE(features.avx512 || !features.fast_bf16_dots);
  EXPECT_TRUE(features.neon || !features.neon_i8mm);
}

}  // namespace
}  // namespace lacuna::dispatch_test
