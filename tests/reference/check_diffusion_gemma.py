"""Checks DiffusionGemma of a `lacuna` binary against diffusion_gemma.py.

    python check_diffusion_gemma.py LACUNA_BINARY [--seeds N] [--first-seed K] [--quiet]

For every seed it writes a random checkpoint. `lacuna logits` must agree within 2e-3 on encoded rows, and on the rows of
a canvas with and without self-conditioning. `lacuna run` is replayed: from the ids that each denoising pass was fed,
the reference derives which tokens the next pass must be fed, when the canvas is finished, and the answer. A run that
differs where the reference nearly decided otherwise is skipped as too close. The random ids of all other runs of a
checkpoint must be uniform and new in every step. The last line but one says how many runs took each rare path. Exit
status 0 when nothing failed.
"""
import collections
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_acceleration import read_trace
from check_engine import Report, compare_logits, engines_of, parse_arguments, wanted_logits
from diffusion_gemma import read_settings, replay
from models import softmax
from random_diffusion_gemma import make_checkpoint

PATHS = ("second canvas", "third canvas", "converged", "ended by a token", "cut by the length", "all accepted",
         "several accepted", "one accepted", "accepted and lost again", "beyond the window")


def random_ids(model, length, rng):
    """Ids of text alone."""
    config = model.config
    images = {config[name] for name in ("boi_token_id", "eoi_token_id", "image_token_id")}
    return rng.choice([token for token in range(model.shape.vocab) if token not in images], length).tolist()


def random_length(model, rng):
    """A random prefix length: around the window, where a sliding layer begins to leave keys out, or anything."""
    window = model.shape.window
    return int(rng.choice([max(1, window + int(rng.integers(-2, 3))), int(rng.integers(1, 70)), 1],
                          p=[0.45, 0.5, 0.05]))


def random_distribution(model, rng):
    """float32 rows between one-hot and nearly uniform."""
    sharpness = rng.uniform(0.1, 12, (model.shape.canvas, 1))
    return softmax(sharpness * rng.standard_normal((model.shape.canvas, model.shape.vocab))).astype(np.float32)


# Logits


def check_logits(engine, folder, model, seed, report, label):
    rng, canvas = np.random.default_rng([seed, 62]), model.shape.canvas
    tokens = random_ids(model, 90, rng)
    report.run(f"{label} logits, encoded", lambda: compare_logits(engine, folder, wanted_logits(model, tokens), tokens), engine)
    for case in range(4):
        begin = random_length(model, rng)
        ids = random_ids(model, begin, rng) + rng.integers(0, model.shape.vocab, canvas).tolist()
        fields, distribution = {"canvas_begin": begin}, None
        if case:
            distribution, file = random_distribution(model, rng), folder / "self_conditioning.npy"
            np.save(file, distribution)
            fields["self_conditioning"] = str(file.resolve())
        report.run(f"{label} logits, canvas at {begin} {'with' if case else 'without'} self-conditioning",
                   lambda: compare_logits(engine, folder, wanted_logits(model, ids, begin, distribution), ids, **fields), engine)


# Decoding


def rebuilt(trace_file):
    """The last canvas of a trace: what is left of the first one after all changes."""
    canvas = []
    for line in map(json.loads, trace_file.read_text().splitlines()):
        canvas = line.get("canvas", canvas)
        if "length" in line:
            canvas = canvas[:line["length"]] + [-1] * (line["length"] - len(canvas))
        changes = [(c["position"], c["token"]) for c in line.get("committed", [])] + line.get("changed", [])
        for position, token in changes:
            canvas[position] = token
    return canvas


def denoising_passes(trace_file, canvas):
    """[(first position, ids)]; a pass may compute other rows before those of its canvas."""
    return [(max(line["rows"]) - canvas + 1, line["canvas_in"])
            for line in read_trace(trace_file) if "canvas_in" in line]


def count_paths(counts, done, settings, model, prompt):
    counts["runs"] += 1
    counts["passes"] += len(done.steps)
    several = [step.count for step in done.steps]
    counts["second canvas"] += len(done.finals) > 1
    counts["third canvas"] += len(done.finals) > 2
    counts["converged"] += len(done.steps) < settings.steps * len(done.finals)
    counts["ended by a token"] += bool(done.tokens) and done.tokens[-1] in settings.ends
    counts["cut by the length"] += len(done.tokens) == settings.gen_length < len(done.finals) * settings.canvas
    counts["all accepted"] += settings.canvas in several
    counts["several accepted"] += any(1 < count < settings.canvas for count in several)
    counts["one accepted"] += 1 in several
    counts["accepted and lost again"] += any(len(np.setdiff1d(a.accepted, b.accepted))
                                             for a, b in zip(done.steps, done.steps[1:]))
    counts["beyond the window"] += len(prompt) >= model.shape.window


def compare_run(engine, root, folder, model, prompt, gen_length, ignore_ends, seed, counts, renoised):
    settings, trace_file = read_settings(folder, gen_length, ignore_ends), root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    arguments = ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--temperature", "0",
                 "--seed", seed, "--dtype", "f32", *(["--gen-length", gen_length] if gen_length else []),
                 *["--ignore-eos"] * ignore_ends]
    command = " ".join(map(str, arguments))
    answer = json.loads(engine.call([*arguments, "--json", "--trace", trace_file, "--no-live", *engine.common()]))
    tokens, passes = answer["tokens"], denoising_passes(trace_file, settings.canvas)
    done, wrong = replay(model, prompt, settings, passes, tokens)
    count_paths(counts, done, settings, model, prompt)
    if wrong:
        return False, f"pass {wrong[0].at} of {len(passes)}: {wrong[0].what} (by {wrong[0].margin:.1e}); {command}"
    if done.findings:
        first = done.findings[0]
        return None, f"too close to call in pass {first.at}: {first.what} (by {first.margin:.1e}); {command}"
    renoised += done.renoised
    shown = rebuilt(trace_file)[len(prompt):len(prompt) + len(tokens)]
    if shown != tokens:
        return False, f"the trace's changes lead to {shown}, the answer is {tokens}; {command}"
    return True, f"{len(passes)} passes, {len(done.finals)} canvases, {len(tokens)} tokens"


def compare_seeds(engine, root, folder, prompt):
    """The same seed feeds the same ids, another one others."""
    def fed(seed):
        engine.call(["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--temperature", "0", "--seed",
                     seed, "--dtype", "f32", "--json", "--trace", root / "trace.jsonl", "--no-live", *engine.common()])
        return [line["canvas_in"] for line in read_trace(root / "trace.jsonl") if "canvas_in" in line]

    first, again, other = fed(5), fed(5), fed(6)
    if first != again:
        return False, "one seed, two runs"
    same = np.mean(np.equal(first[0], other[0]))
    return bool(same < 0.5), f"first canvases of two seeds have {same:.0%} of their ids in common"


# Random ids


def tail(count, number, p):
    """P(at least `count` of `number`) of a binomial distribution."""
    terms = [math.lgamma(number + 1) - math.lgamma(k + 1) - math.lgamma(number - k + 1) + k * math.log(p)
             + (number - k) * math.log1p(-p) for k in range(count, number + 1)]
    return sum(map(math.exp, terms))


def compare_random_ids(renoised, vocab, counts):
    """Checks that the ids at rejected positions of a checkpoint's runs are uniform and new in the next step."""
    before, best, after = (np.concatenate([part[i] for part in renoised]) for i in range(3))
    number = len(after)
    first = [(part[1][0], part[2][0]) for part in renoised if len(part[2])]
    neighbours = [int(a == b) for part in renoised for a, b in zip(part[2], part[2][1:])]
    happened = {
        "hold the best token": (int(np.sum(after == best)), number),
        "hold the best token, of those rejected first": (sum(a == b for a, b in first), len(first)),
        "hold what they held": (int(np.sum(after == before)), number),
        "hold what another one holds": (sum(neighbours), len(neighbours)),
    }
    for what, (count, of) in happened.items():
        if count and tail(count, of, 1 / vocab) < 1e-8:
            return False, f"{count} of {of} rejected positions {what}"
    for parts in (2, 16):
        places = np.bincount(after * parts // vocab, minlength=parts)
        expected = np.bincount(np.arange(vocab) * parts // vocab, minlength=parts) * number / vocab
        if np.any(np.abs(places - expected) > 6 * np.sqrt(expected) + 3):
            return False, f"ids are not uniform: {places.tolist()} in {parts} parts of the vocabulary"
    counts["renoised"] += number
    return True, f"{number} ids"


def check_runs(engine, root, folder, model, seed, cases, report, label, counts):
    rng, renoised = np.random.default_rng([seed, 63]), []
    for case in range(cases):
        prompt = random_ids(model, random_length(model, rng), rng)
        gen_length = int(rng.integers(1, 3 * model.shape.canvas)) if rng.random() < 0.7 else None
        ignore_ends = bool(rng.random() < 0.5)
        report.run(f"{label} run {case}", lambda: compare_run(
            engine, root, folder, model, prompt, gen_length, ignore_ends, int(rng.integers(0, 1000)), counts, renoised), engine)
    if sum(len(part[2]) for part in renoised):
        report.run(f"{label} random ids", lambda: compare_random_ids(renoised, model.shape.vocab, counts), engine)
    report.run(f"{label} seeds", lambda: compare_seeds(engine, root, folder, prompt), engine)


def main():
    args = parse_arguments(__doc__, 8, 5)
    report, counts = Report(not args.quiet), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"diffusion-gemma-{seed}"
            model = make_checkpoint(folder, seed)
            for engine in engines_of(args):  # each is fed random ids of its own, which the reference follows
                label = f"{engine.label}seed {seed}"
                check_logits(engine, folder, model, seed, report, label)
                check_runs(engine, root, folder, model, seed, args.cases, report, label, counts)
    print(f"{counts['runs']} runs, {counts['passes']} passes, {counts['renoised']} random ids; "
          + ", ".join(f"{counts[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
