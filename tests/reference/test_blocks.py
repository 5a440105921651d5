"""Checks blocks.py: hand-computed cases, and what must equal exact attention or a plain forward pass.

    python test_blocks.py         # or: pytest test_blocks.py
"""
import sys
import tempfile

import numpy as np

import models
import test_reference
from blocks import (Active, Candidate, Chosen, Decoder, Keep, Kept, Network, Options, Pages, Remember, Reuse, Sparse, View,
                    choose, decode, largest, page_scores, stretched)
from check_blocks import FAMILIES, SHIFTED, make_block_checkpoint, random_options, random_prompt
from models import softmax
from test_reference import peaks
from uniform import RngStream

MASK, END, VOCAB = 9, 8, 10


class Scripted:
    """wants: {position: (token, p)} of the rows that draw a position, 3 with 0.9 elsewhere.

    A value may be a list, used one pass after the other, its last for all later ones.
    """
    mask_id = MASK

    def __init__(self, wants=None, shifted=False):
        self.wants, self.shifted, self.uses, self.views, self.canvases = wants or {}, shifted, {}, [], []

    def start(self, cells):
        self.cells = cells

    def compute(self, canvas, views):
        assert len(canvas) == self.cells
        self.views.append(views)
        self.canvases.append(list(canvas))
        for view in views:  # as a model of three layers, two heads and two channels would
            for layer in range(3):
                for head in range(2):
                    keys = np.arange(2.0 * view.begin).reshape(-1, 2)
                    cells = view.cells(layer, head, np.ones((len(view.rows), 1, 2)), keys)
                    view.weigh(layer, head, np.arange(len(cells)) % 7 * (1.0 + head))
        return np.array([self.row(position + self.shifted) for view in views for position in view.rows])

    def row(self, position):
        want = self.wants.get(position, (3, 0.9))
        if isinstance(want, list):
            use = self.uses[position] = self.uses.get(position, -1) + 1
            want = want[min(use, len(want) - 1)]
        return want if isinstance(want, np.ndarray) else peaks([want[0]], [want[1]], VOCAB)[0]


def run(wants=None, prompt=(1, 2), shifted=False, **options):
    network = Scripted(wants, shifted)
    settings = {"gen_length": 6, "block_length": 4} | options
    return decode(network, list(prompt), {END}, Options(**settings)), network


def kinds(done):
    return [record.kind for record in done.passes]


def rows(done):
    return [record.rows for record in done.passes]


def places(done):
    return [[position for position, _ in record.committed] for record in done.passes]


def views(network):
    """The type of each pass's last view."""
    return [type(pass_views[-1]).__name__ for pass_views in network.views]


def small(seed=0, family="sdar"):
    with tempfile.TemporaryDirectory() as scratch:
        return make_block_checkpoint(scratch, family, seed)


def candidates(probabilities, entropies=None, margins=None):
    return [Candidate(i, 3, p, (margins or probabilities)[i], (entropies or probabilities)[i])
            for i, p in enumerate(probabilities)]


def chosen(rule, count, probabilities, **other):
    stream = RngStream(1, 2, 3, 4)
    return sorted(c.position for c in choose(rule, candidates(probabilities, **other), count, stream, lambda *_: None))


# Rules


def test_rules():
    p = [0.3, 0.9, 0.6, 0.9, 0.1]
    assert chosen("low-confidence", 1, p) == [1] and chosen("low-confidence", 3, p) == [1, 2, 3]
    assert chosen("low-confidence", 9, p) == [0, 1, 2, 3, 4]
    assert chosen("sequential", 2, p) == [0, 1]
    assert chosen("margin", 2, p, margins=[0.5, 0.1, 0.2, 0.0, 0.4]) == [0, 4]
    assert chosen("entropy", 2, p, entropies=[2, 1, 0.5, 3, 0.5]) == [2, 4]
    stream = RngStream(1, 2, 3, 4)
    assert chosen("random", 2, p) == sorted(sorted(range(5), key=lambda i: -stream.uniform(i))[:2])


def test_dynamic_is_strict_and_falls_back():
    p = [0.3, 0.9, 0.6, 0.9, 0.1]
    assert chosen("dynamic=0.5", 1, p) == [1, 2, 3] and chosen("dynamic=0.9", 1, p) == [1]
    assert chosen("dynamic=0.6", 3, p) == [1, 2, 3] and chosen("dynamic=0.6", 2, p) == [1, 3]
    assert chosen("dynamic", 1, [0.85, 0.86, 0.9]) == [1, 2]
    assert chosen("dynamic=1", 1, [1.0, 1.0, 0.5]) == [0]


def test_threshold_takes_what_reaches_it():
    assert chosen("threshold=0.9", 4, [0.3, 0.9, 0.6, 0.9]) == [1, 3]
    assert chosen("threshold=0.95", 4, [0.3, 0.9, 0.6, 0.9]) == [1]


def test_factor():
    # (n + 1)(1 - c_n) <= f: 0.2, 0.6, 1.2
    assert chosen("factor=0.6", 1, [0.9, 0.8, 0.7]) == [0, 1] and chosen("factor=0.1", 1, [0.9, 0.8, 0.7]) == [0]
    assert chosen("factor=1.3", 1, [0.9, 0.8, 0.7]) == [0, 1, 2]


def test_entropy_bounded_sums_up():
    e = [0.25, 1.0, 0.125, 0.125]
    assert chosen("entropy-bounded=0.5", 1, e, entropies=e) == [2, 3]  # 0.125 + 0.125 + 0.25 is not less
    assert chosen("entropy-bounded=0.51", 1, e, entropies=e) == [0, 2, 3]
    assert chosen("entropy-bounded", 1, e, entropies=e) == [2, 3]  # less than 0.35
    assert chosen("entropy-bounded=0.01", 1, e, entropies=e) == [2]


# Canvas, passes, ends


def test_blocks_begin_at_position_0():
    done, network = run(prompt=[1, 2, 1, 2, 1, 2], gen_length=5, steps=2, commit="apart")
    assert network.cells == 12 and network.canvases[1][4:8] == [1, 2, MASK, MASK]
    assert kinds(done) == ["prefill", "denoise", "commit", "denoise", "denoise"]
    assert rows(done) == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7], [8, 9, 10, 11], [8, 9, 10, 11]]
    # Two a step whatever the prompt's tail; position 11 is denoised and cut.
    assert places(done) == [[], [6, 7], [], [8, 9], [10, 11]]
    assert done.tokens == [3] * 5
    assert [(view.begin, view.end) for view in network.views[3]] == [(8, 12)]


def test_fused_passes_hold_what_is_kept():
    done, network = run(prompt=[1, 2, 1, 2, 1, 2], gen_length=5, steps=1)
    assert kinds(done) == ["denoise"] * 2
    assert rows(done) == [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 8, 9, 10, 11]]
    assert [(view.begin, view.end) for view in network.views[1]] == [(4, 8), (8, 12)]
    assert network.canvases[1][4:8] == [1, 2, 3, 3]


def test_long_prompts_are_read_in_parts():
    done, _ = run(prompt=[1] * 1030, gen_length=2)
    assert kinds(done)[:2] == ["prefill", "denoise"]
    assert rows(done)[:2] == [list(range(1024)), list(range(1024, 1032))]
    done, _ = run(prompt=[1] * 1030, gen_length=2, commit="apart")
    assert kinds(done)[:3] == ["prefill", "prefill", "denoise"]
    assert rows(done)[:2] == [list(range(1024)), list(range(1024, 1028))]
    done, _ = run(prompt=[1] * 3000, gen_length=1, block_length=1400, unmask="threshold=0.1")
    assert rows(done)[:2] == [list(range(1400)), list(range(1400, 4200))] and kinds(done)[0] == "prefill"
    done, _ = run(prompt=[1] * 1026, gen_length=2)
    assert kinds(done)[0] == "denoise" and len(rows(done)[0]) == 1028


def test_a_mask_in_the_prompt_is_a_token():
    done, network = run(prompt=[1, MASK], gen_length=2, steps=1)
    assert places(done) == [[2, 3]] and network.canvases[0] == [1, MASK, MASK, MASK]


def test_an_empty_prompt():
    done, _ = run(prompt=[], gen_length=3, steps=1)
    assert places(done) == [[0, 1, 2, 3]] and done.tokens == [3] * 3


def test_quota_gives_one_more_to_the_first_steps():
    done, _ = run(prompt=[], gen_length=7, block_length=7, steps=3)
    assert [len(places) for places in places(done)] == [3, 2, 2]
    done, _ = run(prompt=[1, 1, 1], gen_length=4, block_length=7, steps=3)
    assert [len(places) for places in places(done)] == [3, 1]


def test_an_end_stops_when_nothing_masked_is_before_it():
    wants = {2: (3, 0.5), 3: (END, 0.95)}
    done, _ = run(wants)
    assert places(done) == [[3], [2]] and done.tokens == [3, END]
    done, _ = run({2: (END, 0.95)})
    assert places(done) == [[2]] and done.tokens == [END]
    done, _ = run({p: (END, 0.5) for p in (2, 7)}, gen_length=5)  # position 7 is none of the answer
    assert done.tokens[-1] == END and len(done.tokens) == 1
    done, _ = run({7: (END, 0.5)}, gen_length=5)
    assert done.tokens == [3] * 5
    done, _ = run({0: (END, 0.9)}, prompt=[], gen_length=8, steps=1)
    assert done.tokens == [END] and len(done.passes) == 1


# Drawing


def test_the_mask_is_never_drawn_but_counts():
    row = np.log(np.array([0.3] + [0.05] * 4 + [0.0] * 4 + [0.5]), where=np.array([1] * 5 + [0] * 4 + [1]) > 0,
                 out=np.full(10, -np.inf))
    decoder = Decoder(Scripted(), [1], {END}, Options(gen_length=3))
    decoder.values = {}
    c = decoder.candidate(row, 0, 0, 1)
    assert c.token == 0 and np.isclose(c.probability, 0.3) and np.isclose(c.margin, 0.2)
    assert np.isclose(c.entropy, -(0.3 * np.log(0.3) + 0.2 * np.log(0.05) + 0.5 * np.log(0.5)))
    decoder.options.temperature = 0.5
    c = decoder.candidate(row, 0, 0, 1)
    assert np.isclose(c.probability, [0.09, 0.0025][c.token > 0] / (0.09 + 4 * 0.0025 + 0.25))


def test_confidence_comes_before_top_k():
    decoder = Decoder(Scripted(), [1], {END}, Options(gen_length=3, temperature=1.0, top_k=1))
    decoder.values = {}
    c = decoder.candidate(peaks([4], [0.6])[0], 0, 0, 1)
    assert c.token == 4 and np.isclose(c.probability, 0.6)
    decoder.options.top_k, decoder.options.top_p = 0, 0.5
    assert decoder.candidate(peaks([4], [0.6])[0], 0, 0, 1).token == 4


def test_draws_have_their_own_noise():
    decoder = Decoder(Scripted(), [1], {END}, Options(gen_length=3, temperature=1.0, seed=7))
    decoder.values = {}
    row = np.zeros(VOCAB)
    tokens = [decoder.candidate(row, 2, 1, position).token for position in range(8)]
    noise = [[-np.log(-np.log(RngStream(7, 1, 2, 1, position).uniform(t))) for t in range(VOCAB - 1)]
             for position in range(8)]
    assert tokens == [int(np.argmax(n)) for n in noise] and len(set(tokens)) > 2


# Shift, sub-blocks, block cache


def test_position_0_is_the_best_token_of_the_pass_before():
    done, network = run({4: (5, 0.9), 8: (6, 0.9)}, prompt=[1, 2, 1, 2], gen_length=5, shifted=True, steps=1)
    assert kinds(done) == ["prefill", "denoise", "commit", "denoise"]
    assert done.passes[0].committed == [(4, 5)] and done.passes[2].committed == [(8, 6)]
    assert places(done)[1] == [5, 6, 7] and done.tokens == [5, 3, 3, 3, 6]
    done, _ = run({8: (END, 0.9)}, prompt=[1, 2, 1, 2], shifted=True, steps=1)
    assert kinds(done)[-1] == "commit" and done.tokens == [3, 3, 3, 3, END]


def test_sub_blocks_go_from_left_to_right():
    wants = {2: (3, 0.1), 3: (3, 0.2)}
    done, _ = run(wants, prompt=[1], gen_length=7, block_length=8, sub_block_length=4, shifted=True)
    assert places(done) == [[1], [3], [2], [4], [5], [6], [7]]
    assert all(record.rows == list(range(8)) for record in done.passes)
    done, _ = run(wants, prompt=[1], gen_length=7, block_length=8, sub_block_length=4, steps=2, shifted=True)
    assert places(done) == [[1, 2, 3], [4, 5, 6, 7]]
    done, _ = run(wants, prompt=[1] * 5, gen_length=3, block_length=8, sub_block_length=4, shifted=True)
    assert places(done) == [[5], [6], [7]]


def test_the_block_cache_computes_the_sub_block():
    done, _ = run(prompt=[1], gen_length=7, block_length=8, sub_block_length=4, shifted=True, cache="block")
    all_rows, left, right = list(range(8)), [0, 1, 2, 3], [4, 5, 6, 7]
    assert rows(done) == [all_rows, left, left, all_rows, right, right, right]
    assert places(done) == [[1], [2], [3], [4], [5], [6], [7]]


# Editing


def test_edits_need_another_token_above_tau():
    wants = {2: [(3, 0.9), (4, 0.6)], 3: [(3, 0.2), (3, 0.3), (5, 0.5)]}
    done, _ = run(wants, gen_length=2, edit=(0.5, 16))
    # Step 1 commits 3 and changes 2; step 2 repeats what is there, 0.5 not being above.
    assert [record.committed for record in done.passes] == [[(2, 3)], [(2, 4), (3, 3)], []]
    assert done.tokens == [4, 3]


def test_edits_end_after_most_steps():
    restless = {2: [(3, 0.9), (4, 0.9)] * 20}
    done, _ = run(restless, gen_length=1, block_length=3, edit=(0.5, 3))
    assert len(done.passes) == 4 and done.tokens == [4]
    done, _ = run(restless, gen_length=1, block_length=3, edit=(0.5, 0))
    assert len(done.passes) == 1


def test_with_edits_ends_wait_for_the_block():
    done, _ = run({2: [(END, 0.9), (4, 0.9)]}, edit=(0.5, 16), gen_length=2)
    assert done.tokens == [4, 3]
    done, _ = run({2: (END, 0.9)}, edit=(0.5, 16))
    assert done.tokens == [END] and all(record.rows == [0, 1, 2, 3] for record in done.passes)


# Sparse attention


def test_largest_takes_the_lowest_of_equals():
    cells, gap = largest(np.array([1.0, 3, 2, 3, 2]), 3)
    assert cells.tolist() == [1, 2, 3] and gap == 0
    cells, gap = largest(np.array([1.0, 4, 2, 3]), 2)
    assert cells.tolist() == [1, 3] and np.isclose(gap, 1 / 3)
    assert largest(np.array([1.0, 2]), 5)[0].tolist() == [0, 1]


def test_pages_score_as_the_mean_of_quests_own():
    rng = np.random.default_rng(3)
    queries, keys = rng.standard_normal((6, 5)), rng.standard_normal((11, 5))
    pages = [keys[0:4], keys[4:8], keys[8:11]]
    own = [np.mean([sum(max(q[c] * page[:, c].max(), q[c] * page[:, c].min()) for c in range(5)) for q in queries])
           for page in pages]
    assert np.allclose(page_scores(queries, keys, 4), own)


def test_quest_takes_the_last_page():
    keys = np.array([[9.0], [1], [5], [5], [7], [0], [-1]])  # pages of 2: 9, 5, 7, -1
    view = Pages(7, 8, [7], budget=5, page=2, see=lambda gap: None)
    assert view.cells(2, 0, np.ones((1, 1, 1)), keys).tolist() == [0, 1, 6]
    assert view.cells(1, 0, np.ones((1, 1, 1)), keys).tolist() == list(range(7))
    view.budget = 6
    assert view.cells(2, 0, np.ones((1, 1, 1)), keys).tolist() == [0, 1, 4, 5, 6]
    assert view.cells(2, 0, -np.ones((1, 1, 1)), keys).tolist() == [0, 1, 4, 5, 6]  # the least of 4 and 5 is 0
    view.budget = 2
    assert view.cells(2, 0, np.ones((1, 1, 1)), keys).tolist() == [6]


def test_mass_is_that_of_rows_and_query_heads():
    model, _ = small()
    network = Network(model)
    network.start(8)
    seen = {}

    class Watch(View):
        def cells(self, layer, head, queries, keys):
            seen[layer, head] = queries.copy(), keys.copy()
            return super().cells(layer, head, queries, keys)

        def weigh(self, layer, head, mass):
            seen[layer, head] += (mass,)

    network.compute(list(range(8)), [View(0, 4, range(4)), Watch(4, 8, range(4, 8))])
    assert len(seen) == model.shape.layers * model.shape.kv_heads
    for (layer, head), (queries, keys, mass) in seen.items():
        own = network.store.k[layer, 4:8, head]
        scores = [[softmax(np.concatenate([keys, own]) @ q / np.sqrt(model.shape.head_dim))[:4] for q in row]
                  for row in queries]
        assert np.allclose(mass, np.sum(scores, axis=(0, 1))) and len(mass) == 4


def test_mage_remembers_at_the_first_step_of_each_block():
    done, network = run(prompt=[1] * 12, gen_length=8, steps=2, sparse=Sparse("mage", 8))
    assert views(network) == ["Remember", "Chosen", "Remember", "Chosen"]
    view = network.views[1][-1]
    assert [view.cells(layer, 0, None, None).tolist() for layer in range(3)] == [
        list(range(12)), list(range(12)), [2, 3, 4, 5, 6, 9, 10, 11]]  # masses 0 to 6, then 0 to 4: 5, 6 and 2 to 4
    assert len(network.views[2]) == 2 and type(network.views[2][0]) is View
    _, network = run(prompt=[1] * 8, gen_length=8, steps=2, sparse=Sparse("mage", 8))
    assert views(network) == ["View", "View", "Remember", "Chosen"]


def test_mage_with_a_large_budget_is_exact():
    for seed in range(3):
        model, ends = small(seed)
        prompt = np.random.default_rng(seed).integers(0, 90, 23).tolist()
        plain = decode(Network(model), prompt, ends, Options(12, 8))
        for sparse in (Sparse("mage", 40), Sparse("sparsed", 40, exact=0.0), Sparse("quest", 40, page=2)):
            done = decode(Network(model), prompt, ends, Options(12, 8, sparse=sparse))
            assert done.passes == plain.passes and done.tokens == plain.tokens


def test_all_cells_chosen_is_exact():
    model, _ = small(1)
    out = []
    for view in (View(8, 12, range(8, 12)), Remember(8, 12, range(8, 12), budget=8, see=lambda gap: None)):
        network = Network(model)
        network.start(12)
        network.compute(list(range(12)), [View(0, 4, range(4)), View(4, 8, range(4, 8))])
        out.append(network.compute(list(range(12)), [view]))
    everything = Chosen(8, 12, range(8, 12), chosen=view.chosen, since=8)
    out.append(network.compute(list(range(12)), [everything]))
    pages = Pages(8, 12, range(8, 12), budget=9, page=3, see=lambda gap: None)
    out.append(network.compute(list(range(12)), [pages]))
    assert all(np.array_equal(logits, out[0]) for logits in out)


def test_a_smaller_budget_is_not_exact():
    model, ends = small(1)
    prompt = np.random.default_rng(5).integers(0, 90, 40).tolist()
    plain = decode(Network(model), prompt, ends, Options(24, 8))
    for sparse in (Sparse("mage", 4), Sparse("quest", 4, page=2), Sparse("sparsed", 4, exact=0.0)):
        assert decode(Network(model), prompt, ends, Options(24, 8, sparse=sparse)).passes != plain.passes


def test_sparsed_counts_the_steps_of_all_blocks():
    # Three blocks of four steps: floor(0.2 * 12) = 2 are exact, the third remembers.
    done, network = run(prompt=[1] * 8, gen_length=12, sparse=Sparse("sparsed", 4))
    assert views(network) == ["View"] * 2 + ["Remember"] + ["Chosen"] * 9
    last = network.views[-1][-1]
    assert last.since == 8 and last.cells(2, 1, None, None).tolist() == [3, 4, 5, 6, *range(8, 16)]
    assert last.cells(1, 1, None, None).tolist() == list(range(16))


def test_sparsed_waits_for_a_longer_prefix():
    _, network = run(prompt=[1] * 8, gen_length=12, steps=2, sparse=Sparse("sparsed", 9, exact=0.0))
    assert views(network) == ["View"] * 2 + ["Remember"] + ["Chosen"] * 3
    assert network.views[-1][-1].since == 12


def test_sparse_commits_are_apart():
    done, network = run(prompt=[1] * 12, gen_length=8, steps=2, sparse=Sparse("mage", 8), sparse_commit="sparse")
    assert kinds(done) == ["prefill", "denoise", "denoise", "commit", "denoise", "denoise"]
    assert views(network) == ["View", "Remember", "Chosen", "Chosen", "Remember", "Chosen"]
    _, network = run(prompt=[1] * 12, gen_length=8, steps=2, sparse=Sparse("quest", 8, page=4), sparse_commit="sparse")
    assert views(network) == ["View"] + ["Pages"] * 5
    _, network = run(prompt=[1] * 12, gen_length=8, steps=2, sparse=Sparse("quest", 8, page=4), commit="apart")
    assert views(network) == ["View", "Pages", "Pages", "View", "Pages", "Pages"]
    _, network = run(prompt=[1] * 12, gen_length=8, steps=2, sparse=Sparse("sparsed", 8, exact=0.5),
                     sparse_commit="sparse")
    assert views(network) == ["View"] * 4 + ["Remember", "Chosen"]  # nothing is remembered when block 3 is committed


def test_late_steps_can_be_exact_again():
    _, network = run(prompt=[1] * 12, gen_length=8, sparse=Sparse("mage", 8), sparse_after=2)
    assert views(network) == ["Remember", "Chosen", "View", "View"] * 2
    _, network = run(prompt=[1] * 12, gen_length=4, sparse=Sparse("quest", 8, page=4), sparse_after=3)
    assert views(network) == ["Pages"] * 3 + ["View"]


def test_flashblock_reuses_until_so_many_tokens_are_written():
    _, network = run(prompt=[1] * 8, gen_length=8, sparse=Sparse("flashblock", 3))
    assert views(network) == ["Keep", "Reuse", "Reuse", "Keep"] * 2
    _, network = run(prompt=[1] * 8, gen_length=4, sparse=Sparse("flashblock", 2))
    assert views(network) == ["Keep", "Reuse"] * 2
    _, network = run(prompt=[1] * 8, gen_length=4, sparse=Sparse("flashblock", 1))
    assert views(network) == ["Keep"] * 4
    _, network = run(prompt=[1] * 3, gen_length=5, sparse=Sparse("flashblock", 9), sparse_after=2)
    assert views(network) == ["View", "Keep", "Reuse", "View", "View"]  # the first block has no prefix


def test_losa_has_active_rows_behind_the_first_step():
    _, network = run(prompt=[1] * 12, gen_length=8, sparse=Sparse("losa", 12, page=4))
    assert views(network) == ["View"] * 4 + ["Keep"] + ["Active"] * 3
    assert network.views[-1][-1].count == 2  # 0.3125 of 4, rounded up


def test_what_is_kept_completes_the_attention_to_the_block():
    model, _ = small(2)
    tokens = np.random.default_rng(0).integers(0, 112, 24).tolist()
    network, where, kept = Network(model), (20, 24, range(20, 24)), Kept()
    network.start(24)
    network.compute(tokens, [View(4 * b, 4 * b + 4, range(4 * b, 4 * b + 4)) for b in range(5)])
    more = {"kept": kept, "canvas": tokens, "see": lambda *_: None, "dense_layers": 1}
    exact = network.compute(tokens, [View(*where)])
    assert np.array_equal(network.compute(tokens, [Keep(*where, **more)]), exact)
    assert np.allclose(network.compute(tokens, [Reuse(*where, **more)]), exact)
    pages = network.compute(tokens, [Pages(*where, budget=8, page=4, see=lambda *_: None, dense_layers=1)])
    every = Active(*where, budget=8, page=4, count=4, **more)
    assert np.allclose(network.compute(tokens, [every]), pages) and not np.allclose(pages, exact)
    assert np.allclose(network.compute(tokens, [Reuse(*where, **more)]), pages)  # which is kept from now on
    tokens[21] += 1
    assert not Reuse(*where, **more).adds(21) and Reuse(*where, **more).adds(22)


# Forward passes


def block_causal(model, tokens, size):
    """Logits of a whole sequence with the mask of block diffusion, without a store."""
    block = np.arange(len(tokens)) // size
    visible = block[:, None] >= block[None, :]
    return model._forward(np.asarray(tokens), np.arange(len(tokens)),
                          lambda layer, q, k, v: models.attention(q, k, v, visible))


def test_blocks_of_one_are_causal():
    model, _ = small()  # Qwen3 under its own name
    tokens = np.random.default_rng(0).integers(0, 112, 7).tolist()
    network = Network(model)
    network.start(7)
    views = [View(p, p + 1, [p]) for p in range(7)]
    assert np.allclose(network.compute(tokens, views[:4]), model.logits(tokens)[:4])
    assert np.allclose(network.compute(tokens, views[4:]), model.logits(tokens)[4:])


def test_blocks_read_each_other_as_a_whole_pass_does():
    model, _ = small(2)
    tokens = np.random.default_rng(0).integers(0, 112, 12).tolist()
    want, network = block_causal(model, tokens, 4), Network(model)
    network.start(12)
    views = [View(4 * b, 4 * b + 4, range(4 * b, 4 * b + 4)) for b in range(3)]
    assert np.allclose(network.compute(tokens, views), want)
    masked = tokens[:8] + [108] * 4
    network.compute(masked, views[2:])  # a denoise pass leaves nothing behind that the next one does not overwrite
    assert np.allclose(network.compute(tokens, views[2:]), want[8:])


def test_the_other_families_read_blocks_too():
    for family in models.BLOCK_FAMILIES:
        model, _ = small(1, family)
        tokens = np.random.default_rng(0).integers(0, 112, 12).tolist()
        network = Network(model)
        network.start(12)
        views = [View(4 * b, 4 * b + 4, range(4 * b, 4 * b + 4)) for b in range(3)]
        got = [network.compute(tokens, views[:2]), network.compute(tokens, views[2:])]
        assert np.allclose(np.concatenate(got), model.logits(tokens, block_length=4))


def test_fused_equals_apart():
    for seed in range(4):
        model, ends = small(seed)
        prompt = np.random.default_rng(seed).integers(0, 90, 13).tolist()
        fused = decode(Network(model), prompt, ends, Options(14, 4, commit="fused"))
        apart = decode(Network(model), prompt, ends, Options(14, 4, commit="apart"))
        assert fused.tokens == apart.tokens
        steps = [record.committed for record in apart.passes if record.kind == "denoise"]
        assert [record.committed for record in fused.passes] == steps


def test_soft_tokens():
    some = candidates([0.5, 0.9, 0.4, 0.9])
    assert [c.position for c in choose("soft=0.5", some, 0, None, lambda *_: None)] == [0, 1]
    assert [c.position for c in choose("soft=0.95", some, 0, None, lambda *_: None)] == [0]
    model, _ = small()
    network, tokens = Network(model), list(range(4))
    table = model.tensors["model.embed_tokens.weight"]
    network.weights = {1: 1.0, 2: 0.0, 3: 0.25}
    mixed, ids = network.mixed(tokens, range(4))
    plain, same, mask, mixture = mixed.tensors["model.embed_tokens.weight"][ids]
    assert np.array_equal(plain, table[0])
    assert np.allclose(same, table[1], rtol=1e-5) and np.allclose(mask, table[model.shape.mask_id], rtol=1e-5)
    e, m = table[3], table[model.shape.mask_id]
    assert np.isclose(np.linalg.norm(mixture), 0.25 * np.linalg.norm(e) + 0.75 * np.linalg.norm(m), rtol=1e-5)
    direction = 0.25 * e + 0.75 * m
    assert np.allclose(mixture / np.linalg.norm(mixture), direction / np.linalg.norm(direction))


def test_rope_scale():
    model, _ = small()
    d = model.shape.head_dim
    assert np.isclose(stretched(model, 4.0).shape.theta, model.shape.theta * 4 ** (d / (d - 2)))
    assert stretched(model, 1.0).shape == model.shape


def test_random_options_decode():
    for family in FAMILIES:
        model, ends = small(1, family)
        rng = np.random.default_rng(4)
        for _ in range(5):
            prompt = random_prompt(model, family, rng)
            options, _ = random_options(family, len(prompt), rng, False, False)
            done = decode(Network(model, options.rope_scale, family in SHIFTED), prompt, ends, options)
            assert 1 <= len(done.tokens) <= options.gen_length and model.shape.mask_id not in done.tokens
            assert all(record.rows == sorted(set(record.rows)) for record in done.passes)


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
