#include "server/answer_text.h"

#include <algorithm>
#include <utility>

#include "engine/stop.h"
#include "tokenizer/unicode.h"

namespace lacuna {

size_t whole_characters(std::string_view text) {
  const size_t most = std::min<size_t>(text.size(), 3);
  for (size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;  // continuation byte
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

AnswerText::AnswerText(const Tokenizer* tokenizer, std::vector<TokenId> end_ids,
                       std::vector<std::string> stop, bool shows_special)
    : tokenizer_(tokenizer),
      end_ids_(std::move(end_ids)),
      stop_(std::move(stop)),
      shows_special_(shows_special),
      thoughts_(tokenizer) {}

std::string AnswerText::advance(std::span<const TokenId> final, bool is_all) {
  if (!has_ended_) {
    const std::span<const TokenId> fresh = final.subspan(static_cast<size_t>(num_tokens_));
    const auto end = std::find_first_of(fresh.begin(), fresh.end(), end_ids_.begin(), end_ids_.end());
    const auto count = static_cast<size_t>(end - fresh.begin());
    const size_t known = bytes_.size();
    if (tokenizer_ != nullptr)
      bytes_ += tokenizer_->decode(thoughts_.remove(fresh.first(count)), !shows_special_);
    num_tokens_ += static_cast<int32_t>(count);
    has_ended_ = end != fresh.end();
    find_stop(known);
  }
  const bool is_whole = is_all || has_ended_;
  const size_t sure = is_whole
                          ? bytes_.size()
                          : whole_characters(std::string_view(bytes_).substr(0, bytes_.size() - held_back()));
  if (sure <= given_) return {};
  std::string text = replace_ill_formed(std::string_view(bytes_).substr(given_, sure - given_));
  given_ = sure;
  return text;
}

/// Cuts the text before the stop text that ends first after byte `from`, so that the result does not depend
/// on how many tokens arrive at once.
void AnswerText::find_stop(size_t from) {
  const std::string_view found = first_stop(bytes_, stop_, from);
  if (found.empty()) return;
  stop_text_ = found;
  bytes_.resize(static_cast<size_t>(found.data() - bytes_.data()));
  has_ended_ = true;
}

/// Length of the longest suffix of the text that is a proper prefix of a stop text.
size_t AnswerText::held_back() const {
  size_t longest = 0;
  for (const std::string& stop : stop_) {
    for (size_t size = std::min(stop.size() - 1, bytes_.size()); size > longest; --size) {
      if (std::string_view(bytes_).ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace lacuna
