// Declarations shared by the parts of make_decoder(), one for each paradigm: check() finds problems; make()
// requires that it found none.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "decode/make_decoder.h"

namespace lacuna {

/// A request with the length of its answer.
struct Asked {
  DecodeRequest request;
  int32_t gen_length = 0;
};

/// The sampling rule of these settings alone.
SamplingRule sampling_rule(const TokenSampling& sampling);
/// Finds numbers out of range, and filters that change nothing.
///   measures_sampled  whether the confidence is measured after the filters
void check_sampling(const TokenSampling& sampling, const ModelConfig& config, bool measures_sampled,
                    Problems& problems);

/// Finds a prompt and an answer that exceed the `positions` of `who`.
void check_length(int64_t prompt_length, int32_t gen_length, int64_t positions, std::string_view who,
                  Problems& problems);
/// Finds tokens that are not in the vocabulary, and a prompt that is too long.
void check_prompt(const ModelConfig& config, std::span<const TokenId> prompt, int32_t gen_length,
                  std::string_view who, Problems& problems);
/// Finds mask tokens in the prompt, which `reader` does not accept.
void check_whole_prompt(const ModelConfig& config, std::span<const TokenId> prompt, std::string_view reader,
                        Problems& problems);
/// Finds an empty prompt; `why` says what needs a token of it.
inline void check_not_empty(std::span<const TokenId> prompt, const std::string& why, Problems& problems) {
  if (prompt.empty()) problems.add({"prompt", "", "at least one token", "the prompt is empty; " + why});
}
/// Finds numbers of a rule that are out of range.
void check_unmask(const UnmaskRule& rule, Problems& problems);
/// Finds numbers of a lock that are out of range.
void check_lock(const SureLock& lock, Problems& problems);

/// Whether the model edits its blocks by insertions and deletions (LLaDA 2.2).
inline bool edits_blocks(const ModelConfig& config) {
  return config.delete_id >= 0 && config.paradigm() == Paradigm::kBlocks;
}
/// Whether a prompt begins with the BOS token; true for all models but GIDD and Sumi, which need it.
bool begins_with_bos(const ModelConfig& config, std::span<const TokenId> prompt);
/// Context length of uniform diffusion: prompt, answer and all positions after it.
int32_t context_of(const ModelConfig& config, const UniformStrategy& strategy);
/// Positions right after the answer that hold fixed tokens (Sumi); context_of() counts them.
int32_t num_closing(const ModelConfig& config);

// `asked` is null where the strategy alone is checked.
void check(const MaskedStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems);
void check(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems);
void check(const UniformStrategy& strategy, const ModelConfig& config, const Asked* asked,
           Problems& problems);
void check(const CanvasStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems);
void check(const SlotStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems);
void check(const CausalStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems);

std::unique_ptr<Decoder> make(const MaskedStrategy& strategy, const ModelConfig& config, Asked asked);
std::unique_ptr<Decoder> make(const BlockStrategy& strategy, const ModelConfig& config, Asked asked);
std::unique_ptr<Decoder> make(const UniformStrategy& strategy, const ModelConfig& config, Asked asked);
std::unique_ptr<Decoder> make(const CanvasStrategy& strategy, const ModelConfig& config, Asked asked);
std::unique_ptr<Decoder> make(const SlotStrategy& strategy, const ModelConfig& config, Asked asked);
std::unique_ptr<Decoder> make(const CausalStrategy& strategy, const ModelConfig& config, Asked asked);

}  // namespace lacuna
