// Everything a user may set about a generation. visit_options() lists each setting once; the command line,
// request files and --help all walk that list.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/config.h"

namespace lacuna {

/// A set of paradigms.
using Paradigms = uint8_t;
constexpr Paradigms only(Paradigm paradigm) {
  return static_cast<Paradigms>(1U << static_cast<unsigned>(paradigm));
}

/// Length of an answer, or with is_auto its maximum, which may be empty.
struct AnswerLength : std::optional<int32_t> {
  using optional::optional;
  template <std::same_as<int32_t> Tokens>  // so that = {} stays the default
  AnswerLength& operator=(Tokens tokens) {
    emplace(tokens);
    return *this;
  }

  bool is_auto = false;  ///< the model says where the answer ends
};

/// Generation settings as the user gave them. An empty field means "the family's default"; a field that the
/// chosen method would ignore is refused by make_decoder().
struct GenerationOptions {
  std::optional<std::string> preset;
  AnswerLength gen_length;
  std::optional<int32_t> steps;
  std::optional<int32_t> block_length;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repeat_penalty;
  std::vector<std::string> logit_bias;
  std::optional<uint64_t> seed;
  std::optional<std::string> unmask;
  std::vector<std::string> delimiter;
  std::optional<double> alg_temp;
  std::optional<double> eps;
  std::optional<double> cfg_scale;
  bool logits_eos_inf = false;
  bool confidence_eos_eot_inf = false;
  bool suppress_mask = false;
  bool eos_exit = false;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::optional<std::string> json_schema;
  bool json_object = false;
  std::optional<std::string> regex;
  std::vector<std::string> choice;
  std::optional<std::string> grammar;
  std::optional<std::string> literals;
  std::optional<std::string> cache;
  std::optional<int32_t> refresh;
  std::optional<int32_t> cache_block;
  std::optional<int32_t> suffix;
  std::optional<std::string> suffix_dropout;
  std::optional<int32_t> prompt_block;
  std::optional<std::string> lock;
  std::optional<std::string> grow;
  std::optional<std::string> guide_match;
  std::optional<std::string> guide_fallback;
  std::optional<int32_t> guide_block;
  std::optional<std::string> refusion;
  std::optional<int32_t> slot_size;
  std::optional<double> slot_threshold;
  std::optional<double> token_threshold;
  std::optional<std::string> fill;
  std::optional<std::string> kv;
  std::optional<std::string> accept;
  std::optional<double> revoke;
  std::optional<std::string> sampler;
  std::optional<int32_t> tokens_per_step;
  std::optional<std::string> schedule;
  std::optional<int32_t> min_length;
  std::optional<int32_t> context;
  std::optional<std::string> noise;
  std::optional<std::string> boundary;
  std::optional<std::string> drift;
  std::optional<std::string> block_exit;
  std::optional<std::string> last_layer;
  std::optional<std::string> self_correct;
  std::optional<double> stop_entropy;
  std::optional<std::string> self_conditioning;
  std::optional<int32_t> sub_block_length;
  std::optional<std::string> commit;
  std::optional<std::string> edit;
  std::optional<std::string> pipeline;
  std::optional<int32_t> drafts;
  std::optional<double> focus;
  std::optional<std::string> sparse;
  std::optional<std::string> sparse_commit;
  std::optional<int32_t> sparse_after;
};

/// Other names under which people know a flag: llama.cpp's, the model cards', the published scripts'.
struct Aliases {
  std::array<std::string_view, 5> names;
  size_t count = 0;

  constexpr const std::string_view* begin() const { return names.data(); }
  constexpr const std::string_view* end() const { return names.data() + count; }
};

/// Name and documentation of a setting.
struct Setting {
  std::string_view name;  ///< flag without dashes in front; requests and Python use underscores
  Paradigms owners = 0;   ///< paradigms that take it; models of others refuse it
  std::string_view help;
  Aliases aliases;
};

namespace settings {

template <typename Field>
struct Row {
  Field GenerationOptions::*field;
  Setting setting;
};

template <typename Field, typename... Names>
constexpr Row<Field> setting(std::string_view name, Field GenerationOptions::*field, Paradigms owners,
                             std::string_view help, Names... aliases) {
  return {field, {name, owners, help, {{aliases...}, sizeof...(aliases)}}};
}

inline constexpr Paradigms kAll = 0xff;
inline constexpr Paradigms kCausal = only(Paradigm::kCausal);
inline constexpr Paradigms kMasked = only(Paradigm::kMasked);
inline constexpr Paradigms kUniform = only(Paradigm::kUniform);
inline constexpr Paradigms kCanvases = only(Paradigm::kCanvases);
inline constexpr Paradigms kBlocks = only(Paradigm::kBlocks);
inline constexpr Paradigms kSlots = only(Paradigm::kSlots);

using O = GenerationOptions;

/// Every setting, in the order of --help.
inline constexpr std::tuple kRows{
    setting(
        "preset", &O::preset, kAll,
        "exact, balanced, fast or one that tune saved: settings where no flag says otherwise (see inspect)"),
    setting(
        "gen-length", &O::gen_length, kAll,
        "Positions to generate, or auto: as many as the answer needs (default: the model's files', else 128)",
        "-n", "n-predict", "predict", "max-new-tokens", "max-tokens"),
    setting("steps", &O::steps, kMasked | kBlocks | kUniform | kCanvases,
            "Denoising steps of the run (default gen-length; RND1: 256), or of a block or canvas done alone",
            "diffusion-steps", "denoising-steps", "max-denoising-steps", "dllm-denoising-steps"),
    setting("block-length", &O::block_length, kAll,
            "Positions denoised together, left to right (default: gen-length, or as trained in blocks)",
            "diffusion-block-length", "dllm-block-length"),
    setting(
        "unmask", &O::unmask, kMasked | kBlocks | kCanvases,
        "Which tokens a step commits: low-confidence, entropy, margin, random, threshold=T, factor=F, ...",
        "remasking", "alg", "diffusion-algorithm", "remasking-strategy", "dllm-unmasking-strategy"),
    setting(
        "temperature", &O::temperature, kAll,
        "Sampling temperature; 0 takes the most likely token (default 0; DiffusionGemma, LFM2.5, Sumi: 1)",
        "temp"),
    setting("top-p", &O::top_p, kAll & ~kCanvases,
            "Sample from the most likely tokens up to this total probability, (0, 1] (default 1: all)"),
    setting("top-k", &O::top_k, kAll & ~kCanvases,
            "Sample from this many of the most likely tokens (default 0: all)"),
    setting("min-p", &O::min_p, kAll,
            "Minimum probability of a sampled token, relative to the most likely token's, [0, 1] (default 0: "
            "all)"),
    setting("presence-penalty", &O::presence_penalty, kAll,
            "Subtracted from the logits of tokens that the answer has, -100 to 100 (default 0)"),
    setting("frequency-penalty", &O::frequency_penalty, kAll,
            "Subtracted from a token's logit for each time that the answer has it, -100 to 100 (default 0)"),
    setting("repeat-penalty", &O::repeat_penalty, kAll,
            "Divides the logits of tokens that prompt or answer have, 0.01 to 100 (default 1: off)",
            "repetition-penalty"),
    setting("logit-bias", &O::logit_bias, kAll,
            "TOKEN=BIAS: added to the logit of a token id, -10000 to 10000; repeatable"),
    setting("seed", &O::seed, kAll, "Seed of all sampling: same seed, model and flags, same text (default 0)",
            "-s"),
    setting("delimiter", &O::delimiter, kMasked,
            "--unmask adablock: a block may end at the token of this text; repeatable (default: newlines)"),
    setting("alg-temp", &O::alg_temp, kMasked,
            "Dream: randomness in which positions are committed (default 0: the most confident)",
            "diffusion-alg-temp"),
    setting("eps", &O::eps, kMasked, "Dream: time at which the schedule ends, (0, 1] (default 0.001)",
            "diffusion-eps"),
    setting("cfg-scale", &O::cfg_scale, kMasked,
            "Classifier-free guidance strength; doubles the rows (default 0: off)", "cfg",
            "diffusion-cfg-scale"),
    setting("logits-eos-inf", &O::logits_eos_inf, kMasked, "LLaDA: never sample the end-of-text token"),
    setting("confidence-eos-eot-inf", &O::confidence_eos_eot_inf, kMasked,
            "LLaDA: commit end-of-text and end-of-turn tokens last"),
    setting("suppress-mask", &O::suppress_mask, kMasked | kSlots,
            "Never sample the mask token (always on for threshold and factor)"),
    setting("eos-exit", &O::eos_exit, kMasked,
            "Stop after the block, or guided draft, that ends the answer, same text; d3llm: at its end token",
            "early-exit"),
    setting("ignore-eos", &O::ignore_eos, kCausal | kBlocks | kUniform | kCanvases,
            "Continue after an end token (autoregressive models, GIDD, block diffusion)"),
    setting("stop", &O::stop, kAll, "End the answer before this text; repeatable"),
    setting("json-schema", &O::json_schema, kAll,
            "The answer is JSON that is valid against this schema (docs/guide/structured_output.md)"),
    setting("json-object", &O::json_object, kAll, "The answer is a JSON object"),
    setting("regex", &O::regex, kAll, "The whole answer matches this regular expression"),
    setting("choice", &O::choice, kAll, "The answer is this text, or another --choice; repeatable"),
    setting(
        "grammar", &O::grammar, kAll,
        "The answer is a text of this grammar in llama.cpp's notation (docs/methods/structured_output.md)"),
    setting("literals", &O::literals, kAll,
            "Text that a constraint fully determines: decoded, or given without a pass (default decoded)"),
    setting("cache", &O::cache, kMasked | kBlocks | kUniform,
            "Cache: none, prefix, dual, free, delayed, dkv, sparse-dllm, dllm-cache, d2cache; GIDD uniform; "
            "block"),
    setting("refresh", &O::refresh, kMasked | kUniform,
            "Passes between whole ones (default: never; dkv: 8 or 4; uniform: 4; dllm-cache: 50 or 25)"),
    setting("cache-block", &O::cache_block, kMasked,
            "--cache free, delayed: positions that freeze together (default: block-length)"),
    setting("suffix", &O::suffix, kMasked,
            "Positions behind the block that a pass sees, and the last one (default: all)"),
    setting("suffix-dropout", &O::suffix_dropout, kMasked,
            "DPad: see a random part of the suffix, drawn anew for each block: on or decay=4,scale=2"),
    setting("prompt-block", &O::prompt_block, kMasked,
            "Compute the prompt once, in blocks that see no later one; requests share them (default: no)"),
    setting(
        "lock", &O::lock, kMasked | kBlocks,
        "SureLock, skip converged rows: eps=5e-4,gate=20,min-age=1,... (the paper's 0 keeps a mask's K/V)"),
    setting("grow", &O::grow, kMasked,
            "Canvas that changes its length: tokens (DreamOn's default), end-mass,start=64,by=8,... or none"),
    setting(
        "guide-match", &O::guide_match, kMasked,
        "Drafts that the guide accepts: exact, top-k=K, relative=R or tau-literal=T (default relative=0.5)"),
    setting(
        "guide-fallback", &O::guide_fallback, kMasked,
        "Where no draft is accepted, commit the first draft (dlm) or the guide's token (ar) (default dlm)"),
    setting("guide-block", &O::guide_block, kMasked, "Drafts that one pass of the guide judges (default 32)"),
    setting("refusion", &O::refusion, kSlots,
            "ReFusion: whose rules to follow: lacuna, paper or released (default lacuna: more accurate on "
            "all models measured, docs/methods/refusion.md)"),
    setting("slot-size", &O::slot_size, kSlots,
            "ReFusion: positions of a slot, written left to right (default 8)"),
    setting(
        "slot-threshold", &O::slot_threshold, kSlots,
        "ReFusion: slots whose first token is more probable than this are written together (default 0.9)"),
    setting("token-threshold", &O::token_threshold, kSlots | kCausal,
            "ReFusion, SDLM: a drafted token is accepted if it is more probable than this (default 0.9)"),
    setting(
        "fill", &O::fill, kSlots,
        "ReFusion: slots completed in parallel are verified in order, or side-by-side (default verified)"),
    setting("kv", &O::kv, kSlots,
            "ReFusion: K/V of parallel slots: reuse, recompute (in the next pass) or recompute-apart "
            "(default reuse)"),
    setting("accept", &O::accept, kSlots | kBlocks,
            "Drafts that are accepted: ReFusion: threshold (default) or exact (left-to-right's own); "
            "Nemotron: all (default) or exact"),
    setting("revoke", &O::revoke, kSlots,
            "ReFusion: mask a slot again from its first token less probable than this (default 0: never)"),
    setting("sampler", &O::sampler, kUniform,
            "GIDD, Sumi: adaptive (tokens that the model disagrees with most), threshold=0.9,least=1, "
            "ancestral or greedy (default adaptive; Sumi: ancestral)"),
    setting("tokens-per-step", &O::tokens_per_step, kUniform,
            "GIDD, Sumi, adaptive: at most this many tokens change in a step (default 3; Sumi: 1)"),
    setting("schedule", &O::schedule, kUniform,
            "GIDD, Sumi: noise over the steps of a block: cosine or linear (default cosine; Sumi: linear)"),
    setting("min-length", &O::min_length, kUniform,
            "GIDD, Sumi: positions of the answer that hold no end token (default 0)"),
    setting("context", &O::context, kUniform,
            "GIDD, Sumi: positions of the context, noise after the answer included (default: the model's; "
            "Sumi: 2048)"),
    setting("noise", &O::noise, kUniform,
            "GIDD, Sumi: tokens that noise is sampled from: safe (no special ones) or hub (all) (default "
            "safe; Sumi: hub)"),
    setting("boundary", &O::boundary, kUniform,
            "--cache uniform: begin a block with a partial pass, as blocks=2,full-every=8 (default: full)"),
    setting(
        "drift", &O::drift, kUniform,
        "--cache uniform: recompute pages whose K/V moved: tau=0.01,page=16,budget=64 (default: --refresh)"),
    setting(
        "block-exit", &O::block_exit, kUniform,
        "GIDD, Sumi: leave a block at its fixed-point (same text) or after its steps (default fixed-point)"),
    setting("last-layer", &O::last_layer, kUniform,
            "GIDD, Sumi: rows that the last layer computes, needed or all; the text is the same (default "
            "needed)"),
    setting(
        "self-correct", &O::self_correct, kUniform,
        "GIDD, Sumi: revise the finished answer: on, or most=128,temperature=0.1,patience=32,tokens=1,..."),
    setting("stop-entropy", &O::stop_entropy, kCanvases,
            "DiffusionGemma: a stable canvas is done below this mean entropy in nats (default 0.005)",
            "confidence-threshold"),
    setting("self-conditioning", &O::self_conditioning, kCanvases,
            "DiffusionGemma, LFM2.5: exact, or the probability left out of a mean embedding (default 1e-6)"),
    setting("sub-block-length", &O::sub_block_length, kBlocks,
            "Fast-dLLM v2: positions of a block denoised at a time (default: as trained)"),
    setting("commit", &O::commit, kBlocks,
            "Block diffusion: a finished block's K/V come fused with the next step or apart (default fused)"),
    setting("edit", &O::edit, kBlocks,
            "LLaDA 2: replace written tokens where another is more probable: tau=0.5,most=16 (2.2: tau=0, "
            "always)"),
    setting("pipeline", &O::pipeline, kBlocks,
            "Several blocks at once: on, none or add=0.1,full=0.95, shares written (default none; D2F: on)"),
    setting("drafts", &O::drafts, kBlocks,
            "States of a block drafted ahead, computed in the same pass; same text, 1-32 (default none)"),
    setting(
        "focus", &O::focus, kBlocks,
        "FOCUS: passes drop masks; this many times those that a step writes stay, 1 or more (default none)"),
    setting("sparse", &O::sparse, kBlocks,
            "Block diffusion, attention to the prefix: exact (default), mage=K, quest=K (pages score "
            "Quest's mean over a block's queries: MAGE leaves it open), sparsed=K, flashblock=N or losa=K; "
            ",dense-layers=2"),
    setting("sparse-commit", &O::sparse_commit, kBlocks,
            "--sparse: K/V that are kept come from exact or sparse attention (default exact)"),
    setting("sparse-after", &O::sparse_after, kBlocks,
            "--sparse: attend to the whole prefix from this step of a block on (default: never)")};

}  // namespace settings

/// Calls visit(setting, field) for each setting, in the order of --help.
template <typename Options, typename Visit>
void visit_options(Options& options, Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row.setting, options.*row.field), ...); }, settings::kRows);
}

/// Whether a field of GenerationOptions was given.
inline bool is_given(bool flag) {
  return flag;
}
inline bool is_given(const AnswerLength& length) {
  return length.has_value() || length.is_auto;
}
inline bool is_given(const std::vector<std::string>& values) {
  return !values.empty();
}
template <typename T>
bool is_given(const std::optional<T>& value) {
  return value.has_value();
}

}  // namespace lacuna
