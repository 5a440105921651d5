#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna {
namespace {

// One "left right" per line. A first line "#version: 0.2" and empty lines are ignored.
std::vector<std::pair<std::string, std::string>> read_merges(const std::string& text,
                                                             const std::string& name) {
  std::vector<std::pair<std::string, std::string>> merges;
  std::string_view rest = text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    const size_t length = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw InputError("{}: line {} must be two tokens with a space between them", name, line_number);
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

// Collects the tokens that a config names as "eos_token", "additional_special_tokens" and so on: a string, an
// object with "content", or a list of these.
void collect_special_tokens(const JsonValue& config, std::set<std::string>& contents) {
  const auto collect = [&](const JsonValue& value) {
    contents.insert(value.json().is_object() ? value.at("content").string() : value.string());
  };
  for (const std::string_view key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (const auto value = config.find(key)) collect(*value);
  }
  if (const auto list = config.find("additional_special_tokens")) {
    for (const JsonValue& value : list->elements()) collect(value);
  }
}

struct SplitStyle {
  std::string_view tokenizer_class;
  bool is_gpt2;
};

// In folders without tokenizer.json the tokenizer's class determines the pre-tokenizer.
constexpr std::array kSplitStyles = std::to_array<SplitStyle>({
    {"Qwen2Tokenizer", false},
    {"Qwen2TokenizerFast", false},
    {"DreamTokenizer", false},
    {"PreTrainedTokenizer", false},
    {"PreTrainedTokenizerFast", false},
    {"GPT2Tokenizer", true},
    {"GPT2TokenizerFast", true},
});

void choose_split_style(const JsonValue& config, TokenizerParts& parts) {
  const std::string tokenizer_class = config.string_or("tokenizer_class", "Qwen2Tokenizer");
  const auto style = std::ranges::find(kSplitStyles, tokenizer_class, &SplitStyle::tokenizer_class);
  if (style == kSplitStyles.end()) {
    throw InputError(
        "{}: tokenizer_class '{}' is not known, and there is no tokenizer.json that says how it splits "
        "text",
        config.source(), tokenizer_class);
  }
  if (style->is_gpt2) {
    parts.pre_tokenizer = {ByteLevelRule{.add_prefix_space = config.boolean_or("add_prefix_space", false)}};
  } else {
    parts.normalization = {Normalization::kNfc};
    parts.pre_tokenizer = {SplitRule{.pattern = std::string(kQwen2Pattern)},
                           ByteLevelRule{.use_regex = false}};
  }
}

}  // namespace

TokenizerParts read_tokenizer_trio(const std::filesystem::path& folder) {
  const auto read_optional = [&](const char* file) {
    const auto path = folder / file;
    return has_file(path) ? parse_json(read_text_file(path), path.string()) : nlohmann::json::object();
  };
  const auto name_of = [&](const char* file) { return (folder / file).string(); };

  TokenizerParts parts;
  parts.name = folder.string();
  parts.bpe.vocab_name = name_of("vocab.json");
  parts.bpe.merges_name = name_of("merges.txt");
  const nlohmann::json vocab = parse_json(read_text_file(parts.bpe.vocab_name), parts.bpe.vocab_name);
  parts.bpe.vocab = read_token_ids(JsonValue(vocab, parts.bpe.vocab_name));
  parts.bpe.merges = read_merges(read_text_file(parts.bpe.merges_name), parts.bpe.merges_name);

  const nlohmann::json config = read_optional("tokenizer_config.json");
  const nlohmann::json special_map = read_optional("special_tokens_map.json");
  const nlohmann::json added = read_optional("added_tokens.json");
  std::set<std::string> special;
  collect_special_tokens(JsonValue(config, name_of("tokenizer_config.json")), special);
  collect_special_tokens(JsonValue(special_map, name_of("special_tokens_map.json")), special);
  for (const auto& [content, id] : read_token_ids(JsonValue(added, name_of("added_tokens.json")))) {
    const bool is_special = special.contains(content);
    parts.added_tokens.push_back(
        {.id = id, .content = content, .special = is_special, .normalized = !is_special});
  }
  choose_split_style(JsonValue(config, name_of("tokenizer_config.json")), parts);
  return parts;
}

void add_config_tokens(const JsonValue& config, TokenizerParts& parts) {
  const auto decoder = config.find("added_tokens_decoder");
  if (!decoder) return;
  std::unordered_map<std::string, size_t> known;  // index of the first added token with a content
  size_t index = 0;
  for (const AddedToken& token : parts.added_tokens) known.emplace(token.content, index++);
  for (const auto& item : decoder->object().items()) {
    const std::string& key = item.key();
    const JsonValue value = decoder->at(key);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
      throw InputError("{}: the key must be an id in [0, {}]", value.name(), kMaxTokenId);
    }
    const AddedToken token = read_added_token(value, id);
    const auto [entry, is_new] = known.emplace(token.content, parts.added_tokens.size());
    if (is_new) {
      parts.added_tokens.push_back(token);
      continue;
    }
    AddedToken& other = parts.added_tokens[entry->second];
    if (other.id != token.id)
      throw InputError("{}: '{}' already has id {}", value.name(), token.content, other.id);
    other = token;
  }
}

}  // namespace lacuna
