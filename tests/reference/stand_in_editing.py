#!/usr/bin/env python3
"""Answers like the `lacuna` binary from levenshtein.py: checks check_editing.py, not the engine.

    python check_editing.py stand_in_editing.py --seeds 2     # with the venv's python first in PATH

Everything passes, or is too close to call: logits are off by about as much as float32 may be. STAND_IN_BUG=NAME breaks
one rule, to see that it is noticed; the names are those of BUGS.
"""
import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np

import levenshtein
from levenshtein import Cell, Decoder, Options, decode
from models import Model
from stand_in_engine import parse_command

NOISE = 1e-5


class Noisy(Model):
    """Off by a little, the same for the same input."""

    def _forward(self, tokens, positions, attend):
        logits = super()._forward(tokens, positions, attend)
        noise = np.random.default_rng(int(np.sum(np.abs(logits)) * 1e6)).standard_normal(logits.shape)
        return logits + noise * NOISE


# Bugs of block routing


def routed_by_groups(model):
    model.shape.capacity = 0


def window_of_two(model):
    model.shape.window *= 2


def window_of_the_pass(model):
    model.shape.window = 10 ** 9


def windows_from_position_1(model):
    original = model._pool
    model._pool = lambda ranks, positions: original(ranks, np.asarray(positions) + 1)


def pool_of_one_less(model):
    model.shape.capacity = max(model.config["num_experts_per_tok"], model.shape.capacity - 1)


def pool_by_sum(model):
    original = model._best

    def pool(ranks, positions):
        windows = np.asarray(positions) // model.shape.window
        allowed = np.zeros(ranks.shape, dtype=bool)
        for window in np.unique(windows):
            inside = windows == window
            allowed[np.ix_(inside, original(ranks[inside].sum(axis=0), model.shape.capacity))] = True
        return allowed
    model._pool = pool


def ties_to_the_higher_id(model):
    def best(values, count):
        return len(values) - 1 - np.argsort(-values[::-1], kind="stable")[:count]
    model._best = best


def rope_parameters_ignored(model):
    if "rope_parameters" in model.config:
        model.shape.theta, model.shape.rotary_dim = 1e4, model.shape.head_dim


# Bugs of decoding


def mask_sampled(model):
    def without(self, row, tokens=()):
        row = np.array(row)
        row[list(tokens)] = -np.inf
        return row
    Decoder.without = without


def softmax_without_the_mask(model):
    original = levenshtein.softmax

    def softmax(row):
        row = np.array(row)
        row[model.shape.mask_id] = -np.inf
        return original(row)
    levenshtein.softmax = softmax


def quota_without_new_masks(model):
    levenshtein.quota = lambda originals, steps, step, new: originals // steps + (step < originals % steps)


def quota_of_one(model):
    levenshtein.quota = lambda originals, steps, step, new: 1


def quota_rounded_up(model):
    levenshtein.quota = lambda originals, steps, step, new: -(-originals // steps) + new


def quota_as_well_as_tau(model):
    original = levenshtein.confident

    def confident(probability, tau, need, see=None):
        above = [index for index, p in probability.items() if p > tau]
        return original(probability, tau, len(above) + need)
    levenshtein.confident = confident


def scanning(change):
    """A bug of the scan: change(index, cell, token, decoder's ids) -> cells."""
    def scan(cells, written, delete, split, mask):
        out, kinds = [], [0, 0]
        for index, cell in enumerate(cells):
            token = written.get(index)
            kinds[0] += token == delete
            kinds[1] += token == split
            out += [cell] if token is None else change(cell, token, delete, split, mask)
        return out, *kinds
    levenshtein.scan = scan


def plain(cell, token, delete, split, mask):
    if token in (delete, split):
        return [] if token == delete else [Cell(mask, masked=True), cell]
    return [dataclasses.replace(cell, token=token, masked=False)]


def split_after_the_token(model):
    scanning(lambda cell, token, *ids: plain(cell, token, *ids)[::-1])


def split_keeps_its_own_id(model):
    scanning(lambda cell, token, delete, split, mask: [Cell(mask, masked=True), Cell(split)] if token == split
             else plain(cell, token, delete, split, mask))


def split_is_original(model):
    scanning(lambda cell, token, delete, split, mask: [Cell(mask, True, True), cell] if token == split
             else plain(cell, token, delete, split, mask))


def split_of_a_mask_is_one_mask(model):
    scanning(lambda cell, token, delete, split, mask: [cell] if token == split and cell.masked
             else plain(cell, token, delete, split, mask))


def delete_leaves_a_mask(model):
    scanning(lambda cell, token, delete, split, mask: [Cell(mask, masked=True)] if token == delete
             else plain(cell, token, delete, split, mask))


def prompt_is_scanned(model):
    original = levenshtein.scan

    def scan(cells, written, delete, split, mask):
        literal = {index: delete for index, cell in enumerate(cells) if cell.token == delete}
        return original(cells, written | literal, delete, split, mask)
    levenshtein.scan = scan


def padding_is_original(model):
    original = levenshtein.scan

    def scan(cells, written, delete, split, mask):
        out, *kinds = original(cells, written, delete, split, mask)
        return out + [Cell(mask, True, True)] * (len(cells) - len(out)), *kinds
    levenshtein.scan = scan


def last_step_without_masks(model):
    original = Decoder.step
    Decoder.step = lambda self, cells, fixed, logits, need, post, seen: original(
        self, cells, fixed, logits, need, 0 if any(cell.masked for cell in cells) else post, seen)


def states_after_the_scan(model):
    def state(self, cells, written):
        out, _, _ = levenshtein.scan(cells, written, self.delete, self.split, self.network.mask_id)
        return tuple([cell.token for cell in out] + [self.network.mask_id] * (self.size - len(out)))[:self.size]
    Decoder.state = state


def edits_in_the_last_step(model):
    original = Decoder.best
    Decoder.best = lambda self, row, tokens=(): original(self, row, () if len(tokens) == 2 else tokens)


def one_step_more(model):
    original = Options.__init__

    def init(self, *args, **other):
        original(self, *args, **other)
        self.most += 1
    Options.__init__ = init


def editing_where(allowed):
    """T2T only in steps whose cells are `allowed`."""
    original = Decoder.step

    def step(self, cells, *other):
        tau_edit = self.options.tau_edit
        self.options.tau_edit = tau_edit if allowed(cells) else 1
        written = original(self, cells, *other)
        self.options.tau_edit = tau_edit
        return written
    Decoder.step = step


def edits_only_without_masks(model):
    editing_where(lambda cells: not any(cell.masked for cell in cells))


def edits_never(model):
    editing_where(lambda cells: False)


def prompt_edited(model):
    original = Decoder.step
    Decoder.step = lambda self, cells, fixed, *other: original(self, cells, 0, *other)


def escape_never(model):
    Decoder.escape = lambda *_: None


def escape_most_confident(model):
    original = Decoder.escape
    Decoder.escape = lambda self, cells, written, logits, p, seen: original(
        self, cells, written, logits, {index: -value for index, value in p.items()}, seen)


def escape_once(model):
    levenshtein.TRIES = 1


def escape_forgets(model):
    """Only the last state counts."""
    original = Decoder.escape

    def escape(self, cells, written, logits, p, seen):
        original(self, cells, written, logits, p, seen)
        seen.clear()
    Decoder.escape = escape


def end_in_the_prompt(model):
    original = Decoder.end_of_answer

    def end_of_answer(self, block):
        prompt, self.prompt = self.prompt, 0
        end = original(self, block)
        self.prompt = prompt
        return None if end is None else max(end, prompt)
    Decoder.end_of_answer = end_of_answer


def end_dropped(model):
    original = Decoder.run

    def run(self):
        done = original(self)
        if self.met["ended by a token"]:
            done.tokens = done.tokens[:-1]
        return done
    Decoder.run = run


BUGS = {bug.__name__: bug for bug in (
    routed_by_groups, window_of_two, window_of_the_pass, windows_from_position_1, pool_of_one_less, pool_by_sum,
    ties_to_the_higher_id, rope_parameters_ignored, mask_sampled, softmax_without_the_mask, quota_without_new_masks,
    quota_of_one, quota_rounded_up, quota_as_well_as_tau, split_after_the_token, split_keeps_its_own_id,
    split_is_original, split_of_a_mask_is_one_mask, delete_leaves_a_mask, prompt_is_scanned, padding_is_original,
    last_step_without_masks, states_after_the_scan, edits_in_the_last_step, one_step_more, edits_only_without_masks,
    edits_never, prompt_edited, escape_never, escape_most_confident, escape_once, escape_forgets, end_in_the_prompt,
    end_dropped)}


def load(folder):
    model = Noisy.load(folder)
    if bug := os.environ.get("STAND_IN_BUG"):
        BUGS[bug](model)
    return model


# Commands


def logits(args):
    request = json.loads(Path(args.request).read_text())
    np.save(args.out, load(args.model).logits(**request).astype(np.float32))


def trace(done, prompt, options, mask):
    """Lines of a trace whose canvas grows block by block."""
    before, size = list(prompt), options.block_length
    lines = [{"request": 0, "prompt_tokens": len(prompt), "canvas": prompt, "v": 1, "mask": mask}]
    for number, record in enumerate(done.passes):
        line = {"pass": number, "kind": record.kind, "rows": record.rows, "committed": []}
        if record.kind == "denoise":
            last = number + 1 == len(done.passes)
            length = len(prompt) + len(done.tokens) if last else min(record.rows[-1] + 1, done.limit)
            before = before[:length] + [mask] * (length - len(before))
            differing = [(at, record.canvas[at]) for at in range(length) if before[at] != record.canvas[at]]
            line["length"] = length
            line["committed"] = [{"position": at, "token": token} for at, token in differing if token != mask]
            line["changed"] = [[at, token] for at, token in differing if token == mask]
            before = record.canvas[:length]
        lines.append(line)
    return lines


def run(args):
    model = load(args.model)
    options = Options(args.gen_length, args.block_length or Options.block_length, args.steps)
    if args.unmask:
        options.tau = float(args.unmask.removeprefix("dynamic="))
    for part in filter(None, (args.edit or "").split(",")):
        name, value = part.split("=")
        setattr(options, *(("tau_edit", float(value)) if name == "tau" else ("most", int(value))))
    prompt, config = [int(token) for token in args.prompt_tokens.split(",")], model.config
    ends = [] if args.ignore_eos else config["eos_token_id"]
    done = decode(levenshtein.Network(model), prompt, ends, (config["delete_token_id"], config["split_token_id"]),
                  options)
    lines = trace(done, prompt, options, model.shape.mask_id)
    Path(args.trace).write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(json.dumps({"tokens": done.tokens, "prompt_tokens": len(prompt)}))


def main():
    typed = {"gen-length": int, "block-length": int, "steps": int, "ignore-eos": bool, "json": bool, "no-live": bool}
    args = parse_command((logits, ("request", "out"), {}), (run, ("prompt-tokens", "temperature", "trace", "unmask", "edit"), typed))
    args.function(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
