"""Writes tests/golden/gidd: a tiny GIDD model with the logits and decodes of the references.

    python make_golden_gidd.py ../golden

`tokens.json` has the tokens and the length of the clean prefix of `logits.npy` (float32 [rows, vocab]); `decodes.json` is a list of
runs, each with its prompt, its flags by their names on the command line and the canvas that uniform.py writes. None of
them meets a decision that rounding could turn.
"""
import argparse
import json
from pathlib import Path

import numpy as np

from random_checkpoints import make_gidd_checkpoint
from uniform import Network, Options, decode

SEED = 4  # uniform noise
BASE = {"gen_length": 20, "block_length": 6, "steps": 5, "ignore_eos": True}
RUNS = [
    {},
    {"cache": "prefix", "schedule": "linear", "noise": "hub"},
    {"cache": "uniform", "refresh": 2},
    {"cache": "uniform", "refresh": 0, "block_exit": "steps", "steps": 12},
    {"cache": "uniform", "boundary": (3, 2)},
    {"cache": "uniform", "drift": (0.001, 4, 8)},
    {"sampler": "ancestral", "temperature": 0.7, "top_k": 12},
    {"sampler": "ancestral", "temperature": 1.0, "cache": "uniform"},
    {"temperature": 0.9, "top_p": 0.8, "min_length": 9, "ignore_eos": False},
    {"self_correct": {"most": 9, "temperature": 0.5, "patience": 3, "tokens": 2}},
    {"self_correct": {"most": 9, "temperature": 0.7, "patience": 9, "full-every": 3}},
]


def text(settings):
    return ",".join(f"{name}={value}" for name, value in settings.items())


def flags(settings):
    flags = {}
    for name, value in settings.items():
        if name == "boundary":
            value = text(dict(zip(("blocks", "full-every"), value)))
        elif name == "drift":
            value = text(dict(zip(("tau", "page", "budget"), value)))
        elif name == "self_correct":
            value = text(value)
        flags[name.replace("_", "-")] = value
    return flags


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder / "gidd"
    model = make_gidd_checkpoint(folder, SEED)
    network = Network(model)
    rng = np.random.default_rng(SEED)
    usual = [token for token in range(network.noise.vocab) if token not in network.noise.special]
    tokens = rng.choice(usual, 11).tolist()
    clean = 5
    network.start(len(tokens))
    logits, _ = network.compute(tokens, range(len(tokens)), clean)
    (folder / "tokens.json").write_text(json.dumps({"tokens": tokens, "clean_prefix": clean}) + "\n")
    np.save(folder / "logits.npy", np.asarray(logits, np.float32))
    decodes = []
    for number, run in enumerate(RUNS):
        for seed in range(number, 1000):
            settings = BASE | run | {"seed": seed}
            prompt = rng.choice(usual, 4).tolist()
            want = decode(network, prompt, Options(**settings))
            if want.close is None:
                break
        decodes.append({"prompt": prompt, "flags": flags(settings), "answer": [int(token) for token in want.tokens]})
    (folder / "decodes.json").write_text("[\n" + ",\n".join(json.dumps(d) for d in decodes) + "\n]\n")


if __name__ == "__main__":
    main()
