"""Checks LFM2.5-Diffusion of a `lacuna` binary against lfm2.py.

    python check_lfm2.py LACUNA_BINARY [--seeds N] [--first-seed K] [--quiet]

For every seed it writes a random checkpoint. `lacuna logits` must agree within 2e-3 on rows of clean text, and on the rows of a
block at random noise levels with and without self-conditioning. `lacuna run` must feed every pass of every block the same ids and
give the same answer, from the same random numbers. A run that differs after the reference nearly drew another token is skipped
as too close. The last line but one says how many tokens came from each part of the posterior. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace
from check_engine import Report, compare_logits, engines_of, parse_arguments
from lfm2 import Settings, decode
from models import softmax
from random_lfm2 import make_checkpoint


def check_logits(engines, folder, model, seed, report, label):
    rng = np.random.default_rng([seed, 72])
    for case in range(5):
        begin = int(rng.choice([1, 2, 3, int(rng.integers(1, 70))]))
        count = begin + (model.block if case else 0)
        ids, fields, distribution, level = rng.integers(0, model.vocab, count).tolist(), {}, None, 0.0
        if case:
            level = float(np.float32(rng.choice([rng.uniform(0, 7), rng.uniform(0, 1e-2)])))
            fields = {"canvas_begin": begin, "noise_level": level}
        if case > 2:
            sharpness = rng.uniform(0.1, 12, (model.block, 1))
            distribution = softmax(sharpness * rng.standard_normal((model.block, model.vocab))).astype(np.float32)
            np.save(folder / "self_conditioning.npy", distribution)
            fields["self_conditioning"] = str((folder / "self_conditioning.npy").resolve())
        report.on_each(engines, f"{label} logits {case}",
                       lambda engine, want: compare_logits(engine, folder, want, ids, **fields),
                       lambda: (model.logits(ids, begin if case else None, distribution, level), np.inf))


def random_case(model, rng):
    """(prompt, settings, flags)"""
    prompt = rng.integers(0, model.written, int(rng.choice([1, 2, int(rng.integers(1, 60))]))).tolist()
    settings = Settings(gen_length=int(rng.integers(1, 3 * model.block)), block=model.block, seed=int(rng.integers(0, 1000)))
    flags = ["--gen-length", settings.gen_length, "--seed", settings.seed, "--self-conditioning", "exact"]
    if rng.random() < 0.6:
        settings.steps = int(rng.choice([1, 2, 4, 5, 12]))
        flags += ["--steps", settings.steps]
    if rng.random() < 0.2:
        settings.block = int(rng.integers(1, model.block + 1))
        flags += ["--block-length", settings.block]
    if rng.random() < 0.2:
        settings.draws = False
        flags += ["--temperature", 0]
    if rng.random() < 0.5:
        settings.ends = frozenset([model.config["eos_token_id"]])
    else:
        flags.append("--ignore-eos")
    return prompt, settings, flags


def compare_run(engine, root, folder, want, prompt, flags):
    trace_file = root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    arguments = ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *flags]
    answer = json.loads(engine.call([*arguments, "--dtype", "f32", "--json", "--trace", trace_file, "--no-live", *engine.common()]))
    fed = [line["canvas_in"] for line in read_trace(trace_file) if "canvas_in" in line]
    expected = want.fed
    command = " ".join(map(str, arguments))
    different = [index for index, (mine, theirs) in enumerate(zip(fed, expected)) if mine != theirs]
    at = different[0] if different else min(len(fed), len(expected))
    if not different and len(fed) == len(expected) and answer["tokens"] == want.tokens:
        return True, f"{len(fed)} passes, {len(want.tokens)} tokens"
    if want.close is not None and want.close < at:
        return None, f"too close to call in pass {want.close}, different in {at}; {command}"
    if different:
        return False, f"pass {at} is fed {fed[at]}, expected {expected[at]}; {command}"
    return False, f"{len(fed)} passes and {answer['tokens']}, expected {len(expected)} and {want.tokens}; {command}"


def wanted(model, prompt, settings, counts):
    want = decode(model, prompt, settings)
    counts.update(want.counts | {"runs": 1, "passes": len(want.fed), "ended": bool(set(want.tokens) & settings.ends)})
    return want


def main():
    args = parse_arguments(__doc__, 8, 12)
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"lfm2-{seed}"
            model = make_checkpoint(folder, seed)
            check_logits(engines, folder, model, seed, report, f"seed {seed}")
            rng = np.random.default_rng([seed, 73])
            for case in range(args.cases):
                prompt, settings, flags = random_case(model, rng)
                report.on_each(engines, f"seed {seed} run {case}",
                               lambda engine, want: compare_run(engine, root, folder, want, prompt, flags),
                               lambda: wanted(model, prompt, settings, counts))
    print(f"{counts['runs']} runs, {counts['passes']} passes, {counts['ended']} ended by a token; tokens that stayed "
          f"{counts['stay']}, predicted {counts['predict']}, noise {counts['noise']}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
