// Words of the command line that belong to no flag: `lacuna run MODEL "prompt"`.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace lacuna {

/// Lets the first word be the model: `lacuna inspect MODEL`. To be called after `model` was added, and before
/// the command's other words. Where the model is given otherwise, the words are the command's other ones
/// alone; InputError where there are none.
///   model  --model; with several values it takes all words
void add_model_word(CLI::App& command, CLI::Option& model);

/// Lets the words after the model be the value of a flag, with spaces between them.
///   name  what the usage calls them: PROMPT
///   flag  "--prompt"
void add_text_words(CLI::App& command, const std::string& name, const std::string& flag);

/// Lets every flag take one word each time that it is given, so that the next is the command's.
void take_one_word_each(CLI::App& program);

/// "lacuna run MODEL [PROMPT] [FLAGS]"; words in capitals, those that may be left out in brackets.
std::string usage_of(const CLI::App& command);

/// Whether words that follow the command may be files or models.
bool takes_files(const CLI::App& command);

}  // namespace lacuna
