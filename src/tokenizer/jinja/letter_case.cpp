#include "tokenizer/jinja/letter_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace lacuna::jinja {
namespace {

// Characters with an upper or title case of several characters, ascending (Unicode's SpecialCasing.txt).
struct Special {
  char32_t character;
  std::u32string_view upper;
  std::u32string_view title;
};
constexpr std::array kSpecials = {
    Special{0x00df, U"SS", U"Ss"},
    Special{0x0149, U"\u02bcN", U"\u02bcN"},
    Special{0x01f0, U"J\u030c", U"J\u030c"},
    Special{0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    Special{0x03b0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    Special{0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    Special{0x1e96, U"H\u0331", U"H\u0331"},
    Special{0x1e97, U"T\u0308", U"T\u0308"},
    Special{0x1e98, U"W\u030a", U"W\u030a"},
    Special{0x1e99, U"Y\u030a", U"Y\u030a"},
    Special{0x1e9a, U"A\u02be", U"A\u02be"},
    Special{0x1f50, U"\u03a5\u0313", U"\u03a5\u0313"},
    Special{0x1f52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"},
    Special{0x1f54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"},
    Special{0x1f56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"},
    Special{0x1f80, U"\u1f08\u0399", U"\u1f88"},
    Special{0x1f81, U"\u1f09\u0399", U"\u1f89"},
    Special{0x1f82, U"\u1f0a\u0399", U"\u1f8a"},
    Special{0x1f83, U"\u1f0b\u0399", U"\u1f8b"},
    Special{0x1f84, U"\u1f0c\u0399", U"\u1f8c"},
    Special{0x1f85, U"\u1f0d\u0399", U"\u1f8d"},
    Special{0x1f86, U"\u1f0e\u0399", U"\u1f8e"},
    Special{0x1f87, U"\u1f0f\u0399", U"\u1f8f"},
    Special{0x1f88, U"\u1f08\u0399", U"\u1f88"},
    Special{0x1f89, U"\u1f09\u0399", U"\u1f89"},
    Special{0x1f8a, U"\u1f0a\u0399", U"\u1f8a"},
    Special{0x1f8b, U"\u1f0b\u0399", U"\u1f8b"},
    Special{0x1f8c, U"\u1f0c\u0399", U"\u1f8c"},
    Special{0x1f8d, U"\u1f0d\u0399", U"\u1f8d"},
    Special{0x1f8e, U"\u1f0e\u0399", U"\u1f8e"},
    Special{0x1f8f, U"\u1f0f\u0399", U"\u1f8f"},
    Special{0x1f90, U"\u1f28\u0399", U"\u1f98"},
    Special{0x1f91, U"\u1f29\u0399", U"\u1f99"},
    Special{0x1f92, U"\u1f2a\u0399", U"\u1f9a"},
    Special{0x1f93, U"\u1f2b\u0399", U"\u1f9b"},
    Special{0x1f94, U"\u1f2c\u0399", U"\u1f9c"},
    Special{0x1f95, U"\u1f2d\u0399", U"\u1f9d"},
    Special{0x1f96, U"\u1f2e\u0399", U"\u1f9e"},
    Special{0x1f97, U"\u1f2f\u0399", U"\u1f9f"},
    Special{0x1f98, U"\u1f28\u0399", U"\u1f98"},
    Special{0x1f99, U"\u1f29\u0399", U"\u1f99"},
    Special{0x1f9a, U"\u1f2a\u0399", U"\u1f9a"},
    Special{0x1f9b, U"\u1f2b\u0399", U"\u1f9b"},
    Special{0x1f9c, U"\u1f2c\u0399", U"\u1f9c"},
    Special{0x1f9d, U"\u1f2d\u0399", U"\u1f9d"},
    Special{0x1f9e, U"\u1f2e\u0399", U"\u1f9e"},
    Special{0x1f9f, U"\u1f2f\u0399", U"\u1f9f"},
    Special{0x1fa0, U"\u1f68\u0399", U"\u1fa8"},
    Special{0x1fa1, U"\u1f69\u0399", U"\u1fa9"},
    Special{0x1fa2, U"\u1f6a\u0399", U"\u1faa"},
    Special{0x1fa3, U"\u1f6b\u0399", U"\u1fab"},
    Special{0x1fa4, U"\u1f6c\u0399", U"\u1fac"},
    Special{0x1fa5, U"\u1f6d\u0399", U"\u1fad"},
    Special{0x1fa6, U"\u1f6e\u0399", U"\u1fae"},
    Special{0x1fa7, U"\u1f6f\u0399", U"\u1faf"},
    Special{0x1fa8, U"\u1f68\u0399", U"\u1fa8"},
    Special{0x1fa9, U"\u1f69\u0399", U"\u1fa9"},
    Special{0x1faa, U"\u1f6a\u0399", U"\u1faa"},
    Special{0x1fab, U"\u1f6b\u0399", U"\u1fab"},
    Special{0x1fac, U"\u1f6c\u0399", U"\u1fac"},
    Special{0x1fad, U"\u1f6d\u0399", U"\u1fad"},
    Special{0x1fae, U"\u1f6e\u0399", U"\u1fae"},
    Special{0x1faf, U"\u1f6f\u0399", U"\u1faf"},
    Special{0x1fb2, U"\u1fba\u0399", U"\u1fba\u0345"},
    Special{0x1fb3, U"\u0391\u0399", U"\u1fbc"},
    Special{0x1fb4, U"\u0386\u0399", U"\u0386\u0345"},
    Special{0x1fb6, U"\u0391\u0342", U"\u0391\u0342"},
    Special{0x1fb7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    Special{0x1fbc, U"\u0391\u0399", U"\u1fbc"},
    Special{0x1fc2, U"\u1fca\u0399", U"\u1fca\u0345"},
    Special{0x1fc3, U"\u0397\u0399", U"\u1fcc"},
    Special{0x1fc4, U"\u0389\u0399", U"\u0389\u0345"},
    Special{0x1fc6, U"\u0397\u0342", U"\u0397\u0342"},
    Special{0x1fc7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    Special{0x1fcc, U"\u0397\u0399", U"\u1fcc"},
    Special{0x1fd2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    Special{0x1fd3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    Special{0x1fd6, U"\u0399\u0342", U"\u0399\u0342"},
    Special{0x1fd7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    Special{0x1fe2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"},
    Special{0x1fe3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    Special{0x1fe4, U"\u03a1\u0313", U"\u03a1\u0313"},
    Special{0x1fe6, U"\u03a5\u0342", U"\u03a5\u0342"},
    Special{0x1fe7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"},
    Special{0x1ff2, U"\u1ffa\u0399", U"\u1ffa\u0345"},
    Special{0x1ff3, U"\u03a9\u0399", U"\u1ffc"},
    Special{0x1ff4, U"\u038f\u0399", U"\u038f\u0345"},
    Special{0x1ff6, U"\u03a9\u0342", U"\u03a9\u0342"},
    Special{0x1ff7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"},
    Special{0x1ffc, U"\u03a9\u0399", U"\u1ffc"},
    Special{0xfb00, U"FF", U"Ff"},
    Special{0xfb01, U"FI", U"Fi"},
    Special{0xfb02, U"FL", U"Fl"},
    Special{0xfb03, U"FFI", U"Ffi"},
    Special{0xfb04, U"FFL", U"Ffl"},
    Special{0xfb05, U"ST", U"St"},
    Special{0xfb06, U"ST", U"St"},
    Special{0xfb13, U"\u0544\u0546", U"\u0544\u0576"},
    Special{0xfb14, U"\u0544\u0535", U"\u0544\u0565"},
    Special{0xfb15, U"\u0544\u053b", U"\u0544\u056b"},
    Special{0xfb16, U"\u054e\u0546", U"\u054e\u0576"},
    Special{0xfb17, U"\u0544\u053d", U"\u0544\u056d"},
};

const Special* special_of(char32_t character) {
  if (character < kSpecials.front().character) return nullptr;
  const auto* found =
      std::lower_bound(kSpecials.begin(), kSpecials.end(), character,
                       [](const Special& special, char32_t value) { return special.character < value; });
  return found != kSpecials.end() && found->character == character ? found : nullptr;
}

bool is_category(char32_t character, std::initializer_list<utf8proc_category_t> categories) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return std::find(categories.begin(), categories.end(), category) != categories.end();
}

}  // namespace

std::u32string upper_of(char32_t character) {
  if (const Special* special = special_of(character)) return std::u32string(special->upper);
  return {static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character)))};
}

std::u32string title_of(char32_t character) {
  if (const Special* special = special_of(character)) return std::u32string(special->title);
  return {static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character)))};
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
