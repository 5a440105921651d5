// Input of a subcommand (texts, files, token ids), as values.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace lacuna {

/// Reads all of standard input. Throws InputError beyond 64 MiB.
std::string read_standard_input();

/// The bytes of a file; throws InputError if it cannot be read or has more than 64 MiB.
std::string read_file(const std::string& path);

/// Stands for standard input where a file or a text is expected.
inline constexpr std::string_view kStandardInput = "-";

/// Reads standard input as a prompt, without its final line break. Throws InputError if it is empty or longer
/// than any prompt.
std::string read_prompt_from_standard_input();

/// The text of `file`, or of piped standard input if no file is given, without its final newline. Throws
/// InputError with the sentence `expected` if there is neither.
std::string read_text_of(const std::optional<std::string>& file, const std::string& expected);

/// Throws InputError if a prompt is empty or white space.
///   place  source of the prompt: a flag, a file or a line of a file
void expect_prompt(std::string_view text, std::string_view place);

/// Token ids from "1,2,3" or "[1, 2, 3]". InputErrors begin with `source`, a flag or a file.
std::vector<TokenId> parse_token_list(std::string_view text, std::string_view source);

}  // namespace lacuna
