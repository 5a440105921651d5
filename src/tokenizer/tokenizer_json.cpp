#include <algorithm>
#include <array>

#include "base/error.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_files.h"

namespace lacuna {
namespace {

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr std::array kNormalizations = std::to_array<Named<Normalization>>({
    {"NFC", Normalization::kNfc},
    {"NFD", Normalization::kNfd},
    {"NFKC", Normalization::kNfkc},
    {"NFKD", Normalization::kNfkd},
    {"Lowercase", Normalization::kLowercase},
    {"StripAccents", Normalization::kStripAccents},
    {"Nmt", Normalization::kNmt},
});

constexpr std::array kSplitBehaviors = std::to_array<Named<SplitBehavior>>({
    {"Isolated", SplitBehavior::kIsolated},
    {"Removed", SplitBehavior::kRemoved},
    {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
    {"MergedWithNext", SplitBehavior::kMergedWithNext},
    {"Contiguous", SplitBehavior::kContiguous},
});

constexpr std::array kPrependSchemes = std::to_array<Named<MetaspaceRule::Prepend>>({
    {"always", MetaspaceRule::Prepend::kAlways},
    {"first", MetaspaceRule::Prepend::kFirst},
    {"never", MetaspaceRule::Prepend::kNever},
});

template <typename Value, size_t count>
std::string names_of(const std::array<Named<Value>, count>& choices) {
  std::string names;
  for (const auto& choice : choices) names += fmt::format("{}{}", names.empty() ? "" : ", ", choice.name);
  return names;
}

template <typename Value, size_t count>
Value read_choice(const JsonValue& value, const std::array<Named<Value>, count>& choices) {
  for (const auto& choice : choices) {
    if (choice.name == value.string()) return choice.value;
  }
  throw InputError("{} is '{}'; supported are {}", value.name(), value.string(), names_of(choices));
}

void expect_text(const JsonValue& value, std::string_view expected) {
  if (value.string() == expected) return;
  throw InputError("{} is '{}'; expected '{}'", value.name(), value.string(), expected);
}

// Checks a decoder's Replace step.
void expect_replacement(const JsonValue& step, std::string_view from, std::string_view to) {
  expect_text(step.at("pattern").at("String"), from);
  expect_text(step.at("content"), to);
}

/// Calls `read` for `value`, or for each step in its member `list_key` if it is a Sequence.
template <typename Read>
void for_each_step(const JsonValue& value, std::string_view list_key, Read&& read, int depth = 0) {
  constexpr int kDepthMax = 8;  // nesting of sequences; published files have one or two
  if (value.at("type").string() != "Sequence") return read(value);
  if (depth == kDepthMax) throw InputError("{} is nested deeper than {}", value.name(), kDepthMax);
  for (const JsonValue& step : value.at(list_key).elements()) for_each_step(step, list_key, read, depth + 1);
}

struct Pattern {
  std::string text;
  Regex::Syntax syntax;
};

Pattern read_pattern(const JsonValue& step) {
  const JsonValue pattern = step.at("pattern");
  if (const auto literal = pattern.find("String")) return {literal->string(), Regex::Syntax::kLiteral};
  return {pattern.at("Regex").string(), Regex::Syntax::kExpression};
}

NormalizerRule read_normalizer_step(const JsonValue& step) {
  const JsonValue type = step.at("type");
  if (type.string() == "Replace") {
    auto [pattern, syntax] = read_pattern(step);
    return ReplaceRule{std::move(pattern), syntax, step.at("content").string()};
  }
  if (type.string() == "Prepend") return PrependRule{step.at("prepend").string()};
  if (type.string() == "Strip")
    return StripRule{step.boolean_or("strip_left", true), step.boolean_or("strip_right", true)};
  for (const auto& form : kNormalizations) {
    if (form.name == type.string()) return form.value;
  }
  throw InputError("{} is '{}'; supported are {}, Replace, Prepend, Strip and a Sequence of them",
                   type.name(), type.string(), names_of(kNormalizations));
}

SplitRule read_split(const JsonValue& value) {
  auto [pattern, syntax] = read_pattern(value);
  return {.pattern = std::move(pattern),
          .syntax = syntax,
          .behavior = read_choice(value.at("behavior"), kSplitBehaviors),
          .invert = value.boolean_or("invert", false)};
}

/// A rule that drops the matches of a pattern.
SplitRule dropped(std::string pattern, Regex::Syntax syntax = Regex::Syntax::kExpression) {
  return {.pattern = std::move(pattern), .syntax = syntax, .behavior = SplitBehavior::kRemoved};
}

SplitRule read_delimiter(const JsonValue& value) {
  const JsonValue delimiter = value.at("delimiter");
  const std::string& character = delimiter.string();
  if (character.empty() || first_character_bytes(character) != character.size())
    throw InputError("{} is {}; expected one character", delimiter.name(), in_quotes(character));
  return dropped(character, Regex::Syntax::kLiteral);
}

MetaspaceRule read_metaspace(const JsonValue& value) {
  expect_text(value.at("replacement"), kEscapedSpace);
  MetaspaceRule rule{.splits = value.boolean_or("split", true)};
  const auto prepend = value.find("prepend_scheme");
  if (prepend) rule.prepend = read_choice(*prepend, kPrependSchemes);
  // Older files have add_prefix_space instead of prepend_scheme.
  if (!value.boolean_or("add_prefix_space", true)) {
    if (prepend && rule.prepend != MetaspaceRule::Prepend::kNever)
      throw InputError("{} is '{}', and add_prefix_space is false; expected 'never'", prepend->name(),
                       prepend->string());
    rule.prepend = MetaspaceRule::Prepend::kNever;
  }
  return rule;
}

void read_pre_tokenizer_step(const JsonValue& value, std::vector<PreTokenizerRule>& rules) {
  constexpr const char* kMarks = R"([\p{P}$+<=>^`|~])";
  constexpr const char* kWhite = R"(\s)";
  const JsonValue type = value.at("type");
  const std::string& name = type.string();
  if (name == "ByteLevel") {
    rules.emplace_back(ByteLevelRule{.add_prefix_space = value.boolean_or("add_prefix_space", true),
                                     .use_regex = value.boolean_or("use_regex", true)});
  } else if (name == "Split") {
    rules.emplace_back(read_split(value));
  } else if (name == "Digits") {
    const bool individual = value.boolean_or("individual_digits", false);
    rules.emplace_back(
        SplitRule{.pattern = R"(\p{N})",
                  .behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (name == "Punctuation") {
    const auto behavior = value.find("behavior");
    rules.emplace_back(
        SplitRule{.pattern = kMarks,
                  .behavior = behavior ? read_choice(*behavior, kSplitBehaviors) : SplitBehavior::kIsolated});
  } else if (name == "Whitespace") {
    rules.emplace_back(
        SplitRule{.pattern = R"(\w+|[^\w\s]+)", .behavior = SplitBehavior::kRemoved, .invert = true});
  } else if (name == "WhitespaceSplit") {
    rules.emplace_back(dropped(kWhite));
  } else if (name == "BertPreTokenizer") {
    rules.emplace_back(dropped(kWhite));
    rules.emplace_back(SplitRule{.pattern = kMarks});
  } else if (name == "CharDelimiterSplit") {
    rules.emplace_back(read_delimiter(value));
  } else if (name == "Metaspace") {
    rules.emplace_back(read_metaspace(value));
  } else {
    throw InputError(
        "{} is '{}'; supported are ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, "
        "WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit and a Sequence of them",
        type.name(), name);
  }
}

// "left right", or ["left", "right"] in newer files.
std::pair<std::string, std::string> read_merge(const JsonValue& value) {
  const nlohmann::json& json = value.json();
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    return {json[0].get<std::string>(), json[1].get<std::string>()};
  }
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  throw InputError("{} must be \"left right\" or [\"left\", \"right\"]", value.name());
}

void refuse_unless_empty(const JsonValue& model, std::string_view key) {
  const auto value = model.find(key);
  if (value && !value->string().empty()) throw InputError("{} is not supported", value->name());
}

[[noreturn]] void refuse_byte_tokens(const JsonValue& vocab) {
  throw InputError("{} has {}, which stands for a byte, and byte_fallback is false; expected true",
                   vocab.name(), in_quotes(byte_token(0)));
}

/// kBytes if there is a ByteLevel step and no byte_fallback; else kCharacters.
BpeSymbols symbols_of(const JsonValue& model, const std::vector<PreTokenizerRule>& rules) {
  const auto is_byte_level = [](const PreTokenizerRule& rule) {
    return std::holds_alternative<ByteLevelRule>(rule);
  };
  const bool has_fallback = model.boolean_or("byte_fallback", false);
  if (!has_fallback && std::any_of(rules.begin(), rules.end(), is_byte_level)) return BpeSymbols::kBytes;
  const JsonValue vocab = model.at("vocab");
  if (!has_fallback && vocab.object().contains(byte_token(0))) refuse_byte_tokens(vocab);
  return BpeSymbols::kCharacters;
}

/// SentencePiece's Unigram: "vocab" is a list of [text, score], indexed by id.
BpeParts read_unigram(const JsonValue& model) {
  constexpr size_t kEntryBytesMax =
      1024;  // bounds the time per byte of text; published entries have at most 64 characters
  BpeParts parts;
  parts.symbols = BpeSymbols::kCharacters;
  parts.best_path = true;
  parts.fuse_unk = true;
  const JsonValue vocab = model.at("vocab");
  parts.vocab_name = vocab.name();
  const std::vector<JsonValue> entries = vocab.elements();
  if (entries.empty()) throw InputError("{} is empty; expected some tokens", vocab.name());
  for (const JsonValue& entry : entries) {
    const nlohmann::json& pair = entry.json();
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
      throw InputError("{} must be [\"text\", score]", entry.name());
    if (pair[0].get_ref<const std::string&>().size() > kEntryBytesMax)
      throw InputError("{} has a text of more than {} bytes", entry.name(), kEntryBytesMax);
    const auto id = static_cast<TokenId>(parts.scores.size());
    if (!parts.vocab.emplace(pair[0].get<std::string>(), id).second)
      throw InputError("{} has {} a second time", entry.name(), in_quotes(pair[0].get<std::string>()));
    parts.scores.push_back(pair[1].get<double>());
  }
  if (!model.boolean_or("byte_fallback", false) && parts.vocab.contains(byte_token(0)))
    refuse_byte_tokens(vocab);
  if (const auto unk = model.find("unk_id")) {
    if (unk->integer() < 0 || unk->integer() >= static_cast<int64_t>(entries.size()))
      throw InputError("{} is {}, outside [0, {}]", unk->name(), unk->integer(), entries.size() - 1);
    parts.unk_token = entries[static_cast<size_t>(unk->integer())].json()[0].get<std::string>();
  }
  return parts;
}

BpeParts read_model(const JsonValue& model, const std::vector<PreTokenizerRule>& pre_tokenizer) {
  // Old files lack the type.
  const std::string type = model.string_or("type", model.at("vocab").json().is_array() ? "Unigram" : "BPE");
  if (type == "Unigram") return read_unigram(model);
  if (type != "BPE") throw InputError("{}.type must be 'BPE' or 'Unigram', not '{}'", model.name(), type);
  refuse_unless_empty(model, "continuing_subword_prefix");
  refuse_unless_empty(model, "end_of_word_suffix");
  if (const auto dropout = model.find("dropout"); dropout && dropout->json() != 0) {
    throw InputError("{} must be 0 or null: merges are not left out at random", dropout->name());
  }
  BpeParts parts;
  parts.symbols = symbols_of(model, pre_tokenizer);
  parts.vocab_name = model.at("vocab").name();
  parts.vocab = read_token_ids(model.at("vocab"));
  parts.merges_name = model.at("merges").name();
  for (const JsonValue& merge : model.at("merges").elements()) parts.merges.push_back(read_merge(merge));
  parts.ignore_merges = model.boolean_or("ignore_merges", false);
  if (const auto unk = model.find("unk_token")) parts.unk_token = unk->string();
  parts.fuse_unk = model.boolean_or("fuse_unk", false);
  // This engine's own key, for settings that tokenizer.json cannot express.
  if (const auto own = model.find("lacuna")) {
    parts.whole_newline_runs = own->boolean_or("whole_newline_runs", false);
    if (const auto scores = own->find("scores")) {
      for (const JsonValue& score : scores->elements()) {
        if (!score.json().is_number()) throw InputError("{} must be a number", score.name());
        parts.scores.push_back(score.json().get<double>());
      }
    }
  }
  return parts;
}

/// Throws InputError unless the steps are known, distinct, and ordered as decoding token by token requires.
void check_decoder_order(const std::vector<JsonValue>& steps, std::string_view expected) {
  constexpr std::array<std::string_view, 4> kOrder = {"Replace", "ByteFallback", "Fuse", "Strip"};
  std::array<bool, kOrder.size()> seen = {};
  size_t last = 0;
  for (const JsonValue& step : steps) {
    const JsonValue type = step.at("type");
    // Metaspace replaces like Replace, and strips a space like Strip.
    const std::string_view name = type.string() == "Metaspace" ? kOrder[0] : std::string_view(type.string());
    const auto place = static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), name) - kOrder.begin());
    if (place == kOrder.size() || seen[place] || (place > 0 && place < last))
      throw InputError("{} is '{}'; {}", type.name(), type.string(), expected);
    seen[place] = true;
    last = std::max(last, place);
  }
}

// Tokens are decoded one by one; throws InputError if the file's decoder would give another result.
void check_decoder(const JsonValue& root, BpeSymbols symbols, bool has_fallback) {
  const auto decoder = root.find("decoder");
  std::vector<JsonValue> steps;
  if (decoder) for_each_step(*decoder, "decoders", [&](const JsonValue& step) { steps.push_back(step); });
  const auto has = [&](std::string_view name) {
    return std::any_of(steps.begin(), steps.end(),
                       [&](const JsonValue& step) { return step.at("type").string() == name; });
  };
  if (symbols == BpeSymbols::kBytes) {
    const bool fits = steps.size() == 1 || (steps.size() == 2 && steps[1].at("type").string() == "Fuse");
    if (!decoder || (fits && steps[0].at("type").string() == "ByteLevel")) return;
    throw InputError("{} must be ByteLevel, not {}", decoder->name(), decoder->at("type").string());
  }
  const std::string expected = fmt::format(
      "with {}, expected a Sequence of Replace (U+2581 by a space){} and Fuse",
      has_fallback ? "model.byte_fallback" : "no ByteLevel step", has_fallback ? ", ByteFallback" : "");
  if (!decoder) throw InputError("{} has no decoder; {}", root.name(), expected);
  check_decoder_order(steps, expected);
  if (has_fallback && !has("ByteFallback"))
    throw InputError("{} has no ByteFallback; {}", decoder->name(), expected);
  if (!has("Replace") && !has("Metaspace"))
    throw InputError("{} has no Replace; {}", decoder->name(), expected);
  // Strip removes SentencePiece's dummy prefix from the beginning of a text. It is ignored here, because an
  // answer follows a prompt and has no dummy prefix. Without Fuse before Strip, each token would lose one.
  if (has("Strip") && !has("Fuse"))
    throw InputError("{} has Strip without Fuse; {}", decoder->name(), expected);
  for (const JsonValue& step : steps) {
    const std::string& type = step.at("type").string();
    if (type == "Replace") expect_replacement(step, kEscapedSpace, " ");
    if (type == "Metaspace") expect_text(step.at("replacement"), kEscapedSpace);
    if (type != "Strip") continue;
    expect_text(step.at("content"), " ");
    if (step.at("start").integer() > 1 || step.at("stop").integer() != 0)
      throw InputError("{} takes more than one space from the beginning of a text; {}", step.name(),
                       expected);
  }
}

template <typename Value, size_t count>
std::string_view name_of(Value value, const std::array<Named<Value>, count>& choices) {
  for (const auto& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

nlohmann::json pattern_json(const std::string& pattern, Regex::Syntax syntax) {
  return {{syntax == Regex::Syntax::kLiteral ? "String" : "Regex", pattern}};
}

nlohmann::json json_of(const NormalizerRule& rule) {
  if (const auto* replaced = std::get_if<ReplaceRule>(&rule)) {
    return {{"type", "Replace"},
            {"pattern", pattern_json(replaced->pattern, replaced->syntax)},
            {"content", replaced->content}};
  }
  if (const auto* prepended = std::get_if<PrependRule>(&rule))
    return {{"type", "Prepend"}, {"prepend", prepended->text}};
  if (const auto* strip = std::get_if<StripRule>(&rule))
    return {{"type", "Strip"}, {"strip_left", strip->left}, {"strip_right", strip->right}};
  return {{"type", name_of(std::get<Normalization>(rule), kNormalizations)}};
}

nlohmann::json decoder_json(BpeSymbols symbols) {
  if (symbols == BpeSymbols::kBytes) return {{"type", "ByteLevel"}};
  const auto step = [](const char* type) { return nlohmann::json{{"type", type}}; };
  return {{"type", "Sequence"},
          {"decoders",
           {json_of(ReplaceRule{.pattern = std::string(kEscapedSpace), .content = " "}), step("ByteFallback"),
            step("Fuse")}}};
}

nlohmann::json json_of(const PreTokenizerRule& rule) {
  if (const auto* bytes = std::get_if<ByteLevelRule>(&rule)) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", bytes->add_prefix_space},
            {"trim_offsets", false},
            {"use_regex", bytes->use_regex}};
  }
  if (const auto* spaces = std::get_if<MetaspaceRule>(&rule)) {
    return {{"type", "Metaspace"},
            {"replacement", kEscapedSpace},
            {"prepend_scheme", name_of(spaces->prepend, kPrependSchemes)},
            {"split", spaces->splits}};
  }
  const auto& split = std::get<SplitRule>(rule);
  return {{"type", "Split"},
          {"pattern", pattern_json(split.pattern, split.syntax)},
          {"behavior", name_of(split.behavior, kSplitBehaviors)},
          {"invert", split.invert}};
}

nlohmann::json unigram_json(const BpeParts& parts) {
  nlohmann::json vocab = nlohmann::json::array();
  for (const double score : parts.scores) vocab.push_back({"", score});
  for (const auto& [text, id] : parts.vocab) vocab[static_cast<size_t>(id)][0] = text;
  const auto unk = parts.unk_token ? parts.vocab.find(*parts.unk_token) : parts.vocab.end();
  return {{"type", "Unigram"},
          {"vocab", std::move(vocab)},
          {"unk_id", unk == parts.vocab.end() ? nlohmann::json() : nlohmann::json(unk->second)},
          {"byte_fallback", true}};
}

nlohmann::json bpe_json(const BpeParts& parts) {
  using Json = nlohmann::json;
  Json model = {{"type", "BPE"},
                {"vocab", parts.vocab},
                {"merges", parts.merges},
                {"ignore_merges", parts.ignore_merges},
                {"unk_token", parts.unk_token ? Json(*parts.unk_token) : Json()},
                {"fuse_unk", parts.fuse_unk},
                {"byte_fallback", parts.symbols == BpeSymbols::kCharacters}};
  if (parts.whole_newline_runs) model["lacuna"]["whole_newline_runs"] = true;
  if (!parts.scores.empty()) model["lacuna"]["scores"] = parts.scores;
  return model;
}

}  // namespace

nlohmann::json tokenizer_json(const TokenizerParts& parts) {
  using Json = nlohmann::json;
  Json added = Json::array();
  for (const AddedToken& token : parts.added_tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"special", token.special},
                     {"normalized", token.normalized},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"single_word", token.single_word}});
  }
  Json normalizers = Json::array();
  for (const NormalizerRule& rule : parts.normalization) normalizers.push_back(json_of(rule));
  Json pre_tokenizers = Json::array();
  for (const PreTokenizerRule& rule : parts.pre_tokenizer) pre_tokenizers.push_back(json_of(rule));
  return {{"version", "1.0"},
          {"added_tokens", std::move(added)},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(pre_tokenizers)}}},
          {"decoder", decoder_json(parts.bpe.symbols)},
          {"model", parts.bpe.best_path ? unigram_json(parts.bpe) : bpe_json(parts.bpe)}};
}

TokenId read_token_id(const JsonValue& value) {
  const int64_t id = value.integer();
  if (id < 0 || id > kMaxTokenId) {
    throw InputError("{} is {}, outside [0, {}]", value.name(), id, kMaxTokenId);
  }
  return static_cast<TokenId>(id);
}

std::unordered_map<std::string, TokenId> read_token_ids(const JsonValue& object) {
  std::unordered_map<std::string, TokenId> ids;
  ids.reserve(object.object().size());
  for (const auto& item : object.object().items())
    ids.emplace(item.key(), read_token_id(object.at(item.key())));
  return ids;
}

AddedToken read_added_token(const JsonValue& value, TokenId id) {
  const bool special = value.boolean_or("special", false);
  return {.id = id,
          .content = value.at("content").string(),
          .special = special,
          .normalized = value.boolean_or("normalized", !special),
          .lstrip = value.boolean_or("lstrip", false),
          .rstrip = value.boolean_or("rstrip", false),
          .single_word = value.boolean_or("single_word", false)};
}

TokenizerParts read_tokenizer_json(const JsonValue& root) {
  TokenizerParts parts;
  parts.name = root.source();
  if (const auto normalizer = root.find("normalizer")) {
    for_each_step(*normalizer, "normalizers",
                  [&](const JsonValue& step) { parts.normalization.push_back(read_normalizer_step(step)); });
  }
  if (const auto pre_tokenizer = root.find("pre_tokenizer")) {
    for_each_step(*pre_tokenizer, "pretokenizers",
                  [&](const JsonValue& step) { read_pre_tokenizer_step(step, parts.pre_tokenizer); });
  }
  const JsonValue model = root.at("model");
  parts.bpe = read_model(model, parts.pre_tokenizer);
  if (const auto added_tokens = root.find("added_tokens")) {
    for (const JsonValue& value : added_tokens->elements()) {
      parts.added_tokens.push_back(read_added_token(value, read_token_id(value.at("id"))));
    }
  }
  check_decoder(root, parts.bpe.symbols, model.boolean_or("byte_fallback", false));
  return parts;
}

}  // namespace lacuna
