"""Checks diffusion_gemma.py: hand-computed cases, what must hold of any checkpoint, and the code of transformers.

    python test_diffusion_gemma.py         # or: pytest test_diffusion_gemma.py
"""
import os
import sys
import tempfile
from dataclasses import replace

import numpy as np

import test_reference
from diffusion_gemma import (ENCODER, FULL, SLIDING, Replay, Settings, Step, accept, converged, cut, decide, decode,
                             entropies, read_settings, read_shape, replay, rope)
from models import softmax
from random_diffusion_gemma import make_checkpoint
from test_reference import Skip, need

SETTINGS = Settings(canvas=4, gen_length=8, ends=frozenset([8, 9]))


def small(seed=0):
    with tempfile.TemporaryDirectory() as scratch:
        model = make_checkpoint(scratch, seed, dtype="f32")
        return model, read_settings(scratch)


def step(best, entropy):
    return Step(None, None, np.array(entropy), np.array(best), None, 0)


# Sampler


def test_accepted_sum_is_of_those_before():
    # Sums before each: 0, 0.0625, 0.125, 0.375.
    order, count = accept(np.array([0.25, 0.0625, 1.0, 0.0625]), 0.125)
    assert order.tolist() == [1, 3, 0, 2] and count == 3  # the bound itself is within
    assert accept(np.array([0.25, 0.0625, 1.0, 0.0625]), 0.124)[1] == 2
    assert accept(np.array([0.25, 0.0625, 1.0, 0.0625]), 0.0625)[1] == 2
    assert accept(np.array([0.25, 0.0625, 1.0, 0.0625]), 0.06)[1] == 1
    assert accept(np.array([0.25, 0.0625, 1.0, 0.0625]), 0.375)[1] == 4


def test_one_is_always_accepted():
    order, count = accept(np.array([3.0, 2.0, 5.0]), 0.1)
    assert count == 1 and order[0] == 1
    assert accept(np.zeros(5), 0.1)[1] == 5


def test_entropies_in_nats():
    assert np.allclose(entropies(np.array([[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4])),
                       [np.log(2), 0, np.log(4)])


def test_temperature_falls():
    assert np.isclose(SETTINGS.temperature(48), 0.8) and np.isclose(SETTINGS.temperature(1), 0.4 + 0.4 / 48)
    settings = replace(SETTINGS, steps=4, t_min=1.0, t_max=2.0)
    assert [settings.temperature(n) for n in (4, 3, 2, 1)] == [2.0, 1.75, 1.5, 1.25]


def test_decide_divides_by_the_temperature():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 3.0]])
    settings = replace(SETTINGS, steps=1, t_max=0.5, entropy_bound=10.0)
    done = decide(logits, 1, settings)
    assert np.allclose(done.p, softmax(logits * 2)) and done.best.tolist() == [0, 2]
    assert done.order.tolist() == [1, 0] and done.accepted.tolist() == [1, 0]


def test_convergence():
    sure, same, other = step([1, 2], [0.001, 0.001]), step([1, 2], [9, 9]), step([1, 3], [0, 0])
    assert not converged(sure, [], SETTINGS)              # not in the first step
    assert converged(sure, [same], SETTINGS)              # earlier entropies do not matter
    assert not converged(sure, [other], SETTINGS) and not converged(same, [same], SETTINGS)
    assert not converged(step([1, 2], [0.005, 0.005]), [same], SETTINGS)  # strictly below
    assert converged(step([1, 2], [0.009, 0]), [same], SETTINGS)          # the mean
    twice = replace(SETTINGS, stability=2)
    assert not converged(sure, [same], twice) and converged(sure, [same, same], twice)
    assert not converged(sure, [other, same], twice) and converged(sure, [other, same, same], twice)
    assert converged(sure, [], replace(SETTINGS, stability=0))


def test_cut():
    assert cut([1, 2, 3], SETTINGS) == ([1, 2, 3], False)
    assert cut([1, 9, 3, 8], SETTINGS) == ([1, 9], True)
    assert cut(list(range(8)) + [1], SETTINGS) == (list(range(8)), True)
    assert cut([1] * 8 + [9], SETTINGS) == ([1] * 8, True)
    assert [replace(SETTINGS, gen_length=n).canvases for n in (1, 4, 5, 9)] == [1, 1, 2, 3]


# Model


def test_rope_turns_the_first_pairs():
    x = np.random.default_rng(0).standard_normal((1, 1, 8))
    y = rope(x, [3], 100.0, 2)[0, 0]
    want = x[0, 0].copy()
    for i, angle in enumerate([3.0, 3.0 * 100 ** -0.25]):  # exponents over the whole head
        a, b = x[0, 0, i], x[0, 0, i + 4]
        want[i], want[i + 4] = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    assert np.allclose(y, want) and np.array_equal(y[[2, 3, 6, 7]], want[[2, 3, 6, 7]])


def test_canvas_mask():
    model, _ = small()
    model.shape.window = 4
    assert model.canvas_mask(SLIDING, 6, 2).astype(int).tolist() == [[0, 0, 0, 1, 1, 1, 1, 1]] * 2
    assert model.canvas_mask(SLIDING, 2, 2).all() and model.canvas_mask(FULL, 6, 2).all()


def test_prefix_does_not_depend_on_what_follows():
    for seed in range(3):
        model, _ = small(seed)
        tokens = np.random.default_rng(seed).integers(0, model.shape.vocab, 60)
        whole, rows = model.encode(tokens)
        part, first = model.encode(tokens[:23])
        both, second = model.encode(tokens[23:], part)
        assert np.allclose(np.concatenate([first, second]), rows)
        assert all(np.allclose(a, b) for a, b in zip(whole.k + whole.v, both.k + both.v))
        assert all(np.allclose(a[:23], b) for a, b in zip(whole.k, part.k))


def test_sliding_window_of_encoded_rows():
    """With sliding layers alone, a token has no effect beyond their windows together."""
    model, _ = small(1)
    s = model.shape
    reach = sum(s.window - 1 if kind == SLIDING else 99 for kind in s.layer_types[:1])
    s.layer_types = s.layer_types[:1]
    assert s.layer_types == [SLIDING]
    tokens = np.arange(60)
    changed = np.where(np.arange(60) == 5, 77, tokens)
    moved = np.max(np.abs(model.logits(tokens) - model.logits(changed)), axis=-1) > 1e-9
    assert np.flatnonzero(moved).tolist() == list(range(5, 5 + reach + 1))


def test_canvas_rows_see_each_other_and_the_distribution():
    model, _ = small(0)
    rng = np.random.default_rng(1)
    tokens, canvas = rng.integers(0, model.shape.vocab, 9 + model.shape.canvas), model.shape.canvas
    plain = model.logits(tokens, 9)
    assert np.allclose(plain[:9], model.logits(tokens)[:9])
    tokens[-1] = (tokens[-1] + 1) % model.shape.vocab
    assert np.all(np.max(np.abs(model.logits(tokens, 9) - plain)[9:], axis=-1) > 1e-9)
    p = softmax(rng.standard_normal((canvas, model.shape.vocab)))
    assert np.all(np.max(np.abs(model.logits(tokens, 9, p) - plain)[9:], axis=-1) > 1e-9)


def test_scalars_of_both_modes():
    model, _ = small(0)
    prefix, _ = model.encode([1, 2, 3])
    canvas = np.arange(model.shape.canvas)
    before, encoded = model.denoise(canvas, None, prefix), model.logits([1, 2, 3])
    model.tensors[f"{ENCODER}layers.0.layer_scalar"] = np.array([0.1])
    assert np.array_equal(model.denoise(canvas, None, prefix), before)
    assert not np.allclose(model.logits([1, 2, 3]), encoded)


def test_both_layouts_of_full_layers():
    model = next(m for m, _ in map(small, range(20)) if "per_layer_config" in m.config["text_config"])
    text = dict(model.config["text_config"])
    own = next(iter(text.pop("per_layer_config").values()))
    text |= {"global_head_dim": own["head_dim"], "num_global_key_value_heads": own["num_key_value_heads"]}
    assert read_shape(model.config | {"text_config": text}) == model.shape


# Replay


def test_replay_agrees_with_decode():
    for seed in range(6):
        model, settings = small(seed)
        settings = replace(settings, gen_length=settings.canvas + 5, steps=6)
        rng = np.random.default_rng(seed)
        prompt = rng.integers(0, model.shape.vocab, int(rng.integers(1, 40)))
        done = decode(model, prompt, settings, rng)
        again = Replay(model, prompt, settings, done.passes, done.tokens)
        assert not again.findings and again.finals == done.finals and len(again.steps) == len(done.passes)


def test_replay_notices():
    model, settings = small(2)
    settings = replace(settings, gen_length=settings.canvas + 5, steps=4, ends=frozenset(), confidence=1e-9)
    done = decode(model, [1, 2, 3], settings, np.random.default_rng(0))

    def wrong(passes=done.passes, tokens=done.tokens):
        _, found = replay(model, [1, 2, 3], settings, passes, tokens)
        return [(finding.at, finding.what.split()[0]) for finding in found]

    assert wrong() == []
    accepted = int(done.steps[0].accepted[0])
    fed = list(done.passes[1][1])
    fed[accepted] = (fed[accepted] + 1) % model.shape.vocab
    assert (0, "position") in wrong([done.passes[0], (3, fed), *done.passes[2:]])
    assert wrong(tokens=[*done.tokens[:-1], (done.tokens[-1] + 1) % model.shape.vocab]) == [(7, "token")]
    assert wrong(tokens=done.tokens[:-1]) == [(8, f"{len(done.tokens) - 1}")]
    assert (6, "stops") in wrong(done.passes[:-1]) and (8, "step") in wrong([*done.passes, done.passes[-1]])
    assert wrong(done.passes[:4]) == [(4, "no")] and (4, "no") in wrong(done.passes[:4] + [(0, fed)])
    assert wrong([(3, done.passes[0][1][:-1]), *done.passes[1:]]) == [(0, "fed")]


# transformers


def published(folder, seed):
    """(our Model, theirs) of one checkpoint folder."""
    torch = need("torch")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = need("transformers")
    if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
        raise Skip(f"transformers {transformers.__version__} has no DiffusionGemma (5.11 has)")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    ours = make_checkpoint(folder, seed, dtype="f32", shards=1)
    kind = transformers.DiffusionGemmaForBlockDiffusion
    theirs, loaded = kind.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
        ignore_mismatched_sizes=True, output_loading_info=True)
    strange = {str(name) for part in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in loaded[part]}
    assert all("vision" in name for name in strange), strange
    return ours, theirs.eval()


def test_transformers_logits():
    """Encoded states, and a canvas with and without self-conditioning."""
    torch = need("torch")
    worst = 0.0
    for seed in range(8):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = published(folder, seed)
        rng = np.random.default_rng(seed)
        vocab, size = ours.shape.vocab, ours.shape.canvas
        for length in (1, ours.shape.window - 1, ours.shape.window, int(rng.integers(20, 70))):
            prompt, canvas = rng.integers(0, vocab, length), rng.integers(0, vocab, size)
            scores = rng.standard_normal((size, vocab)) * 4
            for conditioned in (False, True):
                with torch.no_grad():
                    out = theirs(input_ids=torch.tensor(prompt)[None], decoder_input_ids=torch.tensor(canvas)[None],
                                 self_conditioning_logits=torch.tensor(scores)[None] if conditioned else None)
                    encoded = theirs.lm_head(out.encoder_last_hidden_state)[0].numpy()
                ours.router_gap = np.inf
                got = ours.logits([*prompt, *canvas], length, softmax(scores) if conditioned else None)
                want = np.concatenate([ours.shape.cap * np.tanh(encoded / ours.shape.cap), out.logits[0].numpy()])
                difference = np.max(np.abs(got - want))
                assert difference < 5e-4 or ours.router_gap < 1e-6, (seed, length, conditioned, difference)
                worst = max(worst, difference)
    print(f"  logits differ by {worst:.1e} at most")


def test_transformers_sampler():
    """Acceptance, temperatures and stops."""
    torch = need("torch")
    transformers = need("transformers")
    if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
        raise Skip(f"transformers {transformers.__version__} has no DiffusionGemma (5.11 has)")
    theirs = transformers.models.diffusion_gemma.generation_diffusion_gemma
    rng = np.random.default_rng(0)
    for _ in range(50):
        settings = replace(SETTINGS, canvas=12, steps=int(rng.integers(1, 9)), stability=int(rng.integers(0, 3)),
                           entropy_bound=float(rng.uniform(0.02, 3)), confidence=float(rng.uniform(0.01, 1.5)))
        config = theirs.EntropyBoundSamplerConfig(entropy_bound=settings.entropy_bound)
        sampler = theirs.EntropyBoundSampler(config, settings.canvas, 20, settings.steps)
        schedule = theirs.LinearTemperatureScheduleLogitsProcessor(settings.t_min, settings.t_max, settings.steps)
        stopping = theirs.StableAndConfidentStoppingCriteria(settings.stability, settings.confidence)
        base, earlier = rng.standard_normal((12, 20)) * rng.uniform(0.5, 6), []
        for remaining in range(settings.steps, 0, -1):
            logits = base + rng.standard_normal((12, 20)) * 0.1
            mine = decide(logits, remaining, settings)
            scaled = schedule(None, torch.tensor(logits)[None], remaining)
            assert np.allclose(scaled[0].numpy(), mine.scaled)
            taken = sampler.accept_canvas(torch.zeros(1, 12, dtype=torch.long), torch.ones(1, 12, dtype=torch.long),
                                          scaled, remaining)
            assert sorted(mine.accepted.tolist()) == torch.nonzero(taken[0])[:, 0].tolist()
            stop = bool(stopping(torch.argmax(scaled, dim=-1), scaled)[0])
            assert stop == converged(mine, earlier, settings)
            earlier.append(mine)


def test_transformers_generation():
    """Whole runs of transformers, whose candidates are the best tokens here, replayed."""
    torch = need("torch")
    total = canvases = 0
    for seed in range(8):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = published(folder, seed)
            settings = read_settings(folder)
        settings = replace(settings, gen_length=2 * settings.canvas)
        passes, forward = [], theirs.forward

        def recorded(*args, **kwargs):
            cache = kwargs["cache" if "cache" in kwargs else "past_key_values"]  # before 5.24
            passes.append((int(cache.get_seq_length()), kwargs["decoder_input_ids"][0].tolist()))
            return forward(*args, **kwargs)

        sample, theirs.forward = torch.multinomial, recorded
        torch.multinomial = lambda p, num_samples: torch.argmax(p, dim=-1, keepdim=True)
        torch.manual_seed(seed)
        prompt = np.random.default_rng(seed).integers(0, ours.shape.vocab, 3 + 9 * seed)
        try:
            out = theirs.generate(torch.tensor(prompt)[None], max_new_tokens=settings.gen_length)
        finally:
            torch.multinomial = sample
        tokens, _ = cut(out.sequences[0, len(prompt):].tolist(), settings)
        done, wrong = replay(ours, prompt.tolist(), settings, passes, tokens)
        assert not wrong, (seed, wrong)
        total, canvases = total + len(done.steps), canvases + len(done.finals)
    assert canvases > 8
    print(f"  {total} passes of {canvases} canvases replayed")


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
