#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

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

// Decomposes and brings marks into order in n log n steps. utf8proc_map() does both too, but sorts by
// swapping neighbours, which takes quadratic time for long runs of marks.
std::vector<utf8proc_int32_t> decompose(std::string_view text, utf8proc_option_t options) {
  constexpr size_t kLongest = 18;  // characters that one decomposes into (U+FDFA)
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
  characters.push_back(0);  // the text is written over the characters, and a zero after it
  const auto size = utf8proc_reencode(characters.data(), count, options);
  if (size < 0) throw InputError("the text cannot be normalised ({})", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(characters.data()), static_cast<size_t>(size)};
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

}  // namespace

std::string normalize(std::string_view text, std::span<const Normalization> steps) {
  std::string result(text);
  for (const Normalization step : steps) {
    switch (step) {
      case Normalization::kNfc:
        result = to_normal_form(result, UTF8PROC_COMPOSE);
        break;
      case Normalization::kNfd:
        result = to_normal_form(result, UTF8PROC_DECOMPOSE);
        break;
      case Normalization::kNfkc:
        result = to_normal_form(result, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
        break;
      case Normalization::kNfkd:
        result = to_normal_form(result, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
        break;
      case Normalization::kLowercase:
        result = to_lower_case(result);
        break;
      case Normalization::kEscapeSpaces:
        result = escape_spaces(result);
        break;
      case Normalization::kPrependSpace:
        if (!result.empty()) result.insert(0, kEscapedSpace);
        break;
    }
  }
  return result;
}

}  // namespace lacuna
