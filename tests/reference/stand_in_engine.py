#!/usr/bin/env python3
"""Answers like the `lacuna` binary, from the references: checks check_engine.py, not the engine.

    python check_engine.py stand_in_engine.py --seeds 1      # everything passes (with the venv's python first in PATH)

STAND_IN_BUG=logits|tokens|encode|refuse breaks one kind of answer, to see that it is noticed.
"""
import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

from models import Model
from random_checkpoints import END_OF_TURN, special_ids
from samplers import decode

BUG = os.environ.get("STAND_IN_BUG", "")


def logits(args):
    request = json.loads(Path(args.request).read_text())
    values = Model.load(args.model).logits(**request).astype(np.float32)
    if BUG == "logits":
        values[-1, 3] += 0.01
    np.save(args.out, values)


def run(args):
    model = Model.load(args.model)
    family = model.shape.family
    setting = {"gen_length": args.gen_length}
    if not model.shape.causal:
        setting["rule"] = args.unmask
        for name in ("steps", "block_length", "cfg_scale", "top_p", "top_k", "eps"):
            if getattr(args, name) is not None:
                setting[name] = getattr(args, name)
        for name in ("logits_eos_inf", "confidence_eos_eot_inf"):
            if getattr(args, name):
                setting[name] = True
    prompt = [int(t) for t in args.prompt_tokens.split(",")]
    tokens = decode(model, prompt, setting, special_ids(family, model.shape.vocab)[END_OF_TURN[family]]).tokens
    if BUG == "tokens":
        tokens[-1] = (tokens[-1] + 1) % model.shape.vocab
    print(json.dumps({"tokens": tokens, "prompt_tokens": len(prompt)}))


def tokenize(args):
    from tokenizers import Tokenizer, models
    import small_tokenizers
    folder = Path(args.model)
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        tokenizer = small_tokenizers.bare_tokenizer(
            "dream", models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        added = json.loads((folder / "added_tokens.json").read_text())
        tokenizer.add_special_tokens(sorted(added, key=added.get))
    text = sys.stdin.buffer.read()
    if args.decode:
        sys.stdout.write(tokenizer.decode(json.loads(text)))
    else:
        ids = tokenizer.encode(text.decode(), add_special_tokens=False).ids
        print(json.dumps(ids[::-1] if BUG == "encode" else ids))


def parse_command(*commands):
    """Arguments of a stand-in for `lacuna`; `function` is the command that was given.

    commands: for each its function, which has its name, and its flags besides -m, --threads and --dtype. A flag takes a
    text; {flag: int} takes an integer, {flag: float} a number, {flag: bool} nothing.
    """
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(dest="command", required=True)
    for function, texts, typed in commands:
        command = subparsers.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("-m", dest="model")
        for name in ("threads", "dtype", *texts):
            command.add_argument("--" + name)
        for name, kind in typed.items():
            command.add_argument("--" + name, **({"action": "store_true"} if kind is bool else {"type": kind}))
    return parser.parse_args()


def main():
    typed = dict.fromkeys(("gen-length", "steps", "block-length", "top-k"), int)
    typed |= dict.fromkeys(("cfg-scale", "top-p", "eps"), float)
    typed |= dict.fromkeys(("ignore-eos", "json", "logits-eos-inf", "confidence-eos-eot-inf"), bool)
    args = parse_command((logits, ("request", "out"), {}), (run, ("prompt-tokens", "temperature", "unmask"), typed),
                         (tokenize, (), {"decode": bool}))
    if BUG == "refuse" and args.command == "run":
        print("no decoder here", file=sys.stderr)
        return 2
    args.function(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
