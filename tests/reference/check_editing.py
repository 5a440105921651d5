"""Checks LLaDA2.2 of a `lacuna` binary, block routing and Levenshtein decoding, against levenshtein.py.

    python check_editing.py LACUNA_BINARY [--seeds N] [--first-seed K] [--quiet]

For every seed it writes a random checkpoint. `lacuna logits` must agree within 2e-3 with several routing windows in a
block and an incomplete one at the end. `lacuna run` at temperature 0 must agree token for token, and so must the canvas
after every denoising pass, rebuilt from the trace as docs/reference/files.md says; `lacuna serve` has to fill holes of
texts with the same tokens. A run that differs is skipped as too
close when the reference nearly tied in that pass or before. The last line but one says how many runs took each rare
path. Exit status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_blocks import short
from check_engine import Report, compare_logits, count_paths, engines_of, parse_arguments, wanted_logits
from check_server import Server
from levenshtein import Network, Options, decode, infill
from random_checkpoints import make_editing_checkpoint

PATHS = ("deletes", "splits", "dropped last tokens", "padded blocks", "edits next to masks",
         "steps filled up to the quota", "escapes", "second tries", "escapes in vain", "last steps with replaced edits",
         "finished by stability", "finished by most", "capped", "ended by a token", "next block", "edits without room",
         "emptied holes")
DEFAULTS = Options()


def random_ids(model, length, rng):
    """Ids of a prompt, with masks and edits now and then."""
    special = [model.shape.mask_id, *edits_of(model)]
    ids = rng.integers(0, model.shape.vocab, length)
    return np.where(rng.random(length) < 0.1, rng.choice(special, length), ids).tolist()


def edits_of(model):
    return model.config["delete_token_id"], model.config["split_token_id"]


# Logits


def check_logits(engines, folder, model, seed, report):
    rng, window = np.random.default_rng([seed, 72]), model.shape.window
    for windows, length in ((1, 3 * window), (2, 5 * window - 1), (4, 6 * window + int(rng.integers(1, window))),
                            (2, int(rng.integers(1, window)))):
        tokens = random_ids(model, length, rng)
        report.on_each(engines, f"seed {seed} logits, {length} rows in blocks of {windows} windows of {window}",
                       lambda engine, want: compare_logits(engine, folder, want, tokens, block_length=windows * window),
                       lambda: wanted_logits(model, tokens, block_length=windows * window))


# Decoding


def random_options(model, rng):
    """(options, flags, whether end tokens end the answer)"""
    window, out = model.shape.window, []
    size = window * int(rng.choice([k for k in (1, 2, 3, 4) if window * k <= 48]))
    if 32 % window == 0 and rng.random() < 0.2:
        size = 32
    options = Options(gen_length=int(rng.integers(1, 2 * size + 8)), block_length=size)
    if size != DEFAULTS.block_length or rng.random() < 0.5:
        out += ["--block-length", size]
    if rng.random() < 0.6:
        options.tau = short(rng.uniform(0.05, 0.95))
        out += ["--unmask", f"dynamic={options.tau}"]
    if rng.random() < 0.6:
        options.tau_edit = short(rng.choice([0.0, 0.0, rng.uniform(0.05, 0.6)]))
        options.most = int(rng.choice([0, 1, 2, 4, 8, 16, 16, 24, 24]))
        # An omitted value is the default one.
        most = [f"most={options.most}"] if options.most != DEFAULTS.most or rng.random() < 0.5 else []
        out += ["--edit", ",".join([f"tau={options.tau_edit}", *most])]
    if rng.random() < 0.4:
        # Edits may need more steps than a block has positions.
        options.steps = int(rng.integers(1, size + 1)) if rng.random() < 0.6 else int(rng.integers(size + 1, 6 * size))
        out += ["--steps", options.steps]
    ends = bool(rng.random() < 0.7)
    return options, ["--gen-length", options.gen_length, *out, *["--ignore-eos"] * (not ends)], ends


def read_canvases(path):
    """The canvas after each denoising pass of a trace."""
    canvas, mask, out = [], -1, []
    for line in map(json.loads, path.read_text().splitlines()):
        mask, canvas = line.get("mask", mask), line.get("canvas", canvas)
        if "length" in line:
            canvas = canvas[:line["length"]] + [mask] * (line["length"] - len(canvas))
        canvas = list(canvas)
        committed = [(c["position"], c["token"]) for c in line.get("committed", [])]
        for position, token in committed + line.get("changed", []):
            canvas += [mask] * (position + 1 - len(canvas))
            canvas[position] = token
        if line.get("kind") == "denoise":
            out.append(canvas)
    return out


def first_difference(canvases, want, prompt, mask):
    """(None, 0), or what differs first and in which pass of the reference."""
    steps = [(index, record) for index, record in enumerate(want.passes) if record.kind == "denoise"]
    for number, (canvas, (index, record)) in enumerate(zip(canvases, steps)):
        # Positions after the answer are cut, at the end also those after an end token.
        end = len(prompt) + len(want.tokens) if number + 1 == len(steps) else want.limit
        canvas = (canvas + [mask] * end)[:end]
        if canvas != record.canvas[:end]:
            at = next(i for i in range(end) if canvas[i] != record.canvas[i])
            return (f"step {number} position {at} of the canvas: got {canvas[at:]}, expected {record.canvas[at:end]}",
                    index)
    if len(canvases) != len(steps):
        return (f"{len(canvases)} denoising passes, expected {len(steps)}",
                steps[len(canvases)][0] if len(canvases) < len(steps) else len(want.passes))
    return None, 0


def wanted(model, ends, prompt, options, counts):
    want = decode(Network(model), prompt, ends, edits_of(model), options)
    count_paths(counts, want, PATHS)
    counts["passes"] += len(want.passes)
    return want


def compare_run(engine, root, folder, want, model, ends, prompt, flags):
    trace_file = root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    arguments = ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--temperature", "0", "--dtype",
                 "f32", *flags]
    command = " ".join(map(str, arguments))
    answer = json.loads(engine.call([*arguments, "--json", "--trace", trace_file, "--no-live", *engine.common()]))
    difference, at = first_difference(read_canvases(trace_file), want, prompt, model.shape.mask_id)
    if difference is None and answer["tokens"] != want.tokens:
        difference, at = f"tokens: got {answer['tokens']}, expected {want.tokens}", len(want.passes)
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {' '.join(map(str, flags))}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    delete, split = edits_of(model)
    return False, (f"{difference}; mask {model.shape.mask_id}, DELETE {delete}, SPLIT {split}, ends {sorted(ends)}; "
                   f"{command}")


def check_runs(engines, root, folder, model, ends, seed, cases, report, counts):
    rng, longest = np.random.default_rng([seed, 73]), 3 * model.shape.window
    for case in range(cases):
        options, flags, ending = random_options(model, rng)
        prompt = random_ids(model, int(rng.integers(1, min(70, longest) + 1)), rng)
        stops = ends if ending else frozenset()
        report.on_each(engines, f"seed {seed} run {case}",
                       lambda engine, want: compare_run(engine, root, folder, want, model, stops, prompt, flags),
                       lambda: wanted(model, stops, prompt, options, counts))


# Infills


def random_infill(model, ends, rng):
    """(input for the server, the text with None in its holes, holes)"""
    parts, text, holes = [], [], []

    def add_text(least):
        tokens = [token for token in random_ids(model, int(rng.integers(least, 14)), rng) if token != model.shape.mask_id]
        parts.extend([{"tokens": tokens}] if tokens else [])
        text.extend(tokens)

    for _ in range(int(rng.integers(1, 4))):
        add_text(0)
        start = int(rng.integers(1, 6))
        most = start + int(rng.choice([0, 1, 4, 12]))
        holes.append((len(text), len(text) + start, most))
        parts.append({"hole": {"min": start, "max": most}})
        text.extend([None] * start)
    add_text(0)
    return parts, text, holes


def compare_infill(server, parts, want, options):
    answer, holes, record = want
    settings = {"unmask": f"dynamic={options.tau}", "edit": f"tau={options.tau_edit},most={options.most}",
                "block_length": options.block_length} | ({"steps": options.steps} if options.steps else {})
    status, got = server.post("/v1/infill", {"input": parts, "temperature": 0, "lacuna": settings})
    request = json.dumps({"input": parts, "lacuna": settings})
    if status != 200:
        return False, f"status {status}: {got}; {request}"
    found = got["choices"][0]["lacuna"]["tokens"]
    if found == answer:
        return True, f"{len(record.passes)} passes, holes of {[len(tokens) for tokens in holes]}"
    if record.close is not None:
        return None, f"too close to call in pass {record.close}: got {found}, expected {answer}; {request}"
    return False, f"got {found}, expected {answer} with the holes {holes}; {request}"


def wanted_infill(model, ends, text, holes, options, counts):
    """(the text from the first hole on, the tokens of each hole, the Decode)"""
    filled, record = infill(Network(model), text, holes, ends, edits_of(model), options)
    count_paths(counts, record, PATHS)
    counts["passes"] += len(record.passes)
    answer = []
    for i, tokens in enumerate(filled):
        after = holes[i + 1][0] if i + 1 < len(holes) else len(text)
        answer += tokens + text[holes[i][1]:after]
    return answer, filled, record


def check_infills(engine, folder, model, ends, seed, cases, report, counts):
    rng = np.random.default_rng([seed, 74])
    with Server(engine.binary, engine.place(folder), "--dtype", "f32", "--kv-memory", "64", *map(str, engine.common()),
                environment=engine.env) as server:
        for case in range(cases):
            options, _, _ = random_options(model, rng)
            options.steps = options.steps if rng.random() < 0.3 else None
            parts, text, holes = random_infill(model, ends, rng)
            report.run(f"{engine.label}seed {seed} infill {case}",
                       lambda: compare_infill(server, parts, wanted_infill(model, ends, text, holes, options, counts),
                                              options), engine)


def main():
    args = parse_arguments(__doc__, 8, 10)
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = root / f"editing-{seed}"
            model, ends = make_editing_checkpoint(folder, seed)
            check_logits(engines, folder, model, seed, report)
            check_runs(engines, root, folder, model, ends, seed, args.cases, report, counts)
            for engine in engines:
                check_infills(engine, folder, model, model.config["eos_token_id"], seed, args.cases, report, counts)
    print(f"{counts['runs']} runs, {counts['passes']} passes; "
          + ", ".join(f"{counts[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
