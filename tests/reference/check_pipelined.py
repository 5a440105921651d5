"""Checks blocks in a pipeline (D2F) of a `lacuna` binary against pipelined.py.

    python check_pipelined.py LACUNA_BINARY [--seeds N] [--first-seed K] [--families llada,dream,...] [--quiet]

For every seed it writes a random checkpoint and decodes random prompts with random options: LLaDA and Dream with `--paradigm
blocks`, whose prompt is one block, with a pipeline and without, and block diffusion models with `--pipeline`. Tokens must
agree, and pass by pass its kind, the positions of its rows and the tokens that it wrote. A run that differs is skipped as too
close when the reference nearly tied in that pass or before. The last lines say how many runs took each rare path. Exit status
0 when nothing failed.
"""
import collections
import json
import sys

import numpy as np

from check_acceleration import read_trace
from check_blocks import block_checkpoints, first_difference, flags, random_prompt, random_rule, short
from check_engine import ROUTER_TOLERANCE, Report, count_paths, engines_of, parse_arguments
from pipelined import Network, Options, decode

FAMILIES = ("llada", "dream", "sdar", "llada2", "diffcoder")
WHOLE_PROMPT, SHIFTED = ("llada", "dream"), ("dream",)
PATHS = ("begun early", "three blocks at once", "kept and denoised", "row before", "waited", "wrote nothing",
         "dropped behind an end", "prefill in parts", "stopped by an end")
DEFAULT = (0.1, 0.95)


def random_options(family, rng):
    """(options, the rule as the command line gets it, or None, --pipeline or None)"""
    size = int(rng.choice([2, 3, 4, 8, 16]))
    whole = family in WHOLE_PROMPT
    options = Options(gen_length=int(rng.integers(1, 9) if rng.random() < 0.2 else rng.integers(9, 49)), block_length=size, seed=int(rng.integers(0, 1000)),
                      whole_prompt=whole)
    rule = str(rng.choice(["dynamic", "threshold"])) + f"={short(rng.choice([rng.uniform(0.01, 0.07), rng.uniform(0.05, 0.5)]))}"
    add, full = (float(rng.choice([0, 0, 0.1, 0.25, 0.5, 0.7, 0.9, 1])) for _ in range(2))
    options.pipeline, pipeline = (add, full), f"add={add},full={full}"
    kind = rng.random()
    if kind < 0.1:
        options.pipeline, pipeline = DEFAULT, "on"
    elif kind < 0.25 and whole:
        options.pipeline, pipeline = DEFAULT, None
    elif kind < 0.4 and whole:
        rule, options.pipeline, pipeline = random_rule(rng), None, "none"
        rule = "low-confidence" if rule == "None" else rule
    options.unmask = rule
    if kind > 0.9:
        rule, options.unmask = None, "dynamic=0.95" if family == "llada2" else "dynamic=0.9"
    if options.unmask.split("=")[0] not in ("threshold", "factor", "entropy-bounded") and rule and rng.random() < 0.3:
        options.steps = int(rng.integers(1, size + 1))
    if rng.random() < 0.3:
        options.temperature = short(rng.uniform(0.2, 1.3))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, rng.uniform(0.5, 0.99)]))
    return options, rule, pipeline


def wanted(family, model, ends, prompt, options, counts):
    model.router_gap = np.inf
    want = decode(Network(model, family in SHIFTED), prompt, ends, options)
    count_paths(counts, want, PATHS)
    return want, model.router_gap


def compare(engine, root, folder, expected, prompt, options, arguments):
    want, router_gap = expected
    trace = root / "trace.jsonl"
    trace.unlink(missing_ok=True)
    answer = json.loads(engine.call(
        ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *arguments, "--dtype", "f32", "--json",
         "--trace", trace, "--no-live", *engine.common()]))
    difference, at = first_difference(read_trace(trace), want, options)
    if difference is None and answer["tokens"] != want.tokens:
        difference, at = f"tokens: got {answer['tokens']}, expected {want.tokens}", len(want.passes)
    command = f"{' '.join(map(str, arguments))} -m {folder} --prompt-tokens {','.join(map(str, prompt))}"
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {' '.join(map(str, arguments))}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    if router_gap < ROUTER_TOLERANCE:
        return None, f"router gap {router_gap:.1e}: {difference}; {command}"
    return False, f"{difference}; {command}"


def main():
    args = parse_arguments(__doc__, 4, 10, ",".join(FAMILIES))
    families = args.families.split(",")
    report, counts = Report(not args.quiet), {family: collections.Counter() for family in families}
    engines = engines_of(args)
    for family, name, folder, model, ends, rng in block_checkpoints(args, families, FAMILIES, 57):
        for case in range(args.cases):
            prompt = random_prompt(model, family, rng)
            if family in SHIFTED and not prompt:
                prompt = [1]
            options, rule, pipeline = random_options(family, rng)
            if len(prompt) > 200:  # every pass of the reference computes all of it
                options.gen_length = min(options.gen_length, 3)
            arguments = flags(options, rule) + ["--paradigm", "blocks"] * (family in WHOLE_PROMPT)
            arguments += ["--pipeline", pipeline] if pipeline else []
            report.on_each(
                engines, f"{name} case {case}",
                lambda engine, want: compare(engine, folder.parent, folder, want, prompt, options, arguments),
                lambda: wanted(family, model, ends, prompt, options, counts[family]))
    for family, counter in counts.items():
        print(f"{family}: {counter['runs']} runs; " + ", ".join(f"{counter[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
