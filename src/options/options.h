// Everything a user may set about a generation. visit_options() lists each setting once; the command line,
// request files and --help all walk that list.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Positions of an answer, or the most that one of its own length may have.
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
  std::optional<std::string> sparse;
  std::optional<std::string> sparse_commit;
  std::optional<int32_t> sparse_after;
};

/// Other names under which people know a flag: llama.cpp's, the model cards', the published scripts'.
using Aliases = std::initializer_list<std::string_view>;

/// Calls visit(name, aliases, field, help) for each setting, in the order of --help.
template <typename Options, typename Visit>
void visit_options(Options& options, Visit&& visit) {
  visit("preset", Aliases{}, options.preset,
        "exact, balanced, fast or one that tune saved: settings where no flag says otherwise (see inspect)");
  visit(
      "gen-length", Aliases{"-n", "n-predict", "predict", "max-new-tokens", "max-tokens"}, options.gen_length,
      "Positions to generate, or auto: as many as the answer needs (default: the model's files', else 128)");
  visit("steps", Aliases{"diffusion-steps", "denoising-steps", "max-denoising-steps", "dllm-denoising-steps"},
        options.steps,
        "Denoising steps of the run (default gen-length; RND1: 256), or of a block or canvas done alone");
  visit("block-length", Aliases{"diffusion-block-length", "dllm-block-length"}, options.block_length,
        "Positions denoised together, left to right (default: gen-length, or as trained in blocks)");
  visit("unmask",
        Aliases{"remasking", "alg", "diffusion-algorithm", "remasking-strategy", "dllm-unmasking-strategy"},
        options.unmask,
        "Which tokens a step commits: low-confidence, entropy, margin, random, threshold=T, factor=F, ...");
  visit("temperature", Aliases{"temp"}, options.temperature,
        "Sampling temperature; 0 takes the most likely token (default 0; DiffusionGemma, Sumi: 1)");
  visit("top-p", Aliases{}, options.top_p,
        "Sample from the most likely tokens up to this total probability, (0, 1] (default 1: all)");
  visit("top-k", Aliases{}, options.top_k,
        "Sample from this many of the most likely tokens (default 0: all)");
  visit(
      "min-p", Aliases{}, options.min_p,
      "Minimum probability of a sampled token, relative to the most likely token's, [0, 1] (default 0: all)");
  visit("presence-penalty", Aliases{}, options.presence_penalty,
        "Subtracted from the logits of tokens that the answer has, -100 to 100 (default 0)");
  visit("frequency-penalty", Aliases{}, options.frequency_penalty,
        "Subtracted from a token's logit for each time that the answer has it, -100 to 100 (default 0)");
  visit("repeat-penalty", Aliases{"repetition-penalty"}, options.repeat_penalty,
        "Divides the logits of tokens that prompt or answer have, 0.01 to 100 (default 1: off)");
  visit("logit-bias", Aliases{}, options.logit_bias,
        "TOKEN=BIAS: added to the logit of a token id, -10000 to 10000; repeatable");
  visit("seed", Aliases{"-s"}, options.seed,
        "Seed of all sampling: same seed, model and flags, same text (default 0)");
  visit("alg-temp", Aliases{"diffusion-alg-temp"}, options.alg_temp,
        "Dream: randomness in which positions are committed (default 0: the most confident)");
  visit("eps", Aliases{"diffusion-eps"}, options.eps,
        "Dream: time at which the schedule ends, (0, 1] (default 0.001)");
  visit("cfg-scale", Aliases{"cfg", "diffusion-cfg-scale"}, options.cfg_scale,
        "Classifier-free guidance strength; doubles the rows (default 0: off)");
  visit("logits-eos-inf", Aliases{}, options.logits_eos_inf, "LLaDA: never sample the end-of-text token");
  visit("confidence-eos-eot-inf", Aliases{}, options.confidence_eos_eot_inf,
        "LLaDA: commit end-of-text and end-of-turn tokens last");
  visit("suppress-mask", Aliases{}, options.suppress_mask,
        "Never sample the mask token (always on for threshold and factor)");
  visit("eos-exit", Aliases{"early-exit"}, options.eos_exit,
        "Stop after the block, or guided draft, that ends the answer; the text is the same");
  visit("ignore-eos", Aliases{}, options.ignore_eos,
        "Continue after an end token (autoregressive models, GIDD, block diffusion)");
  visit("stop", Aliases{}, options.stop, "End the answer before this text; repeatable");
  visit("json-schema", Aliases{}, options.json_schema,
        "The answer is JSON that is valid against this schema (docs/guide/structured_output.md)");
  visit("json-object", Aliases{}, options.json_object, "The answer is a JSON object");
  visit("regex", Aliases{}, options.regex, "The whole answer matches this regular expression");
  visit("choice", Aliases{}, options.choice, "The answer is this text, or another --choice; repeatable");
  visit("grammar", Aliases{}, options.grammar,
        "The answer is a text of this grammar in llama.cpp's notation (docs/methods/structured_output.md)");
  visit("literals", Aliases{}, options.literals,
        "Text that a constraint fully determines: decoded, or given without a pass (default decoded)");
  visit(
      "cache", Aliases{}, options.cache,
      "K/V cache: none (default), prefix, dual, free, free-literal, dkv; uniform (GIDD); block (Fast-dLLM)");
  visit("refresh", Aliases{}, options.refresh,
        "Passes between full recomputations of a cache (default: never; dkv: 8 or 4; uniform: 4)");
  visit("cache-block", Aliases{}, options.cache_block,
        "--cache free: positions that freeze together (default: block-length)");
  visit("lock", Aliases{}, options.lock,
        "SureLock, skip converged rows: eps=5e-4,gate=20,min-age=1,... (docs/methods/surelock.md)");
  visit("grow", Aliases{}, options.grow,
        "Canvas that changes its length: tokens (DreamOn's default), end-mass,start=64,by=8,... or none");
  visit("guide-match", Aliases{}, options.guide_match,
        "Drafts that the guide accepts: exact, top-k=K, relative=R or tau-literal=T (default relative=0.5)");
  visit("guide-fallback", Aliases{}, options.guide_fallback,
        "Where no draft is accepted, commit the first draft (dlm) or the guide's token (ar) (default dlm)");
  visit("guide-block", Aliases{}, options.guide_block,
        "Drafts that one pass of the guide judges (default 32)");
  visit("refusion", Aliases{}, options.refusion,
        "ReFusion: whose rules to follow: lacuna, paper or released (default lacuna)");
  visit("slot-size", Aliases{}, options.slot_size,
        "ReFusion: positions of a slot, written left to right (default 8)");
  visit("slot-threshold", Aliases{}, options.slot_threshold,
        "ReFusion: slots whose first token is more probable than this are written together (default 0.9)");
  visit("token-threshold", Aliases{}, options.token_threshold,
        "ReFusion: a drafted token is accepted if it is more probable than this (default 0.9)");
  visit("fill", Aliases{}, options.fill,
        "ReFusion: slots completed in parallel are verified in order, or side-by-side (default verified)");
  visit("kv", Aliases{}, options.kv,
        "ReFusion: K/V of slots completed in parallel: reuse or recompute (default reuse)");
  visit(
      "accept", Aliases{}, options.accept,
      "Drafts that are accepted: ReFusion: threshold (default) or exact (left-to-right's own); Nemotron: all "
      "(default) or exact");
  visit("revoke", Aliases{}, options.revoke,
        "ReFusion: mask a slot again from its first token less probable than this (default 0: never)");
  visit(
      "sampler", Aliases{}, options.sampler,
      "GIDD, Sumi: adaptive (tokens that the model disagrees with most), threshold=0.9,least=1, ancestral or "
      "greedy (default adaptive; Sumi: ancestral)");
  visit("tokens-per-step", Aliases{}, options.tokens_per_step,
        "GIDD, Sumi, adaptive: at most this many tokens change in a step (default 3; Sumi: 1)");
  visit("schedule", Aliases{}, options.schedule,
        "GIDD, Sumi: noise over the steps of a block: cosine or linear (default cosine; Sumi: linear)");
  visit("min-length", Aliases{}, options.min_length,
        "GIDD, Sumi: positions of the answer that hold no end token (default 0)");
  visit("context", Aliases{}, options.context,
        "GIDD, Sumi: positions of the context, noise after the answer included (default: the model's; Sumi: "
        "2048)");
  visit("noise", Aliases{}, options.noise,
        "GIDD, Sumi: tokens that noise is sampled from: safe (no special ones) or hub (all) (default safe; "
        "Sumi: "
        "hub)");
  visit("boundary", Aliases{}, options.boundary,
        "--cache uniform: begin a block with a partial pass, as blocks=2,full-every=8 (default: full)");
  visit("drift", Aliases{}, options.drift,
        "--cache uniform: recompute pages whose K/V moved: tau=0.01,page=16,budget=64 (default: --refresh)");
  visit("block-exit", Aliases{}, options.block_exit,
        "GIDD, Sumi: leave a block at its fixed-point (same text) or after its steps (default fixed-point)");
  visit(
      "last-layer", Aliases{}, options.last_layer,
      "GIDD, Sumi: rows that the last layer computes, needed or all; the text is the same (default needed)");
  visit("self-correct", Aliases{}, options.self_correct,
        "GIDD, Sumi: revise the finished answer: on, or most=128,temperature=0.1,patience=32,tokens=1,...");
  visit("stop-entropy", Aliases{"confidence-threshold"}, options.stop_entropy,
        "DiffusionGemma: a stable canvas is done below this mean entropy in nats (default 0.005)");
  visit("self-conditioning", Aliases{}, options.self_conditioning,
        "DiffusionGemma: exact, or the probability that may be left out of a mean embedding (default 1e-6)");
  visit("sub-block-length", Aliases{}, options.sub_block_length,
        "Fast-dLLM v2: positions of a block denoised at a time (default: as trained)");
  visit("commit", Aliases{}, options.commit,
        "Block diffusion: a finished block's K/V come fused with the next step or apart (default fused)");
  visit(
      "edit", Aliases{}, options.edit,
      "LLaDA 2: replace written tokens where another is more probable: tau=0.5,most=16 (2.2: tau=0, always)");
  visit("sparse", Aliases{}, options.sparse,
        "Block diffusion, attention to the prefix: exact (default), mage=K, quest=K or sparsed=K; "
        ",dense-layers=2");
  visit("sparse-commit", Aliases{}, options.sparse_commit,
        "--sparse: K/V that are kept come from exact or sparse attention (default exact)");
  visit("sparse-after", Aliases{}, options.sparse_after,
        "--sparse: attend to the whole prefix from this step of a block on (default: never)");
}

}  // namespace lacuna
