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

/// The same the other way round: read_tokenizer_json() makes the same parts of it.
nlohmann::json tokenizer_json(const TokenizerParts& parts);

/// vocab.json, merges.txt and, where present, added_tokens.json. They do not say how text is split; that
/// follows from `tokenizer_class` in tokenizer_config.json.
TokenizerParts read_tokenizer_trio(const std::filesystem::path& folder);

/// The metadata of a GGUF file: a whole tokenizer.json where it carries one, else tokens, merges and the name
/// of how text is split.
TokenizerParts read_gguf_tokenizer(const GgufFile& file);

/// Its chat templates, and the texts of the tokens that it names by their ids, as a tokenizer_config.json has
/// them.
nlohmann::json gguf_template_config(const GgufFile& file);

/// Adds the tokens under `added_tokens_decoder` of tokenizer_config.json to `parts`; where both know a token,
/// the config's flags count.
void add_config_tokens(const JsonValue& config, TokenizerParts& parts);

/// A "vocab" or "added_tokens" object: text to id. Ids are checked to lie in [0, kMaxTokenId].
std::unordered_map<std::string, TokenId> read_token_ids(const JsonValue& object);
TokenId read_token_id(const JsonValue& value);

/// The flags of one added token; `special` and `normalized` where absent: false, and the opposite of
/// `special`.
AddedToken read_added_token(const JsonValue& value, TokenId id);

}  // namespace lacuna
