#!/usr/bin/env python3
"""Answers like the `lacuna` binary from diffusion_gemma.py: checks check_diffusion_gemma.py, not the engine.

    python check_diffusion_gemma.py stand_in_diffusion_gemma.py --seeds 2     # with the venv's python first in PATH

Everything passes, or is too close to call: logits are off by about as much as float32 may be. STAND_IN_BUG=NAME breaks
one rule, to see that it is noticed; the names are those of BUGS.
"""
import json
import os
import sys
from pathlib import Path

import numpy as np

import diffusion_gemma
from diffusion_gemma import DECODER, FULL, SLIDING, Model, read_settings
from models import softmax
from stand_in_engine import parse_command

NOISE = 1e-5


class Noisy(Model):
    """Off by a little, the same for the same input."""

    def head(self, x):
        logits = super().head(x)
        noise = np.random.default_rng(int(np.sum(np.abs(x)) * 1e6)).standard_normal(logits.shape)
        return logits + noise * NOISE


# Bugs


def window_per_row(model):
    def mask(kind, prefix, canvas):
        cells, rows = np.arange(prefix + canvas)[None], np.arange(prefix, prefix + canvas)[:, None]
        return (cells > rows - model.shape.window) | (cells >= prefix) if kind == SLIDING else cells + 0 * rows >= 0
    model.canvas_mask = mask


def window_one_more(model):
    window = model.shape.window

    def mask(kind, prefix, canvas):
        first = max(0, prefix - window) if kind == SLIDING else 0
        return np.broadcast_to(np.arange(prefix + canvas) >= first, (canvas, prefix + canvas))
    model.canvas_mask = mask


def encoded_window(model):
    model.shape.window -= 1
    window_one_more(model)  # a canvas sees what it should


def conditioning_ignored(model):
    original = model.denoise
    model.denoise = lambda canvas, distribution, prefix: original(canvas, None, prefix)


def conditioning_unscaled(model):
    original = diffusion_gemma.decide

    def decide(logits, remaining, settings):
        step = original(logits, remaining, settings)
        step.p = softmax(logits)
        return step
    diffusion_gemma.decide = decide


def first_step_without_norm(model):
    original = model.conditioned
    model.conditioned = lambda canvas, distribution: (
        model.embed(canvas) if distribution is None else original(canvas, distribution))


def commit_with_decoder_scalars(model):
    for name in list(model.tensors):
        if name.endswith("layer_scalar"):
            model.tensors[name.replace(DECODER, diffusion_gemma.ENCODER)] = model.tensors[name]


def value_after_norm(model):
    original = model.heads

    def heads(a, name, kind, positions):
        q, k, v = original(a, name, kind, positions)
        return q, k, v * model.tensors[name + "k_norm.weight"] if kind == FULL else v
    model.heads = heads


def rope_of_part(model):
    original = diffusion_gemma.rope

    def rope(x, positions, theta, rotated):  # exponents over the rotated part alone
        d = x.shape[-1]
        return original(x, positions, theta ** (d / (2 * rotated)), rotated)
    diffusion_gemma.rope = rope


def router_without_scale(model):
    for name in model.tensors:
        if name.endswith("per_expert_scale"):
            model.tensors[name] = np.ones_like(model.tensors[name])


def schedule_late(model):
    original = diffusion_gemma.Settings.temperature
    diffusion_gemma.Settings.temperature = lambda self, remaining: original(self, remaining - 1)


def accept_inclusive(model):
    def accept(entropy, bound):
        order = np.argsort(entropy, kind="stable")
        return order, max(1, int(np.sum(np.cumsum(entropy[order]) <= bound)))
    diffusion_gemma.accept = accept


def accept_one_more(model):
    original = diffusion_gemma.accept

    def accept(entropy, bound):
        order, count = original(entropy, bound)
        return order, min(count + 1, len(order))
    diffusion_gemma.accept = accept


def stop_unstable(model):
    diffusion_gemma.converged = lambda step, earlier, settings: np.mean(step.entropy) < settings.confidence


def stop_never(model):
    diffusion_gemma.converged = lambda step, earlier, settings: False


def old_ids(model):
    """Rejected positions keep what they hold."""
    class Same:
        def __init__(self, rng):
            self.rng, self.canvas = rng, None

        def integers(self, low, high, size):
            self.canvas = self.rng.integers(low, high, size) if self.canvas is None else self.canvas
            return self.canvas
    model.rng = Same


def low_ids(model):
    class Low:
        def __init__(self, rng):
            self.rng = rng

        def integers(self, low, high, size):
            return self.rng.integers(low, high - 40, size)
    model.rng = Low


BUGS = {bug.__name__: bug for bug in (
    window_per_row, window_one_more, encoded_window, conditioning_ignored, conditioning_unscaled,
    first_step_without_norm, commit_with_decoder_scalars, value_after_norm, rope_of_part, router_without_scale,
    schedule_late, accept_inclusive, accept_one_more, stop_unstable, stop_never, old_ids, low_ids)}


def load(folder):
    model = Noisy.load(folder)
    model.rng = lambda rng: rng
    if bug := os.environ.get("STAND_IN_BUG"):
        BUGS[bug](model)
    return model


# Commands


def logits(args):
    request = json.loads(Path(args.request).read_text())
    if "self_conditioning" in request:
        request["self_conditioning"] = np.load(request["self_conditioning"])
    np.save(args.out, load(args.model).logits(**request).astype(np.float32))


def run(args):
    model, settings = load(args.model), read_settings(args.model, args.gen_length, args.ignore_eos)
    prompt = [int(token) for token in args.prompt_tokens.split(",")]
    done = diffusion_gemma.decode(model, prompt, settings, model.rng(np.random.default_rng(args.seed)))
    limit = len(prompt) + len(done.tokens)
    lines = [{"request": 0, "prompt_tokens": len(prompt), "canvas": prompt}]
    for index, (first, canvas) in enumerate(done.passes):
        last = index + 1 == len(done.passes) or done.passes[index + 1][0] != first
        length, rows = min(first + settings.canvas, limit), list(range(first, first + settings.canvas))
        ids = done.steps[index].best.tolist() if last else canvas
        committed = [{"position": at, "token": token} for at, token in zip(rows, ids) if at < length]
        lines.append({"pass": index, "kind": "denoise", "rows": rows, "canvas_in": canvas, "length": length,
                      "committed": committed})
    Path(args.trace).write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(json.dumps({"tokens": done.tokens, "prompt_tokens": len(prompt)}))


def main():
    typed = {"gen-length": int, "seed": int, "ignore-eos": bool, "json": bool, "no-live": bool}
    args = parse_command((logits, ("request", "out"), {}), (run, ("prompt-tokens", "temperature", "trace"), typed))
    args.function(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
