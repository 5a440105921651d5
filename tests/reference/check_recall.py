"""Checks `lacuna analyze recall` against recall.py.

    python check_recall.py LACUNA_BINARY [--seeds N] [--first-seed K] [--families sdar,...] [--quiet]

For every seed it writes a random checkpoint, and both decode the same random prompts with exact attention. Every row that
the program prints must agree within 2e-4 of its value, counts exactly. A run that differs is skipped as too close to call
where the reference nearly tied between two cells, pages or tokens. Exit status 0 when nothing failed.
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from blocks import Options, decode
from check_blocks import SHIFTED, VOCAB, make_block_checkpoint
from check_engine import ROUTER_TOLERANCE, Report, add_backend_arguments, engines_of
from random_checkpoints import make_checkpoint
from recall import Instrument, Recorder
from uniform import RngStream

FAMILIES = ("sdar", "fast_dllm", "llada2", "control")  # control: an autoregressive model that is run by blocks
PROMPT_NOISE = 32
CELL_GAP = 2e-5  # relative, of masses and scores of pages


def random_prompt(model, length, seed):
    """Random tokens as --prompt-length generates them: no masks, after the token that begins a text."""
    noise, mask, begin = RngStream(seed, PROMPT_NOISE), model.shape.mask_id, model.config.get("bos_token_id")
    prompt = [begin] if begin is not None else []
    while len(prompt) < length:
        token = noise.below(len(prompt), model.shape.vocab - 1)
        prompt.append(token + (token >= mask))
    return prompt


def make_model(folder, family, seed):
    """(the reference Model, flags of the program)"""
    if family != "control":
        return make_block_checkpoint(folder, family, seed)[0], []
    model = make_checkpoint(folder, "qwen3", seed, tokenizer=None, dtype="f32", vocab=VOCAB, hidden=32, layers=4,
                            kv_heads=2, heads=4, head_dim=16)
    model.shape.mask_id = VOCAB - 3
    return model, ["--mask-token", model.shape.mask_id]


def random_settings(family, rng):
    """(options of the reference, requests, flags of the program, budgets, page)"""
    size = int(rng.choice([2, 4, 8]))
    options = Options(gen_length=int(rng.integers(3, 14)), block_length=size, unmask="low-confidence",
                      commit="apart" if family in SHIFTED else None)
    length, requests = int(rng.integers(28, 61)), int(rng.integers(1, 3))
    page = int(rng.choice([1, 2, 3, 4]))
    budgets = sorted(int(budget) for budget in rng.choice(np.arange(page + 3, 30), 2, replace=False))
    flags = ["--prompt-length", length, "--samples", requests, "--gen-length", options.gen_length, "--ignore-eos",
             "--unmask", options.unmask, "--budgets", ",".join(map(str, budgets)), "--page", page]
    flags += ["--as-blocks", size] if family == "control" else ["--block-length", size]
    if family in SHIFTED:
        options.sub_block_length = size
        flags += ["--sub-block-length", size]
    return options, (length, requests), flags, budgets, page


def expected(family, model, options, prompts, budgets, page):
    """(rows, whether they hang on a near tie)"""
    close = []
    instrument = Instrument(budgets, page, lambda gap: close.append(gap < CELL_GAP))
    model.router_gap = np.inf
    length, requests = prompts
    for seed in range(requests):
        recorder = Recorder(model, shifted=family in SHIFTED)
        options.seed = seed
        done = decode(recorder, random_prompt(model, length, seed), (), options)
        instrument.add(recorder, done, length, options)
        close.append(done.close is not None)
    return instrument.report(), any(close) or model.router_gap < ROUTER_TOLERANCE


def differences(mine, theirs):
    """Descriptions of figures that differ between the expected rows and those that were printed."""
    # The program adds rows on the run as a whole, and on budgets that are left out.
    theirs = [row for row in theirs if "blocks" not in row and "left_out" not in row]
    if [list(row) for row in mine] != [list(row) for row in theirs]:
        return [f"{len(theirs)} rows, expected {len(mine)}, or other keys"]
    found = []
    for ours, row in zip(mine, theirs):
        label = {key: value for key, value in row.items() if isinstance(value, (str, int))}
        for key, value in ours.items():
            same = value == row[key] if isinstance(value, (str, int)) else np.isclose(row[key], value, rtol=2e-4, atol=2e-6)
            if not same:
                found.append(f"{label}: {key} is {row[key]}, expected {value}")
    return found


def compare(engine, folder, want, flags):
    rows, close = want
    printed = engine.call(["analyze", "recall", "-m", folder, "--dtype", "f32", "--seed", 0, "--json", *flags,
                           *engine.common()])
    theirs = [{key: value for key, value in json.loads(line).items() if key not in ("instrument", "model")}
              for line in printed.splitlines()]
    found = differences(rows, theirs)
    command = " ".join(map(str, flags)) + f" -m {folder}"
    if not found:
        return True, f"{len(rows)} rows; {command}"
    if close:
        return None, f"too close to call: {found[0]}; {command}"
    return False, f"{len(found)} figures differ, first: {found[0]}; {command}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=10, help="random checkpoints per family (default 10)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=3, help="runs per checkpoint (default 3)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated")
    add_backend_arguments(parser)
    parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    families = args.families.split(",")
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    report, engines = Report(not args.quiet), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for family in families:
                folder = root / f"{family}-{seed}"
                model, more = make_model(folder, family, seed)
                rng = np.random.default_rng([seed, FAMILIES.index(family), 61])
                for case in range(args.cases):
                    options, prompts, flags, budgets, page = random_settings(family, rng)
                    report.on_each(
                        engines, f"{family} seed {seed} case {case}",
                        lambda engine, want: compare(engine, folder, want, [*flags, *more]),
                        lambda: expected(family, model, options, prompts, budgets, page))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
