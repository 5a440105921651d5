// Everything a user may set about a generation. visit_options() lists each setting once; the command line,
// request files and --help all walk that list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// What was asked for. An empty field means "the family's default"; a field that the chosen method would
/// ignore is refused by make_decoder().
struct GenerationOptions {
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
  bool early_exit = false;
  bool ignore_eos = false;
};

/// Other names under which people know a flag: llama.cpp's, the model cards', the published scripts'.
using Aliases = std::initializer_list<std::string_view>;

/// Calls visit(name, aliases, field, help) for each setting, in the order of --help.
template <typename Options, typename Visit>
void visit_options(Options& options, Visit&& visit) {
  visit("gen-length", Aliases{"-n", "n-predict", "predict", "max-new-tokens"}, options.gen_length,
        "Positions to generate (default 128)");
  visit("steps", Aliases{"diffusion-steps"}, options.steps,
        "Denoising steps of the whole run, a multiple of the number of blocks (default: gen-length)");
  visit("block-length", Aliases{"diffusion-block-length"}, options.block_length,
        "Positions denoised together, left to right; divides gen-length (default: gen-length)");
  visit("unmask", Aliases{"remasking", "alg", "diffusion-algorithm"}, options.unmask,
        "What a step commits: low-confidence, random, margin, entropy, maskgit, origin, threshold=TAU or "
        "factor=F (default: low-confidence for LLaDA, entropy for Dream)");
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
  visit("early-exit", Aliases{}, options.early_exit,
        "Leave out blocks after one that ends the answer; the text is the same");
  visit("ignore-eos", Aliases{}, options.ignore_eos, "Autoregressive: go on after an end token");
}

}  // namespace lacuna
