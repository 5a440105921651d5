// Positional arguments: `lacuna run MODEL "prompt"`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lacuna {

/// Lets the first word be the model: `lacuna inspect MODEL`. Call after `model` was added and before the
/// command's other words. If a flag gives the model, all words are the other ones; the parser throws
/// InputError if the command has no others.
///   model  the option --model; takes all words if it accepts several values
void add_model_word(CLI::App& command, CLI::Option& model);

/// Joins the words after the model with spaces as the value of a flag.
///   name  name in the usage line: PROMPT
///   flag  "--prompt"
void add_text_words(CLI::App& command, const std::string& name, const std::string& flag);

/// Lets every flag take exactly one word each time, so that the next word is a positional argument.
void take_one_word_each(CLI::App& program);

/// The usage line: "lacuna run MODEL [PROMPT] [FLAGS]"; brackets mark optional words.
std::string usage_of(const CLI::App& command);

/// Whether the command's words may be files or models.
bool takes_files(const CLI::App& command);

}  // namespace lacuna
