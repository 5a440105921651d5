#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/gguf.h"
#include "base/json.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kWholeJson = "tokenizer.huggingface.json";
constexpr std::string_view kPre = "tokenizer.ggml.pre", kSpacePrefix = "tokenizer.ggml.add_space_prefix";

enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Gemma 4: files lack tokenizer.ggml.pre, so the model's name determines the rules.
void split_as_gemma(const GgufFile& file, TokenizerParts& parts) {
  const std::string_view pre = file.text(kPre, "gemma4");
  if (pre != "gemma4" && pre != "default") file.refuse(kPre, "gemma4 or default with the model gemma4");
  if (file.flag(kSpacePrefix, false)) file.refuse(kSpacePrefix, "false with the model gemma4");
  parts.normalization = {escaped_spaces_rule()};
  parts.pre_tokenizer = {SplitRule{.pattern = "\n+"}};
  parts.bpe.whole_newline_runs = true;
}

// Files without tokenizer.ggml.pre use llama.cpp's default.
void split_by_name(const GgufFile& file, TokenizerParts& parts) {
  const GgufPreTokenizer* const known = gguf_pre_tokenizer(file.text(kPre, "default"));
  if (known == nullptr) file.refuse(kPre, fmt::format("one of {}", gguf_pre_tokenizer_names()));
  if (known->normalizes) parts.normalization = {Normalization::kNfc};
  for (const std::string_view expression : known->expressions)
    parts.pre_tokenizer.emplace_back(SplitRule{.pattern = std::string(expression)});
  parts.pre_tokenizer.emplace_back(ByteLevelRule{.use_regex = false});
  parts.bpe.ignore_merges = known->ignores_merges;
}

// SentencePiece's tokenizer of Llama 2 and Gemma: no pre-tokenizer; scores determine the merges.
void read_scores(const GgufFile& file, TokenizerParts& parts) {
  constexpr std::string_view kScores = "tokenizer.ggml.scores";
  const std::vector<double>& scores = file.numbers(kScores);
  const size_t num_tokens = file.texts(kTokens).size();
  if (scores.size() != num_tokens) {
    throw InputError("{}: {} holds {} scores for {} tokens; expected one for each", file.name(),
                     in_quotes(kScores), scores.size(), num_tokens);
  }
  for (const double score : scores) {
    if (!std::isfinite(score))
      throw InputError("{}: {} holds {}; expected finite numbers", file.name(), in_quotes(kScores), score);
    parts.bpe.scores.push_back(score);
  }
  if (file.flag(kSpacePrefix, true)) parts.normalization.emplace_back(escaped_space_before_rule());
  parts.normalization.emplace_back(escaped_spaces_rule());
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

///   is_scored  whether scores determine the merges, so that added tokens need no entry
void read_token(const GgufFile& file, const std::string& text, TokenId id, int64_t type, bool is_scored,
                TokenizerParts& parts) {
  const bool has_characters = parts.bpe.symbols == BpeSymbols::kCharacters;
  switch (type) {
    case kUnknown:
      if (is_scored) parts.bpe.unk_token = text;
      return add_entry(file, text, id, parts.bpe);
    case kNormal:
      return add_entry(file, text, id, parts.bpe);
    case kControl:
    case kUserDefined:
      parts.added_tokens.push_back({.id = id, .content = text, .special = type == kControl});
      // Merges may refer to added tokens, as in the original tokenizer.json.
      if (has_characters && !is_scored) add_entry(file, text, id, parts.bpe);
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

void read_tokens(const GgufFile& file, bool is_scored, TokenizerParts& parts) {
  const auto& tokens = file.texts(kTokens);
  if (tokens.size() > static_cast<size_t>(kMaxTokenId) + 1) {
    throw InputError("{}: {} holds {} tokens; expected at most {}", file.name(), in_quotes(kTokens),
                     tokens.size(), kMaxTokenId + 1);
  }
  const std::vector<int64_t> all_normal(file.has(kTypes) ? 0 : tokens.size(), kNormal);
  const std::vector<int64_t>& types = file.has(kTypes) ? file.integers(kTypes) : all_normal;
  if (types.size() != tokens.size()) {
    throw InputError("{}: {} holds {} types for {} tokens; expected one for each", file.name(),
                     in_quotes(kTypes), types.size(), tokens.size());
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    read_token(file, std::string(tokens[i]), static_cast<TokenId>(i), types[i], is_scored, parts);
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
  if (model != "gpt2" && model != "gemma4" && model != "llama") {
    file.refuse("tokenizer.ggml.model",
                "gpt2 (byte-level BPE), gemma4 (BPE over characters) or llama (SentencePiece's BPE)");
  }
  const bool is_scored = model == "llama";
  TokenizerParts parts;
  parts.name = file.name();
  parts.bpe.symbols = model == "gpt2" ? BpeSymbols::kBytes : BpeSymbols::kCharacters;
  parts.bpe.vocab_name = fmt::format("{}: {}", file.name(), kTokens);
  parts.bpe.merges_name = fmt::format("{}: {}", file.name(), kMerges);
  read_tokens(file, is_scored, parts);
  if (is_scored) {
    read_scores(file, parts);
    return parts;
  }
  parts.bpe.merges = read_merges(file);
  if (model == "gpt2") {
    split_by_name(file, parts);
  } else {
    split_as_gemma(file, parts);
  }
  return parts;
}

TokenizerTexts gguf_tokenizer_texts(const GgufFile& file) {
  // Texts of a GGUF file may be ill-formed UTF-8.
  const auto text_of = [](const nlohmann::json& json) { return dump_json(json, 2); };
  nlohmann::json config = gguf_template_config(file);
  for (const char* const name : {"add_bos_token", "add_eos_token"}) {
    const std::string key = std::string("tokenizer.ggml.") + name;
    if (file.has(key)) config[name] = file.flag(key);
  }
  return {.tokenizer = file.has(kWholeJson) ? std::string(file.text(kWholeJson))
                                            : text_of(tokenizer_json(read_gguf_tokenizer(file))),
          .tokenizer_config = text_of(config)};
}

}  // namespace lacuna
