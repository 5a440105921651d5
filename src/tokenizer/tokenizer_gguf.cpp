#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/gguf.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kWholeJson = "tokenizer.huggingface.json";

enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Taken from the models' tokenizer.json, of which converters keep only the name.
constexpr std::string_view kBailingPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct PreTokenizerName {
  std::string_view name;
  std::string_view pattern;  ///< empty: GPT-2's own
  bool normalizes = false;   ///< to NFC
  bool ignores_merges = false;
};

/// Accepted values of tokenizer.ggml.pre.
const std::array kPreTokenizers = {
    PreTokenizerName{"qwen2", kQwen2Pattern, true},
    PreTokenizerName{"deepseek-r1-qwen", kQwen2Pattern, true},
    PreTokenizerName{"llada-moe", kBailingPattern},
    PreTokenizerName{"bailingmoe", kBailingPattern},
    PreTokenizerName{"bailingmoe2", kBailingPattern},
    PreTokenizerName{"llama-bpe", kLlama3Pattern, false, true},
    PreTokenizerName{"llama3", kLlama3Pattern, false, true},
    PreTokenizerName{"gpt-2", ""},
};

// Gemma 4. Files have no tokenizer.ggml.pre; the rules belong to the model's name.
void split_as_gemma(const GgufFile& file, TokenizerParts& parts) {
  constexpr std::string_view kPre = "tokenizer.ggml.pre", kPrefix = "tokenizer.ggml.add_space_prefix";
  const std::string_view pre = file.text(kPre, "gemma4");
  if (pre != "gemma4" && pre != "default") file.refuse(kPre, "gemma4 or default with the model gemma4");
  if (file.flag(kPrefix, false)) file.refuse(kPrefix, "false with the model gemma4");
  parts.normalization = {Normalization::kEscapeSpaces};
  parts.pre_tokenizer = {SplitRule{.pattern = "\n+"}};
  parts.bpe.whole_newline_runs = true;
}

void choose_split(const GgufFile& file, TokenizerParts& parts) {
  if (parts.bpe.symbols == BpeSymbols::kCharacters) return split_as_gemma(file, parts);
  const std::string_view name = file.text("tokenizer.ggml.pre", "gpt-2");
  const auto* known = std::find_if(kPreTokenizers.begin(), kPreTokenizers.end(),
                                   [&](const PreTokenizerName& candidate) { return candidate.name == name; });
  if (known == kPreTokenizers.end()) {
    file.refuse("tokenizer.ggml.pre",
                "qwen2, deepseek-r1-qwen, llada-moe, bailingmoe, bailingmoe2, llama-bpe, llama3 or gpt-2");
  }
  if (known->normalizes) parts.normalization = {Normalization::kNfc};
  if (!known->pattern.empty()) parts.pre_tokenizer = {SplitRule{.pattern = std::string(known->pattern)}};
  parts.pre_tokenizer.emplace_back(ByteLevelRule{.use_regex = known->pattern.empty()});
  parts.bpe.ignore_merges = known->ignores_merges;
}

std::vector<std::pair<std::string, std::string>> read_merges(const GgufFile& file) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string_view merge : file.texts(kMerges)) {
    const size_t space = merge.find(' ');
    if (space == merge.npos || merge.find(' ', space + 1) != merge.npos) {
      throw InputError("{}: {} holds {}; expected two tokens with a space between them", file.name(),
                       in_quotes(kMerges), in_quotes(merge));
    }
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

void add_entry(const GgufFile& file, const std::string& text, TokenId id, BpeParts& parts) {
  if (!parts.vocab.emplace(text, id).second) {
    throw InputError("{}: {} holds {} twice", file.name(), in_quotes(kTokens), in_quotes(text));
  }
}

void read_token(const GgufFile& file, const std::string& text, TokenId id, int64_t type,
                TokenizerParts& parts) {
  const bool has_characters = parts.bpe.symbols == BpeSymbols::kCharacters;
  switch (type) {
    case kNormal:
    case kUnknown:
      return add_entry(file, text, id, parts.bpe);
    case kControl:
    case kUserDefined:
      parts.added_tokens.push_back({.id = id, .content = text, .special = type == kControl});
      // Merges may name them, as in the tokenizer.json that the file was made of.
      if (has_characters) add_entry(file, text, id, parts.bpe);
      return;
    case kUnused:
      return;
    case kByte:
      if (has_characters && byte_of_token(text)) return add_entry(file, text, id, parts.bpe);
      break;
    default:
      break;
  }
  throw InputError("{}: {} gives {} the type {}; expected 1 to 5{}", file.name(), in_quotes(kTypes),
                   in_quotes(text), type, has_characters ? ", or 6 for <0x00> to <0xFF>" : "");
}

void read_tokens(const GgufFile& file, TokenizerParts& parts) {
  const auto& tokens = file.texts(kTokens);
  if (tokens.size() > static_cast<size_t>(Tokenizer::kTokenIdMax) + 1) {
    throw InputError("{}: {} holds {} tokens; expected at most {}", file.name(), in_quotes(kTokens),
                     tokens.size(), Tokenizer::kTokenIdMax + 1);
  }
  const std::vector<int64_t> all_normal(file.has(kTypes) ? 0 : tokens.size(), kNormal);
  const std::vector<int64_t>& types = file.has(kTypes) ? file.integers(kTypes) : all_normal;
  if (types.size() != tokens.size()) {
    throw InputError("{}: {} holds {} types for {} tokens; expected one for each", file.name(),
                     in_quotes(kTypes), types.size(), tokens.size());
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    read_token(file, std::string(tokens[i]), static_cast<TokenId>(i), types[i], parts);
  }
}

}  // namespace

bool has_gguf_tokenizer(const GgufFile& file) {
  return file.has(kTokens) || file.has(kWholeJson);
}

TokenizerParts read_gguf_tokenizer(const GgufFile& file) {
  if (file.has(kWholeJson)) {
    const nlohmann::json document = parse_json(file.text(kWholeJson), file.name());
    return read_tokenizer_json(JsonValue(document, file.name()));
  }
  const std::string_view model = file.text("tokenizer.ggml.model");
  if (model != "gpt2" && model != "gemma4") {
    file.refuse("tokenizer.ggml.model", "gpt2 (byte-level BPE) or gemma4 (BPE over characters)");
  }
  TokenizerParts parts;
  parts.name = file.name();
  parts.bpe.symbols = model == "gpt2" ? BpeSymbols::kBytes : BpeSymbols::kCharacters;
  parts.bpe.vocab_name = fmt::format("{}: {}", file.name(), kTokens);
  parts.bpe.merges_name = fmt::format("{}: {}", file.name(), kMerges);
  read_tokens(file, parts);
  parts.bpe.merges = read_merges(file);
  choose_split(file, parts);
  return parts;
}

TokenizerTexts gguf_tokenizer_texts(const GgufFile& file) {
  // Texts of a file may be ill-formed.
  const auto text_of = [](const nlohmann::json& json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return {.tokenizer = file.has(kWholeJson) ? std::string(file.text(kWholeJson))
                                            : text_of(tokenizer_json(read_gguf_tokenizer(file))),
          .tokenizer_config = text_of(gguf_template_config(file))};
}

}  // namespace lacuna
