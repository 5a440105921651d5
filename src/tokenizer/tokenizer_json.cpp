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
    {"Replace", Normalization::kEscapeSpaces},
    {"Prepend", Normalization::kPrependSpace},
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
Value read_choice(const JsonValue& value, const std::array<Named<Value>, count>& choices) {
  std::string known;
  for (const auto& choice : choices) {
    if (choice.name == value.string()) return choice.value;
    known += known.empty() ? "" : ", ";
    known += choice.name;
  }
  throw InputError("{} is '{}'; supported are {}", value.name(), value.string(), known);
}

void expect_text(const JsonValue& value, std::string_view expected) {
  if (value.string() == expected) return;
  throw InputError("{} is '{}'; expected '{}'", value.name(), value.string(), expected);
}

// A Replace step. Texts are searched for as they are, never by an expression.
void expect_replacement(const JsonValue& step, std::string_view from, std::string_view to) {
  expect_text(step.at("pattern").at("String"), from);
  expect_text(step.at("content"), to);
}

Normalization read_normalization(const JsonValue& step) {
  const Normalization normalization = read_choice(step.at("type"), kNormalizations);
  if (normalization == Normalization::kEscapeSpaces) expect_replacement(step, " ", kEscapedSpace);
  if (normalization == Normalization::kPrependSpace) expect_text(step.at("prepend"), kEscapedSpace);
  return normalization;
}

void read_normalizer(const JsonValue& value, std::vector<Normalization>& steps) {
  const JsonValue type = value.at("type");
  if (type.string() == "Sequence") {
    constexpr size_t kMaxSteps = 64;
    const JsonValue list = value.at("normalizers");
    if (list.array().size() > kMaxSteps) {
      throw InputError("{} has {} steps; expected at most {}", list.name(), list.array().size(), kMaxSteps);
    }
    for (const JsonValue& element : list.elements()) {
      // A sequence inside a sequence is never written, and would let a file nest without end.
      steps.push_back(read_normalization(element));
    }
  } else {
    steps.push_back(read_normalization(value));
  }
}

SplitRule read_split(const JsonValue& value) {
  const JsonValue pattern = value.at("pattern");
  const auto literal = pattern.find("String");
  return {.pattern = literal ? literal->string() : pattern.at("Regex").string(),
          .syntax = literal ? Regex::Syntax::kLiteral : Regex::Syntax::kExpression,
          .behavior = read_choice(value.at("behavior"), kSplitBehaviors),
          .invert = value.boolean_or("invert", false)};
}

MetaspaceRule read_metaspace(const JsonValue& value) {
  expect_text(value.at("replacement"), kEscapedSpace);
  MetaspaceRule rule{.splits = value.boolean_or("split", true)};
  const auto prepend = value.find("prepend_scheme");
  if (prepend) rule.prepend = read_choice(*prepend, kPrependSchemes);
  // The key of older files.
  if (!value.boolean_or("add_prefix_space", true)) {
    if (prepend && rule.prepend != MetaspaceRule::Prepend::kNever)
      throw InputError("{} is '{}', and add_prefix_space is false; expected 'never'", prepend->name(),
                       prepend->string());
    rule.prepend = MetaspaceRule::Prepend::kNever;
  }
  return rule;
}

PreTokenizerRule read_pre_tokenizer_step(const JsonValue& value) {
  const JsonValue type = value.at("type");
  if (type.string() == "ByteLevel") {
    return ByteLevelRule{.add_prefix_space = value.boolean_or("add_prefix_space", true),
                         .use_regex = value.boolean_or("use_regex", true)};
  }
  if (type.string() == "Split") return read_split(value);
  if (type.string() == "Digits") {
    const bool individual = value.boolean_or("individual_digits", false);
    return SplitRule{.pattern = R"(\p{N})",
                     .behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous};
  }
  if (type.string() == "Punctuation") {
    const auto behavior = value.find("behavior");
    return SplitRule{
        .pattern = R"([\p{P}$+<=>^`|~])",
        .behavior = behavior ? read_choice(*behavior, kSplitBehaviors) : SplitBehavior::kIsolated};
  }
  if (type.string() == "Metaspace") return read_metaspace(value);
  throw InputError(
      "{} is '{}'; supported are ByteLevel, Metaspace, Split, Digits, Punctuation and a Sequence of them",
      type.name(), type.string());
}

std::vector<PreTokenizerRule> read_pre_tokenizer(const JsonValue& value) {
  std::vector<PreTokenizerRule> rules;
  if (value.at("type").string() != "Sequence") return {read_pre_tokenizer_step(value)};
  for (const JsonValue& element : value.at("pretokenizers").elements()) {
    rules.push_back(read_pre_tokenizer_step(element));
  }
  return rules;
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

BpeParts read_model(const JsonValue& model) {
  if (const auto type = model.find("type"); type && type->string() != "BPE") {
    throw InputError("{} must be 'BPE', not '{}'", type->name(), type->string());
  }
  refuse_unless_empty(model, "continuing_subword_prefix");
  refuse_unless_empty(model, "end_of_word_suffix");
  if (const auto dropout = model.find("dropout"); dropout && dropout->json() != 0) {
    throw InputError("{} must be 0 or null: merges are not left out at random", dropout->name());
  }
  BpeParts parts;
  if (model.boolean_or("byte_fallback", false)) parts.symbols = BpeSymbols::kCharacters;
  parts.vocab_name = model.at("vocab").name();
  parts.vocab = read_token_ids(model.at("vocab"));
  parts.merges_name = model.at("merges").name();
  for (const JsonValue& merge : model.at("merges").elements()) parts.merges.push_back(read_merge(merge));
  parts.ignore_merges = model.boolean_or("ignore_merges", false);
  if (const auto unk = model.find("unk_token")) parts.unk_token = unk->string();
  parts.fuse_unk = model.boolean_or("fuse_unk", false);
  // Our own key, for what tokenizer.json has none.
  if (const auto own = model.find("lacuna")) {
    parts.whole_newline_runs = own->boolean_or("whole_newline_runs", false);
    if (const auto scores = own->find("scores")) {
      for (const JsonValue& score : scores->elements()) {
        if (!score.json().is_number()) throw InputError("{} must be a number", score.name());
        parts.scores.push_back(score.json().get<float>());
      }
    }
  }
  return parts;
}

// Tokens are decoded one by one, so the steps that a file lists have to be those that do the same.
void check_decoder(const JsonValue& root, BpeSymbols symbols) {
  const auto decoder = root.find("decoder");
  if (symbols == BpeSymbols::kBytes) {
    if (!decoder || decoder->at("type").string() == "ByteLevel") return;
    throw InputError("{} must be ByteLevel, not {}", decoder->name(), decoder->at("type").string());
  }
  constexpr std::string_view kExpected =
      "with model.byte_fallback, expected a Sequence of Replace (U+2581 by a space), ByteFallback and Fuse";
  // Strip, of SentencePiece's files, takes the space away that a text begins with for the first token's sake.
  // Answers follow a prompt, so here no text begins with it.
  constexpr std::array<std::string_view, 4> kSteps = {"Replace", "ByteFallback", "Fuse", "Strip"};
  if (!decoder) throw InputError("{} has no decoder; {}", root.name(), kExpected);
  const JsonValue type = decoder->at("type");
  if (type.string() != "Sequence") throw InputError("{} is '{}'; {}", type.name(), type.string(), kExpected);
  const JsonValue list = decoder->at("decoders");
  const std::vector<JsonValue> steps = list.elements();
  if (steps.size() != kSteps.size() && steps.size() != kSteps.size() - 1)
    throw InputError("{} has {} steps; {}", list.name(), steps.size(), kExpected);
  for (size_t i = 0; i < steps.size(); ++i) {
    const JsonValue step = steps[i].at("type");
    if (step.string() != kSteps[i]) throw InputError("{} is '{}'; {}", step.name(), step.string(), kExpected);
  }
  expect_replacement(steps.front(), kEscapedSpace, " ");
}

template <typename Value, size_t count>
std::string_view name_of(Value value, const std::array<Named<Value>, count>& choices) {
  for (const auto& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

nlohmann::json replacement(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

nlohmann::json json_of(Normalization step) {
  if (step == Normalization::kEscapeSpaces) return replacement(" ", kEscapedSpace);
  if (step == Normalization::kPrependSpace) return {{"type", "Prepend"}, {"prepend", kEscapedSpace}};
  return {{"type", name_of(step, kNormalizations)}};
}

nlohmann::json decoder_json(BpeSymbols symbols) {
  if (symbols == BpeSymbols::kBytes) return {{"type", "ByteLevel"}};
  const auto step = [](const char* type) { return nlohmann::json{{"type", type}}; };
  return {{"type", "Sequence"},
          {"decoders", {replacement(kEscapedSpace, " "), step("ByteFallback"), step("Fuse")}}};
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
  const char* syntax = split.syntax == Regex::Syntax::kLiteral ? "String" : "Regex";
  return {{"type", "Split"},
          {"pattern", {{syntax, split.pattern}}},
          {"behavior", name_of(split.behavior, kSplitBehaviors)},
          {"invert", split.invert}};
}

}  // namespace

nlohmann::json tokenizer_json(const TokenizerParts& parts) {
  using Json = nlohmann::json;
  Json model = {{"type", "BPE"},
                {"vocab", parts.bpe.vocab},
                {"merges", parts.bpe.merges},
                {"ignore_merges", parts.bpe.ignore_merges},
                {"unk_token", parts.bpe.unk_token ? Json(*parts.bpe.unk_token) : Json()},
                {"fuse_unk", parts.bpe.fuse_unk},
                {"byte_fallback", parts.bpe.symbols == BpeSymbols::kCharacters}};
  if (parts.bpe.whole_newline_runs) model["lacuna"]["whole_newline_runs"] = true;
  if (!parts.bpe.scores.empty()) model["lacuna"]["scores"] = parts.bpe.scores;
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
  for (const Normalization step : parts.normalization) normalizers.push_back(json_of(step));
  Json pre_tokenizers = Json::array();
  for (const PreTokenizerRule& rule : parts.pre_tokenizer) pre_tokenizers.push_back(json_of(rule));
  return {{"version", "1.0"},
          {"added_tokens", std::move(added)},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(pre_tokenizers)}}},
          {"decoder", decoder_json(parts.bpe.symbols)},
          {"model", std::move(model)}};
}

TokenId read_token_id(const JsonValue& value) {
  const int64_t id = value.integer();
  if (id < 0 || id > Tokenizer::kTokenIdMax) {
    throw InputError("{} is {}, outside [0, {}]", value.name(), id, Tokenizer::kTokenIdMax);
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
  parts.bpe = read_model(root.at("model"));
  if (const auto added_tokens = root.find("added_tokens")) {
    for (const JsonValue& value : added_tokens->elements()) {
      parts.added_tokens.push_back(read_added_token(value, read_token_id(value.at("id"))));
    }
  }
  if (const auto normalizer = root.find("normalizer")) read_normalizer(*normalizer, parts.normalization);
  if (const auto pre_tokenizer = root.find("pre_tokenizer")) {
    parts.pre_tokenizer = read_pre_tokenizer(*pre_tokenizer);
  }
  check_decoder(root, parts.bpe.symbols);
  return parts;
}

}  // namespace lacuna
