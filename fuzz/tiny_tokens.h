// A tokenizer of single bytes and of every special token that chat templates need.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tokenizer/tiny_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace fuzz {

inline constexpr std::array<std::string_view, 14> kSpecials = {
    "<|mask|>",   "<|endoftext|>",       "<|im_start|>",      "<|im_end|>", "<|startoftext|>",
    "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<bos>",      "<|turn>",
    "<turn|>",    "<tool_call>",         "</tool_call>",      "<|image|>"};
inline constexpr lacuna::TokenId kFirstMerge = 256;
inline constexpr lacuna::TokenId kFirstSpecial = 260;

/// The id of the special token kSpecials[index].
constexpr lacuna::TokenId special_id(int index) {
  return kFirstSpecial + index;
}

inline lacuna::Tokenizer tiny_tokenizer() {
  // "Ġ" is a space.
  nlohmann::json json = lacuna::tiny_tokenizer({{"e", "n"}, {"en", "d"}, {"\u0120", "end"}, {"\"", ":"}});
  int id = kFirstSpecial;
  for (const std::string_view token : kSpecials) lacuna::add_token(json, id++, token, true);
  return lacuna::parse(json);
}

}  // namespace fuzz
