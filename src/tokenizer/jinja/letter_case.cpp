#include "tokenizer/jinja/letter_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace lacuna::jinja {
namespace {

char32_t upper(char32_t character) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character)));
}

bool is_category(char32_t character, std::initializer_list<utf8proc_category_t> categories) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return std::find(categories.begin(), categories.end(), category) != categories.end();
}

// The case folding of a character whose upper case has several characters (Unicode's SpecialCasing.txt),
// which are those of its folding in upper case; empty for other characters.
std::u32string long_folding(char32_t character) {
  if (character < 0xdf || is_upper(character)) return {};
  std::array<utf8proc_int32_t, 4> parts{};
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts.data(),
                                             parts.size(), UTF8PROC_CASEFOLD, nullptr);
  return count > 1 ? std::u32string(parts.begin(), parts.begin() + count) : std::u32string();
}

}  // namespace

std::u32string upper_of(char32_t character) {
  std::u32string parts = long_folding(character);
  if (parts.empty()) return {upper(character)};
  std::ranges::transform(parts, parts.begin(), upper);
  return parts;
}

std::u32string title_of(char32_t character) {
  const auto title = static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character)));
  std::u32string parts = is_title(title) ? std::u32string() : long_folding(character);
  if (parts.empty()) return {title};
  const auto letter = std::ranges::find_if(parts, [](char32_t part) { return upper(part) != part; });
  *letter = upper(*letter);
  std::replace(letter + 1, parts.end(), U'\u03b9', U'\u0345');  // an iota is a mark below the letter
  return parts;
}

std::u32string lower_of(char32_t character) {
  if (character == 0x130) return U"i\u0307";
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)))};
}

bool is_cased(char32_t character) {
  return is_category(character, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT}) ||
         utf8proc_islower(static_cast<utf8proc_int32_t>(character)) != 0 ||
         utf8proc_isupper(static_cast<utf8proc_int32_t>(character)) != 0;
}

bool is_case_ignorable(char32_t character) {
  for (const char32_t mark : {U'\'', U'.', U':', U'^', U'`', U'\u00b7', U'\u2018', U'\u2019'}) {
    if (character == mark) return true;
  }
  return is_category(character, {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_CF,
                                 UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_SK});
}

bool is_upper(char32_t character) {
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(character)) != 0;
}

bool is_lower(char32_t character) {
  return utf8proc_islower(static_cast<utf8proc_int32_t>(character)) != 0;
}

bool is_title(char32_t character) {
  return is_category(character, {UTF8PROC_CATEGORY_LT});
}

bool is_letter(char32_t character) {
  return is_category(character, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                                 UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
}

bool is_decimal(char32_t character) {
  return is_category(character, {UTF8PROC_CATEGORY_ND});
}

bool is_printable(char32_t character) {
  if (character == U' ') return true;
  return !is_category(
      character, {UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CS, UTF8PROC_CATEGORY_CO,
                  UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP, UTF8PROC_CATEGORY_ZS});
}

}  // namespace lacuna::jinja
