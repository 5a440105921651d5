// The file formats of tokenizers: each reader turns its files into TokenizerParts.
#pragma once

#include <filesystem>
#include <string>

#include "tokenizer/json_file.h"
#include "tokenizer/tokenizer_parts.h"

namespace lacuna {

class GgufFile;

/// A tokenizer.json as the Python library `tokenizers` writes it.
TokenizerParts read_tokenizer_json(const JsonValue& root);

/// The inverse of read_tokenizer_json().
nlohmann::json tokenizer_json(const TokenizerParts& parts);

/// Reads vocab.json, merges.txt and, if present, added_tokens.json. `tokenizer_class` in
/// tokenizer_config.json determines the pre-tokenizer.
TokenizerParts read_tokenizer_trio(const std::filesystem::path& folder);

/// Reads the metadata of a GGUF file: an embedded tokenizer.json if present, else tokens, merges or scores,
/// and the name of the pre-tokenizer.
TokenizerParts read_gguf_tokenizer(const GgufFile& file);

/// The chat templates of a GGUF file, and the texts of its special tokens, as a tokenizer_config.json.
nlohmann::json gguf_template_config(const GgufFile& file);

/// Adds the tokens under `added_tokens_decoder` of tokenizer_config.json to `parts`; the config's flags
/// override those of a known token.
void add_config_tokens(const JsonValue& config, TokenizerParts& parts);

/// Reads an object of ids by text. Throws InputError for ids outside [0, kMaxTokenId].
std::unordered_map<std::string, TokenId> read_token_ids(const JsonValue& object);
TokenId read_token_id(const JsonValue& value);

/// Reads one added token. Defaults: `special` is false, `normalized` is the opposite of `special`.
AddedToken read_added_token(const JsonValue& value, TokenId id);

}  // namespace lacuna
