// Everything a user may set about a generation. visit_options() lists each setting once; the command line,
// request files and --help all walk that list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// What was asked for. An empty field means "the family's default"; a field that the chosen method would
/// ignore is refused by make_decoder().
struct GenerationOptions {
  std::optional<std::string> preset;
  std::optional<int32_t> gen_length;
  std::optional<int32_t> steps;
  std::optional<int32_t> block_length;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
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
  std::optional<std::string> cache;
  std::optional<int32_t> refresh;
  std::optional<int32_t> cache_block;
  std::optional<std::string> lock;
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
        "The family's settings for exact, balanced or fast decoding, wherever no other flag is given; "
        "`lacuna inspect` lists them");
  visit("gen-length", Aliases{"-n", "n-predict", "predict", "max-new-tokens", "max-tokens"},
        options.gen_length, "Positions to generate (default 128)");
  visit("steps", Aliases{"diffusion-steps", "denoising-steps", "max-denoising-steps", "dllm-denoising-steps"},
        options.steps,
        "Denoising steps of the whole run, a multiple of the number of blocks (default: gen-length); block "
        "diffusion and GIDD: of a block (default: block-length)");
  visit("block-length", Aliases{"diffusion-block-length", "dllm-block-length"}, options.block_length,
        "Positions denoised together, left to right; divides gen-length (default: gen-length); ReFusion: "
        "planned "
        "together, any length (default 64); block diffusion: any length (default: as trained); GIDD: any "
        "length (default "
        "32)");
  visit("unmask",
        Aliases{"remasking", "alg", "diffusion-algorithm", "remasking-strategy", "dllm-unmasking-strategy"},
        options.unmask,
        "What a step commits: low-confidence, random, margin, entropy, maskgit, origin, threshold=TAU or "
        "factor=F (default: low-confidence for LLaDA and SDAR, entropy for Dream); block diffusion also "
        "sequential, dynamic=TAU (default for LLaDA 2: 0.95, Fast-dLLM v2: 0.9) or entropy-bounded=E");
  visit("temperature", Aliases{"temp"}, options.temperature, "0 takes the best token (default 0)");
  visit("top-p", Aliases{}, options.top_p, "Draw among the likeliest tokens up to this probability, (0, 1]");
  visit("top-k", Aliases{}, options.top_k, "Draw among this many likeliest tokens");
  visit("seed", Aliases{"-s"}, options.seed, "Same seed, model and flags: same text (default 0)");
  visit("alg-temp", Aliases{"diffusion-alg-temp"}, options.alg_temp,
        "Dream: randomness of which positions are committed (default 0: the surest)");
  visit("eps", Aliases{"diffusion-eps"}, options.eps, "Dream: last time of the schedule (default 0.001)");
  visit("cfg-scale", Aliases{"cfg", "diffusion-cfg-scale"}, options.cfg_scale,
        "Classifier-free guidance; doubles the rows (default 0: none)");
  visit("logits-eos-inf", Aliases{}, options.logits_eos_inf, "LLaDA: never draw the end-of-text token");
  visit("confidence-eos-eot-inf", Aliases{}, options.confidence_eos_eot_inf,
        "LLaDA: commit end-of-text and end-of-turn tokens last");
  visit("suppress-mask", Aliases{}, options.suppress_mask,
        "Never draw the mask token (always on for threshold and factor, which would not end otherwise)");
  visit("eos-exit", Aliases{"early-exit"}, options.eos_exit,
        "Stop after the block that ends the answer, with a guide after its end token; the text is the same");
  visit("ignore-eos", Aliases{}, options.ignore_eos,
        "Autoregressive models, GIDD, block diffusion: go on after an end token");
  visit("stop", Aliases{}, options.stop,
        "Causal models: end the answer before this text; may be given several times");
  visit("cache", Aliases{}, options.cache,
        "Rows a pass computes: none (all), prefix, dual, free, free-literal or dkv; GIDD: none, prefix or "
        "uniform; Fast-dLLM v2: none (the whole block) or block (the sub-block) (default: none)");
  visit(
      "refresh", Aliases{}, options.refresh,
      "Compute everything again every so many passes: of a block for prefix and dual, of the run for free "
      "and "
      "dkv (default: never; dkv: 8 for LLaDA, 4 for Dream); uniform: the next block, every so many steps (0: "
      "never; default 4)");
  visit("cache-block", Aliases{}, options.cache_block,
        "--cache free: positions that freeze together (default: block-length)");
  visit(
      "lock", Aliases{}, options.lock,
      "SureLock: compute no more the rows that converged. eps=5e-4,gate=20,min-age=1 and prompt=paper|eager, "
      "population=candidates|unlocked, delta=D, unlock-every=P, budget=32, unlock-eps=E, interval=4, "
      "cooldown=4, "
      "strictness=0.5");
  visit("guide-match", Aliases{}, options.guide_match,
        "Drafts that the guide lets stand: exact, top-k=K, relative=R or tau-literal=T (default: top-k=2)");
  visit("guide-fallback", Aliases{}, options.guide_fallback,
        "Where no draft stands: dlm commits the first draft, ar adds the guide's own token (default: dlm)");
  visit("guide-block", Aliases{}, options.guide_block,
        "Drafts that one pass of the guide judges (default: 32)");
  visit("refusion", Aliases{}, options.refusion,
        "ReFusion: whose rules to follow: lacuna, paper or released (default: lacuna)");
  visit("slot-size", Aliases{}, options.slot_size,
        "ReFusion: positions that are written left to right (default 8)");
  visit("slot-threshold", Aliases{}, options.slot_threshold,
        "ReFusion: slots whose first token is likelier than this are written together (default 0.9)");
  visit("token-threshold", Aliases{}, options.token_threshold,
        "ReFusion: a drafted token stands if it is likelier than this (default 0.9)");
  visit(
      "fill", Aliases{}, options.fill,
      "ReFusion: slots that were completed side by side are read once more in order (verified), or committed "
      "as they are (side-by-side): fewer passes, but none saw the others (default: verified)");
  visit("kv", Aliases{}, options.kv,
        "ReFusion: reuse keeps the K/V of slots that were completed side by side, recompute computes them "
        "again with the next plan (default: reuse)");
  visit("accept", Aliases{}, options.accept,
        "ReFusion: which drafts stand: threshold, or exact for those that left-to-right decoding would write "
        "(default: threshold)");
  visit("revoke", Aliases{}, options.revoke,
        "ReFusion: mask a finished slot again from its first token less likely than this (default 0: never)");
  visit(
      "sampler", Aliases{}, options.sampler,
      "GIDD: adaptive changes the tokens that the model disagrees with most, ancestral draws every position "
      "by its posterior (default: adaptive)");
  visit("tokens-per-step", Aliases{}, options.tokens_per_step,
        "GIDD, adaptive: tokens that change in a step at most (default 3)");
  visit("schedule", Aliases{}, options.schedule,
        "GIDD: noise over the steps of a block: cosine or linear (default: cosine)");
  visit("min-length", Aliases{}, options.min_length,
        "GIDD: positions of the answer without an end token (default 0)");
  visit(
      "context", Aliases{}, options.context,
      "GIDD: positions in all; what follows the answer is filled with noise, as in training. Fewer than the "
      "model has are faster and change the result somewhat (default: the model's)");
  visit("noise", Aliases{}, options.noise,
        "GIDD: tokens that noise begins with: safe (no special ones) or hub (all, as published) (default: "
        "safe)");
  visit("boundary", Aliases{}, options.boundary,
        "--cache uniform: begin a block with a pass over the finished block and the next ones alone: "
        "blocks=2,full-every=8 (default: always a full pass)");
  visit(
      "drift", Aliases{}, options.drift,
      "--cache uniform: instead of --refresh, compute again the pages whose K/V are expected to have moved: "
      "tau=0.01,page=16,budget=64");
  visit("block-exit", Aliases{}, options.block_exit,
        "GIDD: leave a block at its fixed-point, when further steps would repeat the last (the text is the "
        "same), or after its steps (default: fixed-point)");
  visit("last-layer", Aliases{}, options.last_layer,
        "GIDD: in the last layer, compute all of only the rows whose output is needed, or of all (default: "
        "needed; the text is the same)");
  visit("self-correct", Aliases{}, options.self_correct,
        "GIDD: reconsider the finished answer, one token at a time: on, or "
        "most=128,temperature=0.1,patience=32,tokens=1,full-every=1");
  visit("sub-block-length", Aliases{}, options.sub_block_length,
        "Fast-dLLM v2: positions of a block that are denoised at a time; divides block-length (default: as "
        "trained)");
  visit("commit", Aliases{}, options.commit,
        "Block diffusion: compute a finished block's K/V with the next block's first step (fused, default "
        "where it can be; the text is the same) or in a pass of its own (apart)");
  visit("edit", Aliases{}, options.edit,
        "Block diffusion, LLaDA 2.1: replace written tokens of the block where another is likelier than tau: "
        "tau=0.5,most=16");
  visit("sparse", Aliases{}, options.sparse,
        "Block diffusion: attend to a part of the prefix: exact (all of it), mage=K, quest=K,page=16 or "
        "sparsed=K,exact=0.2, K cells of each layer and kv head (default: exact)");
  visit("sparse-commit", Aliases{}, options.sparse_commit,
        "--sparse: whether the K/V that are kept come from exact or sparse attention (default: exact)");
  visit("sparse-after", Aliases{}, options.sparse_after,
        "--sparse: attend to all again from this step of a block on (default: never)");
}

}  // namespace lacuna
