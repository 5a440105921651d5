#include "tokenizer/best_path.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/budget.h"

namespace lacuna {
namespace {

constexpr size_t kStepsPerLookup = 16;

/// The best segmentation of the text up to a position.
struct Place {
  double score = 0;
  int64_t begin = -1;  // begin of its last part; -1: no part ends here
  TokenId id = BestPath::kUnknown;

  void offer(double offered, size_t from, TokenId part) {
    if (begin >= 0 && !(offered > score)) return;
    *this = {offered, static_cast<int64_t>(from), part};
  }
};

}  // namespace

BestPath::BestPath(std::vector<Entry> entries, double unknown_score)
    : entries_(std::move(entries)), unknown_score_(unknown_score) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& left, const Entry& right) { return left.text < right.text; });
}

std::vector<BestPath::Part> BestPath::cut(std::string_view text) const {
  std::vector<Place> places(text.size() + 1);
  for (size_t begin = 0; begin < text.size();) {
    const double score = places[begin].score;
    const size_t character = std::max<size_t>(1, first_character_bytes(text.substr(begin)));
    bool is_entry = false;
    // [first, last): entries that begin with the next `bytes` bytes of the text; the shortest is first.
    auto first = entries_.begin(), last = entries_.end();
    for (size_t bytes = 1; begin + bytes <= text.size() && first != last; ++bytes) {
      spend_steps(kStepsPerLookup);
      const auto byte = static_cast<unsigned char>(text[begin + bytes - 1]);
      const auto byte_of = [&](const Entry& entry) {
        return entry.text.size() < bytes ? -1 : static_cast<unsigned char>(entry.text[bytes - 1]);
      };
      first = std::lower_bound(first, last, byte,
                               [&](const Entry& entry, int wanted) { return byte_of(entry) < wanted; });
      last = std::upper_bound(first, last, byte,
                              [&](int wanted, const Entry& entry) { return wanted < byte_of(entry); });
      if (first == last || first->text.size() != bytes) continue;
      places[begin + bytes].offer(score + first->score, begin, first->id);
      is_entry = is_entry || bytes == character;
    }
    if (!is_entry) places[begin + character].offer(score + unknown_score_, begin, kUnknown);
    begin += character;
  }
  std::vector<Part> parts;
  for (size_t end = text.size(); end > 0;) {
    const Place& place = places[end];
    const auto begin = static_cast<size_t>(place.begin);
    if (place.id == kUnknown && !parts.empty() && parts.back().id == kUnknown) {
      parts.back().range.begin = begin;
    } else {
      parts.push_back({{begin, end}, place.id});
    }
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace lacuna
