"""Checks the unmask rules of a `lacuna` binary that unmasking.py has.

    python check_unmasking.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--quiet]

For every seed it writes random checkpoints of the families that take the rules. `lacuna run` at temperature 0 must agree
with the reference on the canvas after every pass, rebuilt from the trace. A run that differs is skipped as too close when
the reference nearly tied in that pass or before. The last lines say how many runs of each rule took each rare path. Exit
status 0 when nothing failed.
"""
import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_blocks import short
from check_engine import Report, engines_of, make_prompt, parse_arguments
from check_growing import compare_run
from random_checkpoints import make_checkpoint, make_ending_checkpoint
from unmasking import RULES, generate

FAMILIES = ("llada", "dream", "llada_moe")


def random_numbers(rule, rng):
    """Numbers of a rule by the names that the command line knows, in its order; random checkpoints are unsure."""
    share = lambda *choices: short(rng.choice(choices))
    if rule == "local-leap":
        tau = share(0.3, 0.6, 0.9)
        return {"local-leap": tau, "relaxed": short(rng.choice([0.5, 0.8, 1.0]) * tau), "radius": int(rng.integers(0, 6))}
    if rule == "eb":
        return {"eb": share(0.5, 2.0, 6.0, 15.0)}
    if rule == "streaming":
        return {"streaming": share(0.1, 0.3, 0.6), "alpha": share(0.3, 0.7, 1.0)}
    if rule == "klass":
        return {"klass": share(0.05, 0.2, 0.5), "kl": share(0.02, 0.1, 0.4, 1.5), "history": int(rng.integers(1, 4))}
    if rule == "wino":
        return {"wino": share(0.05, 0.2, 0.5), "back": share(0.1, 0.3, 0.6, 0.9)}
    if rule == "credit":
        return {"credit": share(0.2, 0.5, 0.9), "alpha": share(0.3, 0.7, 2.0), "gamma": share(0.2, 1.0),
                "beta": share(0.5, 0.8, 1.0)}
    if rule == "slow-fast":
        return {"slow-fast": share(0.1, 0.9, 0.9), "slow": share(0.1, 0.9, 0.9), "span": share(0.02, 0.05, 0.1, 0.2, 0.9),
                "explore": int(rng.choice([1, 1, 2, 3, 6]))}
    if rule == "dsb":
        numbers = {"dsb": share(0.1, 0.3, 0.6), "start": int(rng.integers(1, 13))}
        return numbers | ({"most": int(rng.integers(1, 13))} if rng.random() < 0.5 else {})
    if rule == "adablock":
        return {"adablock": share(0.1, 0.3, 0.6), "delimiter": share(0.02, 0.05, 0.1, 0.2, 0.5)}
    if rule == "d3llm":
        return {"d3llm": share(0.3, 1.0, 2.0, 3.0, 4.0), "add": share(0.1, 0.3, 0.6, 1.0)}
    if rule == "prophet":
        numbers = {"prophet": share(0.5, 1.5, 3.0), "mid": share(0.5, 1.5, 3.0), "late": share(0.3, 1.0, 2.0)}
        if rng.random() < 0.6:
            numbers |= {"answer": int(rng.integers(0, 3)), "length": int(rng.integers(1, 6))}
        return numbers
    return {"saber": int(rng.integers(1, 10))}


def random_delimiters(folder, rng):
    """{text: token} of a share of the tokens that are words, of a tokenizer in either layout."""
    listed = folder / "vocab.json"
    vocabulary = json.loads(listed.read_text() if listed.exists() else (folder / "tokenizer.json").read_text())
    vocabulary = vocabulary if listed.exists() else vocabulary["model"]["vocab"]
    words = sorted(text for text in vocabulary if text.isascii() and text.isalpha())
    return {text: vocabulary[text] for text in words if rng.random() < 0.3}


def check(engine, root, folder, model, rule, rng, counts):
    prompt = make_prompt(model, "holes" if rng.random() < 0.25 else "plain", rng)
    block = int(rng.choice([3, 6, 8, 12, 24]))
    gen_length = block * int(rng.integers(1, 1 + 24 // block)) if block < 24 else 24
    if rule == "d3llm":  # more of them at once
        block, gen_length = int(rng.choice([2, 3, 4, 6, 8])), 24
    numbers = random_numbers(rule, rng)
    text = ",".join(f"{name}={value}" for name, value in numbers.items())
    flags = ["--gen-length", gen_length, "--block-length", block, "--unmask", text]
    cfg_scale = 0.0
    if model.shape.family == "llada" and rng.random() < 0.25:
        cfg_scale = 0.5
        flags += ["--cfg-scale", cfg_scale]
    seen = {}  # a part of the canvas
    if rule in ("adablock", "d3llm"):
        pass  # their caches are below
    elif rule == "slow-fast":  # it decides what a pass sees
        seen = {"is_cached": bool(rng.random() < 0.4)}
        flags += ["--cache", "prefix"] if seen["is_cached"] else []
    elif rule not in ("prophet", "wino", "klass") and rng.random() < 0.4:
        seen = {"suffix": int(rng.integers(0, 12)), "is_cached": bool(rule != "saber" and rng.random() < 0.5)}
        flags += ["--suffix", seen["suffix"], *(["--cache", "prefix"] if seen["is_cached"] else [])]
        if rng.random() < 0.5:
            decay, scale, seed = int(rng.integers(0, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 1000))
            seen["dropout"] = decay, scale, seed
            flags += ["--suffix-dropout", f"decay={decay},scale={scale}", "--seed", seed]
    if rule == "prophet":
        steps = gen_length // block * int(rng.integers(1, block + 1))
        flags += ["--steps", steps]
        want = RULES[rule](*numbers.values()).fill(model, prompt, gen_length, block, steps, cfg_scale)
    elif rule == "d3llm":
        ends = rng.random() < 0.6
        given = {"ends": {model.config["eos_token_id"]}} if ends else {}
        flags += ["--eos-exit"] if ends else []
        if rng.random() < 0.6:
            given |= {"delay": int(rng.integers(1, 4))}
            flags += ["--cache", f"delayed={given['delay']}"]
            if rng.random() < 0.5:
                given |= {"refresh": int(rng.integers(1, 5))}
                flags += ["--refresh", given["refresh"]]
        want = RULES[rule](*numbers.values()).fill(model, prompt, gen_length, block, cfg_scale, **given)
    elif rule == "adablock":
        delimiters = random_delimiters(folder, rng)
        cache = str(rng.choice(["none", "prefix", "dual"]))
        flags += ["--cache", cache, *(word for text in delimiters for word in ("--delimiter", text))]
        want = RULES[rule](*numbers.values()).fill(model, prompt, gen_length, block, cfg_scale,
                                                   set(delimiters.values()), cache if cache != "none" else None)
    elif rule == "slow-fast":
        want = RULES[rule](*numbers.values()).fill(model, prompt, gen_length, block, cfg_scale, **seen)
    else:
        want = generate(model, prompt, gen_length, block, RULES[rule](*numbers.values()), cfg_scale, **seen)
    want.kinds = ["denoise"] * len(want.canvases)
    counts[rule]["runs"] += 1
    counts[rule]["passes"] += len(want.canvases)
    for path, count in want.met.items():
        counts[rule][path] += count > 0
    return compare_run(engine, root, folder, prompt, want, flags)


def main():
    args = parse_arguments(__doc__, 8, 6, keeps=False)
    report, counts = Report(not args.quiet), collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for family in FAMILIES:
                folder = root / f"{family}-{seed}"
                model = make_checkpoint(folder, family, seed)
                plain = {"folder": folder, "model": model}
                ending = {"folder": root / f"{family}-{seed}-ends"}
                ending["model"] = make_ending_checkpoint(ending["folder"], family, seed)
                for rule in RULES:
                    if rule == "wino" and family == "dream":
                        continue  # it verifies a token where it stands
                    for engine in engines_of(args):
                        rng = np.random.default_rng([seed, FAMILIES.index(family), list(RULES).index(rule), 77])
                        for case in range(args.cases):
                            chosen = ending if rule == "d3llm" and case % 2 else plain
                            report.run(f"{engine.label}{family} seed {seed} {rule} {case}",
                                       lambda: check(engine, root, rule=rule, rng=rng, counts=counts, **chosen), engine)
    for rule, met in counts.items():
        print(f"{rule}: " + ", ".join(f"{count} {path}" for path, count in met.items()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
