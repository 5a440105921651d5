"""Checks levenshtein.py and the block routing of models.py: hand-computed cases.

    python test_editing.py         # or: pytest test_editing.py
"""
import sys
import tempfile

import numpy as np

import levenshtein
import test_reference
from blocks import View
from levenshtein import Cell, Network, Options, confident, decode, quota, scan
from models import Model, read_shape
from random_checkpoints import make_checkpoint, make_editing_checkpoint

END, MASK, DELETE, SPLIT, VOCAB = 8, 9, 10, 11, 12


def row(*wants):
    """Logits whose softmax is p for each (token, p), the rest shared evenly."""
    rest = 1 - sum(p for _, p in wants)
    logits = np.full(VOCAB, np.log(rest / (VOCAB - len(wants))))
    for token, p in wants:
        logits[token] = np.log(p)
    return logits


class Scripted:
    """script: {position: wants} of one pass after the other; a want is (token, p), or several of them.

    A position that a pass does not name predicts 3 where the canvas is masked and its own token elsewhere, with 0.9.
    """
    mask_id, router_gap = MASK, np.inf

    def __init__(self, script):
        self.script, self.canvases = list(script), []

    def start(self, cells):
        self.cells = cells

    def compute(self, canvas, views):
        assert len(canvas) == self.cells
        number = len(self.canvases)
        self.canvases.append(list(canvas))
        wants = self.script[number] if number < len(self.script) else {}
        out = []
        for position in (position for view in views for position in view.rows):
            want = wants.get(position, (3 if canvas[position] == MASK else canvas[position], 0.9))
            out.append(row(*([want] if isinstance(want[0], int) else want)))
        return np.array(out)


def run(*script, prompt=(1, 2), **options):
    """Blocks of four, of which two positions are to be generated."""
    settings = {"gen_length": 2, "block_length": 4} | options
    return decode(Scripted(script), list(prompt), {END}, (DELETE, SPLIT), Options(**settings))


def canvases(done):
    return [record.canvas for record in done.passes]


def met(done, *names):
    return [done.met[name] for name in names]


# The scan


def scanned(tokens, written, originals=()):
    cells = [Cell(token, token == MASK, index in originals) for index, token in enumerate(tokens)]
    out, *kinds = scan(cells, written, DELETE, SPLIT, MASK)
    assert all(cell.masked == (cell.token == MASK) for cell in out)
    return [cell.token for cell in out], [index for index, cell in enumerate(out) if cell.original], kinds


def test_scan():
    assert scanned([1, 2, 3], {}, [1]) == ([1, 2, 3], [1], [0, 0])
    assert scanned([1, MASK, 3], {1: 5, 2: 6}, [1]) == ([1, 5, 6], [1], [0, 0])
    assert scanned([1, 2, 3], {1: DELETE}, [1, 2]) == ([1, 3], [1], [1, 0])
    # The mask comes before the token that the pass saw, which keeps its mark.
    assert scanned([1, 2, 3], {1: SPLIT}, [0, 1, 2]) == ([1, MASK, 2, 3], [0, 2, 3], [0, 1])
    assert scanned([1, MASK, 3], {1: SPLIT}, [1]) == ([1, MASK, MASK, 3], [2], [0, 1])
    assert scanned([1, 2, 3, 4], {0: DELETE, 1: SPLIT, 3: 5}, [3]) == ([MASK, 2, 3, 5], [3], [1, 1])
    assert scanned([1, 2], {0: DELETE, 1: DELETE}) == ([], [], [2, 0])


def test_ids_of_edits_that_no_step_wrote_are_tokens():
    assert scanned([DELETE, SPLIT, 2], {2: DELETE}) == ([DELETE, SPLIT], [], [1, 0])


# Tokens that a step writes


def test_quota():
    assert [quota(5, 3, step, 0) for step in range(3)] == [2, 2, 1]
    assert [quota(2, 4, step, 0) for step in range(4)] == [1, 1, 0, 0]
    assert quota(2, 4, 3, 2) == 2 and quota(4, 4, 0, 1) == 2


def test_confident():
    p = {2: 0.5, 3: 0.9, 5: 0.6, 7: 0.6, 8: 0.1}
    assert confident(p, 0.5, 0) == [3, 5, 7]  # strictly above
    assert confident(p, 0.5, 3) == [3, 5, 7]
    assert confident(p, 0.5, 4) == [2, 3, 5, 7] and confident(p, 0.5, 9) == [2, 3, 5, 7, 8]
    assert confident(p, 0.7, 2) == [3, 5]  # of equals the first
    assert confident(p, 0.95, 0) == [] and confident({}, 0.5, 0) == []


def test_margins():
    assert run(tau=0.9).close == 0 and run(tau=0.9001).close == 0 and run(tau=0.8).close is None
    assert run({}, {2: (4, 0.3)}, tau_edit=0.3).close == 1
    assert run({}, {2: ((3, 0.4), (4, 0.39999))}, {}).close == 1 and run({}, {2: ((3, 0.4), (4, 0.3))}).close is None
    # Between two tokens that are both too unlikely nothing hangs on which one it is.
    assert run({}, {2: ((5, 0.2), (4, 0.19999))}, tau_edit=0.5).close is None


def test_a_block_that_converges():
    done = run()
    assert done.tokens == [3, 3] and canvases(done) == [[1, 2, 3, 3]] * 2
    assert met(done, "finished by stability", "finished by most") == [1, 0] and done.close is None


def test_the_quota_fills_what_is_not_confident():
    low = {2: (4, 0.2), 3: (5, 0.3)}
    done = run(low, low, steps=2)
    assert canvases(done)[:2] == [[1, 2, MASK, 5], [1, 2, 4, 5]]
    assert canvases(run(low, steps=1))[0] == [1, 2, 4, 5]
    # After the last step all masks are filled at once.
    low = {2: (SPLIT, 0.2), 3: (5, 0.1)}
    assert canvases(run(low, {2: (4, 0.1), 3: (5, 0.1)}, steps=1))[1] == [1, 2, 4, 5]


def test_the_mask_token_counts_but_is_not_sampled():
    done = run({2: ((MASK, 0.6), (4, 0.3)), 3: ((MASK, 0.3), (5, 0.6))}, tau=0.35)
    assert canvases(done)[0] == [1, 2, MASK, 5]
    done = run({2: ((MASK, 0.6), (4, 0.36)), 3: ((MASK, 0.3), (5, 0.6))}, tau=0.35)
    assert canvases(done)[0] == [1, 2, 4, 5]


def test_tokens_are_edited_next_to_masks():
    done = run({3: (5, 0.4)}, {2: (4, 0.2), 3: (5, 0.4)}, {2: (6, 0.7), 3: (5, 0.3)}, steps=4, tau_edit=0.3)
    assert canvases(done)[0] == [1, 2, 3, MASK]
    assert canvases(done)[1] == [1, 2, 3, 5]   # 0.2 is too little, for an edit
    assert canvases(done)[2] == [1, 2, 6, 5] and len(done.passes) == 4
    done = run({3: (5, 0.4)}, {2: (4, 0.31), 3: (5, 0.1)}, tau_edit=0.3, steps=4)
    assert canvases(done)[1] == [1, 2, 4, 5] and met(done, "edits next to masks") == [1]


def test_a_deletion_shifts_what_follows():
    done = run({2: (DELETE, 0.9), 3: (5, 0.9)})
    assert canvases(done)[0] == [1, 2, 5, MASK] and canvases(done)[1] == [1, 2, 5, 3]
    assert met(done, "deletes", "padded blocks") == [1, 1]


def test_a_split_in_a_full_block_drops_the_last_token():
    done = run({2: (4, 0.9), 3: (5, 0.9)}, {2: (SPLIT, 0.9)}, {2: (6, 0.9)})
    assert canvases(done) == [[1, 2, 4, 5], [1, 2, MASK, 4], [1, 2, 6, 4], [1, 2, 6, 4]]
    assert met(done, "splits", "dropped last tokens") == [1, 1] and done.tokens == [6, 4]


def test_a_deletion_and_a_split_keep_the_length():
    done = run({2: (4, 0.9), 3: (5, 0.9)}, {2: (DELETE, 0.9), 3: (SPLIT, 0.9)})
    assert canvases(done)[1] == [1, 2, MASK, 5]
    assert met(done, "deletes", "splits", "padded blocks", "dropped last tokens") == [1, 1, 0, 0]


def test_a_step_may_write_nothing():
    low = {position: (3, 0.4) for position in range(4)}
    done = run({2: (DELETE, 0.9), 3: (5, 0.1)},  # quota 1: the other mask moves up, position 3 is a new mask
               {2: (SPLIT, 0.4), 3: (3, 0.4)},   # quota 1 + 1: a new mask, the original one, and 3 is dropped
               {2: (3, 0.41), 3: (3, 0.4)},      # quota 0 + 1
               {2: (3, 0.9), 3: (3, 0.4)},       # quota 0
               low)                              # after the last step
    assert canvases(done) == [[1, 2, MASK, MASK], [1, 2, MASK, MASK], [1, 2, 3, MASK], [1, 2, 3, MASK], [1, 2, 3, 3],
                              [1, 2, 3, 3]]
    assert met(done, "steps that fill nothing", "finished by stability") == [1, 1]


# The end of a block


def test_edits_end_after_most_steps():
    for most in (1, 2, 5):
        done = run(*[{2: (4 + number % 4, 0.9)} for number in range(40)], most=most)
        assert len(done.passes) == 1 + most and met(done, "finished by most") == [1]
    # Steps are counted from the last original mask on, whatever masks edits have made.
    done = run({2: (4, 0.9), 3: (5, 0.9)}, {2: (SPLIT, 0.9)}, {2: (6, 0.9)}, {2: (SPLIT, 0.9)}, {2: (5, 0.9)},
               {2: (SPLIT, 0.9)}, most=4)
    assert len(done.passes) == 5 and met(done, "finished by most") == [1]


def test_the_last_step_writes_no_edits():
    wants = {2: ((DELETE, 0.5), (SPLIT, 0.2), (MASK, 0.15), (6, 0.1)), 3: ((SPLIT, 0.6), (7, 0.2))}
    done = run({}, wants, most=1)
    assert canvases(done) == [[1, 2, 3, 3], [1, 2, 6, 7]]
    assert met(done, "last steps with replaced edits", "finished by most", "deletes", "splits") == [1, 1, 0, 0]
    # The current token, where that is the best other one.
    done = run({}, {2: ((DELETE, 0.5), (3, 0.4))}, most=1)
    assert canvases(done)[1] == [1, 2, 3, 3] and met(done, "finished by stability") == [1]
    # All masks are filled, confident or not.
    done = run({2: (4, 0.9), 3: (5, 0.9)}, {2: (SPLIT, 0.9)}, {2: ((SPLIT, 0.3), (6, 0.2))}, most=2, steps=1)
    assert canvases(done)[1:] == [[1, 2, MASK, 4], [1, 2, 6, 4]]


def test_without_steps_after_the_masks():
    wants = {2: ((DELETE, 0.8), (4, 0.1)), 3: (5, 0.4)}
    done = run(wants, {2: ((DELETE, 0.8), (4, 0.1))}, most=0)
    # The first step leaves a mask: its DELETE acts. The second one covers what is left of the original masks.
    assert canvases(done) == [[1, 2, MASK, MASK], [1, 2, 4, 3]]
    assert met(done, "finished by most", "deletes", "last steps with replaced edits") == [1, 1, 1]
    done = run(wants, most=0, steps=1)
    assert canvases(done) == [[1, 2, 4, 5]] and met(done, "deletes") == [0]


def test_a_block_ends_after_many_steps():
    before, levenshtein.CAP = levenshtein.CAP, 1
    done = run({2: (4, 0.4), 3: (3, 0.3)})
    levenshtein.CAP = before
    assert len(done.passes) == 1 and met(done, "capped") == [1] and done.tokens == [4, MASK] and before == 1000


# The escape


def test_escape_from_a_pair_of_states():
    full, swap = {2: (4, 0.9), 3: (5, 0.9)}, {2: ((5, 0.6), (6, 0.1)), 3: ((4, 0.5), (7, 0.2))}
    back = {2: ((4, 0.6), (7, 0.2)), 3: ((5, 0.5), (6, 0.2))}
    done = run(full, swap, back)
    # The third step would lead to where the first one led: position 3 is less sure and takes its second token.
    assert canvases(done)[:3] == [[1, 2, 4, 5], [1, 2, 5, 4], [1, 2, 4, 6]]
    assert met(done, "escapes", "tries", "second tries", "escapes in vain") == [1, 1, 0, 0]
    # Of equals the first position.
    back[3] = ((5, 0.6), (6, 0.2))
    assert canvases(run(full, swap, back))[2] == [1, 2, 7, 5]
    # The mask is not what it takes, and an edit is.
    back[2] = ((4, 0.6), (MASK, 0.2), (DELETE, 0.1))
    assert canvases(run(full, swap, back))[2] == [1, 2, 5, MASK]


def test_escape_tries_again():
    # (4, 5), (6, 5), (6, 7), then (4, 5) again; position 2 goes back to 6, which is known too, and then position 3.
    done = run({2: (4, 0.9), 3: (5, 0.9)}, {2: (6, 0.9)}, {3: (7, 0.9)},
               {2: ((4, 0.5), (6, 0.3)), 3: ((5, 0.6), (2, 0.3))})
    assert canvases(done)[3] == [1, 2, 6, 2]
    assert met(done, "escapes", "tries", "second tries", "escapes in vain") == [1, 2, 1, 0]
    assert met(done, "escapes back to the old token") == [1] and levenshtein.TRIES == 5


def test_escape_gives_up():
    # One position goes from 3 to 4 and back; its second token is the other one.
    wants = [{}, {2: ((4, 0.9), (3, 0.05))}, {2: ((3, 0.9), (4, 0.05))}]
    done = run(*wants)
    assert canvases(done)[2] == [1, 2, 4, 3] and met(done, "escapes", "escapes in vain") == [1, 1]
    assert met(done, "escapes back to the old token", "finished by stability") == [1, 1]


def test_no_escape_in_the_last_step():
    done = run({}, {2: (4, 0.9)}, {2: ((3, 0.9), (5, 0.05))}, most=2)
    assert canvases(done)[2] == [1, 2, 3, 3] and met(done, "escapes") == [0]
    assert canvases(run({}, {2: (4, 0.9)}, {2: ((3, 0.9), (5, 0.05))}))[2] == [1, 2, 5, 3]


def test_states_are_compared_before_the_scan():
    done = run({2: (DELETE, 0.9), 3: (5, 0.9)}, {3: (5, 0.9)}, {3: (DELETE, 0.9)}, {3: ((5, 0.6), (7, 0.2))})
    # The canvas after the first step comes again, by another edit; then the state of the second one does.
    assert canvases(done)[:3] == [[1, 2, 5, MASK], [1, 2, 5, 5], [1, 2, 5, MASK]]
    assert canvases(done)[3] == [1, 2, 5, 7] and met(done, "escapes") == [1]


# Blocks, ends


def test_the_prompt_is_literal():
    prompt = [END, SPLIT, MASK, DELETE, MASK, SPLIT]
    done = run({}, {4: (3, 0.9), 5: (DELETE, 0.9), 0: (3, 0.9)}, prompt=prompt)
    assert [record.kind for record in done.passes] == ["prefill", "denoise", "denoise"]
    assert all(canvas[:6] == prompt for canvas in canvases(done)) and done.tokens == [3, 3]
    assert met(done, "ended by a token", "deletes") == [0, 0]


def test_blocks_begin_at_multiples():
    done = run(prompt=[1] * 5, gen_length=5)
    assert [(record.kind, record.rows[0], len(record.rows)) for record in done.passes] == [
        ("prefill", 0, 4), ("denoise", 4, 4), ("denoise", 4, 4), ("commit", 4, 4), ("denoise", 8, 4), ("denoise", 8, 4)]
    assert len(done.tokens) == 5 and len(done.passes[0].canvas) == 12
    done = run(prompt=[1] * 4, gen_length=4)
    assert [record.kind for record in done.passes] == ["prefill", "denoise", "denoise"]


def test_the_answer_ends_in_a_finished_block():
    done = run({2: (END, 0.9)}, gen_length=6)
    assert done.tokens == [END] and len(done.passes) == 2 and met(done, "ended by a token") == [1]
    done = run({2: (END, 0.9)}, {2: (4, 0.9)}, gen_length=6)  # an end that is edited away
    assert done.tokens == [4, 3, 3, 3, 3, 3]
    done = run({}, {}, {}, {5: (END, 0.9), 6: (END, 0.9)}, gen_length=6)
    assert done.tokens == [3, 3, 3, END]
    assert run({3: (END, 0.9)}, gen_length=1).tokens == [3]  # after the length
    assert decode(Scripted([{2: (END, 0.9)}]), [1, 2], (), (DELETE, SPLIT), Options(2, 4)).tokens == [END, 3]


# Block routing


def routed(**dims):
    with tempfile.TemporaryDirectory() as scratch:
        sizes = {"layers": 1, "first_dense": 0, "experts": 4, "groups": 2, "groups_per_token": 1,
                 "experts_per_token": 2, "capacity": 2, "window": 4, "dtype": "f32"} | dims
        return make_checkpoint(scratch, "llada2", 0, tokenizer=None, **sizes)


def test_the_pool_of_a_window():
    model = routed()

    def pools(ranks, positions):
        return [np.flatnonzero(allowed).tolist() for allowed in model._pool(np.array(ranks, dtype=float), positions)]

    # The largest of a window: 9 and 8, of which the first row has none.
    rows = [[3, 2, 1, 0], [0, 0, 9, 0], [0, 8, 0, 7]]
    assert pools(rows, [0, 1, 3]) == [[1, 2]] * 3
    assert pools(rows, [3, 4, 5]) == [[0, 1], [1, 2], [1, 2]]   # windows are of positions
    assert pools(rows, [0, 4, 8]) == [[0, 1], [0, 2], [1, 3]]   # 0, 0 and 0: the lowest
    assert pools([[5, 5, 5, 5]], [0]) == [[0, 1]] and pools([[1, 5, 5, 5]], [2]) == [[1, 2]]
    assert pools([[1, 2, 0, 0], [0, 0, 2, 1]], [0, 1]) == [[1, 2]] * 2


def test_margins_of_the_pool():
    model = routed()
    model._pool(np.array([[0.5, 0.2, 0.3, 0.1], [0.1, 0.2, 0.26, 0.2]]), [0, 1])
    assert np.isclose(model.router_gap, 0.1)  # 0.3 and 0.2
    model._pool(np.array([[0.5, 0.5, 0.5, 0.1]]), [0])
    assert np.isclose(model.router_gap, 0.1)  # equal ones are no accident
    model._pool(np.array([[0.5, 0.4, 0.39, 0.1]]), [0])
    assert np.isclose(model.router_gap, 0.01)


def test_block_routing_by_hand():
    model = routed(shared=0, experts_per_token=2, capacity=3, routed_scale=2.5)
    mlp, rng = "model.layers.0.mlp.", np.random.default_rng(0)
    h = rng.standard_normal((2, model.shape.hidden))
    # Sigmoids of 0.5, 0.6, 0.7, 0.8 and 0.8, 0.7, 0.6, 0.5, and a bias that puts expert 2 last.
    scores = np.array([[0.5, 0.6, 0.7, 0.8], [0.8, 0.7, 0.6, 0.5]])
    model.tensors[mlp + "gate.weight"] = np.linalg.lstsq(h, np.log(scores / (1 - scores)), rcond=None)[0].T
    model.tensors[mlp + "gate.expert_bias"] = np.array([0, 0, -0.3, 0])
    # One window: the largest are 0.8, 0.7, 0.4, 0.8, so expert 2 is out; two each of the others.
    experts = [[3, 1], [0, 1]]
    want = [sum(scores[r, e] / scores[r, experts[r]].sum() * 2.5 * model._mlp(h[r], f"{mlp}experts.{e}.")
                for e in experts[r]) for r in range(2)]
    assert np.allclose(model._grouped_experts(h, mlp, [4, 6]), want)
    # With a pool of two, 0 and 3, both rows have to take both.
    model.shape.capacity = 2
    want = [sum(scores[r, e] / scores[r, [0, 3]].sum() * 2.5 * model._mlp(h[r], f"{mlp}experts.{e}.")
                for e in (0, 3)) for r in range(2)]
    assert np.allclose(model._grouped_experts(h, mlp, [4, 6]), want)
    # Two windows: each row has its own pool, 3 and 1, then 0 and 1.
    want = [sum(scores[r, e] / scores[r, experts[r]].sum() * 2.5 * model._mlp(h[r], f"{mlp}experts.{e}.")
                for e in experts[r]) for r in range(2)]
    assert np.allclose(model._grouped_experts(h, mlp, [3, 4]), want)


def test_a_pool_of_all_experts_is_one_group():
    model = routed(capacity=4, layers=2)
    tokens = np.random.default_rng(0).integers(0, 90, 13).tolist()
    config = {key: value for key, value in model.config.items() if key != "expert_capacity"}
    grouped = Model(config | {"n_group": 1, "topk_group": 1}, model.tensors)
    assert grouped.shape.capacity == 0
    assert np.array_equal(model.logits(tokens, block_length=8), grouped.logits(tokens, block_length=8))
    assert not np.allclose(routed(capacity=2, layers=2).logits(tokens, block_length=8),
                           grouped.logits(tokens, block_length=8))


def test_shapes_of_both_forms_of_rope():
    plain, nested = (routed(rope_object=form, theta=3e6, rotary=0.5, window=None) for form in (False, True))
    assert read_shape(plain.config) == read_shape(nested.config) and plain.shape.window == 32
    assert "rope_theta" not in nested.config and nested.config["rope_parameters"]["partial_rotary_factor"] == 0.5
    assert nested.shape.theta == 3e6 and nested.shape.rotary_dim == nested.shape.head_dim // 2
    assert all(np.array_equal(plain.tensors[name], nested.tensors[name]) for name in plain.tensors)


def test_passes_equal_a_plain_forward_pass():
    with tempfile.TemporaryDirectory() as scratch:
        model, _ = make_editing_checkpoint(scratch, 0)
    size, tokens = 2 * model.shape.window, np.random.default_rng(0).integers(0, 112, 5 * model.shape.window).tolist()
    tokens += [model.shape.mask_id] * (3 * size - len(tokens))
    network = Network(model)
    network.start(3 * size)
    views = [View(b * size, (b + 1) * size, range(b * size, (b + 1) * size)) for b in range(3)]
    got = np.concatenate([network.compute(tokens, views[:2]), network.compute(tokens, views[2:])])
    assert np.allclose(got, model.logits(tokens, block_length=size))
    assert 0 < network.router_gap < np.inf


def test_random_checkpoints_take_the_rare_paths():
    counts = levenshtein.Counter()
    for seed in range(8):
        with tempfile.TemporaryDirectory() as scratch:
            model, ends = make_editing_checkpoint(scratch, seed)
        edits = model.config["delete_token_id"], model.config["split_token_id"]
        prompt = np.random.default_rng(seed).integers(0, 112, 11).tolist()
        for most in (16, 2):
            options = Options(2 * model.shape.window, model.shape.window, most=most)
            done = decode(Network(model), prompt, ends, edits, options)
            assert len(done.tokens) <= options.gen_length
            assert done.met["capped"] or not {model.shape.mask_id, *edits} & set(done.tokens)
            counts += done.met
    for name in ("deletes", "splits", "escapes", "finished by stability", "finished by most", "ended by a token"):
        assert counts[name], name


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
