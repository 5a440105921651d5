"""Checks the growing canvases of a `lacuna` binary, DreamOn's tokens and DAEDAL, against growing.py.

    python check_growing.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes random checkpoints. `lacuna run` at temperature 0 must agree on the canvas after every pass,
rebuilt from the trace as docs/reference/files.md says, and `lacuna infill` on the position and the tokens of every hole.
A run that differs is skipped as too close when the reference nearly tied in that pass or before. The last line but one
says how many runs took each rare path. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_blocks import short
from check_engine import Report, count_paths, engines_of, parse_arguments
from growing import Daedal, daedal_generate, dreamon_generate, dreamon_one_hole
from random_checkpoints import make_ending_checkpoint, make_growing_checkpoint, special_ids

PATHS = ("expand", "delete", "rest", "emptied", "full", "out of budget", "fixed", "grow", "ends", "spread", "cut")
DAEDAL_FAMILIES = ("llada", "dream", "llada_moe")


def read_trace(path):
    """(kinds, the canvas after each pass)"""
    canvas, mask, kinds, out = [], -1, [], []
    for line in map(json.loads, path.read_text().splitlines()):
        if "canvas" in line:
            mask, canvas = line["mask"], line["canvas"]
            continue
        canvas = [token for position, token in enumerate(canvas) if position not in line.get("drop", [])]
        for position, count in line.get("insert", []):
            canvas[position:position] = [mask] * count
        if "length" in line:
            canvas = canvas[:line["length"]] + [mask] * (line["length"] - len(canvas))
        changes = [(c["position"], c["token"]) for c in line["committed"]] + line.get("changed", [])
        for position, token in changes:
            canvas[position] = token
        kinds.append(line["kind"])
        out.append(list(canvas))
    return kinds, out


def verdict(difference, at, want, command):
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    return False, f"{difference}; {command}"


def compare_run(engine, root, folder, prompt, want, flags):
    trace = root / "trace.jsonl"
    trace.unlink(missing_ok=True)
    arguments = ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--temperature", "0", "--dtype",
                 "f32", *flags]
    command = " ".join(map(str, arguments))
    answer = json.loads(engine.call([*arguments, "--json", "--trace", trace, "--no-live", *engine.common()]))
    kinds, canvases = read_trace(trace)
    for number, (got, expected) in enumerate(zip(canvases, want.canvases)):
        if got != expected:
            return verdict(f"pass {number}: got {got[len(prompt):]}, expected {expected[len(prompt):]}", number, want,
                           command)
    if kinds != want.kinds:
        return verdict(f"passes: got {kinds}, expected {want.kinds}", min(len(kinds), len(want.kinds)), want, command)
    if canvases and answer["tokens"] != canvases[-1][len(prompt):]:
        return False, f"tokens: got {answer['tokens']}, the trace ends with {canvases[-1][len(prompt):]}; {command}"
    return True, f"{len(kinds)} passes, {len(want.canvases[-1]) - len(prompt)} positions; {' '.join(map(str, flags))}"


def count(counts, want):
    count_paths(counts, want, PATHS)
    counts["passes"] += len(want.canvases)


# DreamOn


def token_flags(rng, start=None):
    """(keyword arguments of the reference, flags)"""
    top_p, rule = short(rng.choice([0.9, 0.9, 0.6, 1.0])), str(rng.choice(["entropy", "entropy", "margin", "maskgit"]))
    rest = bool(rng.random() < 0.4)
    budget = int(rng.integers(1, 6)) if rng.random() < 0.3 else None
    grow = ",".join(["tokens", *([f"start={start}"] if start else []), *([f"budget={budget}"] if budget else []),
                     *["rest=drop"] * rest])
    flags = ["--top-p", top_p, "--unmask", rule, "--grow", grow]
    return {"top_p": top_p, "rule": rule, "drops_rest": rest, "budget": budget}, flags


def check_dreamon_run(engine, root, folder, model, edits, rng, counts):
    prompt = rng.integers(0, 40, int(rng.integers(1, 12))).tolist()
    start = int(rng.integers(1, 7))
    most = start + int(rng.integers(1, 9))
    options, flags = token_flags(rng, start)
    mask = model.shape.mask_id
    want = dreamon_generate(model, prompt, [mask] * start, [(0, start, most)], (mask, *edits), **options)
    count(counts, want)
    return compare_run(engine, root, folder, prompt, want, ["--gen-length", most, *flags])


def check_dreamon_infill(engine, folder, model, edits, tokenizer, rng, counts):
    words = ["one two", " three", " is it ", "x = 1\n", " and", " the end"]
    text, canvas, holes = "", [model.config["bos_token_id"]], []  # texts are framed
    for part in range(int(rng.integers(1, 4))):
        piece = str(rng.choice(words))
        text += piece
        canvas += tokenizer(piece)
        start = int(rng.integers(1, 5))
        most = start + int(rng.integers(0, 6))
        text += f"[[{start}-{most}]]" if most > start or rng.random() < 0.5 else f"[[{start}]]"
        holes.append((len(canvas), len(canvas) + start, most))
        canvas += [model.shape.mask_id] * start
    piece = str(rng.choice(words)) if rng.random() < 0.8 else ""
    text, canvas = text + piece, canvas + (tokenizer(piece) if piece else []) + [model.shape.eos_id]
    first = holes[0][0]
    options, flags = token_flags(rng)
    ids = special_ids("dream", model.shape.vocab)
    ends = [ids["<|endoftext|>"]]
    forbidden = [end for end in ends if end != edits[1]]
    want = dreamon_generate(model, canvas[:first], canvas[first:], [(b - first, e - first, m) for b, e, m in holes],
                            (model.shape.mask_id, *edits), forbidden, **options)
    count(counts, want)
    arguments = ["infill", "-m", folder, text, "--temperature", "0", "--dtype", "f32", *flags]
    command = " ".join(map(str, arguments))
    got = json.loads(engine.call([*arguments, "--json", "--no-live", *engine.common()]))
    expected = [want.canvases[-1][hole[0]:hole[1]] if hole else [] for hole in want.holes]
    found = [hole["tokens"] for hole in got["holes"]]
    places = [hole["position"] for hole, filled in zip(got["holes"], want.holes) if filled]
    if found != expected or places != [hole[0] for hole in want.holes if hole]:
        return verdict(f"holes: got {got['holes']}, expected {expected} at {want.holes}", len(want.canvases), want, command)
    if got["candidates"] != 1:
        return False, f"{got['candidates']} lengths were tried, expected one run; {command}"
    return True, f"{len(want.canvases)} passes, holes {[len(tokens) for tokens in expected]}"


def check_dreamon_published(engine, folder, model, edits, tokenizer, rng, counts):
    """One hole with little text around it: edits take turns until the published generator's budget ends them."""
    words = ["one two", " three", " is it ", "x = 1\n"]
    start = int(rng.integers(1, 5))
    most = start + int(rng.integers(1, 4))
    before, after = str(rng.choice(words)), str(rng.choice(words)) if rng.random() < 0.5 else ""
    ids = [model.config["bos_token_id"], *tokenizer(before), *[model.shape.mask_id] * start,
           *(tokenizer(after) if after else []), model.shape.eos_id]
    ends = [special_ids("dream", model.shape.vocab)["<|endoftext|>"]]
    options = {"top_p": 0.9, "rule": "entropy", "drops_rest": bool(rng.random() < 0.3)}
    hole = (0, start, most)
    first = ids.index(model.shape.mask_id)
    tokens = (model.shape.mask_id, *edits)
    forbidden = [end for end in ends if end != edits[1]]
    want = dreamon_generate(model, ids[:first], ids[first:], [hole], tokens, forbidden, **options)
    counts["published"] += 1
    counts["beyond the longest hole"] += want.met["expand"] > most
    count(counts, want)
    published = dreamon_one_hole(model, ids, most, tokens, forbidden, **options)
    if published != want.canvases[-1]:
        return False, f"the references differ: {published} and {want.canvases[-1]}"
    text = f"{before}[[{start}-{most}]]{after}"
    arguments = ["infill", "-m", folder, text, "--temperature", "0", "--dtype", "f32",
                 *["--grow", "tokens,rest=drop"] * options["drops_rest"]]
    command = " ".join(map(str, arguments))
    got = json.loads(engine.call([*arguments, "--json", "--no-live", *engine.common()]))["holes"][0]["tokens"]
    expected = published[first:len(published) - (len(ids) - first - start)]
    if got != expected:
        return verdict(f"hole: got {got}, expected {expected}", len(want.canvases), want, command)
    return True, f"{len(want.canvases)} passes, {want.met['expand']} expansions, {want.met['delete']} deletions"


# DAEDAL


def check_daedal(engine, root, folder, model, rng, counts):
    o = Daedal(start=int(rng.integers(1, 14)), by=int(rng.integers(2, 6)), tail=int(rng.integers(1, 9)),
               enough=short(rng.uniform(0, 0.3)), plenty=short(rng.uniform(0.2, 0.9)), unsure=short(rng.uniform(0.05, 0.6)),
               most=int(rng.integers(12, 60)), block=int(rng.integers(3, 20)), tau=short(rng.uniform(0.3, 0.95)))
    if model.shape.family != "dream" and rng.random() < 0.25:
        o.cfg_scale = short(rng.uniform(0.2, 1.5))
    prompt = rng.integers(0, 40, int(rng.integers(1, 12))).tolist()
    want = daedal_generate(model, prompt, model.shape.eos_id, o)
    count(counts, want)
    grow = f"end-mass,start={o.start},by={o.by},tail={o.tail},enough={o.enough},plenty={o.plenty},unsure={o.unsure}"
    flags = ["--gen-length", o.most, "--grow", grow, "--unmask", f"threshold={o.tau}", "--block-length", o.block]
    if o.cfg_scale:
        flags += ["--cfg-scale", o.cfg_scale]
    return compare_run(engine, root, folder, prompt, want, flags)


def main():
    args = parse_arguments(__doc__, 8, 8, keeps=False)
    report, counts = Report(not args.quiet), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"growing-{seed}"
            model, *edits = make_growing_checkpoint(folder, seed)
            family = DAEDAL_FAMILIES[seed % len(DAEDAL_FAMILIES)]
            other = root / f"{family}-{seed}"
            plain = make_ending_checkpoint(other, family, seed)
            for engine in engines_of(args):
                label = f"{engine.label}seed {seed}"
                rng = np.random.default_rng([seed, 76])
                tokenize = lambda text: engine.encode(folder, text)
                for case in range(args.cases):
                    report.run(f"{label} DreamOn run {case}",
                               lambda: check_dreamon_run(engine, root, folder, model, edits, rng, counts), engine)
                    report.run(f"{label} DreamOn infill {case}",
                               lambda: check_dreamon_infill(engine, folder, model, edits, tokenize, rng, counts), engine)
                    report.run(f"{label} DreamOn published {case}",
                               lambda: check_dreamon_published(engine, folder, model, edits, tokenize, rng, counts), engine)
                    report.run(f"{label} DAEDAL {family} run {case}",
                               lambda: check_daedal(engine, root, other, plain, rng, counts), engine)
    print(f"{counts['runs']} runs, {counts['passes']} passes, {counts['published']} as published, of which "
          f"{counts['beyond the longest hole']} expanded more often than a hole has positions; "
          + ", ".join(f"{counts[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
