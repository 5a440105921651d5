#include "weights/name_pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace lacuna {

namespace {

constexpr size_t kMaxLength = 1000;
constexpr int kMaxDepth = 50;
constexpr int kMaxRepeats = 1000;
constexpr int kMaxSteps = 100'000;
constexpr size_t kMaxName = 400;  // bounds the matcher's recursion depth

using CharSet = std::array<bool, 256>;

CharSet set_of(std::string_view chars) {
  CharSet set{};
  for (const char c : chars) set[static_cast<unsigned char>(c)] = true;
  return set;
}

CharSet inverted(CharSet set) {
  for (bool& each : set) each = !each;
  return set;
}

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kWord = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kSpace = " \t\n\r\f\v";

/// The characters of an escape; empty if unknown.
std::optional<CharSet> escaped(char c) {
  switch (c) {
    case 'd':
      return set_of(kDigits);
    case 'D':
      return inverted(set_of(kDigits));
    case 'w':
      return set_of(kWord);
    case 'W':
      return inverted(set_of(kWord));
    case 's':
      return set_of(kSpace);
    case 'S':
      return inverted(set_of(kSpace));
    default:
      if (kWord.find(c) != kWord.npos) return {};
      return set_of({&c, 1});
  }
}

}  // namespace

/// Alternatives of sequences of items.
struct NamePattern::Node {
  struct Item {
    enum class Kind : uint8_t { kChars, kGroup, kBegin, kEnd };
    Kind kind = Kind::kChars;
    CharSet chars{};
    std::shared_ptr<const Node> group;
    int least = 1, most = 1;  // most -1: any number
    bool is_lazy = false;
  };
  std::vector<std::vector<Item>> alternatives;
};

namespace {

using Node = NamePattern::Node;
using Item = Node::Item;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::shared_ptr<const Node> parse_all() {
    std::shared_ptr<const Node> node = alternatives(0);
    return is_wrong_ || at_ != text_.size() ? nullptr : node;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  bool is_at(char c) const { return !at_end() && text_[at_] == c; }
  bool take(char c) {
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }
  void fail() { is_wrong_ = true; }

  std::shared_ptr<const Node> alternatives(int depth) {
    auto node = std::make_shared<Node>();
    if (depth > kMaxDepth) fail();
    do {
      std::vector<Item>& items = node->alternatives.emplace_back();
      while (!is_wrong_ && !at_end() && !is_at('|') && !is_at(')')) items.push_back(item(depth));
    } while (!is_wrong_ && take('|'));
    return node;
  }

  Item item(int depth) {
    Item item;
    const char c = text_[at_++];
    if (c == '(') {
      if (take('?') && !take(':')) fail();
      item.kind = Item::Kind::kGroup;
      item.group = alternatives(depth + 1);
      if (!take(')')) fail();
    } else if (c == '[') {
      item.chars = set();
    } else if (c == '\\') {
      item.chars = escape();
    } else if (c == '^' || c == '$') {
      item.kind = c == '^' ? Item::Kind::kBegin : Item::Kind::kEnd;
      return item;
    } else if (c == '.') {
      item.chars = inverted(set_of("\n"));
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
      fail();
    } else {
      item.chars = set_of({&c, 1});
    }
    repeat(item);
    return item;
  }

  CharSet escape() {
    const std::optional<CharSet> chars = at_end() ? std::nullopt : escaped(text_[at_++]);
    if (!chars) fail();
    return chars.value_or(CharSet());
  }

  CharSet set() {
    CharSet chars{};
    const bool is_negative = take('^');
    for (bool is_first = true; is_first || !is_at(']'); is_first = false) {
      if (at_end()) {
        fail();
        return chars;
      }
      const char low = text_[at_++];
      if (low == '\\') {
        const CharSet more = escape();
        for (size_t c = 0; c < chars.size(); ++c) chars[c] = chars[c] || more[c];
        continue;
      }
      char high = low;
      if (is_at('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        high = text_[at_ + 1];
        at_ += 2;
        if (high < low || high == '\\') fail();
      }
      for (int c = static_cast<unsigned char>(low); c <= static_cast<unsigned char>(high); ++c)
        chars[static_cast<size_t>(c)] = true;
    }
    ++at_;
    return is_negative ? inverted(chars) : chars;
  }

  void repeat(Item& item) {
    if (take('*')) {
      item.least = 0;
      item.most = -1;
    } else if (take('+')) {
      item.most = -1;
    } else if (take('?')) {
      item.least = 0;
    } else if (take('{')) {
      item.least = number();
      item.most = item.least;
      if (take(',')) item.most = is_at('}') ? -1 : number();
      if (!take('}') || (item.most >= 0 && item.most < item.least)) fail();
    } else {
      return;
    }
    item.is_lazy = take('?');
    if (is_at('*') || is_at('+') || is_at('?') || is_at('{')) fail();
  }

  int number() {
    if (at_end() || kDigits.find(text_[at_]) == kDigits.npos) fail();
    int value = 0;
    for (; !is_wrong_ && !at_end() && kDigits.find(text_[at_]) != kDigits.npos; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMaxRepeats) fail();
    }
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool is_wrong_ = false;
};

/// Matches by backtracking; the continuation is a function of the position reached.
class Matcher {
 public:
  using Rest = std::function<bool(size_t)>;

  explicit Matcher(std::string_view name) : name_(name) {}

  bool is_exhausted() const { return steps_ > kMaxSteps; }

  bool match(const Node& node, size_t at, const Rest& rest) {
    return std::any_of(node.alternatives.begin(), node.alternatives.end(),
                       [&](const std::vector<Item>& items) { return sequence(items, 0, at, rest); });
  }

 private:
  bool sequence(const std::vector<Item>& items, size_t index, size_t at, const Rest& rest) {
    if (++steps_ > kMaxSteps) return false;
    if (index == items.size()) return rest(at);
    return repeated(items, index, at, 0, rest);
  }

  bool repeated(const std::vector<Item>& items, size_t index, size_t at, int count, const Rest& rest) {
    if (++steps_ > kMaxSteps) return false;
    const Item& item = items[index];
    const auto once_more = [&] {
      if (item.most >= 0 && count >= item.most) return false;
      return once(item, at, [&](size_t end) {
        // An empty match could repeat forever.
        if (end == at && count >= item.least) return false;
        return repeated(items, index, end, count + 1, rest);
      });
    };
    const auto go_on = [&] { return count >= item.least && sequence(items, index + 1, at, rest); };
    return item.is_lazy ? go_on() || once_more() : once_more() || go_on();
  }

  bool once(const Item& item, size_t at, const Rest& rest) {
    switch (item.kind) {
      case Item::Kind::kChars:
        return at < name_.size() && item.chars[static_cast<unsigned char>(name_[at])] && rest(at + 1);
      case Item::Kind::kGroup:
        return match(*item.group, at, rest);
      case Item::Kind::kBegin:
        return at == 0 && rest(at);
      case Item::Kind::kEnd:
        return at == name_.size() && rest(at);
    }
    return false;
  }

  std::string_view name_;
  int steps_ = 0;
};

}  // namespace

std::optional<NamePattern> NamePattern::parse(std::string_view text) {
  if (text.size() > kMaxLength) return {};
  std::shared_ptr<const Node> root = Parser(text).parse_all();
  if (root == nullptr) return {};
  return NamePattern(std::move(root));
}

std::optional<bool> NamePattern::matches(std::string_view name) const {
  if (name.size() > kMaxName) return {};
  Matcher matcher(name);
  const bool is_match = matcher.match(*root_, 0, [&](size_t end) { return end == name.size(); });
  if (matcher.is_exhausted()) return {};
  return is_match;
}

}  // namespace lacuna
