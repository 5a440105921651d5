#include "tokenizer/gguf_pre_tokenizers.h"

#include "base/name_list.h"

namespace lacuna {
namespace {

// Expressions from the models' tokenizer.json, or else from llama.cpp (src/llama-vocab.cpp).

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

constexpr bool kNfc = true, kIgnoresMerges = true;

const std::vector<GgufPreTokenizer>& ways() {
  static const std::vector<GgufPreTokenizer> all = {
      {"default", {kDefaultPunctuation, kGpt2Pattern, kDigits, kThreeAsciiDigits}},
      {"gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling jina-es jina-de "
       "jina-v2-es jina-v2-de modern-bert",
       {kGpt2Pattern}},
      {"mpt olmo", {kGpt2Pattern}, kNfc},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 glm4 glm5 jina-v5-nano",
       {kLlama3},
       false,
       kIgnoresMerges},
      {"dbrx smaug-bpe chatglm-bpe", {kLlama3}},
      {"qwen2 deepseek-r1-qwen", {kQwen2Pattern}, kNfc},
      {"stablelm2 megrez hunyuan kormo f2llmv2 grok-2 solar-open", {kQwen2Pattern}},
      {"qwen35", {kQwen35}},
      {"smollm starcoder refact codeshell exaone minerva-7b mellum2", {kDigit, kGpt2Pattern}},
      {"command-r", {kDigit, kGpt2Pattern}, kNfc},
      {"falcon", {kFalconPunctuation, kGpt2Pattern, kThreeAsciiDigits}},
      {"deepseek-llm", {kNewline, kCasedLetters, kWidePunctuation, kFinalSpace, kEastAsian, kDigits}},
      {"deepseek-coder", {kNewline, kLetters, kPunctuation, kEastAsian, kDigit}},
      {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {kThreeDigits, kHanAndKana, kDeepseek3}},
      {"tekken", {kTekken}, false, kIgnoresMerges},
      {"gpt-4o llama4 kanana2 talkie minimax-m2", {kGpt4o}},
      {"llada-moe bailingmoe bailingmoe2", {kBailing}},
      {"seed-coder", {kSeedCoderSplit}},
      {"bloom poro-chat gpt3-finnish", {kBloom}},
      {"viking", {kBloom, kDigit}},
      {"minicpm5", {kThreeDigits, kMinicpm5}, false, kIgnoresMerges},
      {"exaone-moe", {kExaoneMoe}},
      {"laguna", {kLinesAndNewlines, kQwen2Pattern}},
      {"ufakzeka", {kWithoutContractions}},
  };
  return all;
}

}  // namespace

const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& way : ways()) {
    if (has_name(way.names, name)) return &way;
  }
  return nullptr;
}

std::string gguf_pre_tokenizer_names() {
  std::string names;
  for (const GgufPreTokenizer& way : ways()) {
    if (!names.empty()) names += ", ";
    for (const char c : way.names) names += c == ' ' ? ", " : std::string(1, c);
  }
  return names;
}

}  // namespace lacuna
