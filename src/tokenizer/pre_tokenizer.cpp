#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/sentencepiece.h"

namespace lacuna {

namespace {

// A match of the expression, or the text between two matches.
struct Stretch {
  TextRange range;
  bool is_match = false;
};

// Stretches that cover the whole text in order. Empty matches are kept: they keep neighbors from joining.
std::vector<Stretch> stretches_of(const Regex& regex, std::string_view text, bool invert,
                                  int64_t& work_left) {
  std::vector<Stretch> stretches;
  size_t end = 0;
  for (const TextRange match : regex.find_all(text, work_left)) {
    if (end != match.begin) stretches.push_back({{end, match.begin}, invert});
    stretches.push_back({match, !invert});
    end = match.end;
  }
  if (end != text.size()) stretches.push_back({{end, text.size()}, invert});
  return stretches;
}

// Whether `second` joins the piece that ends with `first`. Of several matches in a row, only the one next to
// the text joins it.
bool joins(SplitBehavior behavior, const Stretch& first, const Stretch& second) {
  if (behavior == SplitBehavior::kContiguous) return first.is_match == second.is_match;
  if (behavior == SplitBehavior::kMergedWithPrevious) return !first.is_match && second.is_match;
  return behavior == SplitBehavior::kMergedWithNext && first.is_match && !second.is_match;
}

void append_piece(std::string_view piece, Pieces& pieces) {
  const size_t begin = pieces.text.size();
  pieces.text += piece;
  pieces.ranges.push_back({begin, pieces.text.size()});
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerRule>& rules, BpeSymbols symbols,
                           const std::string& name) {
  constexpr size_t kMaxRules = 64;
  if (rules.size() > kMaxRules)
    throw InputError("{} has {} steps; expected at most {}", name, rules.size(), kMaxRules);
  const auto is_byte_level = [](const PreTokenizerRule& rule) {
    return std::holds_alternative<ByteLevelRule>(rule);
  };
  const auto byte_level_count = std::count_if(rules.begin(), rules.end(), is_byte_level);
  const bool has_bytes = symbols == BpeSymbols::kBytes;
  if (!has_bytes && byte_level_count > 0)
    throw InputError("{} has a ByteLevel step; expected none with model.byte_fallback", name);
  if (has_bytes && byte_level_count == 0)
    throw InputError("{} has no ByteLevel step, as byte-level BPE needs", name);
  if (byte_level_count > 1) throw InputError("{} has more than one ByteLevel step", name);
  // Rules after ByteLevel see byte characters. If ByteLevel is last, as usual, none are needed.
  const bool spelled = has_bytes && !is_byte_level(rules.back());

  const auto add_split = [&](const SplitRule& rule) {
    steps_.emplace_back(Split{Regex(rule.pattern, rule.syntax, name), rule.behavior, rule.invert});
  };
  for (const PreTokenizerRule& rule : rules) {
    if (const auto* split_rule = std::get_if<SplitRule>(&rule)) {
      add_split(*split_rule);
      continue;
    }
    if (const auto* spaces = std::get_if<MetaspaceRule>(&rule)) {
      if (has_bytes) throw InputError("{} has a Metaspace step; expected none with ByteLevel", name);
      steps_.emplace_back(EscapedSpaces{spaces->prepend});
      if (spaces->splits)
        add_split({.pattern = std::string(kEscapedSpace),
                   .syntax = Regex::Syntax::kLiteral,
                   .behavior = SplitBehavior::kMergedWithNext});
      continue;
    }
    const auto& byte_level = std::get<ByteLevelRule>(rule);
    if (byte_level.add_prefix_space) steps_.emplace_back(PrefixSpace{});
    if (byte_level.use_regex) add_split({.pattern = std::string(kGpt2Pattern)});
    if (spelled) steps_.emplace_back(ToByteCharacters{});
  }
  if (spelled) steps_.emplace_back(ToBytes{});
}

Pieces PreTokenizer::split(std::string_view text, bool begins_text) const {
  Pieces pieces;
  pieces.begins_text = begins_text;
  pieces.work_left = Regex::work_for(text);
  if (!text.empty()) append_piece(text, pieces);
  for (const Step& step : steps_) {
    pieces = std::visit([&](const auto& kind) { return apply(kind, std::move(pieces)); }, step);
  }
  return pieces;
}

Pieces PreTokenizer::apply(const Split& step, Pieces pieces) {
  std::vector<TextRange> ranges;
  for (const TextRange whole : pieces.ranges) {
    const std::vector<Stretch> stretches =
        stretches_of(step.regex, whole.of(pieces.text), step.invert, pieces.work_left);
    const size_t first_range = ranges.size();
    for (size_t index = 0; index < stretches.size(); ++index) {
      const auto [range, is_match] = stretches[index];
      if (step.behavior == SplitBehavior::kRemoved && is_match) continue;
      if (index > 0 && joins(step.behavior, stretches[index - 1], stretches[index])) {
        ranges.back().end = whole.begin + range.end;
      } else {
        ranges.push_back({whole.begin + range.begin, whole.begin + range.end});
      }
    }
    const auto begin = ranges.begin() + static_cast<std::ptrdiff_t>(first_range);
    ranges.erase(std::remove_if(begin, ranges.end(), [](TextRange range) { return range.empty(); }),
                 ranges.end());
  }
  pieces.ranges = std::move(ranges);
  return pieces;
}

Pieces PreTokenizer::apply(PrefixSpace /*step*/, const Pieces& pieces) {
  Pieces result{{}, {}, pieces.work_left, pieces.begins_text};
  for (const TextRange range : pieces.ranges) {
    const std::string_view piece = range.of(pieces.text);
    append_piece(piece.starts_with(' ') ? std::string(piece) : fmt::format(" {}", piece), result);
  }
  return result;
}

Pieces PreTokenizer::apply(EscapedSpaces step, const Pieces& pieces) {
  using Prepend = MetaspaceRule::Prepend;
  Pieces result{{}, {}, pieces.work_left, pieces.begins_text};
  for (const TextRange range : pieces.ranges) {
    const std::string piece = escape_spaces(range.of(pieces.text));
    const bool is_first = pieces.begins_text && range.begin == 0;
    const bool may_prepend =
        step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && is_first);
    append_piece(
        may_prepend && !piece.starts_with(kEscapedSpace) ? std::string(kEscapedSpace) + piece : piece,
        result);
  }
  return result;
}

Pieces PreTokenizer::apply(ToByteCharacters /*step*/, const Pieces& pieces) {
  Pieces result{{}, {}, pieces.work_left, pieces.begins_text};
  for (const TextRange range : pieces.ranges) append_piece(to_byte_characters(range.of(pieces.text)), result);
  return result;
}

Pieces PreTokenizer::apply(ToBytes /*step*/, const Pieces& pieces) {
  Pieces result{{}, {}, pieces.work_left, pieces.begins_text};
  for (const TextRange range : pieces.ranges) {
    const auto bytes = from_byte_characters(range.of(pieces.text));
    expects(bytes.has_value(), "pieces are cut between byte characters");
    append_piece(*bytes, result);
  }
  return result;
}

}  // namespace lacuna
