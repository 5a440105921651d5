"""Checks seeded.py: hand-computed cases, YaRN at its limits, and what must be exact.

    python test_seeded.py         # or: pytest test_seeded.py
"""
import sys
import tempfile

import numpy as np

import test_reference
from random_checkpoints import make_nemotron_checkpoint
from seeded import Nemotron, Options, decode, yarn
from test_reference import peaks

MASK, END, VOCAB = 3, 1, 40


class Scripted:
    """Row p of a causal pass is sure of causal(p + 1), of a pass that denoises of drafted(p)."""

    mask, ends, positions, block_length, vocab = MASK, {END}, 64, 4, VOCAB

    def __init__(self, causal=lambda p: 10 + p, drafted=lambda p: 20 + p, sure=lambda p: 0.95):
        self.causal, self.drafted, self.sure = causal, drafted, sure

    def logits(self, tokens, begin=None):
        rows = range(len(tokens))
        wants = [self.causal(p + 1) if begin is None or p < begin else self.drafted(p) for p in rows]
        return peaks(wants, [self.sure(p) for p in rows], VOCAB)


def run(model, **options):
    return decode(model, [5, 6, 7], Options(**{"gen_length": 8} | options))


def kinds(done):
    return [record.kind for record in done.passes]


def test_blocks():
    done = run(Scripted())
    assert done.tokens == [13, 24, 25, 26, 17, 28, 29, 30] and kinds(done) == ["prefill", "denoise", "commit", "denoise"]
    assert done.passes[1].rows == [3, 4, 5, 6] and done.passes[2].committed == [(7, 17)]
    # One at a time, the most confident first.
    done = run(Scripted(sure=lambda p: 0.8 + 0.02 * (p % 4)), unmask="low-confidence")
    assert kinds(done) == ["prefill", *["denoise"] * 3, "commit", *["denoise"] * 3]
    assert [record.committed for record in done.passes[1:4]] == [[(6, 26)], [(5, 25)], [(4, 24)]]
    unsure = run(Scripted(sure=lambda p: 0.5 if p == 5 else 0.95))
    assert kinds(unsure) == ["prefill", "denoise", "denoise", "commit", "denoise"]


def test_ends():
    done = run(Scripted(drafted=lambda p: END if p == 5 else 20 + p, sure=lambda p: 0.5 if p == 6 else 0.95))
    assert done.tokens == [13, 24, END] and kinds(done) == ["prefill", "denoise"] and done.met["done with masks"] == 1
    assert run(Scripted(causal=lambda p: END)).tokens == [END]
    done = run(Scripted(causal=lambda p: END if p == 5 else 10 + p, drafted=lambda p: 10 + p), accept="exact")
    assert done.tokens == [13, 14, END] and done.passes[-1].committed == [(4, 14), (5, END)]


def test_self_speculation():
    done = run(Scripted(drafted=lambda p: 10 + p if p <= 5 else 20 + p), accept="exact")
    assert done.tokens == [10 + p for p in range(3, 11)]
    assert kinds(done)[:3] == ["prefill", "draft", "verify"] and done.passes[2].committed == [(4, 14), (5, 15), (6, 16)]
    assert done.passes[3].rows == [6, 7, 8, 9]
    whole = run(Scripted(drafted=lambda p: 10 + p), accept="exact", gen_length=6)
    assert kinds(whole) == ["prefill", "draft", "verify", "draft", "verify"] and whole.passes[3].rows == [7, 8]
    assert whole.met["all accepted"] == 2


def test_speculation_is_the_causal_mode():
    for seed in range(4):
        with tempfile.TemporaryDirectory() as scratch:
            model = Nemotron(*make_nemotron_checkpoint(scratch, seed))
        for temperature in (0.0, 0.9):
            options = dict(gen_length=18, temperature=temperature, seed=seed, ignore_eos=True)
            want = decode(model, [5, 6, 7], Options(causal=True, **options))
            got = decode(model, [5, 6, 7], Options(accept="exact", block_length=5, **options))
            assert got.tokens == want.tokens and len(got.tokens) == 18


def test_yarn():
    rope = {"rope_theta": 1e4, "factor": 16, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0}
    frequencies, scale = yarn(64, rope)
    plain = 1e4 ** (-2 * np.arange(32) / 64)
    assert scale == 1 and frequencies[0] == plain[0] and abs(frequencies[-1] - plain[-1] / 16) < 1e-12
    assert np.all(frequencies <= plain + 1e-15) and np.all(frequencies >= plain / 16 - 1e-15)
    assert abs(yarn(64, rope | {"mscale_all_dim": 0.5})[1] - (0.1 * np.log(16) + 1) / (0.05 * np.log(16) + 1)) < 1e-12
    assert yarn(64, rope | {"factor": 0.25, "mscale_all_dim": 0.5})[1] == 1, "a context that shrinks"


def test_queries_grow_and_blocks_see_both_ways():
    with tempfile.TemporaryDirectory() as scratch:
        config, tensors = make_nemotron_checkpoint(scratch, 1)
    model, tokens = Nemotron(config, tensors), list(range(5, 35))
    old = config["rope_parameters"]["original_max_position_embeddings"]
    flat = Nemotron(config | {"rope_parameters": config["rope_parameters"] | {"llama_4_scaling_beta": 0.0}}, tensors)
    assert np.allclose(model.logits(tokens)[:old], flat.logits(tokens)[:old])
    assert not np.allclose(model.logits(tokens)[old:], flat.logits(tokens)[old:])
    causal, block = model.logits(tokens), model.logits(tokens, 20)
    assert np.allclose(causal[:20], block[:20]) and not np.allclose(causal[20], block[20])
    assert np.allclose(model.logits(tokens, 29)[29], causal[29]), "a block of one row"


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
