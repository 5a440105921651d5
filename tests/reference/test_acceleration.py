"""Checks acceleration.py: hand-computed cases, and what must equal the uncached decoders.

    python test_acceleration.py         # or: pytest test_acceleration.py
"""
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

import acceleration
import models
import samplers
import test_reference
from acceleration import CACHES, Cached, Estimate, Guide, Lock, accelerate, nearest_rank, total_rows
from random_checkpoints import make_checkpoint
from test_reference import peaks

DIFFUSION = ("llada", "llada_moe", "dream")


def small(family, seed=0, **overrides):
    with tempfile.TemporaryDirectory() as scratch:
        return make_checkpoint(Path(scratch), family, seed, tokenizer=None, **overrides)


class FakeModel(test_reference.FakeModel):
    """Its rows know the canvas of the whole sequence from the tokens that were stored before."""

    def rows(self, tokens, positions, cells, store):
        if not hasattr(store, "canvas"):
            store.canvas = np.zeros(store.cells, dtype=int)
        store.canvas[positions] = tokens
        return self.logits(store.canvas)[positions]


def spread(rows, vocab=10):
    """Logits whose row i is peaked at token i with the given confidence."""
    return peaks(range(len(rows)), rows, vocab)


def test_rows_equal_whole_forward():
    rng = np.random.default_rng(1)
    for family in models.FAMILIES:
        model = small(family)
        tokens = rng.integers(0, model.shape.vocab, 9)
        want, store = model.logits(tokens), models.Store(model.shape, 9)
        if model.shape.causal:  # a causal store may grow
            got = [model.rows(tokens[a:b], range(a, b), range(a, b), store) for a, b in ((0, 4), (4, 5), (5, 9))]
            assert np.max(np.abs(np.concatenate(got) - want)) < 1e-9
        else:
            assert np.max(np.abs(model.rows(tokens, range(9), range(9), store) - want)) < 1e-9
        some = [2, 5, 6]
        assert np.max(np.abs(model.rows(tokens[some], some, some, store) - want[some])) < 1e-9


def test_probe_leaves_the_store_alone():
    model = small("llada")
    tokens, store = np.arange(6), models.Store(model.shape, 6)
    model.rows(tokens, range(6), range(6), store)
    before = store.k.copy(), store.v.copy()
    model.rows([9, 4], [3, 4], [-1, 4], store)
    changed = [np.any(before[0][:, cell] != store.k[:, cell]) for cell in range(6)]
    assert not any(changed[:4]) and not changed[5]


def test_nearest_rank():
    assert nearest_rank([5, 1, 4, 2, 3], 20) == 1
    assert nearest_rank([5, 1, 4, 2, 3], 21) == 2
    assert nearest_rank([5, 1, 4, 2, 3], 1) == 1
    assert nearest_rank(range(100), 95) == 94


def test_divergence():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])
    assert abs(acceleration.divergence(np.log(p), np.log(q)) - 0.25 * math.log(2)) < 1e-12
    assert acceleration.divergence(np.log(p), np.log(p)) == 0


def lock_once(lock, before, now, canvas, family="llada", prompt=3):
    """Positions that lock in the second of two passes with given posteriors; nothing is committed."""
    tables = iter((before, now))
    current = {}
    model = FakeModel(lambda tokens: current["table"], family)
    network = Cached(lock=lock)
    canvas = np.array(canvas)
    network.start(model, canvas, prompt)
    for table in tables:
        current["table"] = table
        network.logits(canvas, prompt, len(canvas), canvas == 9)
        network.committed(canvas, [])
    assert network.trace[0].locked == []  # D is infinite
    return network.trace[1].locked


def test_gate_and_bound():
    canvas = [1, 2, 3, 4, 5, 9]
    steady = spread([0.9, 0.8, 0.7, 0.6, 0.5, 0.99])
    assert lock_once(Lock(gate=20), steady, steady, canvas) == [0]
    assert lock_once(Lock(gate=40), steady, steady, canvas) == [0, 1]
    assert lock_once(Lock(gate=41), steady, steady, canvas) == [0, 1, 2]
    assert lock_once(Lock(gate=None), steady, steady, canvas) == [0, 1, 2, 3, 4]
    # The mask's row has the smallest u of the six computed rows: with 20 % of 6 = 2 rows, one of them can lock.
    assert lock_once(Lock(gate=20, population="unlocked"), steady, steady, canvas) == [0]
    assert lock_once(Lock(gate=16, population="unlocked"), steady, steady, canvas) == []
    # Rows of the prompt pass without gate and are not in its population.
    assert lock_once(Lock(gate=20, prompt="eager"), steady, steady, canvas) == [0, 1, 2, 3]
    moved = spread([0.9, 0.8, 0.75, 0.6, 0.5, 0.99])
    d = 0.75 * math.log(0.75 / 0.7) + 0.25 * math.log(0.25 / 0.3)
    assert lock_once(Lock(gate=None, eps=d * 1.0001), steady, moved, canvas) == [0, 1, 2, 3, 4]
    assert lock_once(Lock(gate=None, eps=d * 0.9999), steady, moved, canvas) == [0, 1, 3, 4]
    assert lock_once(Lock(gate=None, eps=0), steady, steady, canvas) == []
    assert lock_once(Lock(gate=None, min_age=3), steady, steady, canvas) == []
    # Shifted: the row before a mask stays, the last row predicts nothing.
    assert lock_once(Lock(gate=None), steady, steady, canvas, "dream") == [0, 1, 2, 3]
    assert lock_once(Lock(gate=None), steady, steady, [1, 2, 3, 9, 5, 6], "dream") == [0, 1, 4, 5]
    # Row 2 predicts the first position of the answer, so it is not of the prompt.
    assert lock_once(Lock(gate=1, prompt="eager"), steady, steady, canvas, "dream") == [0, 1, 2]
    assert lock_once(Lock(gate=1, prompt="eager"), steady, spread([0.9, 0.8, 0.5, 0.7, 0.5, 0.99]), canvas,
                     "dream") == [0, 1]


def test_estimate():
    estimate = Estimate(delta=0.1)
    for _ in range(63):
        estimate.see(0.25, 1.0, 2.0)
    assert estimate.eps() is None
    estimate.see(0.25, 1.0, 2.0)
    assert abs(estimate.eps() - (0.1 * 0.5 / 2) ** 2) < 1e-15
    for _ in range(5):
        estimate.see(2.0, 1.0, 2.0)
    assert estimate.eps() is None


def passes_of(family, cache, **method):
    """Rows of a run that commits one position per pass: prompt of 3, two blocks of 2."""
    setting = {"gen_length": 4, "block_length": 2, "rule": "threshold=2"}
    run, network = accelerate(small(family), [1, 2, 3], setting, {"cache": cache} | method)
    return [(record.rows[0], record.rows[-1] + 1) for record in network.trace
            if len(record.rows) == record.rows[-1] + 1 - record.rows[0]]


def test_rows_of_the_policies():
    everything = (0, 7)
    assert passes_of("llada", "none") == [everything] * 4
    assert passes_of("llada", "prefix") == [everything, (3, 7), everything, (5, 7)]
    assert passes_of("llada", "dual") == [everything, (3, 5), everything, (5, 7)]
    assert passes_of("llada", "sparse-dllm") == [everything] * 4  # blocks of two passes
    assert passes_of("llada", "free") == [everything, (3, 7), (3, 7), (5, 7)]
    assert passes_of("llada", "free-literal") == [everything, (3, 7), (5, 7), (5, 7)]
    assert passes_of("llada", "free", cache_block=4) == [everything, (3, 7), (3, 7), (3, 7)]
    assert passes_of("llada", "free", refresh=2) == [everything, (3, 7), everything, (5, 7)]
    assert passes_of("llada", "dkv") == [everything] * 4
    assert passes_of("dream", "prefix") == [everything, (2, 7), everything, (4, 7)]
    assert passes_of("dream", "dual") == [everything, (2, 5), everything, (4, 7)]
    assert passes_of("dream", "free") == [everything, (2, 7), (2, 7), (4, 7)]
    assert passes_of("dream", "free-literal") == [everything, (2, 7), (4, 7), (4, 7)]


def test_settled_rows():
    """dKV-Cache computes what is masked or was committed in the last pass; Dream also the rows before them."""
    for family in DIFFUSION:
        setting = {"gen_length": 8, "rule": "threshold=2"}
        run, network = accelerate(small(family), [1, 2, 3], setting, {"cache": "dkv", "refresh": 100})
        known, last = set(range(3)), set()
        for index, record in enumerate(network.trace):
            want = set(range(11)) - (known - last)
            if family == "dream":
                want |= {p - 1 for p in want if p}
            assert set(record.rows) == (set(range(11)) if index < 2 else want)
            last = {p for p, _ in record.committed}
            known |= last


def test_rows_of_sparse_dllm():
    """Two whole passes of each block, then its own rows; with a hole in the prompt whole passes until it is filled."""
    for family, live in (("llada", 4), ("dream", 5)):
        setting = {"gen_length": 8, "block_length": 4, "rule": "threshold=2"}
        run, network = accelerate(small(family), [1, 2, 3], setting, {"cache": "sparse-dllm"})
        assert [len(record.rows) for record in network.trace] == [11, 11, live, live] * 2
        assert total_rows(network) == 2 * (2 * 11 + 2 * live)
        # 6 or 7 other cells, of which 3 are kept in each layer.
        assert all(len(cells) == 3 for cells in network.stores[0].kept.values())
        model = small(family)
        run, network = accelerate(model, [1, model.shape.mask_id, 3], setting, {"cache": "sparse-dllm"})
        filled = next(at for at, record in enumerate(network.trace) if record.committed[0][0] == 1)
        sizes = [len(record.rows) for record in network.trace[:5]]
        assert sizes == [11 if at < 2 or at <= filled else live for at in range(5)]


def test_best_cells():
    """Scores are means over heads of the mean query's products; each takes the best of its neighbours."""
    network = Cached("sparse-dllm=0.5")
    queries = np.array([[[1.0], [3.0]], [[3.0], [5.0]]])  # two rows, two heads of one number: means 2 and 4
    keys = np.array([[-9.0], [1.0], [5.0], [0.0], [9.0], [2.0], [4.0]])[:, None]  # one kv head
    cells = [1, 2, 3, 5, 6, 0]
    assert network.best(queries, keys, cells) == [1, 2, 3]  # 15 for the neighbours of cell 2, then 12 for 5 and 6
    network.pool = 1
    assert network.best(queries, keys, cells) == [2, 5, 6]
    network.keep = 0.1
    assert network.best(queries, keys, cells) == [2]


class DllmCache(samplers.WholeCanvas):
    """dLLM-Cache of LLaDA with K_r = 1: answers are computed in every step, prompts every `interval` steps and in layer 0."""

    def __init__(self, interval):
        self.interval, self.passes, self.kept, self.seen = interval, 0, {}, []

    def start(self, model, canvas, prompt_length, cfg_scale=0.0):
        self.model, self.prompt = model, prompt_length

    def logits(self, canvas, low, high, eligible):
        s, t, root = self.model.shape, self.model.tensors, "model.transformer."
        x = t[root + "wte.weight"][canvas] * (math.sqrt(s.hidden) if s.input_emb_norm else 1)
        for layer in range(s.layers):
            block = f"{root}blocks.{layer}."
            first = 0 if layer == 0 or self.passes % self.interval == 0 else self.prompt
            rows = np.arange(first, len(canvas))

            def whole(name, values):
                """With what is kept of the rows that are not computed."""
                self.kept[layer, name] = values if first == 0 else np.concatenate(
                    [self.kept[layer, name][:first], values])
                return self.kept[layer, name]

            a = models.rms_norm(x[rows], t[block + "attn_norm.weight"], s.eps)
            q, k, v = ((a @ t[f"{block}{name}_proj.weight"].T).reshape(len(rows), -1, s.head_dim) for name in "qkv")
            k = whole("k", models.rope(k, rows, s.theta))
            out = models.attention(models.rope(q, rows, s.theta), k, whole("v", v))
            x = x + whole("attention", out @ t[block + "attn_out.weight"].T)
            h = models.rms_norm(x[rows], t[block + "ff_norm.weight"], s.eps)
            names = ("ff_proj", "up_proj", "ff_out")
            x = x + whole("mlp", models.swiglu(h, *(t[f"{block}{name}.weight"] for name in names)))
        self.passes += 1
        out = models.rms_norm(x, t[root + "ln_f.weight"], s.eps)
        out = out @ t[root + ("wte.weight" if s.tied else "ff_out.weight")].T
        self.seen.append(out / (math.sqrt(s.hidden) if s.scale_logits else 1))
        return self.seen[-1]


def test_dllm_cache_whose_answers_are_always_computed_is_free_cache():
    """docs/methods/caches.md: one cache block of the answer's length, and a refresh of K_p."""
    for seed in range(4):
        model, network = small("llada", seed), DllmCache(3)
        prompt, setting = [3, 1, 4, 1, 5], {"gen_length": 12, "steps": 12, "block_length": 6}
        want = samplers.decode(model, prompt, setting, None, network)
        got = []
        free = Cached("free", 3, 12, 6)
        logits = free.logits
        free.logits = lambda *args: got.append(logits(*args)) or got[-1]
        run = samplers.decode(model, prompt, setting, None, free)
        assert run.commits == want.commits and len(got) == len(network.seen)
        assert max(np.max(np.abs(a[5:] - b[5:])) for a, b in zip(got, network.seen)) < 1e-9
        assert {len(record.rows) for record in free.trace} == {12, 17}


def settings_of(family):
    rules = ["maskgit", "margin", "entropy"] if family == "dream" else ["low-confidence"]
    for rule in rules + ["threshold=0.5", "factor=1.5"]:
        yield {"gen_length": 12, "steps": 6, "block_length": 6, "rule": rule}
    if family != "dream":
        yield {"gen_length": 8, "steps": 4, "block_length": 8, "cfg_scale": 0.7}


def test_equal_to_uncached():
    """refresh=1 makes every policy `none`; eps=0 locks nothing; `none` is the published decoder."""
    for family in DIFFUSION:
        model = small(family, 1)
        prompt = [3, 1, model.shape.mask_id, 4, 1, 5]
        for setting in settings_of(family):
            want = samplers.decode(model, prompt, setting)
            methods = [{"cache": cache, "refresh": 1} for cache in (*CACHES, "sparse-dllm")]
            methods += [{"lock": Lock(eps=0, gate=None)}]
            for method in methods:
                run, network = accelerate(model, prompt, setting, method)
                assert run.canvas == want.canvas and run.commits == want.commits, (family, setting, method)
                assert all(len(record.rows) == len(run.canvas) and not record.locked for record in network.trace)


def test_locked_rows_stay_away():
    locks = 0
    for family in DIFFUSION:
        model = small(family, 2)
        for cache in CACHES:
            setting = {"gen_length": 12, "block_length": 6, "steps": 12,
                       "rule": "maskgit" if family == "dream" else "low-confidence"}
            run, network = accelerate(model, [3, 1, 4, 1, 5], setting,
                                      {"cache": cache, "refresh": 3, "lock": Lock(eps=1.0, gate=60)})
            assert model.shape.mask_id not in run.canvas
            gone = set()
            for record in network.trace:
                assert not gone & set(record.rows)
                gone |= set(record.locked)
            locks += len(gone)
            assert total_rows(network) < len(network.trace) * len(run.canvas) or not gone
    assert locks > 50


def test_locked_values_are_what_others_read():
    """A lock in the last but one pass changes the last pass exactly as replacing that row's K/V would."""
    model = small("llada", 2)
    canvas = np.array([3, 1, 4, model.shape.mask_id, model.shape.mask_id])
    network = Cached(lock=Lock(eps=1e9, gate=None))
    network.start(model, canvas, 3)
    store = models.Store(model.shape, 5)
    model.rows(canvas, range(5), range(5), store)
    for committed in (3, None, None):
        want = set(range(5)) - set(network.locked)
        got = network.logits(canvas, 3, 5, canvas == model.shape.mask_id)
        reference = model.rows(canvas[sorted(want)], sorted(want), sorted(want), store)
        assert np.max(np.abs(got[sorted(want)] - reference)) < 1e-9
        if committed is not None:
            canvas[committed] = 7
        network.committed(canvas, [] if committed is None else [committed])
    assert network.trace[1].locked == [0, 1, 2, 3] and network.trace[2].rows == [4]


def test_unlocking():
    model = small("llada", 2)
    setting = {"gen_length": 16, "steps": 16}
    lock = Lock(eps=3.0, gate=None, unlock_every=1, unlock_eps=0.0, interval=1, cooldown=2, strictness=1.0, budget=3)
    run, network = accelerate(model, [3, 1, 4, 1, 5], setting, {"lock": lock})
    locked, freed, unlocks = {}, {}, 0
    for now, record in enumerate(network.trace):
        assert len(record.probed) <= 3 and set(record.probed) <= set(locked)
        for row in record.unlocked:
            assert row in record.probed and now - locked.pop(row) > 1
            freed[row], unlocks = now, unlocks + 1
        for row in record.locked:
            assert row not in locked and now - freed.get(row, -9) > 2
            locked[row] = now
    assert unlocks > 5
    # A probe that finds nothing changes nothing but the count of rows.
    lock = Lock(eps=3.0, gate=None)
    quiet, _ = accelerate(model, [3, 1, 4, 1, 5], setting, {"lock": lock})
    watched = Lock(eps=3.0, gate=None, unlock_every=2, unlock_eps=1e9)
    other, network = accelerate(model, [3, 1, 4, 1, 5], setting, {"lock": watched})
    assert quiet.canvas == other.canvas and any(record.probed for record in network.trace)


def test_guide_accepts():
    margins = samplers.Margins()
    row = np.log(np.array([0.1, 0.4, 0.1, 0.3, 0.1]))

    def judge(match, draft, logit=0.0):
        return acceleration.accepted(match, row, draft, logit, margins)

    assert [judge("exact", d) for d in range(5)] == [False, True, False, False, False]
    assert [judge("top-k=2", d) for d in range(5)] == [False, True, False, True, False]
    assert [judge("top-k=3", d) for d in range(5)] == [True, True, False, True, False]  # ties to the lowest id
    assert [judge("relative=0.7", d) for d in range(5)] == [False, True, False, True, False]
    assert [judge("relative=0.8", d) for d in range(5)] == [False, True, False, False, False]
    best = math.log(0.4)
    assert judge("tau-literal=0.5", 0, 0.5 * best + 1e-3) and not judge("tau-literal=0.5", 0, 0.5 * best - 1e-3)


def test_guide_rounds():
    guide_model = small("qwen2", 3, vocab=151)
    for family in DIFFUSION:
        model = small(family, 3, vocab=151)
        prompt, setting = [3, 1, 4, 1, 5], {"gen_length": 10}
        whole = model.logits(prompt + [model.shape.mask_id] * 10)
        best = np.argmax(samplers.shift_right(whole) if family == "dream" else whole, axis=-1)
        # A guide that agrees with everything commits the drafts of the first pass.
        run, network = accelerate(model, prompt, setting, {"guide": Guide(guide_model, "top-k=151", block=4)})
        assert run.tokens == best[5:].tolist()
        assert [(r.kind, r.rows) for r in network.trace[1:]] == [
            ("verify", list(range(0, 8))), ("verify", list(range(8, 12))), ("verify", list(range(12, 14)))]
        # One that agrees with nothing leaves one draft per round.
        run, network = accelerate(model, prompt, setting, {"guide": Guide(guide_model, "tau-literal=1e9")})
        assert [r.committed[0][0] for r in network.trace if r.kind == "verify"] == list(range(5, 15))
        assert [r.rows for r in network.trace if r.kind == "verify"][1] == list(range(5, 14))
        # Exact with the guide's own correction is the guide's greedy decode.
        run, network = accelerate(model, prompt, setting, {"guide": Guide(guide_model, "exact", "ar", 4)})
        assert run.tokens == samplers.greedy_generate(guide_model, prompt, 10).tokens
        # Caches and blocks beneath change the drafts, not that.
        for cache in CACHES:
            run, network = accelerate(model, prompt, setting | {"block_length": 5},
                                      {"guide": Guide(guide_model, "exact", "ar"), "cache": cache,
                                       "lock": Lock(eps=1.0, gate=None)})
            assert run.tokens == samplers.greedy_generate(guide_model, prompt, 10).tokens
            assert all(len(r.committed) == 0 for r in network.trace if r.kind == "draft")


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
