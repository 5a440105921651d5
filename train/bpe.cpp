#include "train/bpe.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/regex.h"

namespace lacuna::train {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct Piece {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

std::map<std::string, int64_t> count_pieces(const std::vector<std::string>& corpus) {
  const Regex expression(kPieceExpression, Regex::Syntax::kExpression, "the piece expression");
  std::map<std::string, int64_t> counts;
  for (const std::string& text : corpus) {
    int64_t work = Regex::work_for(text);
    for (const TextRange& piece : expression.find_all(text, work))
      ++counts[text.substr(piece.begin, piece.end - piece.begin)];
  }
  return counts;
}

void merge(Piece& piece, Pair pair, int32_t merged) {
  auto out = piece.tokens.begin();
  for (auto in = piece.tokens.begin(); in != piece.tokens.end(); ++out) {
    const bool joins = *in == pair.first && in + 1 != piece.tokens.end() && *(in + 1) == pair.second;
    *out = joins ? merged : *in;
    in += joins ? 2 : 1;
  }
  piece.tokens.erase(out, piece.tokens.end());
}

}  // namespace

Bpe learn_bpe(const std::vector<std::string>& corpus, size_t max_vocabulary) {
  expects(max_vocabulary >= 256, "a byte-level vocabulary holds the 256 bytes");
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.vocabulary.emplace_back(1, static_cast<char>(byte));

  std::vector<Piece> pieces;
  for (const auto& [text, count] : count_pieces(corpus)) {
    Piece piece{{}, count};
    for (const char c : text) piece.tokens.push_back(static_cast<unsigned char>(c));
    pieces.push_back(std::move(piece));
  }

  while (bpe.vocabulary.size() < max_vocabulary) {
    std::map<Pair, int64_t> counts;
    for (const Piece& piece : pieces) {
      for (size_t i = 1; i < piece.tokens.size(); ++i)
        counts[{piece.tokens[i - 1], piece.tokens[i]}] += piece.count;
    }
    if (counts.empty()) break;
    // max_element returns the first of equals, and the map is ordered by ids.
    const Pair best = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
    const auto merged = static_cast<int32_t>(bpe.vocabulary.size());
    bpe.merges.push_back(best);
    bpe.vocabulary.push_back(bpe.vocabulary[static_cast<size_t>(best.first)] +
                             bpe.vocabulary[static_cast<size_t>(best.second)]);
    for (Piece& piece : pieces) merge(piece, best, merged);
  }
  return bpe;
}

nlohmann::ordered_json added_token(std::string_view content) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", true}};
}

Vocabulary vocabulary_of(const Bpe& bpe) {
  TemplateSource source;
  source.programs.emplace_back(kDefaultTemplate, bpe.form->program);
  source.places.emplace_back("the learned vocabulary");
  source.special_tokens = special_tokens_map_json(bpe);
  return {Tokenizer::from_json(tokenizer_json(bpe).dump(), source.places.front()),
          ChatTemplate(std::move(source)), bpe.ids()};
}

nlohmann::ordered_json tokenizer_json(const Bpe& bpe) {
  using Json = nlohmann::ordered_json;
  Json vocabulary = Json::object();
  for (size_t id = 0; id < bpe.vocabulary.size(); ++id)
    vocabulary[to_byte_characters(bpe.vocabulary[id])] = id;
  Json merges = Json::array();
  for (const auto& [left, right] : bpe.merges) {
    merges.push_back(to_byte_characters(bpe.vocabulary[static_cast<size_t>(left)]) + " " +
                     to_byte_characters(bpe.vocabulary[static_cast<size_t>(right)]));
  }
  Json added = Json::array();
  for (const std::string_view content : bpe.form->special_tokens) {
    Json token = {{"id", bpe.vocabulary.size() + added.size()}};
    token.update(added_token(content));
    added.push_back(token);
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kPieceExpression}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

nlohmann::ordered_json tokenizer_config_json(const Bpe& bpe) {
  using Json = nlohmann::ordered_json;
  Json decoder = Json::object();
  for (const std::string_view content : bpe.form->special_tokens)
    decoder[std::to_string(bpe.vocabulary.size() + decoder.size())] = added_token(content);
  return {{"add_bos_token", false},
          {"add_eos_token", false},
          {"added_tokens_decoder", decoder},
          {"bos_token", kStartToken},
          {"chat_template", bpe.form->program},
          {"clean_up_tokenization_spaces", false},
          {"eos_token", kEndToken},
          {"mask_token", bpe.form->special_tokens.back()},
          {"model_max_length", 1024},
          {"pad_token", kEndToken},
          {"tokenizer_class", "PreTrainedTokenizerFast"}};
}

nlohmann::ordered_json special_tokens_map_json(const Bpe& bpe) {
  return {{"bos_token", kStartToken},
          {"eos_token", kEndToken},
          {"mask_token", bpe.form->special_tokens.back()},
          {"pad_token", kEndToken}};
}

}  // namespace lacuna::train
