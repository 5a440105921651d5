#!/usr/bin/env python3
"""Times a training step of lacuna-train and of PyTorch eager on the same checkpoint, rows and threads, one after the other.

    python3 bench/train_step.py LACUNA_TRAIN CHECKPOINT [--rows 4] [--length 128] [--steps 4] [--rounds 2] [--threads 2]

The checkpoint is a folder of Llama's or Qwen2's class with a tokenizer.json (SmolLM2-135M). Both train all weights on the next token with AdamW and
gradients clipped at norm 1, in f32, on rows of random words of the same number of tokens. Needs torch and transformers. The seconds of a
step are those of the fastest round of each; other work on the machine shows in the load, which is printed.
"""
import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but".split()


def write_data(path, tokens):
    rng = random.Random(1)
    with open(path, "w") as file:
        for _ in range(64):
            file.write(json.dumps({"text": " ".join(rng.choice(WORDS) for _ in range(tokens))}) + "\n")


def time_lacuna(flags, folder):
    out = folder / "out"
    command = [flags.program, "--family", "qwen2", "--init", flags.checkpoint, "--data", str(folder / "data.jsonl"), "--out", str(out),
               "--row-length", str(flags.length), "--batch-rows", str(flags.rows), "--steps", str(flags.steps), "--threads",
               str(flags.threads), "--matmul", "f32", "--final-samples", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    with open(out / "log.csv") as file:
        last = list(csv.DictReader(file))[-1]
    return float(last["seconds"]) / float(last["step"]), int(last["tokens"]) / float(last["step"])


def time_torch(flags):
    import torch
    import transformers
    torch.set_num_threads(flags.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(flags.checkpoint).float()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(0, model.config.vocab_size, (flags.rows, flags.length))
    start = time.perf_counter()
    for _ in range(flags.steps):
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return (time.perf_counter() - start) / flags.steps


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("program")
    parser.add_argument("checkpoint")
    for name, value in (("rows", 4), ("length", 128), ("steps", 4), ("rounds", 2), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    flags = parser.parse_args()
    lacuna, torch_seconds = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data.jsonl", flags.length)
        for number in range(flags.rounds):
            seconds, tokens = time_lacuna(flags, folder)
            lacuna.append(seconds)
            torch_seconds.append(time_torch(flags))
            print(f"round {number + 1}: lacuna-train {lacuna[-1]:.2f} s a step of {tokens:.0f} tokens, PyTorch eager {torch_seconds[-1]:.2f} s of "
                  f"{flags.rows * flags.length}; load {os.getloadavg()[0]:.1f}", flush=True)
    ours, theirs = min(lacuna), min(torch_seconds)
    tokens = flags.rows * flags.length
    print(f"lacuna-train {tokens / ours:.1f} tokens/s, PyTorch eager {tokens / theirs:.1f} tokens/s: {theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
