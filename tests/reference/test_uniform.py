"""Checks uniform.py, and GIDD and Sumi in models.py: hand-computed cases, enumerations, and what must be exact.

    python test_uniform.py         # or: pytest test_uniform.py
"""
import sys
import tempfile

import numpy as np

import test_reference
from models import Store, softmax
from random_checkpoints import make_gidd_checkpoint, make_sumi_checkpoint
from test_reference import peaks
from uniform import Decoder, Network, Noise, Options, RngStream, decode, mixture, sigmoid

MASK, END, BOS, PAD, VOCAB = 3, 1, 0, 2, 10
PROMPT = [BOS, 5]  # answers begin at position 2


def config(**other):
    return {"vocab_size": VOCAB, "mask_token_id": MASK, "eos_token_id": END, "bos_token_id": BOS, "pad_token_id": PAD,
            "noise_type": 1000.0} | other


class Scripted:
    """wants: {position: (token, p)}, 4 with 0.9 elsewhere; moved: {position: drift} of every pass."""

    def __init__(self, wants=None, moved=None, positions=16, **other):
        self.noise, self.positions = Noise(config(**other)), positions
        self.wants, self.moved, self.cleans = wants or {}, moved or {}, []

    def start(self, cells):
        self.cells = cells

    def compute(self, canvas, rows, clean):
        assert len(canvas) == self.cells
        self.cleans.append(clean)
        wants = [self.wants.get(position, (4, 0.9)) for position in rows]
        wants = [want(canvas) if callable(want) else want for want in wants]
        logits = peaks([token for token, _ in wants], [p for _, p in wants], VOCAB)
        return logits, [self.moved.get(position, 0.0) for position in rows]


def run(network, prompt=PROMPT, **options):
    settings = {"gen_length": 4, "block_length": 4, "steps": 4, "tokens_per_step": 1, "schedule": "linear"} | options
    return decode(network, prompt, Options(**settings))


def rows(done):
    return [record.rows for record in done.passes]


def small(seed):
    with tempfile.TemporaryDirectory() as scratch:
        return make_gidd_checkpoint(scratch, seed)


def test_random_numbers():
    assert RngStream(0).bits(0) == 0x568a9b0b1a2c05ec and RngStream(42, 1, 2, 3).bits(4) == 0x610a9c21ff0d3d7d
    assert 0 < RngStream(7, 3).uniform(2) < 1 and {RngStream(7, p).below(0, 3) for p in range(40)} == {0, 1, 2}


def test_forward_by_hand():
    """Every sum of section 1.4 of the notes on GIDD written as a loop over rows and heads."""
    for seed in range(4):
        model, clean = small(seed), 4
        s, t, c = model.shape, model.tensors, model.config
        tokens = np.random.default_rng(seed).integers(0, s.vocab, 9)

        def norm(x, w):
            return (1 + w) * x / np.sqrt(np.mean(x ** 2) + 1e-6)

        h = [t["model.embed_tokens.weight"][token] for token in tokens]
        for i in range(s.layers):
            name, d = f"model.layers.{i}.", s.head_dim
            w = {key[len(name):]: value for key, value in t.items() if key.startswith(name)}
            if c.get("weight_scaling") != 1:  # the class's "fan_in"
                w |= {key: value * value.shape[1] ** -0.5 for key, value in w.items() if key.endswith("_proj.weight")}
            q, k, v = [], [], []
            for p, x in enumerate(h):
                a = norm(x, w["attn_layernorm.weight"])
                made = [norm(w[f"self_attn.{n}_proj.weight"] @ a, w[f"self_attn.{n}_norm.weight"]) for n in "qk"]
                for out, values in zip((q, k), made):
                    turned = np.empty((s.heads, d))
                    for head in range(s.heads):
                        pairs = values[head * d:head * d + d // 2] + 1j * values[head * d + d // 2:(head + 1) * d]
                        pairs = pairs * np.exp(1j * p * 1e4 ** (-2 * np.arange(d // 2) / d))
                        turned[head] = np.concatenate([pairs.real, pairs.imag])
                    out.append(turned)
                v.append((w["self_attn.v_proj.weight"] @ a).reshape(s.heads, d))
            for p in range(len(h)):
                seen = range(clean) if p < clean else range(len(h))
                mixed = []
                for head in range(s.heads):
                    keys = np.array([w["self_attn.k_bias"][head]] + [k[cell][head] for cell in seen])
                    values = np.array([w["self_attn.v_bias"][head]] + [v[cell][head] for cell in seen])
                    score = c["attn_soft_cap"] * np.tanh(keys @ q[p][head] / np.sqrt(d) / c["attn_soft_cap"])
                    mixed.append(softmax(score) @ values)
                h[p] = h[p] + 4.0 / s.layers * (w["self_attn.o_proj.weight"] @ np.concatenate(mixed))
            for p in range(len(h)):
                m = w["mlp.up_proj.weight"] @ norm(h[p], w["mlp_layernorm.weight"]) + w["mlp.up_proj.bias"]
                m = np.where(m > 0, m, 0) ** 2
                h[p] = h[p] + 4.0 / s.layers * (w["mlp.down_proj.weight"] @ m + w["mlp.down_proj.bias"])
        want = [c["head_scaling"] * t["lm_head.weight"] @ norm(x, t["model.norm.weight"]) for x in h]
        assert np.allclose(model.logits(tokens, clean_prefix=clean), want, atol=1e-9)


def test_clean_rows_are_a_prompt_of_their_own():
    model = small(1)
    tokens = list(range(12))
    whole = model.logits(tokens, clean_prefix=5)
    assert np.allclose(whole[:5], model.logits(tokens[:5]), atol=1e-10)
    assert np.allclose(model.logits(tokens), model.logits(tokens, clean_prefix=12)) and not np.allclose(
        whole, model.logits(tokens))
    # The noisy rows alone, after stored K/V.
    store = Store(model.shape, 12)
    model.rows(tokens, range(12), range(12), store, 5)
    assert np.allclose(model.rows(tokens[5:], range(5, 12), range(5, 12), store, 5), whole[5:], atol=1e-10)


def test_levels():
    noise = Noise(config())
    for schedule in ("cosine", "linear"):
        first, middle, last = (noise.level(u, schedule) for u in (0, 0.5, 1))
        assert np.allclose([first.alpha, middle.alpha, last.alpha], [sigmoid(9), 0.5, sigmoid(-9)])
    assert abs(noise.level(0.25, "linear").alpha - (sigmoid(-9) + 0.75 * (sigmoid(9) - sigmoid(-9)))) < 1e-12
    assert noise.level(0.25, "cosine").alpha > noise.level(0.25, "linear").alpha
    for shift, mask in ((1000.0, 0.0), (-1000.0, 1.0), (0.0, 0.5)):
        level = Noise(config(noise_type=shift)).level(0.5, "linear")
        assert abs(level.pi(MASK) - mask) < 1e-12 and abs(level.pi(5) - (1 - mask) / 9) < 1e-12
        assert abs(sum(level.pi(token) for token in range(VOCAB)) - 1) < 1e-12


def test_mixture_is_the_posterior():
    rng = np.random.default_rng(0)
    for shift in (1000.0, 2.0, 0.0, -2.0, -1000.0):
        noise = Noise(config(noise_type=shift))
        for schedule in ("cosine", "linear"):
            levels = [noise.level(j / 5, schedule) for j in range(6)]
            for t, s in zip(levels[1:], levels):
                x = softmax(rng.standard_normal(VOCAB) * 2)
                x[MASK] = 0
                x /= np.sum(x)
                pi_t, pi_s = (np.array([level.pi(k) for k in range(VOCAB)]) for level in (t, s))
                r = t.alpha / s.alpha
                for z in range(VOCAB):
                    evidence = t.alpha * x[z] + t.beta * pi_t[z]
                    if evidence == 0:
                        assert mixture(z, x[z], t, s) == (1, 0, 0) and z == MASK
                        continue
                    here = np.arange(VOCAB) == z
                    # q(z_t = z | z_s = k) q(z_s = k | x_hat) / q(z_t = z | x_hat)
                    c = t.beta * pi_t[z] - r * s.beta * pi_s[z]
                    want = (r * here + c) * (s.alpha * x + s.beta * pi_s) / evidence
                    stay, model, drawn = mixture(z, x[z], t, s)
                    assert np.allclose(stay * here + model * x + drawn * pi_s, want, atol=1e-12)
                    assert abs(stay + model + drawn - 1) < 1e-9


def test_ancestral_draws_the_posterior():
    """Counts of many seeds against the enumeration."""
    noise, counts = Noise(config(noise_type=0.5)), np.zeros(VOCAB)
    network = Scripted({2: (6, 0.6)}, noise_type=0.5)
    done = Decoder(network, PROMPT, Options(gen_length=1, steps=3, sampler="ancestral", temperature=1.0))
    logits = peaks([6], [0.6], VOCAB)
    done.canvas[2] = 8
    trials = 4000
    for seed in range(trials):
        done.options.seed, done.close = seed, 0
        counts[done.ancestral({2: logits[0]}, 0, 2).get(2, 8)] += 1
    t, s = noise.level(2 / 3, "cosine"), noise.level(1 / 3, "cosine")
    x = softmax(np.where(np.arange(VOCAB) == MASK, -np.inf, logits[0]))
    stay, model, drawn = mixture(8, x[8], t, s)
    want = stay * (np.arange(VOCAB) == 8) + model * x + drawn * np.array([s.pi(k) for k in range(VOCAB)])
    assert np.max(np.abs(counts / trials - want)) < 0.03 and counts[MASK] > 0


def test_canvas():
    done = run(Scripted(), [5], seed=3)
    assert done.start[:2] == [BOS, 5] and len(done.start) == 16, "the token in front is put there"
    assert not set(done.start[2:]) & {MASK, END, BOS, PAD}
    assert run(Scripted(bos_token_id=-1), [5], seed=3).start[0] == 5
    assert run(Scripted(noise_type=-1000.0)).start[2:] == [MASK] * 14
    hub = run(Scripted(positions=64), noise="hub", seed=3).start
    assert set(hub[2:]) & {MASK, END, BOS, PAD}
    ends = run(Scripted(eos_token_id=[END, 9], positions=64), seed=3)
    assert 9 not in ends.start[2:]


def test_blocks_and_caches():
    whole, block = list(range(12)), [2, 3, 4]
    options = dict(gen_length=5, block_length=3, steps=4, context=12, block_exit="steps")
    assert rows(run(Scripted(), cache="none", **options)) == [whole] * 8
    network = Scripted()
    assert rows(run(network, cache="prefix", **options)) == [whole] + [whole[2:]] * 3 + [whole] + [whole[5:]] * 3
    assert network.cleans == [2] * 4 + [5] * 4
    two, next_block = [2, 3, 4, 5, 6, 7], [5, 6, 7]
    for refresh, later in ((0, [block] * 3), (1, [two] * 3), (2, [two, block, two]), (4, [block, block, two])):
        done = run(Scripted(), cache="uniform", refresh=refresh, **options)
        assert rows(done) == [whole, *later, whole] + [next_block] * 3 and len(done.tokens) == 5
    # Cut at the end of the context, which holds no more than the answer.
    done = run(Scripted(), cache="uniform", refresh=1, **options | {"context": 7})
    assert rows(done)[1] == [2, 3, 4, 5, 6] and rows(done)[5] == [5, 6]


def test_leaves_early():
    # One token a step, four that differ: the fifth step changes nothing, the others are not computed.
    network = Scripted({position: (6 if position % 2 else 7, 0.9) for position in range(2, 10)}, noise_type=-1000.0)
    options = dict(gen_length=4, steps=8, context=12, schedule="linear")
    for cache, count in (("none", 5), ("prefix", 5), ("uniform", 5)):
        done = run(network, cache=cache, **options)
        assert len(done.passes) == 5 and [len(record.changed) for record in done.passes] == [1, 1, 1, 1, 0]
        assert done.tokens == [7, 6, 7, 6] and len(run(network, cache=cache, block_exit="steps", **options).passes) == 8
    # Two blocks of two: at rest after the third step; the refresh at step 5 has to tell the next block, one at 10 not.
    done = run(network, gen_length=4, block_length=2, steps=11, cache="uniform", refresh=5, context=12)
    assert rows(done)[:5] == [list(range(12)), [2, 3], [2, 3], [2, 3, 4, 5], list(range(12))]
    # A refresh at the third step, which changes nothing itself, is enough.
    done = run(network, gen_length=4, block_length=2, steps=11, cache="uniform", refresh=3, context=12)
    assert rows(done)[:4] == [list(range(12)), [2, 3], [2, 3, 4, 5], list(range(12))]


def test_adaptive_takes_the_largest_scores():
    network = Scripted({2: (6, 0.5), 3: (6, 0.9), 4: (6, 0.9), 5: (6, 0.7)}, noise_type=-1000.0)
    done = run(network, tokens_per_step=2, steps=2)
    assert [record.changed for record in done.passes] == [[(3, 6), (4, 6)], [(2, 6), (5, 6)]]
    # A finished token of a masked model is not touched again; a mask in a uniform one is not either.
    done = run(Scripted({2: lambda canvas: (6 if canvas[2] == MASK else 7, 0.9)}, noise_type=-1000.0), steps=8,
               gen_length=1, block_length=1)
    assert done.tokens == [6] and len(done.passes) == 2
    hub = next(run(Scripted(), noise="hub", seed=seed, gen_length=1) for seed in range(100)
               if run(Scripted(), noise="hub", seed=seed, gen_length=1).start[2] == MASK)
    assert hub.tokens == [MASK]


def test_threshold_takes_all_above_it_and_leaves():
    wants = {2: (6, 0.5), 3: (6, 0.9), 4: (6, 0.9), 5: (6, 0.7)}
    # Uniform noise: the tokens that are there have almost no probability.
    done = run(Scripted(wants), sampler="threshold", threshold=(0.6, 0), steps=6)
    assert [record.changed for record in done.passes] == [[(3, 6), (4, 6), (5, 6)], []]
    assert done.met["left below the threshold"] == 1
    assert len(run(Scripted(wants), sampler="threshold", threshold=(0.6, 0), steps=6, block_exit="steps").passes) == 6
    done = run(Scripted(wants), sampler="threshold", threshold=(0.6, 1), steps=6)
    assert [record.changed for record in done.passes] == [[(3, 6), (4, 6), (5, 6)], [(2, 6)], []]
    done = run(Scripted(wants), sampler="threshold", threshold=(0.8, 3), steps=6)
    assert [record.changed for record in done.passes] == [[(3, 6), (4, 6), (5, 6)], [(2, 6)], []]
    # A mask is always filled, one a step.
    done = run(Scripted(wants, noise_type=-1000.0), sampler="threshold", threshold=(0.8, 0), steps=6)
    assert [record.changed for record in done.passes] == [[(3, 6), (4, 6)], [(5, 6)], [(2, 6)], []]


def test_ends():
    network = Scripted({3: (END, 0.9)}, noise_type=-1000.0)
    options = dict(gen_length=6, block_length=2, steps=2)
    assert run(network, **options).tokens == [4, END]
    assert run(network, ignore_eos=True, **options).tokens == [4, END, 4, 4, 4, 4]
    assert END not in run(network, min_length=2, **options).tokens
    assert run(network, min_length=1, **options).tokens == [4, END]


def test_boundary():
    options = dict(gen_length=8, block_length=2, steps=1, context=14, cache="uniform")
    whole = list(range(14))
    network = Scripted()
    assert rows(run(network, boundary=(2, 8), **options)) == [whole, [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    assert network.cleans == [2, 4, 6, 8]
    done = run(Scripted(), boundary=(4, 2), **options)
    assert rows(done) == [whole, list(range(2, 10)), whole, list(range(6, 14))]


def test_drift():
    # The first pass of the second block comes two steps after that of the first one, so 0.2 is a rate of 0.1.
    options = dict(gen_length=4, block_length=2, steps=2, context=12, cache="uniform", block_exit="steps",
                   schedule="linear")
    moved = {6: 0.2, 7: 0.2, 8: 0.4, 9: 0.4, 10: 0.1, 11: 0.5}
    pages = {0.25: [], 0.17: [8, 9], 0.14: [8, 9, 10, 11], 0.01: [6, 7, 8, 9, 10, 11]}
    for tau, want in pages.items():
        done = run(Scripted(moved=moved), drift=(tau, 2, 64), **options)
        assert rows(done) == [list(range(12)), [2, 3], list(range(12)), [4, 5, *want]]
    assert rows(run(Scripted(moved=moved), drift=(0.01, 2, 5), **options))[3] == [4, 5, 8, 9, 10, 11]
    # The first page is short of room, a smaller one after it fits.
    assert rows(run(Scripted(moved={p: 0.4 for p in range(6, 12)}), drift=(0.01, 4, 3), **options))[3] == [4, 5, 10, 11]


def test_self_correction():
    # Nothing is wrong: one pass says so.
    network = Scripted({2: (6, 0.999), 3: (6, 0.999)}, noise_type=-1000.0)
    done = run(network, steps=1, tokens_per_step=4, self_correct={})
    assert done.tokens == [6, 6, 4, 4] and len(done.passes) == 2 and done.met["nothing to correct"] == 1
    # Two of the four are left to it, and then one pass that says so.
    done = run(network, steps=1, tokens_per_step=2, self_correct={"tokens": 2})
    assert done.tokens == [6, 6, 4, 4] and len(done.passes) == 3 and len(done.passes[1].changed) == 2
    assert network.cleans == [2] * 5
    flips = Scripted({2: lambda canvas: (6 if canvas[2] == 7 else 7, 0.999)})
    done = run(flips, gen_length=1, steps=1, self_correct={"patience": 3})
    # The accuracy is 1 each time: the first is the best, three are waited out, the fifth is undone.
    assert len(done.passes) == 6 and done.met["out of patience"] == 1 and done.passes[-1].changed == []
    done = run(flips, gen_length=1, steps=1, self_correct={"most": 2})
    assert len(done.passes) == 3
    # Only the block that changed is computed in between.
    done = run(flips, gen_length=4, block_length=2, steps=2, self_correct={"full-every": 3, "most": 4}, context=8)
    assert [record.rows for record in done.passes[-4:]] == [list(range(8)), [2, 3], [2, 3], list(range(8))]


SUMI = {"architectures": ["SumiForMaskGeneration"]}


def whole(wants=None, **options):
    network = Scripted(wants, positions=12)
    network.noise = Noise(config(**SUMI), {"num_denoising_steps": 3})
    return decode(network, [BOS, 5], Options(gen_length=4, **options))


def test_whole_canvas():
    done = whole(sampler="greedy", block_exit="steps")
    assert len(done.start) == 12 and done.start[:2] == [BOS, 5] and done.start[6:8] == [END, BOS]
    assert rows(done) == [list(range(12))] * 3, "as many steps as the file says"
    assert done.tokens == [4] * 4 and done.met["changed behind the answer"] == 1
    assert len(whole(sampler="greedy").passes) == 2, "the second pass changes nothing"
    hub = {token for seed in range(40) for token in whole(sampler="greedy", seed=seed).start[2:6]}
    assert hub == set(range(VOCAB)), "all tokens are noise"
    done = whole(sampler="greedy", cache="uniform", refresh=2, steps=5, block_exit="steps")
    everything, answer = list(range(12)), [2, 3, 4, 5]
    assert rows(done) == [everything, everything, answer, everything, answer]
    # At rest after the third step, whose tokens the full pass before has not seen.
    wants = {2: lambda canvas: (6 if canvas[2] == 4 or canvas[2] == 6 else 4, 0.9)}
    done = whole(wants, sampler="greedy", cache="uniform", refresh=5, steps=9)
    assert [len(record.rows) for record in done.passes] == [12, 4, 4, 12]
    # The largest differences, wherever they are.
    done = whole({10: (6, 0.99)}, sampler="adaptive", temperature=0.0, steps=1)
    assert done.passes[0].changed == [(10, 6)] and done.met["changed behind the answer"] == 1


def test_whole_canvas_levels():
    noise = Noise(config(**SUMI))
    assert abs(noise.level(0, "linear").alpha - sigmoid(9)) < 1e-15
    assert abs(noise.level(0.5, "linear").alpha - 0.5) < 1e-12
    assert abs(noise.level(0.25, "linear").alpha - (1e-4 + 0.75 * (1 - 2e-4))) < 1e-12
    level = noise.level(0.5, "cosine")
    assert abs(sum(level.pi(token) for token in range(VOCAB)) - 1) < 1e-12 and level.pi(MASK) == level.pi(5)


def test_sumi_forward_by_hand():
    """Llama with p_i = exp(s_i) / (1 + sum exp(s_j)), as loops over rows and heads."""
    for seed in range(3):
        with tempfile.TemporaryDirectory() as scratch:
            model, _ = make_sumi_checkpoint(scratch, seed)
        s, t = model.shape, model.tensors
        tokens = np.random.default_rng(seed).integers(0, s.vocab, 7)
        h = [t["model.embed_tokens.weight"][token] for token in tokens]

        def norm(x, w):
            return w * x / np.sqrt(np.mean(x ** 2) + 1e-5)

        for i in range(s.layers):
            name, d = f"model.layers.{i}.", s.head_dim
            w = {key[len(name):]: value for key, value in t.items() if key.startswith(name)}

            def heads(x, which, turn, p):
                values = w[f"self_attn.{which}_proj.weight"] @ x + w.get(f"self_attn.{which}_proj.bias", 0)
                values = values.reshape(-1, d)
                if not turn:
                    return values
                pairs = values[:, :d // 2] + 1j * values[:, d // 2:]
                pairs = pairs * np.exp(1j * p * s.theta ** (-2 * np.arange(d // 2) / d))
                return np.concatenate([pairs.real, pairs.imag], axis=1)

            normed = [norm(x, w["input_layernorm.weight"]) for x in h]
            q, k, v = ([heads(x, which, which != "v", p) for p, x in enumerate(normed)] for which in "qkv")
            for p in range(len(h)):
                mixed = []
                for head in range(s.heads):
                    of = head // (s.heads // s.kv_heads)
                    e = np.array([np.exp(q[p][head] @ key[of] / np.sqrt(d)) for key in k])
                    mixed.append(sum(e[c] / (1 + e.sum()) * v[c][of] for c in range(len(h))))
                h[p] = h[p] + w["self_attn.o_proj.weight"] @ np.concatenate(mixed)
            for p in range(len(h)):
                x = norm(h[p], w["post_attention_layernorm.weight"])
                gate = w["mlp.gate_proj.weight"] @ x
                h[p] = h[p] + w["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (w["mlp.up_proj.weight"] @ x))
        want = [t["lm_head.weight"] @ norm(x, t["model.norm.weight"]) for x in h]
        assert np.allclose(model.logits(tokens), want, atol=1e-9)


def test_exact_is_exact():
    """prefix is none; so is uniform with R = 1 where the context is just two blocks; leaving early changes nothing."""
    for seed in range(6):
        network = Network(small(seed))
        noise = network.noise
        prompt = [token for token in range(12) if token not in noise.special][:3]
        size = 3 + (noise.bos >= 0)
        for sampler, temperature in (("adaptive", 0.0), ("adaptive", 0.7), ("ancestral", 0.9)):
            options = dict(gen_length=10, block_length=5, steps=6, context=size + 10, sampler=sampler, seed=seed,
                           temperature=temperature, ignore_eos=True, tokens_per_step=2)
            want = decode(network, prompt, Options(**options, block_exit="steps"))
            for other in (dict(cache="prefix"), dict(cache="none"), dict(cache="uniform", refresh=1),
                          dict(cache="prefix", block_exit="steps")):
                assert decode(network, prompt, Options(**options, **other)).tokens == want.tokens
        # Leaving early is exact for the approximate caches, too.
        for other in (dict(refresh=3), dict(refresh=2, boundary=(2, 3)), dict(drift=(1e-4, 3, 8))):
            options = dict(gen_length=12, block_length=4, steps=12, cache="uniform", seed=seed, ignore_eos=True) | other
            runs = [decode(network, prompt, Options(**options, block_exit=way)) for way in ("steps", "fixed-point")]
            assert runs[0].tokens == runs[1].tokens


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
