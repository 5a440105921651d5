#include "constraint/encoded_characters.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/budget.h"

namespace lacuna {
namespace {

using Interval = CodePointSet::Interval;

/// JSON's two-character escapes: the code point and the letter after the backslash. "/" needs no escape.
struct Escape {
  uint32_t code_point;
  uint8_t letter;
};
constexpr std::array<Escape, 7> kEscapes{
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'}, {'\r', 'r'}}};

/// Code points that take the same number of bytes in UTF-8.
struct EncodedLength {
  uint32_t first, last;
  int continuation_bytes;
  uint32_t lead;  // the first byte is lead + the bits above the continuation bytes
};
constexpr std::array<EncodedLength, 4> kLengths{
    {{0, 0x7F, 0, 0}, {0x80, 0x7FF, 1, 0xC0}, {0x800, 0xFFFF, 2, 0xE0}, {0x10000, 0x10FFFF, 3, 0xF0}}};

class Encoder {
 public:
  Encoder() { graph_.nodes.emplace_back(); }

  void add_utf8(const std::vector<Interval>& intervals) {
    for (const EncodedLength& length : kLengths) {
      std::vector<Interval> within;
      for (const auto& [first, last] : intervals) {
        if (first > length.last || last < length.first) continue;
        within.push_back({std::max(first, length.first), std::min(last, length.last)});
      }
      add_edges(0, within, length.continuation_bytes, length.lead);
    }
  }

  void add_escapes(const CodePointSet& set) {
    std::vector<EncodedCharacters::Edge> letters;
    for (const auto& [code_point, letter] : kEscapes) {
      if (set.contains(code_point)) letters.push_back({letter, letter, EncodedCharacters::kEnd});
    }
    if (letters.empty()) return;
    graph_.nodes[0].push_back({'\\', '\\', static_cast<int>(graph_.nodes.size())});
    graph_.nodes.push_back(std::move(letters));
  }

  EncodedCharacters take() { return std::move(graph_); }

 private:
  /// Adds the edges of `node` for values whose lowest 6 * rest bits are in the `rest` bytes that follow.
  void add_edges(int node, const std::vector<Interval>& intervals, int rest, uint32_t lead) {
    const int shift = 6 * rest;
    std::map<uint32_t, std::vector<Interval>> suffixes;  // by the value of the bits above
    for (const auto& [first, last] : intervals) {
      for (uint32_t high = first >> shift; high <= last >> shift; ++high) {
        const uint32_t low = high << shift;
        const uint32_t mask = (uint32_t{1} << shift) - 1;
        suffixes[high].push_back({std::max(first, low) - low, std::min(last, low + mask) - low});
      }
    }
    constexpr size_t kStepsPerSuffix = 20, kBytesPerSuffix = 64;
    spend_steps(suffixes.size() * kStepsPerSuffix);
    spend_bytes(suffixes.size() * kBytesPerSuffix);
    for (const auto& [high, within] : suffixes) {
      const int target = rest == 0 ? EncodedCharacters::kEnd : node_of(rest - 1, within);
      const auto byte = static_cast<uint8_t>(lead + high);
      auto& edges = graph_.nodes[static_cast<size_t>(node)];
      if (!edges.empty() && edges.back().target == target && edges.back().last + 1 == byte) {
        edges.back().last = byte;
      } else {
        edges.push_back({byte, byte, target});
      }
    }
  }

  /// The node from which `rest` + 1 continuation bytes spell the values in `intervals`.
  int node_of(int rest, const std::vector<Interval>& intervals) {
    std::vector<std::pair<uint32_t, uint32_t>> key{{static_cast<uint32_t>(rest), 0}};
    for (const auto& [first, last] : intervals) key.emplace_back(first, last);
    const auto [known, is_new] = known_.try_emplace(key, static_cast<int>(graph_.nodes.size()));
    const int node = known->second;
    if (is_new) {
      graph_.nodes.emplace_back();
      add_edges(node, intervals, rest, 0x80);
    }
    return node;
  }

  EncodedCharacters graph_;
  std::map<std::vector<std::pair<uint32_t, uint32_t>>, int> known_;
};

}  // namespace

EncodedCharacters encode_characters(const CodePointSet& set, TextEncoding encoding) {
  Encoder encoder;
  if (encoding == TextEncoding::kUtf8) {
    encoder.add_utf8(set.intervals());
  } else {
    std::vector<Interval> raw;
    for (const auto& [first, last] : set.intervals()) {
      // All characters except controls, the quote and the backslash.
      for (const Interval& plain : {Interval{0x20, 0x21}, Interval{0x23, 0x5B}, Interval{0x5D, 0x10FFFF}}) {
        if (first > plain.last || last < plain.first) continue;
        raw.push_back({std::max(first, plain.first), std::min(last, plain.last)});
      }
    }
    encoder.add_utf8(raw);
    encoder.add_escapes(set);
  }
  return encoder.take();
}

}  // namespace lacuna
