"""Compares a `lacuna` binary with the references on random cases of ever new seeds, until there are enough.

    python differential.py LACUNA_BINARY [--comparisons 100000] [--minutes M] [--first-seed K] [--jobs N]
                                         [--checks blocks,uniform,...] [--backends auto,scalar,...]

A comparison is one decode or one forward pass by one backend, held against what the reference computed for that case. Each
round runs every check for one seed more. What fails is printed with the command that repeats it. The last lines count the
comparisons that passed, by check and by backend. Exit status 0 when nothing failed.
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from check_engine import add_backend_arguments
from models import BLOCK_FAMILIES, FAMILIES

HERE = Path(__file__).resolve().parent
CHECKS = ("engine", "acceleration", "blocks", "refusion", "uniform", "editing", "pipelined", "seeded", "strided", "growing", "unmasking",
          "diffusion_gemma", "lfm2", "recall")
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped", re.MULTILINE)
BY_BACKEND = re.compile(r"^passed by backend: (.*)$", re.MULTILINE)


def run(check, seed, args):
    """(check, its output, its exit status) of one seed."""
    command = [sys.executable, HERE / f"check_{check}.py", args.binary, "--first-seed", seed, "--seeds", 1, "--backends",
               args.backends, "--threads", args.threads, "--quiet"]
    if check == "engine":  # the tokenizers that follow the families have no seed
        command += ["--families", ",".join(sorted((*FAMILIES, *BLOCK_FAMILIES)))]
    # Matrices of the references are small: threads would only wait for each other.
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    return check, done.stdout + done.stderr, done.returncode


class Tally:
    def __init__(self):
        self.passed, self.backends = collections.Counter(), collections.Counter()
        self.failed = self.skipped = 0

    @property
    def total(self):
        return sum(self.passed.values())

    def add(self, check, output, status):
        found = COUNTS.search(output)
        if found is None or (status and not int(found[2]) and int(found[1])):
            self.failed += 1
            print(f"FAIL {check}: exit status {status}\n{output[-2000:]}", flush=True)
            return
        self.passed[check] += int(found[1])
        self.failed += int(found[2])
        self.skipped += int(found[3])
        if int(found[2]):
            print(output, flush=True)
        for name, count in re.findall(r"(\w+) (\d+)", (BY_BACKEND.search(output) or ("", ""))[1]):
            self.backends[name] += int(count)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--comparisons", type=int, default=1000, help="stop after these (default 1000)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time (default 1)")
    parser.add_argument("--checks", default=",".join(CHECKS), help=f"comma-separated (default {','.join(CHECKS)})")
    add_backend_arguments(parser, "auto,scalar,packed,threads,layers,rows")
    args = parser.parse_args()
    if unknown := set(args.checks.split(",")) - set(CHECKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return args


def main():
    args, tally, started = parse(), Tally(), time.monotonic()
    cases = ((check, seed) for seed in itertools.count(args.first_seed) for check in args.checks.split(","))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = set()
        while True:
            minutes = (time.monotonic() - started) / 60
            while len(waiting) < args.jobs and tally.total < args.comparisons and minutes < args.minutes:
                check, seed = next(cases)
                waiting.add(pool.submit(run, check, seed, args))
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for each in done:
                tally.add(*each.result())
                print(f"seed {seed} {each.result()[0]}: {tally.total} passed, {tally.failed} failed, {minutes:.0f} min",
                      file=sys.stderr, flush=True)
    print("by check: " + ", ".join(f"{name} {count}" for name, count in tally.passed.items()))
    print("by backend: " + ", ".join(f"{name} {count}" for name, count in tally.backends.items()))
    print(f"{tally.total} passed, {tally.failed} failed, {tally.skipped} skipped; seeds {args.first_seed} to {seed}")
    return 1 if tally.failed or not tally.total else 0


if __name__ == "__main__":
    sys.exit(main())
