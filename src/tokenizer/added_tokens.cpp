#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna {
namespace {

bool is_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {
  size_t total = 0;
  for (const Pattern& pattern : patterns_) {
    expects(!pattern.text.empty(), "an added token has a text");
    total += pattern.text.size();
  }
  expects(total <= kTotalBytesMax, "added tokens are not too long together");
  std::stable_sort(patterns_.begin(), patterns_.end(), [](const Pattern& left, const Pattern& right) {
    return std::lexicographical_compare(
        left.text.rbegin(), left.text.rend(), right.text.rbegin(), right.text.rend(),
        [](char a, char b) { return static_cast<unsigned char>(a) < static_cast<unsigned char>(b); });
  });
  // Normalization can make two contents equal; the first one listed is used.
  const auto same_text = [](const Pattern& left, const Pattern& right) { return left.text == right.text; };
  patterns_.erase(std::unique(patterns_.begin(), patterns_.end(), same_text), patterns_.end());
  build();
}

// Creates nodes breadth-first, each from the range of sorted patterns that end with the node's suffix.
void AddedTokenFinder::build() {
  struct Reach {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Reach> reaches = {{0, patterns_.size(), 0}};
  nodes_.emplace_back();
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    const size_t end = reaches[node].end, depth = reaches[node].depth;
    size_t begin = reaches[node].begin;
    if (begin < end && patterns_[begin].text.size() == depth) {
      nodes_[node].longest = static_cast<int32_t>(begin++);
    } else if (node > 0) {
      nodes_[node].longest = nodes_[nodes_[node].shorter].longest;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    const auto byte_of = [&](size_t pattern) {
      const std::string& text = patterns_[pattern].text;
      return static_cast<unsigned char>(text[text.size() - 1 - depth]);
    };
    while (begin < end) {
      const unsigned char byte = byte_of(begin);
      const size_t first = begin;
      while (begin < end && byte_of(begin) == byte) ++begin;
      const uint32_t shorter = node == 0 ? 0 : next(nodes_[node].shorter, byte);
      nodes_.push_back({.shorter = shorter, .byte = byte});
      reaches.push_back({first, begin, depth + 1});
    }
    nodes_[node].end_child = static_cast<uint32_t>(nodes_.size());
  }
}

// The child of `node` for `byte`, or the root (0) if the node has no such child.
uint32_t AddedTokenFinder::child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = nodes_.begin() + nodes_[node].end_child;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& candidate, unsigned char wanted) { return candidate.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin()) : 0;
}

uint32_t AddedTokenFinder::next(uint32_t node, unsigned char byte) const {
  while (true) {
    const uint32_t longer = child(node, byte);
    if (longer != 0 || node == 0) return longer;
    node = nodes_[node].shorter;
  }
}

std::vector<AddedTokenFinder::Match> AddedTokenFinder::find_all(std::string_view text) const {
  std::vector<Match> matches;
  uint32_t node = 0;
  for (size_t position = text.size(); !patterns_.empty() && position-- > 0;) {
    node = next(node, static_cast<unsigned char>(text[position]));
    if (nodes_[node].longest < 0) continue;
    matches.push_back({position, &patterns_[static_cast<size_t>(nodes_[node].longest)]});
  }
  return matches;
}

//   judge  verdict on a matched special token: kText also rejects matches inside it, kNoMatch does not
template <typename Judge>
std::vector<AddedTokenSpan> AddedTokenFinder::split_by(std::string_view text, Judge&& judge) const {
  std::vector<AddedTokenSpan> spans;
  const auto add = [&](TextRange range, const AddedToken* token) {
    if (!range.empty()) spans.push_back({range, token});
  };
  size_t done = 0;
  size_t position = 0;
  const std::vector<Match> matches = find_all(text);
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->begin < position) continue;
    TextRange range{match->begin, match->begin + match->pattern->text.size()};
    const AddedToken& token = match->pattern->token;
    const Verdict verdict = token.special ? judge(range) : Verdict::kAtom;
    if (verdict == Verdict::kNoMatch) continue;
    position = range.end;
    // A rejected match still rejects shorter ones inside it, as in `tokenizers`.
    if (verdict == Verdict::kText) continue;
    const std::string_view before = text.substr(0, range.begin);
    const std::string_view after = text.substr(range.end);
    const bool in_word = (!before.empty() && is_word(last_character(before))) ||
                         (!after.empty() && is_word(first_character(after)));
    if (token.single_word && in_word) continue;
    // Another token may have consumed the same white space already.
    if (token.lstrip) range.begin = done + trim_end(before.substr(std::min(done, before.size()))).size();
    if (token.rstrip) range.end = text.size() - trim_start(after).size();
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

std::vector<AddedTokenSpan> AddedTokenFinder::split(std::string_view text, SpecialTokens special) const {
  const Verdict verdict = special == SpecialTokens::kAsText ? Verdict::kText : Verdict::kAtom;
  return split_by(text, [&](TextRange) { return verdict; });
}

std::vector<AddedTokenSpan> AddedTokenFinder::split(std::string_view text,
                                                    std::span<const TextRange> literal) const {
  auto next = literal.begin();  // the first part that ends after the match's begin; matches are ascending
  return split_by(text, [&](TextRange match) {
    while (next != literal.end() && next->end <= match.begin) ++next;
    Verdict verdict = Verdict::kAtom;
    for (auto part = next; part != literal.end() && part->begin < match.end; ++part) {
      const bool begins = part->begin <= match.begin, ends = part->end >= match.end;
      if (begins && ends) return Verdict::kText;
      if (begins || ends || !is_name(part->of(text))) verdict = Verdict::kNoMatch;
    }
    return verdict;
  });
}

}  // namespace lacuna
