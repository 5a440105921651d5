#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "decode/block_diffusion.h"
#include "decode/drafted_diffusion.h"
#include "decode/editing_diffusion.h"
#include "decode/make_parts.h"
#include "decode/pipelined_diffusion.h"
#include "decode/seeded_diffusion.h"

namespace lacuna {
namespace {

int32_t block_length_of(const BlockStrategy& strategy, const ModelConfig& config) {
  return strategy.block_length.value_or(static_cast<int32_t>(config.block_length));
}

/// The length of the blocks of one request: an infill is edited in one block that holds its text; 0 if the
/// model has no positions for such a block.
int32_t block_length_for(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked) {
  const int32_t block_length = block_length_of(strategy, config);
  if (asked == nullptr || asked->request.context.answer.empty()) return block_length;
  return infill_block_length(block_length, static_cast<int32_t>(asked->request.prompt.size()),
                             asked->gen_length, config.max_positions);
}

/// Whether PipelinedDecoder is used: for several blocks at once, or if the prompt is one block.
bool is_pipelined(const BlockStrategy& strategy, const ModelConfig& config) {
  return strategy.pipeline || config.whole_prompt;
}

int32_t sub_block_length_of(const BlockStrategy& strategy, const ModelConfig& config) {
  const int32_t block_length = block_length_of(strategy, config);
  if (config.sub_block_length <= 0 || strategy.pipeline) return block_length;
  return strategy.sub_block_length.value_or(
      std::min(static_cast<int32_t>(config.sub_block_length), block_length));
}

/// Why K/V need separate passes; empty: they do not.
std::string_view why_apart(const BlockStrategy& strategy, const ModelConfig& config) {
  if (is_pipelined(strategy, config)) return {};
  if (config.shifted_logits) return "the pass that keeps a block draws the next block's first token";
  if (strategy.commits_sparsely) return "`sparse_commit` sparse needs a pass of its own";
  return {};
}

void check_lengths(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  const auto most = static_cast<int32_t>(std::min<int64_t>(kMaxGenLength, config.max_positions));
  problems.within("block_length", strategy.block_length, 1, most);
  if (!problems.empty()) return;
  const int32_t block_length = block_length_of(strategy, config);
  const int64_t window = config.moe.window;
  if (window > 0) {
    problems.expect(block_length % window == 0, "block_length", fmt::to_string(block_length),
                    fmt::format("a multiple of {}, the positions that share experts", window));
    if (!problems.empty()) return;
  }
  if (config.sub_block_length > 0) {
    problems.within("sub_block_length", strategy.sub_block_length, 1, block_length);
    if (!problems.empty()) return;
    const int32_t sub_block_length = sub_block_length_of(strategy, config);
    if (block_length % sub_block_length != 0) {
      problems.add({"sub_block_length", fmt::to_string(sub_block_length),
                    fmt::format("a divisor of {}", block_length),
                    fmt::format("`sub_block_length` {} does not divide `block_length` {}", sub_block_length,
                                block_length)});
    }
  } else {
    problems.refuse(strategy.sub_block_length.has_value(), "sub_block_length",
                    "the model is not of Fast-dLLM v2");
    problems.refuse(strategy.caches_block, "cache",
                    "block diffusion keeps exact K/V and draws from whole blocks");
  }
}

void check_steps(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked,
                 Problems& problems) {
  const CountRule& count = strategy.unmask.policy.count;
  problems.refuse(
      std::holds_alternative<TimeSchedule>(count) || std::holds_alternative<LinearSchedule>(count), "unmask",
      "a block has no time schedule");
  problems.refuse(strategy.unmask.policy.traits().needs_whole_canvas, "unmask",
                  "the rule belongs to masked diffusion");
  problems.refuse(strategy.unmask.policy.order_temperature > 0, "alg_temp",
                  "block diffusion keeps exact K/V and draws from whole blocks");
  const bool splits = std::holds_alternative<EvenSplit>(count) || std::holds_alternative<Dynamic>(count);
  problems.refuse(strategy.steps && !splits, "steps", "this `unmask` rule continues until a block is done");
  const int32_t block_length = block_length_for(strategy, config, asked);
  if (block_length == 0) return;  // check_infill_block() says so
  // Edits take steps of their own, so that a block may need more of them than it has positions.
  const bool edits = edits_blocks(config) || strategy.edit;
  problems.within("steps", strategy.steps, 1,
                  edits ? std::max(kMaxEditingSteps, block_length) : block_length);
  const int32_t steps = strategy.steps.value_or(block_length);
  // Sub-blocks of the model's usual block: an infill's longer block is not divided.
  const int32_t num_sub_blocks = block_length_of(strategy, config) / sub_block_length_of(strategy, config);
  if (!problems.empty() || steps % num_sub_blocks == 0) return;
  problems.add(
      {"steps", fmt::to_string(steps), fmt::format("a multiple of {}", num_sub_blocks),
       fmt::format("`steps` {} is not a multiple of the {} sub-blocks of a block", steps, num_sub_blocks)});
}

void check_editing(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (edits_blocks(config)) {
    problems.expect(std::holds_alternative<Dynamic>(strategy.unmask.policy.count) &&
                        strategy.unmask.measure == ConfidenceMeasure::kProbability,
                    "unmask", "another rule", "dynamic=TAU, which the model's editing builds on");
    problems.refuse(strategy.commit == BlockStrategy::Commit::kSeparate, "commit",
                    "a block that was edited is read with the next one's first pass");
    problems.refuse(!std::holds_alternative<ExactAttention>(strategy.sparse), "sparse",
                    "the model edits its blocks with exact attention");
  }
  if (!strategy.edit) return;
  if (config.shifted_logits) {
    problems.add({"edit", "", "", "`edit`: a shifted model draws no token from its own row"});
  }
  if (strategy.unmask.measure != ConfidenceMeasure::kProbability) {
    problems.add(
        {"edit", "", "", "`edit` compares probabilities, which the rule of `unmask` does not measure"});
  }
  problems.within_part("edit", "tau", strategy.edit->tau, 0.0, 1.0);
  problems.within_part("edit", "most", strategy.edit->most, 0, kMaxGenLength);
}

/// Refuses settings that tokens mixed with the mask do not support.
void check_soft(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (!std::holds_alternative<SoftTokens>(strategy.unmask.policy.count)) return;
  problems.refuse(config.shifted_logits, "unmask", "a shifted model draws no token from its own row");
  problems.refuse(config.causal_context, "unmask", "what is read causally stays");
  problems.refuse(config.whole_prompt, "unmask", "blocks begin after the prompt, which is one");
  problems.expect(strategy.unmask.measure == ConfidenceMeasure::kProbability, "unmask", "another measure",
                  "probabilities, by which `unmask` soft mixes tokens");
  problems.refuse(strategy.edit.has_value(), "edit", "`unmask` soft writes every token of a block anew");
  problems.refuse(strategy.lock.has_value(), "lock", "`unmask` soft may change any token of a block");
}

/// Refuses settings that blocks after a causal context do not support.
void check_seeded(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked,
                  Problems& problems) {
  if (!config.causal_context) {
    problems.refuse(strategy.accepts_exactly, "accept", "the model does not judge its drafts");
    return;
  }
  constexpr int32_t kLongestBlock = 1024;
  problems.within("block_length", block_length_of(strategy, config), 1, kLongestBlock);
  problems.refuse(strategy.commit.has_value(), "commit", "a block is read causally once it is done");
  problems.refuse(strategy.edit.has_value(), "edit", "what is read causally stays");
  problems.refuse(!std::holds_alternative<ExactAttention>(strategy.sparse), "sparse",
                  "a causal context is attended to as a whole");
  if (asked != nullptr)
    check_not_empty(asked->request.prompt, "the read of the prompt gives a block its first token", problems);
}

void check_sparse(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  constexpr int32_t kMaxCells = 1 << 30;
  const auto within = [&](std::string_view part, auto value, auto least, auto most) {
    problems.within_part("sparse", part, value, least, most);
  };
  if (std::holds_alternative<ExactAttention>(strategy.sparse)) {
    constexpr std::string_view kReason = "`sparse` is exact";
    problems.refuse(strategy.commits_sparsely, "sparse_commit", kReason);
    problems.refuse(strategy.sparse_after != 0, "sparse_after", kReason);
    return;
  }
  if (const auto* mage = std::get_if<Mage>(&strategy.sparse)) within("mage", mage->budget, 1, kMaxCells);
  if (const auto* quest = std::get_if<Quest>(&strategy.sparse)) {
    within("page", quest->page_size, 1, kMaxCells);
    within("quest", quest->budget, quest->page_size, kMaxCells);
  }
  if (const auto* sparsed = std::get_if<SparseD>(&strategy.sparse)) {
    within("sparsed", sparsed->budget, 1, kMaxCells);
    within("exact", sparsed->exact_share, 0.0, 1.0);
  }
  if (const auto* flashblock = std::get_if<FlashBlock>(&strategy.sparse))
    within("flashblock", flashblock->updates, 1, kMaxCells);
  if (const auto* losa = std::get_if<Losa>(&strategy.sparse)) {
    within("page", losa->page_size, 1, kMaxCells);
    within("losa", losa->budget, losa->page_size, kMaxCells);
    within("active", losa->active_share, Losa::kMinActive, 1.0);
  }
  problems.refuse(keeps_attention(strategy.sparse) && strategy.commits_sparsely, "sparse_commit",
                  "`sparse` flashblock and losa reuse attention in steps, of which a commit is none");
  const int32_t dense_layers = dense_layers_of(strategy.sparse);
  within("dense-layers", dense_layers, 0, kMaxCells);
  if (dense_layers >= config.num_layers) {
    problems.add({"sparse", fmt::format("dense-layers={}", dense_layers),
                  fmt::format("dense-layers below {}", config.num_layers),
                  fmt::format("`sparse`: dense-layers={} leaves no sparse layer; the model has {} layers",
                              dense_layers, config.num_layers)});
  }
  problems.within("sparse_after", strategy.sparse_after, 0, block_length_of(strategy, config));
}

void check_block_lock(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (!strategy.lock) return;
  check_lock(*strategy.lock, problems);
  problems.refuse(edits_blocks(config), "lock", "any token of a block may be edited");
  problems.refuse(config.causal_context, "lock", "a block is drafted anew and read causally");
  problems.refuse(strategy.edit.has_value(), "lock", "`edit` may replace any token of a block");
  if (strategy.lock->unlock_every == 0) return;
  problems.add(
      {"lock", fmt::format("unlock-every={}", strategy.lock->unlock_every), "unlock-every=0",
       "`lock` unlock-every: rows of a block are locked until the block is done; expected no unlock-every"});
}

/// Refuses settings for blocks that are denoised one after the other.
void check_pipeline(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (!is_pipelined(strategy, config)) return;
  if (strategy.pipeline) {
    problems.within_part("pipeline", "add", strategy.pipeline->add, 0.0, 1.0);
    problems.within_part("pipeline", "full", strategy.pipeline->full, 0.0, 1.0);
    problems.refuse(edits_blocks(config), "pipeline", "the model edits a block until it is done");
    problems.refuse(config.shifted_logits && !config.whole_prompt, "pipeline",
                    "a block's first token comes from the finished block before it");
    problems.refuse(config.causal_context, "pipeline", "a block is read causally before the next one begins");
    problems.expect(has_threshold(strategy.unmask.policy.count), "unmask", "another rule",
                    "dynamic=TAU or threshold=TAU, by which `pipeline` writes");
  }
  const std::string_view reason = strategy.pipeline
                                      ? "`pipeline` denoises several blocks at once, with all of their rows"
                                      : "blocks begin after the prompt, which is one";
  problems.refuse(strategy.edit.has_value(), "edit", reason);
  problems.refuse(!std::holds_alternative<ExactAttention>(strategy.sparse), "sparse", reason);
  problems.refuse(strategy.lock.has_value(), "lock", reason);
  problems.refuse(strategy.caches_block, "cache", reason);
  problems.refuse(strategy.sub_block_length && strategy.pipeline, "sub_block_length", reason);
  problems.refuse(strategy.commit == BlockStrategy::Commit::kSeparate, "commit",
                  "a finished block is read in the next blocks' pass");
}

/// Refuses what drafts would not reproduce.
void check_drafts(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (!strategy.drafts) return;
  const auto refuse = [&](bool is_refused, std::string_view reason) {
    problems.refuse(is_refused, "drafts", reason);
  };
  refuse(config.causal_context, "a block is read causally once it is done");
  refuse(edits_blocks(config), "the model may edit any token of a block");
  refuse(strategy.edit.has_value(), "`edit` may replace any token of a block");
  refuse(strategy.pipeline.has_value(), "`pipeline` denoises several blocks at once");
  refuse(config.whole_prompt && !strategy.pipeline, "blocks begin after the prompt, which is one");
  refuse(strategy.lock.has_value(), "`lock` leaves rows out that a draft would compute");
  refuse(!std::holds_alternative<ExactAttention>(strategy.sparse),
         "`sparse` chooses cells for one group of rows");
  refuse(sub_block_length_of(strategy, config) < block_length_of(strategy, config),
         "a block has several sub-blocks");
  refuse(std::holds_alternative<SoftTokens>(strategy.unmask.policy.count),
         "`unmask` soft shows each step the confidences of the last one");
  refuse(strategy.unmask.policy.traits().is_custom,
         "a rule of the caller's sees no states that may not come");
}

/// Refuses `field`, a method whose passes do not compute all rows of a block as it is, with what needs these.
void refuse_partial_passes(std::string_view field, const BlockStrategy& strategy, const ModelConfig& config,
                           Problems& problems) {
  const auto refuse = [&](bool is_refused, std::string_view reason) {
    problems.refuse(is_refused, field, reason);
  };
  refuse(config.shifted_logits, "a token is predicted by the row before its mask");
  refuse(config.causal_context, "a block is read causally once it is done");
  refuse(edits_blocks(config) || strategy.edit.has_value(), "any token of a block may be edited");
  refuse(is_pipelined(strategy, config), "several blocks are denoised at once");
  refuse(strategy.drafts.has_value(), "`drafts` needs the rows of all masks");
  refuse(strategy.lock.has_value(), "`lock` compares rows that every pass computes");
  refuse(!std::holds_alternative<ExactAttention>(strategy.sparse),
         "`sparse` chooses by the queries of all rows");
  refuse(sub_block_length_of(strategy, config) < block_length_of(strategy, config),
         "a block has several sub-blocks");
  refuse(std::holds_alternative<SoftTokens>(strategy.unmask.policy.count),
         "`unmask` soft shows each step the confidences of the last one");
}

/// Refuses what a smaller model that drafts does not take part in, and a model that cannot draft.
void check_guided(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked,
                  Problems& problems) {
  if (!strategy.guided) return;
  refuse_partial_passes("guide", strategy, config, problems);
  problems.refuse(strategy.focus.has_value(), "focus", "a guide drafts all masks of a block");
  problems.refuse(strategy.commit == BlockStrategy::Commit::kSeparate, "commit",
                  "a finished block is read with the next drafts");
  problems.refuse(strategy.unmask.policy.traits().is_custom, "unmask",
                  "a rule of the caller's sees no drafts of a guide");
  if (asked == nullptr || !problems.empty()) return;
  const ModelConfig& drafter = *asked->request.context.guide->config;
  const auto refuse = [&](bool is_refused, const std::string& sentence) {
    if (is_refused) problems.add({"guide", "", "a smaller model of the same kind", sentence});
  };
  refuse(drafter.paradigm() != Paradigm::kBlocks, "`guide`: the model is not one of block diffusion");
  refuse(drafter.vocab_size != config.vocab_size || drafter.mask_id != config.mask_id,
         "`guide`: the model has other tokens, or another mask");
  refuse(block_length_of(strategy, drafter) != block_length_of(strategy, config),
         fmt::format("`guide`: its blocks have {} positions; expected {}, as the model's",
                     block_length_of(strategy, drafter), block_length_of(strategy, config)));
  if (problems.empty()) check(strategy, drafter, nullptr, problems);
  check_length(std::ssize(asked->request.prompt), asked->gen_length, drafter.max_positions, "the guide",
               problems);
}

/// Refuses what needs rows that a pass may have left out.
void check_focus(const BlockStrategy& strategy, const ModelConfig& config, Problems& problems) {
  if (!strategy.focus) return;
  const auto refuse = [&](bool is_refused, std::string_view reason) {
    problems.refuse(is_refused, "focus", reason);
  };
  refuse_partial_passes("focus", strategy, config, problems);
  refuse(config.num_layers < 3, "the model has too few layers to leave out");
  const RuleTraits& traits = strategy.unmask.policy.traits();
  refuse(!traits.runs_until_done && strategy.steps && *strategy.steps < block_length_of(strategy, config),
         "steps that write several tokens each need as many masks");
}

/// Finds an infill whose block reaches beyond the model's positions.
void check_infill_block(const BlockStrategy& strategy, const ModelConfig& config, const Asked& asked,
                        Problems& problems) {
  if (block_length_for(strategy, config, &asked) > 0) return;
  constexpr std::string_view kExpected = "a shorter text, shorter holes or another `block_length`";
  problems.add(
      {"answer", fmt::to_string(asked.gen_length), std::string(kExpected),
       fmt::format("the text has {} positions before its first hole and {} from there on, which no block "
                   "of a multiple of {} positions holds within the model's {}; expected {}",
                   asked.request.prompt.size(), asked.gen_length, block_length_of(strategy, config),
                   config.max_positions, kExpected)});
}

}  // namespace

void check(const BlockStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems) {
  check_lengths(strategy, config, problems);
  if (!problems.empty()) return;
  check_seeded(strategy, config, asked, problems);
  check_sampling(strategy.sampling, config, false, problems);
  check_unmask(strategy.unmask, problems);
  check_steps(strategy, config, asked, problems);
  check_editing(strategy, config, problems);
  check_soft(strategy, config, problems);
  check_sparse(strategy, config, problems);
  check_block_lock(strategy, config, problems);
  check_pipeline(strategy, config, problems);
  check_drafts(strategy, config, problems);
  check_focus(strategy, config, problems);
  check_guided(strategy, config, asked, problems);
  if (asked != nullptr) check_infill_block(strategy, config, *asked, problems);
  const std::string_view reason = why_apart(strategy, config);
  if (strategy.commit == BlockStrategy::Commit::kFused && !reason.empty()) {
    problems.add({"commit", "fused", "apart", fmt::format("`commit` fused: {}; expected apart", reason)});
  }
  if (asked != nullptr && config.shifted_logits)
    check_not_empty(asked->request.prompt, "the model draws a block's first token from the token before it",
                    problems);
}

namespace {

/// Runs of masks as holes that keep their length.
std::vector<GrowingHole> fixed_holes(std::span<const TokenId> answer, TokenId mask_id) {
  std::vector<GrowingHole> holes;
  for (int32_t i = 0; i < std::ssize(answer); ++i) {
    if (answer[static_cast<size_t>(i)] != mask_id) continue;
    if (holes.empty() || holes.back().positions.end != i) holes.push_back({{i, i}, 0});
    holes.back().positions.end = i + 1;
    ++holes.back().most;
  }
  return holes;
}

/// Settings that all of these decoders have.
template <typename Settings>
Settings common_settings(const BlockStrategy& strategy, const ModelConfig& config, const Asked& asked) {
  Settings settings;
  settings.mask_id = config.mask_id;
  if (!strategy.ignore_eos) settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.seed = asked.request.seed;
  return settings;
}

std::unique_ptr<Decoder> make_editing(const BlockStrategy& strategy, const ModelConfig& config, Asked asked) {
  DecoderContext& context = asked.request.context;
  auto settings = common_settings<EditingDiffusion>(strategy, config, asked);
  settings.delete_id = config.delete_id;
  settings.split_id = config.split_id;
  settings.block_length = block_length_for(strategy, config, &asked);
  settings.steps = strategy.steps.value_or(settings.block_length);
  settings.tau = std::get<Dynamic>(strategy.unmask.policy.count).tau;
  const TokenEditing edit = strategy.edit.value_or(kBlockEditing);
  settings.edit_tau = edit.tau;
  settings.most_edits = edit.most;
  settings.sampling = sampling_rule(strategy.sampling);
  settings.sampling.source = ConfidenceSource::kRawLogits;
  settings.sampling.undrawn.push_back(config.mask_id);
  settings.sampling.finds_second = true;
  if (context.answer.empty())
    return std::make_unique<EditingDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
  settings.filler_id = config.eos_id >= 0 ? config.eos_id : config.end_ids.front();
  settings.sampling.undrawn.insert(settings.sampling.undrawn.end(), config.end_ids.begin(),
                                   config.end_ids.end());
  std::vector<GrowingHole> holes = std::move(context.holes);
  if (holes.empty()) holes = fixed_holes(context.answer, settings.mask_id);
  return std::make_unique<EditingDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt),
                                                   std::move(context.answer), std::move(holes));
}

std::unique_ptr<Decoder> make_seeded(const BlockStrategy& strategy, const ModelConfig& config, Asked asked) {
  auto settings = common_settings<SeededDiffusion>(strategy, config, asked);
  settings.max_positions = static_cast<int32_t>(config.max_positions);
  settings.block_length = block_length_of(strategy, config);
  settings.steps = strategy.steps.value_or(settings.block_length);
  settings.unmask = strategy.unmask.policy;
  settings.sampling = sampling_rule(strategy.sampling);
  settings.drafting = settings.sampling;
  settings.drafting.measure = strategy.unmask.measure;
  settings.drafting.measures_all = strategy.unmask.policy.traits().is_custom;
  settings.drafting.source = ConfidenceSource::kRawLogits;
  settings.drafting.undrawn.push_back(config.mask_id);
  settings.verifies = strategy.accepts_exactly;
  return std::make_unique<SeededDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace

std::unique_ptr<Decoder> make(const BlockStrategy& strategy, const ModelConfig& config, Asked asked) {
  // A constrained answer is not edited: the constraint may not allow tokens that an insertion moves.
  const bool edits = edits_blocks(config) && !asked.request.context.constraint;
  if (edits) return make_editing(strategy, config, std::move(asked));
  if (config.causal_context) return make_seeded(strategy, config, std::move(asked));
  auto settings = common_settings<BlockDiffusion>(strategy, config, asked);
  static_cast<BlockPolicy&>(settings) = strategy;
  settings.block_length = block_length_of(strategy, config);
  settings.sub_block_length = sub_block_length_of(strategy, config);
  settings.steps = strategy.steps.value_or(settings.block_length);
  settings.unmask = strategy.unmask.policy;
  settings.sampling = sampling_rule(strategy.sampling);
  settings.sampling.measure = strategy.unmask.measure;
  settings.sampling.measures_all = strategy.unmask.policy.traits().is_custom;
  settings.sampling.source = ConfidenceSource::kTempered;
  settings.sampling.undrawn.push_back(config.mask_id);
  for (const int64_t edit : {config.delete_id, config.split_id}) {
    if (edit >= 0) settings.sampling.undrawn.push_back(static_cast<TokenId>(edit));
  }
  settings.shifted_logits = config.shifted_logits;
  settings.commits_apart =
      strategy.commit == BlockStrategy::Commit::kSeparate || !why_apart(strategy, config).empty();
  settings.whole_prompt = config.whole_prompt;
  if (config.whole_prompt)
    settings.max_positions = static_cast<int32_t>(std::min<int64_t>(kMaxGenLength, config.max_positions));
  if (strategy.guided)
    return std::make_unique<DraftedDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
  if (is_pipelined(strategy, config))
    return std::make_unique<PipelinedDecoder>(std::move(settings), std::move(asked.request.prompt));
  return std::make_unique<BlockDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace lacuna
