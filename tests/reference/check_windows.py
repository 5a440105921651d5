"""Checks SDLM of a `lacuna` binary against windows.py.

    python check_windows.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes a random checkpoint, compares `lacuna logits` within 2e-3, and decodes random prompts with random
options, greedily and sampled. Tokens must agree, and pass by pass kinds, rows and commits. A run that differs is skipped as too
close when the reference nearly tied in that pass or before. The last lines say how many runs took each rare path. Exit status 0
when nothing failed.
"""
import collections
import sys
import tempfile
from pathlib import Path

import numpy as np

import check_strided
from check_blocks import short
from check_engine import Report, compare_logits, count_paths, engines_of, parse_arguments, wanted_logits
from check_seeded import compare_run
from random_borrowed import make_sdlm_checkpoint
from windows import Options, decode

PATHS = ("whole window", "part of it", "one token", "ended within", "stopped by an end", "wrote a mask", "fewer masks",
         "read in parts")


def random_options(rng):
    options = Options(**vars(check_strided.random_options(rng)))
    if options.block_length == 1:
        options.block_length = 6  # without masks it is another mode
    if rng.random() < 0.9:
        options.token_threshold = short(rng.choice([0.02, 0.1, 0.2, 0.4, 0.7]))
    return options


def flags(options):
    threshold = ["--token-threshold", options.token_threshold] if options.token_threshold != 0.9 else []
    return check_strided.flags(options) + threshold


def wanted(model, prompt, options, counts):
    want = decode(model, prompt, options)
    count_paths(counts, want, PATHS)
    return want


def main():
    args = parse_arguments(__doc__, 10, 12)
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"sdlm-{seed}"
            model = make_sdlm_checkpoint(folder, seed)
            rng = np.random.default_rng([seed, 97])
            tokens = rng.integers(0, model.shape.vocab, int(rng.integers(20, 60))).tolist()
            report.on_each(engines, f"seed {seed} logits",
                           lambda engine, want: compare_logits(engine, folder, want, tokens),
                           lambda: wanted_logits(model, tokens))
            for case in range(args.cases):
                prompt, options = check_strided.random_prompt(model, rng), random_options(rng)
                room = model.config["max_position_embeddings"]
                prompt = prompt[:room - 1]
                options.gen_length = min(options.gen_length, room - len(prompt))
                report.on_each(engines, f"seed {seed} case {case}",
                               lambda engine, want: compare_run(engine, root, folder, prompt, options, flags(options), want),
                               lambda: wanted(model, prompt, options, counts))
    print(", ".join(f"{counts[path]} {path}" for path in ("runs", *PATHS)))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
