#include "constraint/gbnf.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/json.h"
#include "constraint/json_schema.h"
#include "constraint/utf8_text.h"

namespace lacuna {
namespace {

constexpr size_t kNoRule = static_cast<size_t>(-1);

struct GrammarPart;
using GrammarSequence = std::vector<GrammarPart>;
using GrammarChoice = std::vector<GrammarSequence>;

/// A text or class (`fixed`), a rule, or a group, with its repetition.
struct GrammarPart {
  std::optional<Expression> fixed = {};
  size_t rule = kNoRule;
  GrammarChoice group = {};
  int least = 1;
  std::optional<int> most = 1;

  bool is_once() const { return least == 1 && most == 1; }
};

struct GrammarRule {
  std::string name;
  std::optional<GrammarChoice> choice = {};
  size_t line = 0;  // first use
};

bool is_name_character(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GrammarParser {
 public:
  GrammarParser(std::string_view text, std::string_view what) : what_(what), text_(decode_utf8(text, what)) {}

  std::vector<GrammarRule> parse() {
    skip(true);
    while (peek() != kEndOfText) {
      const size_t rule = rule_of(name());
      skip(false);
      for (const char c : {':', ':', '='}) {
        if (take() != static_cast<uint32_t>(c)) refuse("expected \"::=\" after a rule's name");
      }
      if (rules_[rule].choice) refuse("the rule " + in_quotes(rules_[rule].name) + " is defined twice");
      skip(true);
      GrammarChoice choice = alternatives(false);
      rules_[rule].choice = std::move(choice);
      skip(true);
    }
    for (const GrammarRule& rule : rules_) {
      if (!rule.choice)
        throw InputError("{}: line {}: the rule {} is not defined", what_, rule.line, in_quotes(rule.name));
    }
    return std::move(rules_);
  }

 private:
  uint32_t peek(size_t ahead = 0) const {
    return next_ + ahead < text_.size() ? text_[next_ + ahead].first : kEndOfText;
  }
  uint32_t take() {
    const uint32_t c = peek();
    if (c == kEndOfText) refuse("the grammar ends too early");
    if (c == '\n') ++line_;
    ++next_;
    return c;
  }
  [[noreturn]] void refuse(std::string_view reason) const {
    throw InputError("{}: line {}: {}", what_, line_, reason);
  }

  /// Skips spaces and comments, and line ends if `over_lines`.
  void skip(bool over_lines) {
    while (true) {
      const uint32_t c = peek();
      if (c == '#') {
        while (peek() != '\n' && peek() != kEndOfText) take();
      } else if (c == ' ' || c == '\t' || c == '\r' || (over_lines && c == '\n')) {
        take();
      } else {
        return;
      }
    }
  }

  std::string name() {
    std::string result;
    while (is_name_character(peek())) result += static_cast<char>(take());
    if (result.empty()) refuse("expected the name of a rule");
    return result;
  }

  size_t rule_of(const std::string& name) {
    const auto [known, is_new] = numbers_.try_emplace(name, rules_.size());
    if (is_new) rules_.push_back({name, std::nullopt, line_});
    if (rules_.size() > kMaxGrammarRules) refuse(fmt::format("more than {} rules", kMaxGrammarRules));
    return known->second;
  }

  GrammarChoice alternatives(bool is_nested) {
    if (++nesting_ > kMaxGrammarNesting)
      refuse(fmt::format("groups nest deeper than {} levels", kMaxGrammarNesting));
    GrammarChoice choice{sequence(is_nested)};
    while (peek() == '|') {
      take();
      skip(true);
      choice.push_back(sequence(is_nested));
    }
    --nesting_;
    return choice;
  }

  GrammarSequence sequence(bool is_nested) {
    GrammarSequence parts;
    while (true) {
      const uint32_t c = peek();
      if (c == kEndOfText || c == '|' || c == ')' || c == '\n') break;
      GrammarPart part = atom();
      // Several repetitions may follow one part: a?* means (a?)*.
      while (const auto count = repetition()) {
        if (!part.is_once()) {
          GrammarPart outer;
          outer.group = {{std::move(part)}};
          part = std::move(outer);
        }
        part.least = count->first;
        part.most = count->second;
      }
      parts.push_back(std::move(part));
      skip(is_nested);
    }
    return parts;
  }

  GrammarPart atom() {
    GrammarPart part;
    const uint32_t c = peek();
    if (c == '"') {
      part.fixed = quoted();
    } else if (c == '[') {
      part.fixed = character_class();
    } else if (c == '.') {
      take();
      part.fixed = Expression::code_points(CodePointSet::all());
    } else if (c == '(') {
      take();
      skip(true);
      part.group = alternatives(true);
      if (peek() != ')') refuse("expected ')'");
      take();
    } else if (c == '<' || c == '!') {
      refuse("tokens (<...>) are not supported");
    } else if (is_name_character(c)) {
      part.rule = rule_of(name());
    } else {
      refuse("expected a rule's name, a text in quotes, [...], ., or (...)");
    }
    return part;
  }

  Expression quoted() {
    take();
    std::vector<Expression> parts;
    while (peek() != '"') {
      const uint32_t c = character();
      parts.push_back(Expression::code_points(CodePointSet({{c, c}})));
    }
    take();
    return Expression::sequence(std::move(parts));
  }

  Expression character_class() {
    take();
    const bool is_negated = peek() == '^';
    if (is_negated) take();
    std::vector<CodePointSet::Interval> intervals;
    while (peek() != ']') {
      const uint32_t first = character();
      uint32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        take();
        last = character();
      }
      if (last < first) refuse("a range in [...] is out of order");
      intervals.push_back({first, last});
    }
    take();
    const CodePointSet set(std::move(intervals));
    return Expression::code_points(is_negated ? set.complement() : set);
  }

  uint32_t character() {
    const uint32_t c = take();
    if (c == '\n') refuse("a line ends within a text or class (\"\\n\" is a line's end)");
    if (c != '\\') return c;
    const uint32_t letter = take();
    if (letter == 'x') return hex_digits(2);
    if (letter == 'u') return hex_digits(4);
    if (letter == 'U') return hex_digits(8);
    constexpr std::u32string_view kLetters = U"ntr\\\"[]-^", kMeanings = U"\n\t\r\\\"[]-^";
    const size_t found = kLetters.find(static_cast<char32_t>(letter));
    if (found == kLetters.npos)
      refuse(
          "an unknown escape; expected \\n, \\t, \\r, \\xHH, \\uHHHH, \\UHHHHHHHH, \\\\, \\\", \\[ or \\]");
    return kMeanings[found];
  }

  uint32_t hex_digits(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const uint32_t c = take(), lower = c | 0x20;
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && !(lower >= 'a' && lower <= 'f')) refuse("expected a hexadecimal digit");
      if (value > 0x10FFFF) refuse("a code point above 10FFFF");
      value = value * 16 + (is_digit ? c - '0' : lower - 'a' + 10);
    }
    if (value > 0x10FFFF) refuse("a code point above 10FFFF");
    return value;
  }

  std::optional<std::pair<int, std::optional<int>>> repetition() {
    const size_t before = next_;
    skip(false);
    const uint32_t c = peek();
    if (c == '*' || c == '+' || c == '?') {
      take();
      return std::pair(c == '+' ? 1 : 0, c == '?' ? std::optional<int>(1) : std::nullopt);
    }
    if (c != '{') {
      next_ = before;
      return std::nullopt;
    }
    take();
    skip(false);
    const int least = peek() == ',' ? 0 : number();
    int most = least;
    bool ends = true;
    skip(false);
    if (peek() == ',') {
      take();
      skip(false);
      ends = peek() != '}';
      if (ends) most = number();
      skip(false);
    }
    if (take() != '}') refuse("expected '}' of a repetition {m,n}");
    if (most < least) refuse("a repetition's most is below its least");
    return std::pair(least, ends ? std::optional<int>(most) : std::nullopt);
  }

  int number() {
    int value = 0;
    if (peek() < '0' || peek() > '9') refuse("expected a number in {m,n}");
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<int>(take() - '0');
      if (value > kMaxGrammarRepeat) refuse(fmt::format("a repetition of more than {}", kMaxGrammarRepeat));
    }
    return value;
  }

  static constexpr uint32_t kEndOfText = kEndOfCodePoints;
  const std::string_view what_;
  const std::vector<std::pair<uint32_t, size_t>> text_;
  size_t next_ = 0, line_ = 1;
  int nesting_ = 0;
  std::vector<GrammarRule> rules_;
  std::unordered_map<std::string, size_t> numbers_;
};

class GrammarCompiler {
 public:
  GrammarCompiler(const std::vector<GrammarRule>& rules, std::string_view what, int recursion_depth)
      : rules_(rules), what_(what), recursion_depth_(recursion_depth), times_open_(rules.size(), 0) {}

  Expression compile(size_t rule) {
    if (times_open_[rule] == recursion_depth_) {
      is_cut_ = true;
      return Expression::nothing();
    }
    constexpr size_t kStepsPerVisit = 200;
    spend_steps(kStepsPerVisit);
    if (++num_visits_ > kMaxGrammarVisits)
      throw AutomatonTooLarge("{}: more than {} rules, those that rules repeat included", what_,
                              kMaxGrammarVisits);
    if (nesting_ == kMaxGrammarNesting)
      throw AutomatonTooLarge("{}: rules nest deeper than {} levels", what_, kMaxGrammarNesting);
    ++nesting_;
    ++times_open_[rule];
    Expression result = of_rule(rule);
    --times_open_[rule];
    --nesting_;
    return result;
  }

  bool is_cut() const { return is_cut_; }

 private:
  /// Eliminates direct recursion: R = A R | R C | B becomes A* B C*.
  Expression of_rule(size_t rule) {
    std::vector<Expression> before, middle, after;
    for (const GrammarSequence& own : unfolded(rule)) {
      const bool ends = !own.empty() && is_rule(own.back(), rule);
      const bool begins = !own.empty() && is_rule(own.front(), rule);
      if (own.size() == 1 && ends) continue;  // R = R adds no text
      if (ends && !begins) {
        before.push_back(of_sequence({own.begin(), own.end() - 1}));
      } else if (begins && !ends) {
        after.push_back(of_sequence({own.begin() + 1, own.end()}));
      } else {
        middle.push_back(of_sequence(own));
      }
    }
    // A and C can be applied in any order around B: all texts are in A* B C*.
    return Expression::sequence({Expression::repeat(Expression::choice(std::move(before)), 0, std::nullopt),
                                 Expression::choice(std::move(middle)),
                                 Expression::repeat(Expression::choice(std::move(after)), 0, std::nullopt)});
  }

  static bool is_rule(const GrammarPart& part, size_t rule) { return part.rule == rule && part.is_once(); }

  /// Whether a part is the rule, or a group in which an alternative ends with it.
  static bool ends_with(const GrammarPart& part, size_t rule, int depth) {
    if (part.rule == rule) return true;
    return depth > 0 && std::ranges::any_of(part.group, [&](const GrammarSequence& each) {
             return !each.empty() && ends_with(each.back(), rule, depth - 1);
           });
  }

  /// Alternatives of a rule. Groups at the end that end with the rule are expanded for of_rule().
  GrammarChoice unfolded(size_t rule) const {
    constexpr int kMaxDepth = 8;
    constexpr size_t kMaxAlternatives = 1'000;
    GrammarChoice open = *rules_[rule].choice, done;
    while (!open.empty()) {
      GrammarSequence own = std::move(open.back());
      open.pop_back();
      spend_steps(own.size() + 1);
      const bool is_simple = own.empty() || is_rule(own.back(), rule) ||
                             !ends_with(own.back(), rule, kMaxDepth) || own.back().least > 1 ||
                             own.back().most != 1 || open.size() + done.size() > kMaxAlternatives;
      if (is_simple) {
        done.push_back(std::move(own));
        continue;
      }
      const GrammarPart last = std::move(own.back());
      own.pop_back();
      if (last.least == 0) open.push_back(own);
      if (last.rule != kNoRule) {
        GrammarSequence longer = own;
        longer.push_back({.rule = last.rule});
        open.push_back(std::move(longer));
      }
      for (const GrammarSequence& each : last.group) {
        GrammarSequence longer = own;
        longer.insert(longer.end(), each.begin(), each.end());
        open.push_back(std::move(longer));
      }
    }
    std::ranges::reverse(done);
    return done;
  }

  Expression of_sequence(const GrammarSequence& parts) {
    std::vector<Expression> expressions;
    for (const GrammarPart& part : parts) {
      expressions.push_back(of_part(part));
      if (expressions.back().is_nothing()) return Expression::nothing();
    }
    return Expression::sequence(std::move(expressions));
  }

  Expression of_part(const GrammarPart& part) {
    Expression once = Expression::nothing();
    if (part.fixed) {
      once = *part.fixed;
    } else if (part.rule != kNoRule) {
      once = compile(part.rule);
    } else {
      std::vector<Expression> choice;
      for (const GrammarSequence& each : part.group) choice.push_back(of_sequence(each));
      once = Expression::choice(std::move(choice));
    }
    return part.is_once() ? once : Expression::repeat(once, part.least, part.most);
  }

  const std::vector<GrammarRule>& rules_;
  const std::string_view what_;
  const int recursion_depth_;
  std::vector<int> times_open_;
  int num_visits_ = 0, nesting_ = 0;
  bool is_cut_ = false;
};

}  // namespace

Expression gbnf_expression(std::string_view grammar, std::string_view what, AutomatonLimits& limits) {
  if (grammar.size() > kMaxGrammarBytes)
    throw InputError("{}: has {} bytes; expected at most {}", what, grammar.size(), kMaxGrammarBytes);
  constexpr size_t kStepsPerByte = 100;
  spend_steps(grammar.size() * kStepsPerByte);
  const std::vector<GrammarRule> rules = GrammarParser(grammar, what).parse();
  const auto root = std::ranges::find(rules, "root", &GrammarRule::name);
  if (root == rules.end()) throw InputError("{}: has no rule \"root\"", what);
  for (int depth = kRecursionDepth;; --depth) {
    const BytesMark mark;
    GrammarCompiler compiler(rules, what, depth);
    AutomatonLimits own = limits;
    try {
      const Expression expression = compiler.compile(static_cast<size_t>(root - rules.begin()));
      if (expression.is_nothing() && compiler.is_cut())
        throw InputError("{}: its rules repeat within themselves without an end", what);
      ByteAutomaton automaton = ByteAutomaton::compile(expression, what, own);
      limits = own;
      return Expression::automaton(std::move(automaton));
    } catch (const AutomatonTooLarge&) {
      if (!compiler.is_cut() || depth == 1) throw;
    }
    mark.give_back();
  }
}

}  // namespace lacuna
