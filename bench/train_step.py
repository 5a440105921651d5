#!/usr/bin/env python3
"""Times a training step of lacuna-train and of PyTorch eager on the same checkpoint, rows and threads, one after the other.

    python3 bench/train_step.py LACUNA_TRAIN CHECKPOINT [--rows 4] [--length 128] [--steps 4] [--rounds 2] [--threads 2] [--matmul f32,bf16]

The checkpoint is a folder of Llama's or Qwen2's class with a tokenizer.json (SmolLM2-135M). Both train all weights on the next token with AdamW and
gradients clipped at norm 1, on rows of random words of the same number of tokens; lacuna-train keeps a moving average of the weights besides. For
each type of `--matmul` one after the other: with bf16, operands of matmuls are rounded to bf16, the weights that are updated stay f32 (in PyTorch:
autocast). Needs torch and transformers. The seconds of a step are those of the fastest round of each, without the first step; other work on the
machine shows in the load, which is printed, and less in the processor seconds.
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
    processor: float  # seconds of all threads


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
    """A step: what a run with more steps takes beyond one with a single step, which reads the weights and writes them, too."""
    one, _ = run_lacuna(flags, matmul, folder, 1)
    many, tokens = run_lacuna(flags, matmul, folder, 1 + flags.steps)
    return Time((many.seconds - one.seconds) / flags.steps, (many.processor - one.processor) / flags.steps), tokens


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
    best = {"lacuna-train": 0, "PyTorch eager": 0}
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
                print(f"{matmul}, round {number + 1}: a step of {real_tokens:.0f} tokens takes lacuna-train {ours.seconds:.2f} s ({ours.processor:.2f} of "
                      f"processors), one of {tokens} PyTorch eager {theirs.seconds:.2f} s ({theirs.processor:.2f}); load {os.getloadavg()[0]:.1f}", flush=True)
            for what in Time._fields:
                ours, theirs = (min(getattr(each, what) for each in times) for times in (lacuna, eager))
                print(f"{matmul}, {what}: lacuna-train {tokens / ours:.1f} tokens/s, PyTorch eager {tokens / theirs:.1f} tokens/s: {theirs / ours:.2f} times "
                      "as fast", flush=True)
                if what == "seconds":
                    best = {"lacuna-train": max(best["lacuna-train"], tokens / ours), "PyTorch eager": max(best["PyTorch eager"], tokens / theirs)}
    print(f"the faster type of each: {best['lacuna-train'] / best['PyTorch eager']:.2f} times as fast")


if __name__ == "__main__":
    main()
