#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna {

AddedTokenFinder::AddedTokenFinder(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {
  for (const Pattern& pattern : patterns_) {
    expects(!pattern.text.empty() && pattern.text.size() <= kPatternBytesMax, "patterns have a sane length");
  }
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& left, const Pattern& right) { return left.text < right.text; });
  // Normalisation can make two contents equal; the first one listed counts.
  const auto same_text = [](const Pattern& left, const Pattern& right) { return left.text == right.text; };
  patterns_.erase(std::unique(patterns_.begin(), patterns_.end(), same_text), patterns_.end());
  for (const Pattern& pattern : patterns_)
    begins_pattern_[static_cast<unsigned char>(pattern.text[0])] = true;
}

// Narrows the sorted patterns byte by byte to those that begin like the text.
const AddedTokenFinder::Pattern* AddedTokenFinder::longest_at(std::string_view text) const {
  const Pattern* longest = nullptr;
  auto begin = patterns_.begin();
  auto end = patterns_.end();
  for (size_t length = 0; begin != end; ++length) {
    // The shortest of the patterns that share a prefix sorts first.
    if (begin->text.size() == length) longest = &*begin++;
    if (length == text.size()) break;
    const auto byte_at = [length](const Pattern& pattern) {
      return static_cast<unsigned char>(pattern.text[length]);
    };
    const auto byte = static_cast<unsigned char>(text[length]);
    begin = std::partition_point(begin, end, [&](const Pattern& pattern) { return byte_at(pattern) < byte; });
    end = std::partition_point(begin, end, [&](const Pattern& pattern) { return byte_at(pattern) == byte; });
  }
  return longest;
}

std::vector<AddedTokenSpan> AddedTokenFinder::split(std::string_view text, SpecialTokens special) const {
  std::vector<AddedTokenSpan> spans;
  const auto add = [&](TextRange range, const AddedToken* token) {
    if (!range.empty()) spans.push_back({range, token});
  };
  size_t done = 0;
  for (size_t position = 0; position < text.size();) {
    const bool may_begin = begins_pattern_[static_cast<unsigned char>(text[position])];
    const Pattern* pattern = may_begin ? longest_at(text.substr(position)) : nullptr;
    if (pattern == nullptr) {
      ++position;
      continue;
    }
    TextRange range{position, position + pattern->text.size()};
    position = range.end;
    const AddedToken& token = pattern->token;
    // A match that does not count still hides shorter ones inside it, as in the reference.
    if (token.special && special == SpecialTokens::kAsText) continue;
    std::string_view before = text.substr(0, range.begin);
    std::string_view after = text.substr(range.end);
    const bool in_word = (!before.empty() && is_word(last_character(before))) ||
                         (!after.empty() && is_word(first_character(after)));
    if (token.single_word && in_word) continue;
    if (token.lstrip) range.begin = trim_end(before).size();
    if (token.rstrip) range.end = text.size() - trim_start(after).size();
    // Another token may have taken in the same white space already.
    range.begin = std::max(range.begin, done);
    range.end = std::max(range.end, range.begin);
    position = std::max(position, range.end);
    add({done, range.begin}, nullptr);
    add(range, &token);
    done = range.end;
  }
  add({done, text.size()}, nullptr);
  return spans;
}

}  // namespace lacuna
