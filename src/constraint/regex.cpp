#include "constraint/regex.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/json.h"
#include "constraint/byte_automaton.h"
#include "constraint/look_around.h"
#include "constraint/unicode_property.h"
#include "constraint/utf8_text.h"

namespace lacuna {
namespace {

using Interval = CodePointSet::Interval;

constexpr uint32_t kEndOfPattern = kEndOfCodePoints;

CodePointSet digits() {
  return CodePointSet({{'0', '9'}});
}

CodePointSet word_characters() {
  return CodePointSet({{'A', 'Z'}, {'a', 'z'}, {'0', '9'}, {'_', '_'}});
}

/// WhiteSpace and LineTerminator of ECMA-262.
CodePointSet spaces() {
  return CodePointSet({{0x09, 0x0D},
                       {0x20, 0x20},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000},
                       {0xFEFF, 0xFEFF}});
}

CodePointSet line_terminators() {
  return CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}

/// The set of a class escape such as \d; empty for other letters.
std::optional<CodePointSet> class_escape(uint32_t letter) {
  const uint32_t lower = letter | 0x20;
  if (lower != 'd' && lower != 'w' && lower != 's') return {};
  const CodePointSet set = lower == 'd' ? digits() : lower == 'w' ? word_characters() : spaces();
  return letter == lower ? set : set.complement();
}

std::optional<uint32_t> control_escape(uint32_t letter) {
  constexpr std::string_view kLetters = "tnvfr", kControls = "\t\n\v\f\r";
  const size_t at = letter < 0x80 ? kLetters.find(static_cast<char>(letter)) : kLetters.npos;
  if (at == kLetters.npos) return {};
  return static_cast<uint32_t>(kControls[at]);
}

/// Recursive descent over ECMA-262's grammar with the flag "u".
class RegexParser {
 public:
  /// `look_around`: null if the pattern has no look-around.
  RegexParser(std::string_view pattern, TextEncoding encoding, std::string_view what, LookAround* look_around)
      : pattern_(decode_utf8(pattern, what)), encoding_(encoding), what_(what), look_around_(look_around) {}

  Expression parse() {
    Expression expression = alternatives();
    if (peek() == ')') refuse("')' without '('");
    return expression;
  }

 private:
  uint32_t peek(size_t ahead = 0) const {
    return next_ + ahead < pattern_.size() ? pattern_[next_ + ahead].first : kEndOfPattern;
  }
  bool at_end() const { return peek() == kEndOfPattern; }
  uint32_t take() { return at_end() ? kEndOfPattern : pattern_[next_++].first; }
  bool take_if(uint32_t code_point) {
    if (peek() != code_point) return false;
    ++next_;
    return true;
  }
  bool take_if(std::string_view ascii) {
    for (size_t i = 0; i < ascii.size(); ++i) {
      if (peek(i) != static_cast<uint8_t>(ascii[i])) return false;
    }
    next_ += ascii.size();
    return true;
  }

  [[noreturn]] void refuse(std::string_view reason) const {
    throw InputError("{}: {} at byte {}", what_, reason, pattern_[next_].second);
  }
  [[noreturn]] void refuse_unsupported(std::string_view name) const {
    throw InputError("{}: {} at byte {} is not supported", what_, name, pattern_[next_].second);
  }

  Expression alternatives() {
    if (++nesting_ > kMaxRegexNesting)
      refuse(fmt::format("groups nest deeper than {} levels", kMaxRegexNesting));
    std::vector<Expression> parts{terms()};
    while (take_if('|')) parts.push_back(terms());
    --nesting_;
    return Expression::choice(std::move(parts));
  }

  Expression terms() {
    std::vector<Expression> parts;
    while (!at_end() && peek() != '|' && peek() != ')') parts.push_back(term());
    return Expression::sequence(std::move(parts));
  }

  Expression term() {
    // Expression::begin() and end() would count marks as text, so ^ and $ are marks if others may occur.
    if (take_if('^')) return assertion(look_around_ ? look_around_->at_begin() : Expression::begin());
    if (take_if('$')) return assertion(look_around_ ? look_around_->at_end() : Expression::end());
    for (const bool is_negated : {false, true}) {
      if (!take_if(is_negated ? "\\B" : "\\b")) continue;
      return assertion(look_around_->word_boundary(is_negated));
    }
    if (look_around_) {
      if (const auto part = look()) return assertion(*part);
    }
    const Expression part = atom();
    const auto count = quantifier();
    return count ? Expression::repeat(part, count->least, count->most) : part;
  }

  Expression assertion(Expression expression) const {
    if (is_quantifier(peek())) refuse("an assertion cannot be repeated");
    return expression;
  }

  static bool is_quantifier(uint32_t c) { return c == '*' || c == '+' || c == '?' || c == '{'; }

  struct Count {
    int least;
    std::optional<int> most;
  };

  /// Reads a quantifier; a lazy one matches the same texts as a greedy one.
  std::optional<Count> quantifier() {
    std::optional<Count> count;
    if (take_if('*')) {
      count = {0, std::nullopt};
    } else if (take_if('+')) {
      count = {1, std::nullopt};
    } else if (take_if('?')) {
      count = {0, 1};
    } else if (take_if('{')) {
      count = braces();
    } else {
      return std::nullopt;
    }
    take_if('?');
    if (is_quantifier(peek())) refuse("there is nothing to repeat");
    return count;
  }

  Count braces() {
    const int least = number();
    if (take_if('}')) return {least, least};
    if (!take_if(',')) refuse("expected ',' or '}' of a repetition {least,most}");
    if (take_if('}')) return {least, std::nullopt};
    const int most = number();
    if (!take_if('}')) refuse("expected '}' of a repetition {least,most}");
    if (most < least) refuse("a repetition's most is below its least");
    return {least, most};
  }

  int number() {
    if (!is_digit(peek())) refuse("expected a number in {least,most} ('\\{' is a literal brace)");
    int value = 0;
    while (is_digit(peek())) {
      value = value * 10 + static_cast<int>(take() - '0');
      if (value > kMaxRegexRepeat) refuse(fmt::format("a repetition of more than {}", kMaxRegexRepeat));
    }
    return value;
  }

  static bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

  Expression atom() {
    if (is_quantifier(peek())) refuse("there is nothing to repeat");
    if (take_if('.')) return of(line_terminators().complement());
    if (peek() == '(') return group();
    if (take_if('[')) return of(character_class());
    if (peek() == '\\') return of(escape(false));
    const uint32_t c = take();
    return of(CodePointSet({{c, c}}));
  }

  Expression of(const CodePointSet& set) const { return Expression::code_points(set, encoding_); }

  /// Reads a look-around, if one begins here.
  std::optional<Expression> look() {
    struct Form {
      std::string_view begin;
      bool is_ahead, is_negated;
    };
    for (const auto& [begin, is_ahead, is_negated] :
         {Form{"(?=", true, false}, {"(?!", true, true}, {"(?<=", false, false}, {"(?<!", false, true}}) {
      if (!take_if(begin)) continue;
      const size_t first = next_;
      const Expression content = alternatives();
      std::string key;
      for (size_t i = first; i < next_; ++i) key += fmt::format("{} ", pattern_[i].first);
      if (!take_if(')')) refuse("expected ')'");
      return is_ahead ? look_around_->ahead(key, content, is_negated)
                      : look_around_->behind(key, content, is_negated);
    }
    return std::nullopt;
  }

  Expression group() {
    struct Unsupported {
      std::string_view begin, name;
    };
    for (const auto& [begin, name] :
         {Unsupported{"(?>", "the atomic group \"(?>\""}, {"(?P=", "the back reference \"(?P=\""}}) {
      const size_t before = next_;
      const bool is_this = take_if(begin);
      next_ = before;
      if (is_this) refuse_unsupported(name);
    }
    if (take_if("(?<") || take_if("(?P<")) {
      while (!at_end() && peek() != '>') take();
      if (!take_if('>')) refuse("expected '>' after a group's name");
    } else if (!take_if("(?:")) {
      if (peek(1) == '?') refuse_unsupported("the group or inline flag \"(?\"");
      take();
    }
    Expression expression = alternatives();
    if (!take_if(')')) refuse("expected ')'");
    return expression;
  }

  /// Reads a class; the position is after '['.
  CodePointSet character_class() {
    const bool is_negated = take_if('^');
    std::vector<Interval> intervals;
    const auto add = [&](const CodePointSet& set) {
      intervals.insert(intervals.end(), set.intervals().begin(), set.intervals().end());
    };
    while (!take_if(']')) {
      const CodePointSet first = class_atom();
      if (peek() != '-' || peek(1) == ']' || peek(1) == kEndOfPattern) {
        add(first);
        continue;
      }
      take();
      const CodePointSet last = class_atom();
      if (!is_single(first) || !is_single(last)) refuse("a range in [...] needs single characters");
      if (code_point_of(first) > code_point_of(last)) refuse("a range in [...] is out of order");
      intervals.push_back({code_point_of(first), code_point_of(last)});
    }
    const CodePointSet set(std::move(intervals));
    return is_negated ? set.complement() : set;
  }

  static bool is_single(const CodePointSet& set) {
    return set.intervals().size() == 1 && set.intervals()[0].first == set.intervals()[0].last;
  }
  static uint32_t code_point_of(const CodePointSet& set) { return set.intervals()[0].first; }

  CodePointSet class_atom() {
    if (at_end()) refuse("expected ']'");
    if (peek() == '\\') return escape(true);
    const uint32_t c = take();
    return CodePointSet({{c, c}});
  }

  /// Reads a character or class escape; the position is at its backslash.
  CodePointSet escape(bool in_class) {
    const uint32_t letter = peek(1);
    if (!in_class && letter >= '1' && letter <= '9') refuse_unsupported("a back reference");
    if (!in_class && letter == 'k') refuse_unsupported("the back reference \"\\k\"");
    if (letter == 'p' || letter == 'P') return property(letter == 'P');
    if (letter == kEndOfPattern) refuse("a backslash ends the expression");
    next_ += 2;
    if (const auto set = class_escape(letter)) return *set;
    const uint32_t c = letter == 'b' ? uint32_t{'\b'} : character_escape(letter);
    return CodePointSet({{c, c}});
  }

  /// Reads \p{Name} or \P{Name}; the position is at its backslash.
  CodePointSet property(bool is_negated) {
    const size_t before = next_;
    next_ += 2;
    std::string name;
    if (take_if('{')) {
      while (!at_end() && peek() != '}' && peek() < 0x80) name += static_cast<char>(take());
      if (!take_if('}')) refuse("expected '}' after a Unicode property");
    }
    const auto set = unicode_property(name);
    if (!set) {
      next_ = before;
      refuse_unsupported(fmt::format("the Unicode property {}", in_quotes(name)));
    }
    return is_negated ? set->complement() : *set;
  }

  /// Reads the rest of a character escape; the position is after a backslash and `letter`.
  uint32_t character_escape(uint32_t letter) {
    if (const auto control = control_escape(letter)) return *control;
    const auto is_letter = [](uint32_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
    if (letter == '0' && !is_digit(peek())) return 0;
    if (letter == 'c' && is_letter(peek())) return take() % 32;
    if (letter == 'x') return hex_digits(2);
    if (letter == 'u') return unicode_escape();
    // Punctuation stands for itself; letters and digits could mean anything.
    if (is_letter(letter) || is_digit(letter) || letter >= 0x80) {
      next_ -= 2;
      refuse("an escape that ECMA-262 does not know");
    }
    return letter;
  }

  uint32_t unicode_escape() {
    if (take_if('{')) {
      uint32_t value = hex_digits(1);
      while (!take_if('}')) {
        value = value * 16 + hex_digits(1);
        if (value > 0x10FFFF) refuse("a code point above 10FFFF");
      }
      return value;
    }
    const uint32_t first = hex_digits(4);
    if (first >> 10 != 0x36 || peek() != '\\' || peek(1) != 'u') return first;
    const size_t before = next_;
    next_ += 2;
    const uint32_t second = hex_digits(4);
    if (second >> 10 == 0x37) return 0x10000 + ((first & 0x3FF) << 10 | (second & 0x3FF));
    next_ = before;
    return first;
  }

  uint32_t hex_digits(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const uint32_t c = peek();
      const uint32_t lower = c | 0x20;
      if (!is_digit(c) && !(lower >= 'a' && lower <= 'f')) refuse("expected a hexadecimal digit");
      value = value * 16 + (is_digit(c) ? c - '0' : lower - 'a' + 10);
      take();
    }
    return value;
  }

  const std::vector<std::pair<uint32_t, size_t>>
      pattern_;  // code points with byte offsets; kEndOfPattern last
  const TextEncoding encoding_;
  const std::string_view what_;
  LookAround* const look_around_;
  size_t next_ = 0;
  int nesting_ = 0;
};

/// Whether a pattern may have assertions other than ^ and $.
bool may_look_around(std::string_view pattern) {
  for (const std::string_view begin : {"(?=", "(?!", "(?<=", "(?<!", "\\b", "\\B"}) {
    if (pattern.find(begin) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

Expression regex_expression(std::string_view pattern, RegexMatch match, TextEncoding encoding,
                            std::string_view what, AutomatonLimits& limits) {
  if (pattern.size() > kMaxRegexBytes)
    throw InputError("{}: has {} bytes; expected at most {}", what, pattern.size(), kMaxRegexBytes);
  constexpr size_t kStepsPerByte = 100;
  spend_steps(pattern.size() * kStepsPerByte);
  LookAround look_around(encoding, what, limits);
  const bool looks = may_look_around(pattern);
  Expression expression = RegexParser(pattern, encoding, what, looks ? &look_around : nullptr).parse();
  if (match == RegexMatch::kSearch) {
    const Expression any = Expression::repeat(Expression::code_points(CodePointSet::all(), encoding), 0, {});
    expression = Expression::sequence({any, expression, any});
  }
  if (looks) return Expression::automaton(look_around.resolve(expression));
  // Compiled here, so that ^ and $ refer to this text and not to the surrounding expression.
  return Expression::automaton(ByteAutomaton::compile(expression, what, limits));
}

Expression regex_expression(std::string_view pattern, RegexMatch match, TextEncoding encoding,
                            std::string_view what) {
  AutomatonLimits limits;
  return regex_expression(pattern, match, encoding, what, limits);
}

}  // namespace lacuna
