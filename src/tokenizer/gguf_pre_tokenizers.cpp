#include "tokenizer/gguf_pre_tokenizers.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace lacuna {
namespace {

// Expressions from the models' tokenizer.json, or else from llama.cpp (src/llama-vocab.cpp).

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kThreeAsciiDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMinicpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kWithoutContractions =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kLinesAndNewlines = R"([^\n]+|\n+)";
constexpr std::string_view kDefaultPunctuation = R"([\p{P}$+<=>^~|]+)";
constexpr std::string_view kFalconPunctuation = R"([\p{P}$+<=>^~|`]+)";

// DeepSeek: cased letters, except some ranges that DeepSeek's own list lacks.
constexpr std::string_view kNewline = R"([\r\n])";
constexpr std::string_view kCasedLetters =
    R"(\s?(?:(?![\x{560}-\x{588}\x{10c7}-\x{10ff}\x{1c80}-\x{1c88}\x{2d00}-\x{2d2d}\x{a790}-\x{ab68}\x{10570}-\x{105bc}\x{16e40}-\x{1df1e}])[\p{Lu}\p{Ll}\p{Lt}])+)";
constexpr std::string_view kWidePunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kFinalSpace = R"(\s+$)";
constexpr std::string_view kEastAsian = R"([一-龥ࠀ-一가-퟿]+)";
constexpr std::string_view kLetters = R"(\s?\p{L}+)";
constexpr std::string_view kPunctuation = R"(\s?\p{P}+)";
constexpr std::string_view kHanAndKana = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

template <size_t names, size_t expressions>
constexpr GgufPreTokenizer way(const std::string_view (&of_names)[names],
                               const std::string_view (&of_expressions)[expressions], bool normalizes = false,
                               bool ignores_merges = false) {
  return {of_names, of_expressions, normalizes, ignores_merges};
}

constexpr bool kNfc = true, kIgnoresMerges = true;

constexpr std::string_view kDefaultNames[] = {"default"};
constexpr std::string_view kDefaultWay[] = {kDefaultPunctuation, kGpt2, kDigits, kThreeAsciiDigits};
constexpr std::string_view kGpt2Names[] = {
    "gpt-2",    "phi-2",           "gigachat", "a.x-4.0", "mellum",     "exaone4",    "jais",
    "trillion", "granite-docling", "jina-es",  "jina-de", "jina-v2-es", "jina-v2-de", "modern-bert"};
constexpr std::string_view kGpt2NfcNames[] = {"mpt", "olmo"};
constexpr std::string_view kGpt2Way[] = {kGpt2};
constexpr std::string_view kLlama3Names[] = {"llama-bpe", "llama3",  "llama-v3",    "falcon3",
                                             "falcon-h1", "pixtral", "midm-2.0",    "lfm2",
                                             "glm4",      "glm5",    "jina-v5-nano"};
constexpr std::string_view kLlama3MergingNames[] = {"dbrx", "smaug-bpe", "chatglm-bpe"};
constexpr std::string_view kLlama3Way[] = {kLlama3};
constexpr std::string_view kQwen2Names[] = {"qwen2", "deepseek-r1-qwen"};
constexpr std::string_view kQwen2PlainNames[] = {"stablelm2", "megrez", "hunyuan",   "kormo",
                                                 "f2llmv2",   "grok-2", "solar-open"};
constexpr std::string_view kQwen2Way[] = {kQwen2Pattern};
constexpr std::string_view kQwen35Names[] = {"qwen35"};
constexpr std::string_view kQwen35Way[] = {kQwen35};
constexpr std::string_view kSmollmNames[] = {"smollm", "starcoder",  "refact", "codeshell",
                                             "exaone", "minerva-7b", "mellum2"};
constexpr std::string_view kCommandRNames[] = {"command-r"};
constexpr std::string_view kSmollmWay[] = {kDigit, kGpt2};
constexpr std::string_view kFalconNames[] = {"falcon"};
constexpr std::string_view kFalconWay[] = {kFalconPunctuation, kGpt2, kThreeAsciiDigits};
constexpr std::string_view kDeepseekLlmNames[] = {"deepseek-llm"};
constexpr std::string_view kDeepseekLlmWay[] = {kNewline,    kCasedLetters, kWidePunctuation,
                                                kFinalSpace, kEastAsian,    kDigits};
constexpr std::string_view kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr std::string_view kDeepseekCoderWay[] = {kNewline, kLetters, kPunctuation, kEastAsian, kDigit};
constexpr std::string_view kDeepseek3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};
constexpr std::string_view kDeepseek3Way[] = {kThreeDigits, kHanAndKana, kDeepseek3};
constexpr std::string_view kTekkenNames[] = {"tekken"};
constexpr std::string_view kTekkenWay[] = {kTekken};
constexpr std::string_view kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr std::string_view kGpt4oWay[] = {kGpt4o};
constexpr std::string_view kBailingNames[] = {"llada-moe", "bailingmoe", "bailingmoe2"};
constexpr std::string_view kBailingWay[] = {kBailing};
constexpr std::string_view kSeedCoderNames[] = {"seed-coder"};
constexpr std::string_view kSeedCoderWay[] = {kSeedCoderSplit};
constexpr std::string_view kBloomNames[] = {"bloom", "poro-chat", "gpt3-finnish"};
constexpr std::string_view kBloomWay[] = {kBloom};
constexpr std::string_view kVikingNames[] = {"viking"};
constexpr std::string_view kVikingWay[] = {kBloom, kDigit};
constexpr std::string_view kMinicpm5Names[] = {"minicpm5"};
constexpr std::string_view kMinicpm5Way[] = {kThreeDigits, kMinicpm5};
constexpr std::string_view kExaoneMoeNames[] = {"exaone-moe"};
constexpr std::string_view kExaoneMoeWay[] = {kExaoneMoe};
constexpr std::string_view kLagunaNames[] = {"laguna"};
constexpr std::string_view kLagunaWay[] = {kLinesAndNewlines, kQwen2Pattern};
constexpr std::string_view kUfakzekaNames[] = {"ufakzeka"};
constexpr std::string_view kUfakzekaWay[] = {kWithoutContractions};

constexpr std::array kWays = {
    way(kDefaultNames, kDefaultWay),
    way(kGpt2Names, kGpt2Way),
    way(kGpt2NfcNames, kGpt2Way, kNfc),
    way(kLlama3Names, kLlama3Way, false, kIgnoresMerges),
    way(kLlama3MergingNames, kLlama3Way),
    way(kQwen2Names, kQwen2Way, kNfc),
    way(kQwen2PlainNames, kQwen2Way),
    way(kQwen35Names, kQwen35Way),
    way(kSmollmNames, kSmollmWay),
    way(kCommandRNames, kSmollmWay, kNfc),
    way(kFalconNames, kFalconWay),
    way(kDeepseekLlmNames, kDeepseekLlmWay),
    way(kDeepseekCoderNames, kDeepseekCoderWay),
    way(kDeepseek3Names, kDeepseek3Way),
    way(kTekkenNames, kTekkenWay, false, kIgnoresMerges),
    way(kGpt4oNames, kGpt4oWay),
    way(kBailingNames, kBailingWay),
    way(kSeedCoderNames, kSeedCoderWay),
    way(kBloomNames, kBloomWay),
    way(kVikingNames, kVikingWay),
    way(kMinicpm5Names, kMinicpm5Way, false, kIgnoresMerges),
    way(kExaoneMoeNames, kExaoneMoeWay),
    way(kLagunaNames, kLagunaWay),
    way(kUfakzekaNames, kUfakzekaWay),
};

}  // namespace

const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& way : kWays) {
    for (const std::string_view known : way.names) {
      if (known == name) return &way;
    }
  }
  return nullptr;
}

std::string gguf_pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const GgufPreTokenizer& way : kWays) names.insert(names.end(), way.names.begin(), way.names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace lacuna
