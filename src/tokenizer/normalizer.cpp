#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  utf8proc_int32_t character = 0;
  for (utf8proc_ssize_t position = 0; position < size;) {
    const auto length = utf8proc_iterate(bytes + position, size - position, &character);
    expects(length > 0, "normalize() is given well-formed UTF-8");
    visit(character);
    position += length;
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

// Decomposes, and sorts combining marks canonically in O(n log n). utf8proc_map() does both, too, but its
// sort takes quadratic time for long runs of marks.
std::vector<utf8proc_int32_t> decompose(std::string_view text, utf8proc_option_t options) {
  constexpr size_t kLongest = 18;  // longest decomposition of one character (U+FDFA)
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size() + 1);
  for_each_character(text, [&](utf8proc_int32_t character) {
    std::array<utf8proc_int32_t, kLongest> parts{};
    int boundary = 0;
    const auto count = utf8proc_decompose_char(character, parts.data(), kLongest, options, &boundary);
    expects(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kLongest),
            "decompositions have at most kLongest characters");
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  });
  const auto mark_class = [](utf8proc_int32_t character) {
    return utf8proc_get_property(character)->combining_class;
  };
  const auto is_mark = [&](utf8proc_int32_t character) { return mark_class(character) > 0; };
  for (auto end = characters.begin(); end != characters.end();) {
    const auto begin = std::find_if(end, characters.end(), is_mark);
    end = std::find_if_not(begin, characters.end(), is_mark);
    std::stable_sort(begin, end, [&](utf8proc_int32_t left, utf8proc_int32_t right) {
      return mark_class(left) < mark_class(right);
    });
  }
  return characters;
}

std::string to_normal_form(std::string_view text, int steps) {
  if (is_ascii(text)) return std::string(text);
  const auto options = static_cast<utf8proc_option_t>(steps | UTF8PROC_STABLE);
  std::vector<utf8proc_int32_t> characters = decompose(text, options);
  const auto count = static_cast<utf8proc_ssize_t>(characters.size());
  characters.push_back(0);  // utf8proc_reencode() works in place and appends a zero
  const auto size = utf8proc_reencode(characters.data(), count, options);
  if (size < 0) throw InputError("the text cannot be normalised ({})", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(characters.data()), static_cast<size_t>(size)};
}

std::string without_marks(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](utf8proc_int32_t character) {
    const utf8proc_category_t category = utf8proc_category(character);
    const bool is_mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                         category == UTF8PROC_CATEGORY_ME;
    if (!is_mark) append_utf8(static_cast<char32_t>(character), result);
  });
  return result;
}

bool is_between(utf8proc_int32_t character, utf8proc_int32_t first, utf8proc_int32_t last) {
  return character >= first && character <= last;
}

std::string without_controls(std::string_view text) {
  constexpr std::array<utf8proc_int32_t, 4> kRemoved = {0x0b, 0x7f, 0x8f, 0x9f};
  constexpr std::array<utf8proc_int32_t, 10> kSpaces = {0x09,   0x0a,   0x0c,   0x0d,   0x1680,
                                                        0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd};
  const auto has = [](const auto& list, utf8proc_int32_t character) {
    return std::find(list.begin(), list.end(), character) != list.end();
  };
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](utf8proc_int32_t character) {
    if (is_between(character, 0x01, 0x08) || is_between(character, 0x0e, 0x1f) || has(kRemoved, character))
      return;
    const bool is_space = has(kSpaces, character) || is_between(character, 0x200b, 0x200f);
    append_utf8(is_space ? U' ' : static_cast<char32_t>(character), result);
  });
  return result;
}

std::string to_lower_case(std::string_view text) {
  constexpr utf8proc_int32_t kCapitalIWithDot = 0x130;  // the one character whose lower case is two
  std::string lower;
  lower.reserve(text.size());
  for_each_character(text, [&](utf8proc_int32_t character) {
    if (character == kCapitalIWithDot) {
      lower += "i\u0307";
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(character)), lower);
    }
  });
  return lower;
}

std::string apply_to(std::string_view text, Normalization step) {
  switch (step) {
    case Normalization::kNfc:
      return to_normal_form(text, UTF8PROC_COMPOSE);
    case Normalization::kNfd:
      return to_normal_form(text, UTF8PROC_DECOMPOSE);
    case Normalization::kNfkc:
      return to_normal_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case Normalization::kNfkd:
      return to_normal_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    case Normalization::kLowercase:
      return to_lower_case(text);
    case Normalization::kStripAccents:
      return without_marks(text);
    case Normalization::kNmt:
      return without_controls(text);
  }
  return std::string(text);
}

std::vector<TextRange> find_all(std::string_view text, std::string_view pattern) {
  std::vector<TextRange> matches;
  for (size_t at = text.find(pattern); at != std::string_view::npos;
       at = text.find(pattern, matches.back().end))
    matches.push_back({at, at + pattern.size()});
  return matches;
}

std::string replace(std::string_view text, const std::vector<TextRange>& matches, std::string_view content) {
  std::string result;
  size_t end = 0;
  for (const TextRange match : matches) {
    result.append(text.substr(end, match.begin - end)).append(content);
    end = match.end;
  }
  return result.append(text.substr(end));
}

}  // namespace

ReplaceRule escaped_spaces_rule() {
  return {.pattern = " ", .content = std::string(kEscapedSpace)};
}

PrependRule escaped_space_before_rule() {
  return {std::string(kEscapedSpace)};
}

Normalizer::Normalizer(const std::vector<NormalizerRule>& rules, const std::string& name) : name_(name) {
  constexpr size_t kRulesMax = 64;
  constexpr size_t kContentBytesMax = 1024;
  if (rules.size() > kRulesMax)
    throw InputError("{} has {} steps; expected at most {}", name, rules.size(), kRulesMax);
  const auto check_content = [&](std::string_view content) {
    if (content.size() > kContentBytesMax)
      throw InputError("{} writes a text of {} bytes; expected at most {}", name, content.size(),
                       kContentBytesMax);
  };
  for (const NormalizerRule& rule : rules) {
    if (const auto* replaced = std::get_if<ReplaceRule>(&rule)) {
      check_content(replaced->content);
      if (replaced->pattern.empty()) throw InputError("{} replaces an empty text; expected some text", name);
      Replace step{.pattern = replaced->pattern, .content = replaced->content};
      if (replaced->syntax == Regex::Syntax::kExpression)
        step.expression.emplace(replaced->pattern, replaced->syntax, name);
      steps_.emplace_back(std::move(step));
    } else if (const auto* prepended = std::get_if<PrependRule>(&rule)) {
      check_content(prepended->text);
      steps_.emplace_back(*prepended);
    } else if (const auto* strip = std::get_if<StripRule>(&rule)) {
      steps_.emplace_back(*strip);
    } else {
      steps_.emplace_back(std::get<Normalization>(rule));
    }
  }
}

std::string Normalizer::apply(std::string_view text) const {
  constexpr size_t kAnyBytes = 1 << 12;
  constexpr size_t kGrowthMax = 64;  // growth factor; a character may become eleven of its size
  constexpr size_t kBytesPerStep = 16;
  const size_t bytes_max = kAnyBytes + kGrowthMax * text.size();
  int64_t work_left = Regex::work_for(text);
  std::string result(text);
  for (const Step& step : steps_) {
    spend_steps(1 + result.size() / kBytesPerStep);
    if (const auto* form = std::get_if<Normalization>(&step)) {
      result = apply_to(result, *form);
    } else if (const auto* replaced = std::get_if<Replace>(&step)) {
      const std::vector<TextRange> matches = replaced->expression
                                                 ? replaced->expression->find_all(result, work_left)
                                                 : find_all(result, replaced->pattern);
      if (matches.size() * replaced->content.size() > bytes_max)
        throw InputError("{} makes a text of more than {} bytes of one of {}", name_, bytes_max, text.size());
      result = replace(result, matches, replaced->content);
    } else if (const auto* prepended = std::get_if<PrependRule>(&step)) {
      if (!result.empty()) result.insert(0, prepended->text);
    } else {
      const auto [left, right] = std::get<StripRule>(step);
      if (left) result = std::string(trim_start(result));
      if (right) result = std::string(trim_end(result));
    }
    if (result.size() > bytes_max)
      throw InputError("{} makes a text of more than {} bytes of one of {}", name_, bytes_max, text.size());
  }
  return result;
}

}  // namespace lacuna
