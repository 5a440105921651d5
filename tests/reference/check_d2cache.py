"""Checks --cache d2cache of a `lacuna` binary against d2cache.py.

    python check_d2cache.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes random checkpoints. `lacuna run` at temperature 0 must agree with the reference on the rows of every
pass and on the canvas after it, rebuilt from the trace. A run that differs is skipped as too close when the reference
nearly tied in that pass or before. The last line but one says how many runs took each rare path. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace as read_passes
from check_blocks import short
from check_engine import Report, engines_of, make_prompt, parse_arguments
from check_growing import read_trace, verdict
from d2cache import Numbers, generate
from random_checkpoints import make_checkpoint

FAMILIES = ("llada", "dream", "llada_moe")


def random_numbers(rng):
    """(the numbers, their flags)"""
    numbers = Numbers(int(rng.choice([1, 2, 3, 4, 8, 32])), short(rng.choice([0, 0.05, 0.1, 0.3, 0.7])),
                      short(rng.choice([0.5, 2, 10, 30])), int(rng.choice([0, 0, 0, 2, 4])), int(rng.choice([0, 0, 0, 3, 7])))
    text = f"d2cache={numbers.current},rollout={numbers.rollout},sigma={numbers.sigma},inflate={numbers.inflate}"
    return numbers, ["--cache", text, *(["--refresh", numbers.refresh] if numbers.refresh else [])]


def check(engine, root, folder, model, rng, counts):
    family = model.shape.family
    prompt = make_prompt(model, "holes" if rng.random() < 0.25 else "plain", rng)
    block = int(rng.choice([3, 4, 6, 8, 12, 24]))
    gen_length = block * int(rng.integers(1, 1 + 24 // block))
    numbers, flags = random_numbers(rng)
    flags += ["--gen-length", gen_length, "--block-length", block, "--suppress-mask"]
    rule = [short(rng.choice([0.05, 0.2, 0.5, 0.9])), "probability", "entropy"][int(rng.integers(3))]
    steps = None
    if rule in ("probability", "entropy"):
        steps = gen_length // block * int(rng.integers(1, block + 1))
        flags += ["--steps", steps]
    name = {"probability": "maskgit" if family == "dream" else "low-confidence", "entropy": "entropy"}
    flags += ["--unmask", name.get(rule, f"threshold={rule}")]
    cfg_scale = 0.0
    if family == "llada" and rng.random() < 0.25:
        cfg_scale = 0.5
        flags += ["--cfg-scale", cfg_scale]
    want = generate(model, prompt, gen_length, block, numbers, rule, steps, cfg_scale)
    counts["runs"] += 1
    counts["passes"] += len(want.canvases)
    for path, count in want.met.items():
        counts[path] += count > 0

    trace = root / "trace.jsonl"
    trace.unlink(missing_ok=True)
    arguments = ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--temperature", "0", "--dtype",
                 "f32", *flags]
    command = " ".join(map(str, arguments))
    engine.call([*arguments, "--json", "--trace", trace, "--no-live", *engine.common()])
    _, canvases = read_trace(trace)
    rows = [sorted(set(line["rows"])) for line in read_passes(trace)]
    for number in range(max(len(canvases), len(want.canvases))):
        for what, got, expected in (("rows", rows, want.rows), ("canvas", canvases, want.canvases)):
            mine, theirs = (some[number] if number < len(some) else None for some in (got, expected))
            if mine != theirs:
                return verdict(f"pass {number} {what}: got {mine}, expected {theirs}", number, want, command)
    return True, f"{len(rows)} passes, {sum(map(len, rows))} rows; {command}"


def main():
    args = parse_arguments(__doc__, 12, 8, keeps=False)
    report, counts = Report(not args.quiet), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for place, family in enumerate(FAMILIES):
                folder = root / f"{family}-{seed}"
                model = make_checkpoint(folder, family, seed)
                for engine in engines_of(args):
                    rng = np.random.default_rng([seed, place, 83])
                    for case in range(args.cases):
                        report.run(f"{engine.label}{family} seed {seed} case {case}",
                                   lambda: check(engine, root, folder, model, rng, counts), engine)
    print(", ".join(f"{count} {path}" for path, count in counts.items()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
