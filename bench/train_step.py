#!/usr/bin/env python3
"""Times a training step of lacuna-train and of PyTorch eager on the same checkpoint, rows and threads, one after the other.

    python3 bench/train_step.py LACUNA_TRAIN CHECKPOINT [--rows 4] [--length 128] [--steps 4] [--rounds 2] [--threads 2] [--matmul f32,bf16]

The checkpoint is a folder of Llama's or Qwen2's class with a tokenizer.json (SmolLM2-135M). Both train all weights on the next token with AdamW and
gradients clipped at norm 1, on rows of random words of the same number of tokens; lacuna-train keeps a moving average of the weights besides. Types
of `--matmul` are timed one after another: bf16 rounds the operands of matmuls and keeps f32 master weights (in PyTorch: autocast). Needs torch and
transformers. Reports the fastest round of each, without the first step. Load from other programs slows wall time; the load average is printed, and
CPU seconds depend on it less.
"""
import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but".split()


class Time(NamedTuple):
    """The time of a step or a run."""
    seconds: float
    cpu: float  # CPU seconds of all threads


def write_data(path, tokens):
    rng = random.Random(1)
    with open(path, "w") as file:
        for _ in range(64):
            file.write(json.dumps({"text": " ".join(rng.choice(WORDS) for _ in range(tokens))}) + "\n")


def run_lacuna(flags, matmul, folder, steps):
    """Seconds and processor seconds of a whole run, and its log."""
    out = folder / "out"
    command = [flags.program, "--family", "qwen2", "--init", flags.checkpoint, "--data", str(folder / "data.jsonl"), "--out", str(out),
               "--row-length", str(flags.length), "--batch-rows", str(flags.rows), "--steps", str(steps), "--threads",
               str(flags.threads), "--matmul", matmul, "--final-samples", "1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(out / "log.csv") as file:
        last = list(csv.DictReader(file))[-1]
    return Time(float(last["seconds"]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), int(last["tokens"]) / steps


def time_lacuna(flags, matmul, folder):
    """Time per step: a run of 1 + steps minus a run of one step, so that loading and saving cancel out."""
    one, _ = run_lacuna(flags, matmul, folder, 1)
    many, tokens = run_lacuna(flags, matmul, folder, 1 + flags.steps)
    return Time((many.seconds - one.seconds) / flags.steps, (many.cpu - one.cpu) / flags.steps), tokens


def time_torch(flags, matmul):
    import torch
    import transformers
    torch.set_num_threads(flags.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(flags.checkpoint).float()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(0, model.config.vocab_size, (flags.rows, flags.length))
    for step in range(1 + flags.steps):
        if step == 1:  # the first one allocates
            start = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=matmul == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return Time((time.perf_counter() - start[0]) / flags.steps, (time.process_time() - start[1]) / flags.steps)


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("program")
    parser.add_argument("checkpoint")
    for name, value in (("rows", 4), ("length", 128), ("steps", 4), ("rounds", 2), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--matmul", default="f32,bf16", help="types of matmuls, separated by commas")
    flags = parser.parse_args()
    tokens = flags.rows * flags.length
    best = [0, 0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data.jsonl", flags.length)
        for matmul in flags.matmul.split(","):
            lacuna, eager = [], []
            for number in range(flags.rounds):
                ours, real_tokens = time_lacuna(flags, matmul, folder)
                theirs = time_torch(flags, matmul)
                lacuna.append(ours)
                eager.append(theirs)
                print(f"{matmul}, round {number + 1}: lacuna-train {ours.seconds:.2f} s per step of {real_tokens:.0f} tokens ({ours.cpu:.2f} CPU s), "
                      f"PyTorch eager {theirs.seconds:.2f} s of {tokens} ({theirs.cpu:.2f} CPU s); load {os.getloadavg()[0]:.1f}", flush=True)
            for what in Time._fields:
                rates = [count / min(getattr(each, what) for each in times) for count, times in ((real_tokens, lacuna), (tokens, eager))]
                print(f"{matmul}, {what}: lacuna-train {rates[0]:.1f} tokens/s, PyTorch eager {rates[1]:.1f} tokens/s: {rates[0] / rates[1]:.2f} times as "
                      "fast", flush=True)
                if what == "seconds":
                    best = list(map(max, best, rates))
    print(f"best type of each: {best[0] / best[1]:.2f} times as fast")


if __name__ == "__main__":
    main()
