// Input of a subcommand (texts, files, token ids), as values.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace lacuna {

/// All of standard input; InputError beyond 64 MiB.
std::string read_standard_input();

/// The bytes of a file; throws InputError if it cannot be read or has more than 64 MiB.
std::string read_file(const std::string& path);

/// Stands for standard input where a file or a text is expected.
inline constexpr std::string_view kStandardInput = "-";

/// Standard input to its end as a prompt, without the line break that ends it. Throws InputError if it is
/// empty or longer than any prompt.
std::string read_prompt_from_standard_input();

/// The text of a file, without the newline that editors put at its end, or else what is piped. Throws
/// InputError that says what is `expected` where nothing is.
std::string read_text_of(const std::optional<std::string>& file, const std::string& expected);

/// Throws InputError where a prompt is empty or white space.
///   place  what has it: a flag, a file or a line of one
void expect_prompt(std::string_view text, std::string_view place);

/// Token ids from "1,2,3" or "[1, 2, 3]". InputErrors begin with `source`, a flag or a file.
std::vector<TokenId> parse_token_list(std::string_view text, std::string_view source);

}  // namespace lacuna
