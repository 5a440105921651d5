#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
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

void refuse_long_mark_runs(std::string_view text) {
  constexpr int kMarksMax = 1000;
  int marks = 0;
  for_each_character(text, [&](utf8proc_int32_t character) {
    marks = utf8proc_get_property(character)->combining_class > 0 ? marks + 1 : 0;
    if (marks > kMarksMax) throw InputError("the text has more than {} combining marks in a row", kMarksMax);
  });
}

std::string to_normal_form(std::string_view text, int options) {
  if (is_ascii(text)) return std::string(text);
  refuse_long_mark_runs(text);
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                 static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  if (size < 0) throw InputError("the text cannot be normalised ({})", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
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
    }
  }
  return result;
}

}  // namespace lacuna
