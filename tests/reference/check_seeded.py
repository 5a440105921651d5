"""Checks Nemotron-Labs-Diffusion of a `lacuna` binary against seeded.py.

    python check_seeded.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes a random checkpoint, compares `lacuna logits` within 2e-3, read causally and with a block that is
denoised, and decodes random prompts with random options: blocks, self-speculation and the left-to-right mode. Tokens must
agree, and pass by pass kinds, rows and commits; and self-speculation must write what the left-to-right mode of the binary
writes. A run that differs is skipped as too close when the reference nearly tied in that pass or before. The last lines say
how many runs took each rare path. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace
from check_blocks import first_difference, short
from check_engine import Report, compare_logits, count_paths, engines_of, parse_arguments, wanted_logits
from random_checkpoints import make_nemotron_checkpoint
from seeded import Nemotron, Options, decode

PATHS = ("cut block", "several steps", "done with masks", "all accepted", "accepted some")


def random_options(model, length, rng):
    room = min(model.positions - length, 48)
    options = Options(gen_length=int(rng.integers(1, room + 1)), seed=int(rng.integers(0, 1000)))
    options.accept = str(rng.choice(["all", "exact"]))
    if rng.random() < 0.6:
        options.block_length = int(rng.choice([1, 2, 3, 5, 8, 13, 32]))
    size = options.block_length or model.block_length
    rules = ("low-confidence", "margin", "entropy", "sequential", "random", f"dynamic={short(rng.uniform(0.05, 0.9))}",
             f"threshold={short(rng.uniform(0.05, 0.9))}", f"factor={short(rng.uniform(0.3, 6))}")
    if rng.random() < 0.5:
        options.unmask = str(rng.choice(rules))
    if (options.unmask or "").split("=")[0] not in ("threshold", "factor") and rng.random() < 0.5:
        options.steps = int(rng.integers(1, size + 1))
    if rng.random() < 0.4:
        options.temperature = short(rng.uniform(0.2, 1.3))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
    options.ignore_eos = bool(rng.random() < 0.4)
    return options


def flags(options):
    out = ["--gen-length", options.gen_length, "--seed", options.seed, "--temperature", options.temperature]
    if options.top_k:
        out += ["--top-k", options.top_k]
    out += ["--ignore-eos"] * options.ignore_eos
    if options.causal:
        return out + ["--paradigm", "causal"]
    for name, value in (("block-length", options.block_length), ("unmask", options.unmask), ("steps", options.steps)):
        if value is not None:
            out += [f"--{name}", value]
    return out + ["--accept", options.accept] * (options.accept != "all")


def answer_of(engine, folder, prompt, arguments, trace):
    trace.unlink(missing_ok=True)
    return json.loads(engine.call(
        ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *arguments, "--dtype", "f32", "--json",
         "--trace", trace, "--no-live", *engine.common()]))["tokens"]


def compare_run(engine, root, folder, prompt, options, arguments, want):
    """Tokens and passes of a run with these arguments, compared with what the reference decodes."""
    trace = root / "trace.jsonl"
    tokens = answer_of(engine, folder, prompt, arguments, trace)
    difference, at = first_difference(read_trace(trace), want, options)
    if difference is None and tokens != want.tokens:
        difference, at = f"tokens: got {tokens}, expected {want.tokens}", len(want.passes)
    command = f"{' '.join(map(str, arguments))} -m {folder} --prompt-tokens {','.join(map(str, prompt))}"
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {' '.join(map(str, arguments))}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    return False, f"{difference}; {command}"


def wanted(model, prompt, options, counts):
    want = decode(model, prompt, options)
    counts["causal" if options.causal else options.accept] += 1
    count_paths(counts, want, PATHS)
    return want


def compare_modes(engine, root, folder, prompt, options):
    """Without exception: both modes compute the same bits."""
    trace = root / "trace.jsonl"
    speculated = answer_of(engine, folder, prompt, flags(options), trace)
    causal = answer_of(engine, folder, prompt, flags(Options(**vars(options) | {"causal": True})), trace)
    return speculated == causal, f"{speculated} and {causal}"


def main():
    args = parse_arguments(__doc__, 10, 12, keeps=False)
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"nemotron-{seed}"
            model = Nemotron(*make_nemotron_checkpoint(folder, seed))
            rng = np.random.default_rng([seed, 61])
            tokens = rng.integers(0, model.vocab, int(rng.integers(20, 50))).tolist()
            for begin in (None, int(rng.integers(1, len(tokens)))):
                report.on_each(engines, f"seed {seed} logits, block at {begin}",
                               lambda engine, want: compare_logits(engine, folder, want, tokens, canvas_begin=begin),
                               lambda: wanted_logits(model, tokens, begin))
            for case in range(args.cases):
                prompt = rng.integers(0, model.vocab, int(rng.integers(1, 40))).tolist()
                options = random_options(model, len(prompt), rng)
                options.causal = bool(rng.random() < 0.1)
                report.on_each(engines, f"seed {seed} case {case}",
                               lambda engine, want: compare_run(engine, root, folder, prompt, options, flags(options), want),
                               lambda: wanted(model, prompt, options, counts))
                if options.accept == "exact" and not options.causal:
                    report.on_each(engines, f"seed {seed} case {case}, both modes",
                                   lambda engine, _: compare_modes(engine, root, folder, prompt, options))
    print(", ".join(f"{counts[path]} {path}" for path in ("all", "exact", "causal", *PATHS)))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
