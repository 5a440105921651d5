"""Checks GIDD and Sumi models and uniform diffusion of a `lacuna` binary against models.py and uniform.py.

    python check_uniform.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes a random checkpoint of each, compares `lacuna logits` within 2e-3, GIDD's with and without a clean prefix, and
decodes random prompts with random options. Tokens must agree, and pass by pass the positions of its rows and the tokens
that it changed of those to generate (committing a token that is there already counts as no change). A run that differs is skipped as too
close when the reference nearly tied in that pass or before. Refusals count as in check_engine.py. The last lines say how
many runs took each rare path, so that a check which tests nothing is visible. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace
from check_engine import Report, compare_logits, count_paths, engines_of, parse_arguments, wanted_logits
from random_checkpoints import make_gidd_checkpoint, make_sumi_checkpoint
from uniform import Network, Options, decode

PATHS = ("skipped step", "refresh", "a refresh of a block at rest", "boundary", "wanted rows", "over budget",
         "stopped by an end", "drawn from the model", "drawn from the noise", "masked again", "no noise", "corrected",
         "partial correction", "nothing to correct", "out of patience", "changed behind the answer",
         "rows of the answer alone", "an older level", "several above the threshold", "below the threshold",
         "left below the threshold")


def short(value):
    """Rounds to three digits, as on the command line."""
    return float(f"{value:.3g}")


def add_threshold(options, rng):
    if options.sampler == "threshold":
        options.threshold = (short(10 ** rng.uniform(-3, -0.02)), int(rng.choice([0, 0, 1, 3])))


def random_whole_canvas_options(network, prompt, rng):
    noise = network.noise
    whole = len(prompt) + (prompt[0] != noise.bos) + len(noise.closing)
    room = min(noise.generation.get("canvas_length", 2048), network.positions) - whole
    options = Options(gen_length=int(rng.integers(1, min(room, 24) + 1)), seed=int(rng.integers(0, 1000)))
    if rng.random() < 0.8 or "num_denoising_steps" not in noise.generation:
        options.steps = int(rng.integers(1, 21))
    if rng.random() < 0.5:
        options.context = int(rng.integers(whole + options.gen_length, network.positions + 1))
    if rng.random() < 0.8:
        options.sampler = str(rng.choice(["ancestral", "ancestral", "adaptive", "threshold", "greedy"]))
    add_threshold(options, rng)
    if options.sampler == "adaptive" and rng.random() < 0.7:
        options.tokens_per_step = int(rng.integers(1, 9))
    if rng.random() < 0.6:
        options.schedule = str(rng.choice(["cosine", "linear"]))
    if options.sampler != "greedy" and rng.random() < 0.7:
        options.temperature = short(rng.choice([0.0, rng.uniform(0.2, 1.5)]))
    if options.sampler != "greedy" and options.temperature != 0:
        options.top_k = int(rng.choice([0, 0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, 1.0, rng.uniform(0.5, 0.99)]))
    options.min_length = int(rng.choice([0, rng.integers(0, options.gen_length + 1)]))
    if rng.random() < 0.5:
        options.noise = str(rng.choice(["safe", "hub"]))
    options.cache = str(rng.choice(["none", "uniform"]))
    if options.cache == "uniform":
        options.refresh = int(rng.choice([0, 1, 2, 3, 4, 5]))
    add_common_options(options, rng)
    return options


def add_common_options(options, rng):
    options.block_exit = str(rng.choice(["fixed-point", "fixed-point", "steps"]))
    options.last_layer = str(rng.choice(["needed", "all"]))
    if rng.random() < 0.25:
        options.self_correct = {}
        if rng.random() < 0.7:
            options.self_correct = {
                "most": int(rng.integers(1, 20)), "temperature": short(rng.uniform(0.05, 1.0)),
                "patience": int(rng.integers(0, 6)), "tokens": int(rng.integers(1, 4)),
                "full-every": int(rng.choice([1, 2, 4]))}
    options.ignore_eos = bool(rng.random() < 0.4)


def random_options(network, prompt, rng):
    noise = network.noise
    if noise.whole:
        return random_whole_canvas_options(network, prompt, rng)
    whole = len(prompt) + (noise.bos >= 0 and prompt[0] != noise.bos)
    room = network.positions - whole
    options = Options(gen_length=int(rng.integers(1, min(room, 24) + 1)), steps=int(rng.integers(1, 21)),
                      block_length=int(rng.integers(1, 13)), seed=int(rng.integers(0, 1000)))
    if rng.random() < 0.7:
        options.context = int(rng.integers(whole + options.gen_length, network.positions + 1))
    options.sampler = str(rng.choice(["ancestral", "adaptive", "threshold", "greedy"], p=[0.3, 0.3, 0.3, 0.1]))
    add_threshold(options, rng)
    options.tokens_per_step = int(rng.integers(1, 6))
    options.schedule = str(rng.choice(["cosine", "linear"]))
    if options.sampler != "greedy" and rng.random() < (0.6 if options.sampler == "ancestral" else 0.3):
        options.temperature = short(rng.uniform(0.2, 1.5))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, rng.uniform(0.5, 0.99)]))
    options.min_length = int(rng.choice([0, rng.integers(0, options.gen_length + 1)]))
    options.noise = str(rng.choice(["safe", "hub"]))
    options.cache = str(rng.choice(["none", "prefix", "uniform", "uniform", "uniform", "uniform"]))
    if options.cache == "uniform":
        options.refresh = int(rng.choice([0, 1, 2, 3, 4, 5]))
        if rng.random() < 0.35:
            options.boundary = (int(rng.integers(2, 5)), int(rng.integers(1, 5)))
        if rng.random() < 0.35:
            tau = short(10 ** rng.uniform(-6, -1)) if rng.random() < 0.9 else 0.0
            options.drift = (tau, int(rng.choice([1, 3, 4, 8, 16])), int(rng.choice([4, 8, 16, 64])))
    add_common_options(options, rng)
    return options


def random_prompt(network, rng):
    noise = network.noise
    usual = [token for token in range(noise.vocab) if token not in noise.special]
    prompt = rng.choice(usual, int(rng.integers(1, 9))).tolist()
    if noise.bos >= 0 and rng.random() < 0.5:
        prompt[0] = noise.bos
    return prompt


def flags(options):
    out = ["--gen-length", options.gen_length, "--cache", options.cache, "--seed", options.seed]
    sampler = options.sampler
    if sampler == "threshold":
        sampler = "threshold={},least={}".format(*options.threshold)
    for name, value in (("steps", options.steps), ("block-length", options.block_length),
                        ("schedule", options.schedule), ("sampler", sampler),
                        ("temperature", options.temperature), ("noise", options.noise), ("context", options.context)):
        if value is not None:
            out += [f"--{name}", value]
    if options.sampler == "adaptive" and options.tokens_per_step is not None:
        out += ["--tokens-per-step", options.tokens_per_step]
    for name, value, default in (("top-k", options.top_k, 0), ("top-p", options.top_p, 1),
                                 ("min-length", options.min_length, 0), ("last-layer", options.last_layer, "needed"),
                                 ("block-exit", options.block_exit, "fixed-point")):
        if value != default:
            out += [f"--{name}", value]
    if options.cache == "uniform" and not options.drift:
        out += ["--refresh", options.refresh]
    if options.boundary:
        out += ["--boundary", "blocks={},full-every={}".format(*options.boundary)]
    if options.drift:
        out += ["--drift", "tau={},page={},budget={}".format(*options.drift)]
    if options.self_correct is not None:
        settings = ",".join(f"{name}={value}" for name, value in options.self_correct.items())
        out += ["--self-correct", settings or "on"]
    return out + ["--ignore-eos"] * options.ignore_eos


def first_difference(trace, want):
    """(None, 0), or what differs first and in which pass."""
    canvas = list(want.start)
    for index, (got, record) in enumerate(zip(trace, want.passes)):
        changed = sorted((c["position"], c["token"]) for c in got["committed"])
        changed = [(position, token) for position, token in changed if canvas[position] != token]
        for position, token in changed:
            canvas[position] = token
        expected = [(position, token) for position, token in record.changed if position < want.limit]
        for what, mine, theirs in (("rows", sorted(got["rows"]), record.rows), ("changes", changed, expected)):
            if mine != theirs:
                return f"pass {index} ({record.kind}) {what}: got {mine}, expected {theirs}", index
    if len(trace) != len(want.passes):
        return f"{len(trace)} passes, expected {len(want.passes)}", min(len(trace), len(want.passes))
    return None, 0


def wanted(network, prompt, options, counts):
    want = decode(network, prompt, options)
    count_paths(counts, want, PATHS)
    return want


def compare(engine, root, folder, want, prompt, options):
    arguments, trace_file = flags(options), root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    answer = json.loads(engine.call(
        ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *arguments, "--dtype", "f32", "--json",
         "--trace", trace_file, "--no-live", *engine.common()]))
    command = " ".join(map(str, arguments))
    difference, at = first_difference(read_trace(trace_file), want)
    if difference is None and answer["tokens"] != want.tokens:
        difference, at = f"tokens: got {answer['tokens']}, expected {want.tokens}", len(want.passes)
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {command}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    return False, f"{difference}; {command} -m {folder} --prompt-tokens {','.join(map(str, prompt))}"


def main():
    args = parse_arguments(__doc__, 10, 12, families="gidd,sumi")
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        families = args.families.split(",")
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        for family, seed in ((family, seed) for seed in seeds for family in families):
            folder = root / f"{family}-{seed}"
            made = make_gidd_checkpoint(folder, seed) if family == "gidd" else make_sumi_checkpoint(folder, seed)
            model, generation = made if family == "sumi" else (made, None)
            network = Network(model, generation)
            rng = np.random.default_rng([seed, 43])
            count = int(rng.integers(2, min(33, network.positions + 1)))
            tokens = rng.integers(0, model.shape.vocab, count).tolist()
            prefixes = (None, 0, int(rng.integers(1, len(tokens))), len(tokens)) if family == "gidd" else (None,)
            for clean_prefix in prefixes:
                report.on_each(engines, f"{family} seed {seed} logits, clean prefix {clean_prefix}",
                               lambda engine, want: compare_logits(engine, folder, want, tokens, clean_prefix=clean_prefix),
                               lambda: wanted_logits(model, tokens, clean_prefix=clean_prefix or 0))
            for case in range(args.cases):
                prompt = random_prompt(network, rng)
                options = random_options(network, prompt, rng)
                report.on_each(engines, f"{family} seed {seed} case {case}",
                               lambda engine, want: compare(engine, root, folder, want, prompt, options),
                               lambda: wanted(network, prompt, options, counts))
    print(f"{counts['runs']} runs; " + ", ".join(f"{counts[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
