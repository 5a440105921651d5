// From what a user asked for to a decoder, or to a sentence that says why not.
#pragma once

#include <memory>
#include <vector>

#include "decode/decoder.h"
#include "decode/options.h"
#include "model/config.h"

namespace lacuna {

/// A decoder for the model's family. InputError names the flag, its value and what was expected, where
/// options contradict each other, the family would ignore one, or a prompt token is outside the vocabulary.
///   end_of_turn  the token that ends a chat turn, -1 if the tokenizer has none
std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, TokenId end_of_turn = -1);

}  // namespace lacuna
