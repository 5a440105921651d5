"""Checks I-DLM of a `lacuna` binary against strided.py.

    python check_strided.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes a random checkpoint, compares `lacuna logits` within 2e-3, and decodes random prompts with random
options, greedily and sampled. Tokens must agree, and pass by pass kinds, rows and commits; and without exception the text
has to be that of `--block-length 1`, the left-to-right mode of the binary. A run that differs from the reference is skipped as
too close when the reference nearly tied in that pass or before. The last lines say how many runs took each rare path. Exit
status 0 when nothing failed.
"""
import collections
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from check_blocks import short
from check_engine import Report, compare_logits, count_paths, engines_of, parse_arguments, wanted_logits
from check_seeded import answer_of, compare_run
from random_borrowed import make_idlm_checkpoint
from strided import Options, decode

PATHS = ("all accepted", "some accepted", "none accepted", "ended among drafts", "stopped by an end", "wrote a mask",
         "fewer masks", "read in parts")


def random_prompt(model, rng):
    length = int(rng.integers(1, 40))
    if rng.random() < 0.04:
        length = int(rng.integers(1000, 1100))  # more than one pass reads it
    prompt = rng.integers(0, model.shape.vocab, length)
    usual = rng.integers(0, model.shape.vocab - 20, length)
    return np.where(rng.random(length) < 0.95, usual, prompt).tolist()  # mask and end tokens now and then


def random_options(rng):
    options = Options(gen_length=int(rng.integers(1, 49)), seed=int(rng.integers(0, 1000)))
    if rng.random() < 0.7:
        options.block_length = int(rng.choice([1, 2, 3, 4, 5, 8, 32, 50]))
    if rng.random() < 0.5:
        options.temperature = short(rng.uniform(0.2, 1.3))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, rng.uniform(0.5, 0.99)]))
    options.ignore_eos = bool(rng.random() < 0.4)
    return options


def flags(options):
    out = ["--gen-length", options.gen_length, "--seed", options.seed, "--temperature", options.temperature]
    for name, value, default in (("block-length", options.block_length, None), ("top-k", options.top_k, 0),
                                 ("top-p", options.top_p, 1)):
        if value != default:
            out += [f"--{name}", value]
    return out + ["--ignore-eos"] * options.ignore_eos


def wanted(model, prompt, options, counts):
    want = decode(model, prompt, options)
    count_paths(counts, want, PATHS)
    return want


def compare_modes(engine, root, folder, prompt, options):
    """Without exception: both modes compute the same bits."""
    trace = root / "trace.jsonl"
    drafted = answer_of(engine, folder, prompt, flags(options), trace)
    plain = answer_of(engine, folder, prompt, flags(replace(options, block_length=1)), trace)
    return drafted == plain, f"{drafted} and {plain}"


def main():
    args = parse_arguments(__doc__, 10, 12)
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"idlm-{seed}"
            model = make_idlm_checkpoint(folder, seed)
            rng = np.random.default_rng([seed, 89])
            tokens = rng.integers(0, model.shape.vocab, int(rng.integers(20, 60))).tolist()
            report.on_each(engines, f"seed {seed} logits",
                           lambda engine, want: compare_logits(engine, folder, want, tokens),
                           lambda: wanted_logits(model, tokens))
            for case in range(args.cases):
                prompt, options = random_prompt(model, rng), random_options(rng)
                report.on_each(engines, f"seed {seed} case {case}",
                               lambda engine, want: compare_run(engine, root, folder, prompt, options, flags(options), want),
                               lambda: wanted(model, prompt, options, counts))
                if case % 3 == 0:
                    report.on_each(engines, f"seed {seed} case {case}, both modes",
                                   lambda engine, _: compare_modes(engine, root, folder, prompt, options))
    print(", ".join(f"{counts[path]} {path}" for path in ("runs", *PATHS)))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
