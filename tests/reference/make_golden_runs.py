"""Writes tests/golden/gidd, sumi and nemotron_labs: tiny models with the logits and decodes of uniform.py and seeded.py.

    python make_golden_runs.py ../golden

`tokens.json` has the tokens and the length of GIDD's clean prefix of `logits.npy` (float32 [rows, vocab]); `decodes.json` is a list of
runs, each with its prompt, its flags by their names on the command line and the canvas that uniform.py writes. None of
them meets a decision that rounding could turn.
"""
import argparse
import json
from pathlib import Path

import numpy as np

from random_checkpoints import make_gidd_checkpoint, make_nemotron_checkpoint, make_sumi_checkpoint
from seeded import Nemotron
from seeded import Options as Seeded
from seeded import decode as decode_seeded
from uniform import Network, Options, decode

SEED = 4  # uniform noise
BASE = {"gen_length": 20, "block_length": 6, "steps": 5, "ignore_eos": True}
GIDD_RUNS = [
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
SUMI_SEED = 18  # a generation_config.json that says most
SUMI_BASE = {"gen_length": 14, "ignore_eos": True}
SUMI_RUNS = [
    {},
    {"steps": 5, "schedule": "cosine", "temperature": 0.7, "top_k": 12, "context": 30},
    {"sampler": "adaptive", "steps": 9, "temperature": 0.0},
    {"sampler": "adaptive", "steps": 6, "tokens_per_step": 4, "min_length": 9, "ignore_eos": False},
    {"sampler": "greedy", "steps": 5, "noise": "safe"},
    {"sampler": "greedy", "steps": 9, "cache": "uniform", "refresh": 3, "block_exit": "steps"},
    {"sampler": "ancestral", "steps": 7, "cache": "uniform", "refresh": 2},
    {"sampler": "greedy", "steps": 3, "self_correct": {"most": 9, "temperature": 0.5, "patience": 3, "tokens": 2}},
]


NEMOTRON_SEED = 79
NEMOTRON_RUNS = [
    {},
    {"unmask": "low-confidence", "block_length": 5},
    {"unmask": "dynamic=0.3", "steps": 3, "temperature": 0.7, "ignore_eos": False},
    {"accept": "exact"},
    {"accept": "exact", "block_length": 6, "temperature": 0.8},
    {"accept": "exact", "unmask": "threshold=0.4", "ignore_eos": False},
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


def write(folder, network, seed, base, runs):
    rng = np.random.default_rng(seed)
    usual = [token for token in range(network.noise.vocab) if token not in network.noise.special]
    tokens = rng.choice(usual, 11).tolist()
    prefix = {} if network.noise.whole else {"clean_prefix": 5}
    network.start(len(tokens))
    logits, _ = network.compute(tokens, range(len(tokens)), prefix.get("clean_prefix", 0))
    (folder / "tokens.json").write_text(json.dumps({"tokens": tokens} | prefix) + "\n")
    np.save(folder / "logits.npy", np.asarray(logits, np.float32))
    decodes = []
    for number, run in enumerate(runs):
        for seed in range(number, 1000):
            settings = base | run | {"seed": seed}
            prompt = rng.choice(usual, 4).tolist()
            want = decode(network, prompt, Options(**settings))
            if want.close is None:
                break
        decodes.append({"prompt": prompt, "flags": flags(settings), "answer": [int(token) for token in want.tokens]})
    (folder / "decodes.json").write_text("[\n" + ",\n".join(json.dumps(d) for d in decodes) + "\n]\n")


def write_nemotron(folder):
    model = Nemotron(*make_nemotron_checkpoint(folder, NEMOTRON_SEED))
    rng = np.random.default_rng(NEMOTRON_SEED)
    tokens = rng.integers(0, model.vocab, 26).tolist()
    (folder / "tokens.json").write_text(json.dumps({"tokens": tokens, "canvas_begin": 19}) + "\n")
    np.save(folder / "logits.npy", np.asarray(model.logits(tokens, 19), np.float32))
    decodes = []
    for number, run in enumerate(NEMOTRON_RUNS):
        for seed in range(number, 1000):
            settings = {"gen_length": 20, "ignore_eos": True} | run | {"seed": seed}
            prompt = rng.integers(0, model.vocab, 7).tolist()
            want = decode_seeded(model, prompt, Seeded(**settings))
            if want.close is None:
                break
        decodes.append({"prompt": prompt, "flags": flags(settings), "answer": [int(token) for token in want.tokens]})
    (folder / "decodes.json").write_text("[\n" + ",\n".join(json.dumps(d) for d in decodes) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    write(folder / "gidd", Network(make_gidd_checkpoint(folder / "gidd", SEED)), SEED, BASE, GIDD_RUNS)
    model, generation = make_sumi_checkpoint(folder / "sumi", SUMI_SEED)
    write(folder / "sumi", Network(model, generation), SUMI_SEED, SUMI_BASE, SUMI_RUNS)
    write_nemotron(folder / "nemotron_labs")


if __name__ == "__main__":
    main()
