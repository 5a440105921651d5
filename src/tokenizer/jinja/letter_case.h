// Case mappings and classes of characters, as in Python's str.
#pragma once

#include <string>

namespace lacuna::jinja {

std::u32string upper_of(char32_t character);
std::u32string lower_of(char32_t character);  ///< without the rule of the final sigma
std::u32string title_of(char32_t character);

bool is_cased(char32_t character);
bool is_case_ignorable(char32_t character);  ///< skipped by the rule of the final sigma
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_title(char32_t character);
bool is_letter(char32_t character);
bool is_decimal(char32_t character);
bool is_printable(char32_t character);

}  // namespace lacuna::jinja
