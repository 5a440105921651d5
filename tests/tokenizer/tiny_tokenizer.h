// Tokenizers small enough to know by heart, as a tokenizer.json for tests to change.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/byte_characters.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Ids 0 to 255 are the bytes; then the results of `merges`, from 256 on, in order. Texts are in byte
/// characters.
inline nlohmann::json tiny_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    vocab[to_byte_characters({&bytes, 1})] = byte;
  }
  nlohmann::json merge_list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    vocab.emplace(left + right, vocab.size());
    merge_list.push_back({left, right});
  }
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merge_list}}}};
}

/// A tokenizer in Gemma's layout: ids 0 to 255 are <0x00> to <0xFF>; then `entries` and the results of
/// `merges`, from 256 on, in order.
inline nlohmann::json tiny_gemma(const std::vector<std::string>& entries,
                                 const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_token(static_cast<unsigned char>(byte))] = byte;
  for (const std::string& entry : entries) vocab.emplace(entry, vocab.size());
  nlohmann::json merge_list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    vocab.emplace(left + right, vocab.size());
    merge_list.push_back({left, right});
  }
  const auto replace = [](std::string_view from, std::string_view to) {
    return nlohmann::json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const nlohmann::json byte_fallback = {{"type", "ByteFallback"}}, fuse = {{"type", "Fuse"}};
  const nlohmann::json split = {{"type", "Split"},
                                {"pattern", {{"String", " "}}},
                                {"behavior", "MergedWithPrevious"},
                                {"invert", false}};
  return {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"normalizer", replace(" ", kEscapedSpace)},
      {"pre_tokenizer", split},
      {"decoder", {{"type", "Sequence"}, {"decoders", {replace(kEscapedSpace, " "), byte_fallback, fuse}}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"fuse_unk", true},
        {"unk_token", nullptr},
        {"vocab", vocab},
        {"merges", merge_list}}}};
}

/// Adds an added token; `flags` may override any of its keys.
inline void add_token(nlohmann::json& tokenizer, int id, std::string_view content, bool special,
                      const nlohmann::json& flags = nlohmann::json::object()) {
  nlohmann::json token = {
      {"id", id},        {"content", content}, {"special", special},  {"normalized", false},
      {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
  token.update(flags);
  tokenizer["added_tokens"].push_back(token);
}

inline Tokenizer parse(const nlohmann::json& tokenizer) {
  return Tokenizer::from_json(tokenizer.dump(), "tiny.json");
}

/// The ids of single bytes.
inline std::vector<TokenId> ids_of_bytes(std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

}  // namespace lacuna
