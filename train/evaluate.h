// Accuracy of a model in training, with the uncached baseline decoder of its objective:
//   masked tokens       LLaDA's decoder (Nie et al. 2025, algorithm 5, low-confidence remasking) with the
//                       whole canvas as one block; each step commits the single most confident token
//   next token, strides greedy, from left to right, without drafts
//   slots               slots from left to right; a slot's first token is predicted by its own mask, each
//                       other token by the one before it
//   interpolated noise  blocks of 8 from left to right in a context of noise, 12 steps each; a step replaces
//                       the token whose probability is furthest below the most probable one (with masks
//                       alone: the most confident mask; hybrid noise starts as masks); earlier blocks are
//                       clean
//   canvases            16 steps each; a step keeps the tokens that the entropy bound accepts and resamples
//                       the noise of all others
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/token.h"
#include "tasks/tasks.h"
#include "tokenizer/tokenizer.h"
#include "train/chat_form.h"
#include "train/model.h"

namespace lacuna::train {

/// Fills `canvas` positions after each prompt and returns the canvases. All prompts must have the same
/// length. With interpolated noise, prompt and canvas must fit into the model's context.
std::vector<std::vector<TokenId>> decode(Transformer& model, const std::vector<std::vector<TokenId>>& prompts,
                                         int64_t canvas, TokenId mask_id);

struct Mistake {
  Sample sample;
  std::string text;
};

/// Answers samples 0 .. count-1 of the task's test split under `seed`, each text cut at its first end token.
/// Returns the answers that the task's checker rejected.
std::vector<Mistake> find_mistakes(Transformer& model, const Task& task, uint64_t seed, int64_t count,
                                   int64_t canvas, const Vocabulary& vocabulary,
                                   const TaskOptions& task_options = {});

}  // namespace lacuna::train
