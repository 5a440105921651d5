"""Checks `lacuna analyze lock` against lock_bound.py.

    python check_lock.py LACUNA_BINARY [--models FOLDER,FOLDER] [--gen-length 32] [--quiet]

`lacuna run --trace` gives the canvas of every pass, `lacuna logits` the logits of every row on it; lock_bound.py works
out the divergences, contractions, gates, locks, errors and bounds from these alone. Every figure that the program
prints must agree within 1e-4 of its value, counts, steps and positions exactly. Exit status 0 when nothing failed.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from lock_bound import Request, Setting, log_softmax, report

MODELS = Path(__file__).resolve().parents[2] / "models"
PROMPTS = ("Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?",
           "Tell a story about Nora the deer, the forest and the candle.",
           "Ben has 30 coins. He loses 4. He loses 11 more. How many coins does Ben have now?")
SETTINGS = (Setting(), Setting(eps=5e-2, gate=100), Setting(eps=1e-5, gate=50, min_age=2))
EXACT = ("count", "rows", "locks", "lock_of_request", "lock_position", "lock_step", "steps_after", "step", "position")


class Program:
    """The binary and a folder for its files."""

    def __init__(self, binary, folder):
        self.binary, self.folder = str(Path(binary).resolve()), folder

    def call(self, *words):
        done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise SystemExit(f"lacuna {' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def passes(self, model, prompt, flags):
        """Head of the trace, and the canvas before each pass and after the last."""
        trace = self.folder / "trace.jsonl"
        self.call("run", "-m", model, "--dtype", "f32", "-p", prompt, "--trace", trace, *flags)
        head, *passes = map(json.loads, trace.read_text().splitlines())
        canvases = [list(head["canvas"])]
        for each in passes:
            canvases.append(list(canvases[-1]))
            for commit in each["committed"]:
                canvases[-1][commit["position"]] = commit["token"]
        return head, canvases

    def logits(self, model, canvas):
        request, out = self.folder / "request.json", self.folder / "logits.npy"
        request.write_text(json.dumps({"tokens": canvas}))
        self.call("logits", "-m", model, "--dtype", "f32", "--request", request, "--out", out)
        return np.load(out)


def agree(key, mine, theirs):
    """Whether two figures are the same up to rounding."""
    if mine is None or theirs is None or isinstance(mine, str):
        return mine == theirs
    if key in EXACT:
        return mine == theirs
    return abs(mine - theirs) <= 1e-4 * abs(mine) + 1e-13


def compare(mine, theirs, where, quiet):
    """Number of figures that differ."""
    failures = 0
    if [list(row) for row in mine] != [list(row) for row in theirs]:
        print(f"FAIL {where}: {len(theirs)} rows, expected {len(mine)}, or other keys")
        return 1
    for ours, row in zip(mine, theirs):
        wrong = {key: (ours[key], row[key]) for key in ours if not agree(key, ours[key], row[key])}
        if wrong:
            failures += len(wrong)
            print(f"FAIL {where}: {dict(list(ours.items())[:3])}: (expected, found) {wrong}")
    if not quiet:
        print(f"ok   {where}: {len(mine)} rows")
    return failures


def check_model(program, model, gen_length, quiet):
    """Number of figures that differ, and of locks that were judged."""
    failures, locks = 0, 0
    for prompt in PROMPTS:
        flags = ("--gen-length", gen_length, "--seed", 0)
        head, canvases = program.passes(model, prompt, flags)
        log_p = log_softmax(np.stack([program.logits(model, canvas) for canvas in canvases[:-1]]))
        known = np.array(canvases) != head["mask"]
        shifted = "dream" in Path(model).name
        for setting in SETTINGS:
            mine = report([Request(0, log_p, known, head["prompt_tokens"], shifted, setting)])
            lock = f"eps={setting.eps},gate={setting.gate},min-age={setting.min_age}"
            printed = program.call("analyze", "lock", "-m", model, "--dtype", "f32", "-p", prompt, "--json", "--lock",
                                   lock, *flags)
            theirs = [{key: value for key, value in json.loads(line).items() if key not in ("instrument", "model")}
                      for line in printed.splitlines()]
            failures += compare(mine, theirs, f"{Path(model).name}, {lock}, {prompt[:20]!r}", quiet)
            locks += sum("lock_step" in row for row in theirs)
    return failures, locks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--models", default=",".join(str(MODELS / name) for name in ("mini-llada", "mini-dream")))
    parser.add_argument("--gen-length", type=int, default=32)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    failures, locks = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        program = Program(args.binary, Path(folder))
        for model in args.models.split(","):
            found = check_model(program, model, args.gen_length, args.quiet)
            failures, locks = failures + found[0], locks + found[1]
    print(f"{locks} locks judged, {failures} figures differ")
    return 1 if failures or not locks else 0


if __name__ == "__main__":
    sys.exit(main())
