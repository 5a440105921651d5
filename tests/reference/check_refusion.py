"""Checks ReFusion decoding of a `lacuna` binary against refusion.py.

    python check_refusion.py LACUNA_BINARY [--seeds N] [--first-seed K] [--modes released,paper,lacuna] [--quiet]

For every seed it writes a random checkpoint and decodes random prompts with random options. Tokens must agree, and pass
by pass its kind, the positions of its rows in feed order, and what it committed with which probability. A run that
differs is skipped as too close when the reference nearly tied before: a probability within 1e-4 of a threshold or the
two best logits within 1e-3. The last lines say how many runs took each rare path,
so that a check which tests nothing is visible. Exit status 0 when nothing failed.
"""
import argparse
import collections
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace
from check_engine import Report, add_backend_arguments, count_paths, engines_of
from random_checkpoints import END_OF_TURN, make_refusion_checkpoint, special_ids
from refusion import MODES, Network, Options, decode

PATHS = ("end in verify", "completion", "end in completion", "fallback slot", "ragged slot", "revocation", "pending row",
         "end behind the first", "released index error", "verified again", "refused again")
PROBABILITY_TOLERANCE = 2e-4


def random_options(mode, rng):
    """Options as the command line gets them: short decimals."""
    gen_length = int(rng.integers(4, 41))
    block_length = gen_length if rng.random() < 0.4 else int(rng.integers(min(4, gen_length), gen_length + 1))
    options = Options(mode, gen_length, block_length,
                      slot_size=int(rng.integers(1, min(9, block_length + 1))) if rng.random() < 0.9 else block_length,
                      slot_threshold=round(float(rng.uniform(0.05, 0.9)), 3),
                      token_threshold=round(float(rng.choice([rng.uniform(0.02, 0.3), rng.uniform(0.3, 0.9)])), 3),
                      kv=str(rng.choice(["reuse", "recompute", "recompute-apart"])))
    if rng.random() < 0.3:  # many small slots, most of them selected together
        options.gen_length = options.block_length = int(rng.integers(16, 33))
        options.slot_size, options.slot_threshold = int(rng.integers(2, 5)), round(float(rng.uniform(0.05, 0.3)), 3)
    if mode == "lacuna":
        options.accept = str(rng.choice(["threshold", "threshold", "exact"]))
        options.fill = "verified" if rng.random() < 0.6 else "side-by-side"
        if options.fill == "verified":  # which has nothing to recompute
            options.kv = "reuse"
        options.revoke = round(float(rng.choice([0.0, rng.uniform(0.02, 0.3), rng.uniform(0.3, 0.8)])), 3)
    return options


def random_prompt(model, rng):
    return rng.integers(0, model.shape.mask_id, int(rng.integers(1, 10))).tolist()


def flags(options):
    out = ["--gen-length", options.gen_length, "--block-length", options.block_length, "--slot-size", options.slot_size,
           "--slot-threshold", options.slot_threshold, "--refusion", options.mode]
    if options.accept != "exact":  # which compares tokens
        out += ["--token-threshold", options.token_threshold]
    if options.mode == "lacuna":
        out += ["--accept", options.accept, "--revoke", options.revoke, "--fill", options.fill]
    if options.mode != "lacuna" or options.fill == "side-by-side":
        out += ["--kv", options.kv]
    return out


def first_difference(trace, want):
    """(None, 0), or what differs first and in which pass."""
    for index, (got, record) in enumerate(zip(trace, want.passes)):
        commits = sorted((c["position"], c["token"]) for c in got["committed"])
        pairs = {
            "kind": (got["kind"], record.kind),
            "rows": (got["rows"], record.rows),
            "commits": (commits, sorted((position, token) for position, token, _ in record.committed)),
        }
        for what, (mine, theirs) in pairs.items():
            if mine != theirs:
                return f"pass {index} ({record.kind}) {what}: got {mine}, expected {theirs}", index
        mine = {c["position"]: c.get("confidence") for c in got["committed"]}
        for position, _, probability in record.committed:
            if mine[position] is not None and abs(mine[position] - probability) > PROBABILITY_TOLERANCE:
                return (f"pass {index} ({record.kind}) probability at {position}: got {mine[position]:.5f}, "
                        f"expected {probability:.5f}"), index
    if len(trace) != len(want.passes):
        return f"{len(trace)} passes, expected {len(want.passes)}", min(len(trace), len(want.passes))
    return None, 0


def wanted(model, prompt, options, ends, counts):
    want = decode(Network(model), prompt, ends, options)
    count_paths(counts, want, PATHS)
    return want


def compare(engine, root, folder, want, prompt, options, ends):
    arguments, trace_file = flags(options), root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    answer = engine.run(folder, prompt, [*arguments, "--trace", trace_file])
    command = " ".join(map(str, arguments))
    difference, at = first_difference(read_trace(trace_file), want)
    if difference is None and answer["tokens"] != want.tokens:
        difference, at = f"tokens: got {answer['tokens']}, expected {want.tokens}", len(want.passes)
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {command}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    prompt = ",".join(map(str, prompt))
    return False, f"{difference}; {command} -m {folder} --prompt-tokens {prompt}, ends {sorted(ends)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=10, help="random checkpoints (default 10)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=6, help="runs per checkpoint and mode (default 6)")
    parser.add_argument("--modes", default=",".join(MODES))
    add_backend_arguments(parser)
    parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    modes = args.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    report, counts = Report(not args.quiet), {mode: collections.Counter() for mode in modes}
    engines = engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"refusion-{seed}"
            model = make_refusion_checkpoint(folder, seed)
            ids = special_ids("qwen3", model.shape.vocab)
            ends = {model.shape.eos_id, ids[END_OF_TURN["qwen3"]]}  # the engine finds the end of a turn by its name
            for mode in modes:
                rng = np.random.default_rng([seed, MODES.index(mode), 31])  # the same cases whichever modes are asked for
                for case in range(args.cases):
                    prompt, options = random_prompt(model, rng), random_options(mode, rng)
                    report.on_each(engines, f"{mode} seed {seed} case {case}",
                                   lambda engine, want: compare(engine, root, folder, want, prompt, options, ends),
                                   lambda: wanted(model, prompt, options, ends, counts[mode]))
    for mode, counter in counts.items():
        print(f"{mode}: {counter['runs']} runs; " + ", ".join(f"{counter[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
