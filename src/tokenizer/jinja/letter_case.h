// Cases and kinds of characters as Python's str has them.
#pragma once

#include <string>
#include <string_view>

namespace lacuna::jinja {

std::u32string upper_of(char32_t character);
std::u32string lower_of(char32_t character);  ///< without the rule of the final sigma
std::u32string title_of(char32_t character);

bool is_cased(char32_t character);
bool is_case_ignorable(char32_t character);  ///< what the rule of the final sigma skips
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_title(char32_t character);
bool is_letter(char32_t character);
bool is_decimal(char32_t character);
bool is_printable(char32_t character);

}  // namespace lacuna::jinja
