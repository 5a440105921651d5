// Accuracy of a model in training, with the uncached baseline decoder of its objective. Masked diffusion:
// LLaDA's (Nie et al. 2025, algorithm 5 with low-confidence remasking), with the whole canvas as one block;
// each step commits the one most probable token. Next token, and strides without drafts: the most probable
// one, from left to right. Slots: one after another from left to right; the first token of each comes from
// its own mask, the others each from the token before. Interpolated noise: blocks of 8 from left to right in
// a context of noise, 12 steps each; a step replaces the one token of the block with the largest deficit to
// the most probable one (with masks alone: the most confident mask; hybrid noise begins as masks), and the
// blocks before it are clean. Canvases: sixteen steps each, which keep the tokens that entropy accepts and
// renew the noise of all others.
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

/// Fills `canvas` positions after each prompt, one per step; the prompts have one length. Returns the
/// canvases. With interpolated noise, prompt and canvas fit into the model's context.
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
