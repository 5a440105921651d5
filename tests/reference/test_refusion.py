"""Checks refusion.py: scripted probabilities, and what must equal plain causal decoding.

    python test_refusion.py         # or: pytest test_refusion.py
"""
import sys

import numpy as np

import test_reference
from refusion import MODES, Network, Options, decode
from test_acceleration import small
from test_reference import peaks

MASK, END, VOCAB = 9, 8, 10
PROMPT = [1, 2]  # answers begin at position 2


class Scripted:
    """masks: {position: (token, p)} of mask rows; after: {position: (token, p)} of rows with a token.

    A value may be a list, used one pass after the other (its last for all later ones), or a function of the row.
    """
    mask_id = MASK

    def __init__(self, masks, after=None):
        self.scripts, self.uses, self.sequences = (masks, after or {}), {}, []

    def logits(self, rows):
        out = []
        self.sequences.append([(row.cell.token, row.cell.position, [cell.position for cell in row.sees])
                               for row in rows])
        for row in rows:
            kind = row.cell.token != MASK
            script = self.scripts[kind].get(row.cell.position, (3, 0.9))
            if callable(script):
                script = script(row)
            if isinstance(script, list):
                use = self.uses.get((kind, row.cell.position), 0)
                self.uses[kind, row.cell.position] = use + 1
                script = script[min(use, len(script) - 1)]
            out.append(script if isinstance(script, np.ndarray) else peaks([script[0]], [script[1]], VOCAB)[0])
        return np.array(out)


def shared(*tokens):
    """Logits that share all the probability evenly among these tokens, exactly."""
    row = np.full(VOCAB, -np.inf)
    row[list(tokens)] = 0.0
    return row


def run(masks, after=None, prompt=PROMPT, **options):
    settings = {"gen_length": 4, "block_length": 4, "slot_size": 2} | options
    network = Scripted(masks, after)
    done = decode(network, prompt, {END}, Options(**settings))
    assert all(record.rows for record in done.passes)
    return done, network


def kinds(done):
    return [record.kind for record in done.passes]


def places(done):
    return [[place for place, _, _ in record.committed] for record in done.passes]


def test_everything_at_once():
    for mode in MODES:
        done, network = run({}, mode=mode)
        assert kinds(done) == ["plan", "verify"] and done.tokens == [3] * 4
        assert done.passes[0].rows == [0, 1, 2, 3, 4, 5] and done.passes[1].rows == [2, 3, 4, 5]
        assert [sees for _, _, sees in network.sequences[1]] == [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
        assert [token for token, _, _ in network.sequences[0]] == [1, 2, MASK, MASK, MASK, MASK]


def test_slots_and_blocks():
    done, _ = run({}, gen_length=11, block_length=5, slot_size=3)
    assert [record.rows for record in done.passes] == [
        [0, 1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6], [7, 8, 9, 10, 11], [7, 8, 9, 10, 11], [12], [12]]
    assert done.met["ragged slot"] == 3 and len(done.tokens) == 11


def test_thresholds_are_strict():
    half = shared(3, 4)
    for mode in MODES:
        # One slot at exactly the threshold, one above it: only that one is selected; the other one falls back.
        done, _ = run({2: half}, mode=mode)
        assert done.passes[1].rows == [4, 5] and done.passes[3].rows == [2, 3] and done.met["fallback slot"] == 1
        assert done.met["completion"] == (mode == "paper") and done.close == 0
        # A judge at exactly the threshold refuses.
        done, _ = run({3: (4, 0.9)}, {2: half}, gen_length=2, mode=mode)
        assert done.met["completion"] == 1 and done.close == 1
        done, _ = run({3: (4, 0.9)}, {2: half}, gen_length=2, mode=mode, token_threshold=0.4)
        assert kinds(done) == ["plan", "verify"] and done.tokens == [3, 4]


def test_fallback_takes_the_likeliest_then_the_leftmost():
    for mode in MODES:
        done, _ = run({2: (3, 0.3), 4: (3, 0.4)}, mode=mode, token_threshold=0.2)
        assert places(done)[:2] == [[], [4, 5]] and done.met["fallback slot"] == 2
        assert done.passes[2].rows == [2, 3]
        done, _ = run({2: (3, 0.4), 4: (3, 0.4)}, mode=mode, token_threshold=0.2)
        assert places(done)[1] == [2, 3]


def test_verify_commits_the_leading_whole_slots():
    # The judge of position 5 refuses.
    for mode in ("released", "paper"):
        done, _ = run({5: [(3, 0.9), (6, 0.9)]}, {4: (6, 0.9)}, mode=mode)
        assert kinds(done) == ["plan", "verify", "plan", "verify"] and places(done) == [[], [2, 3], [], [4, 5]]
        assert done.tokens == [3, 3, 3, 6]
    done, network = run({}, {4: (6, 0.9)}, mode="lacuna")
    # lacuna takes the judge's token at once; nobody needs its K/V.
    assert kinds(done) == ["plan", "verify"] and done.tokens == [3, 3, 3, 6] and places(done)[1] == [2, 3, 4, 5]
    assert abs(done.passes[1].committed[3][2] - 0.9) < 1e-9


def test_released_completion():
    # Slot of 4, the judge refuses offsets 1 and then 3.
    masks = {2: (3, 0.9), 3: [(3, 0.9), (5, 0.7)], 4: (3, 0.9), 5: (3, 0.9)}
    done, network = run(masks, {2: (6, 0.95), 4: (6, 0.9)}, slot_size=4, mode="released")
    assert kinds(done) == ["plan", "verify", "predict", "check", "predict", "check"]
    assert [record.rows for record in done.passes[2:]] == [[2, 3, 4, 5]] * 2 + [[4, 5]] * 2
    assert [token for token, _, _ in network.sequences[2]] == [3, MASK, MASK, MASK]
    assert [token for token, _, _ in network.sequences[4]] == [3, MASK]
    # Offset 1 is accepted as it is, offset 2 judged, offset 3 refused and then accepted as it is.
    assert done.tokens == [3, 5, 3, 3]
    assert np.allclose([p for _, _, p in done.passes[-1].committed], [0.9, 0.7, 0.9, 0.9])


def test_released_completion_goes_together():
    # The first slot is refused once, the second needs nothing; both are fed until both are full.
    done, network = run({}, {2: (6, 0.9)}, mode="released")
    assert kinds(done) == ["plan", "verify", "predict", "check"]
    assert done.passes[2].rows == [2, 3, 4, 5] and places(done)[3] == [2, 3, 4, 5]
    assert [token for token, _, _ in network.sequences[2]] == [3, MASK, 3, 3]
    assert network.sequences[2][2][2] == [0, 1], "slots do not see each other in a completion"
    # Recomputed K/V see everything before them.
    done, network = run({}, {2: (6, 0.9)}, mode="released", kv="recompute", gen_length=6)
    assert done.passes[4].rows == [2, 3, 4, 5, 6, 7] and done.passes[4].pending == 4
    assert network.sequences[4][3][2] == [0, 1, 2, 3, 4]
    done, _ = run({}, {2: (6, 0.9)}, mode="released", gen_length=6)
    assert done.passes[4].rows == [6, 7]


def test_released_end_in_verify():
    done, _ = run({4: (END, 0.9)}, gen_length=10, block_length=6, mode="released")
    assert kinds(done) == ["plan", "verify"] and done.tokens == [3, 3, END]
    # A slot before the end that was not selected is still written; the answer's gap has then closed.
    done, _ = run({2: [(3, 0.3), (3, 0.9)], 4: (END, 0.9)}, gen_length=10, block_length=6, mode="released")
    assert done.tokens == [3, 3, END] and places(done) == [[], [4], [], [2, 3]]


def test_released_index_error():
    # Selected: the second and the third slot. The second is slot c = 0 of them and ends, so M is cut from its index 0
    # on: the first slot is never written.
    masks = {2: (3, 0.3), 4: (5, 0.9), 5: [(3, 0.9), (END, 0.9)]}
    done, _ = run(masks, {4: (6, 0.9)}, gen_length=12, block_length=6, mode="released")
    assert kinds(done) == ["plan", "verify", "predict", "check"]
    assert done.met["released index error"] == 1 and done.tokens == [5, END] and places(done)[3] == [4, 5]
    # The paper's rule writes it.
    done, _ = run(masks, {4: (6, 0.9)}, gen_length=12, block_length=6, mode="paper")
    assert done.tokens == [3, 3, 5, END]


def test_released_keeps_what_is_behind_an_end():
    masks = {2: [(3, 0.3), (END, 0.9)], 4: (5, 0.9)}
    done, _ = run(masks, mode="released")
    assert done.tokens == [END, 5, 3]
    for mode in ("paper", "lacuna"):
        done, _ = run(masks, mode=mode)
        assert done.tokens == [END]


def test_paper_refuses_a_first_token():
    # p = 0.6 is selected, but not accepted; it is predicted again and then accepted as it is.
    done, network = run({2: [(3, 0.6), (5, 0.4)]}, gen_length=2, mode="paper", token_threshold=0.7)
    assert kinds(done) == ["plan", "verify", "check", "predict", "check"]
    assert [record.rows for record in done.passes] == [[0, 1, 2, 3], [2, 3], [2, 3], [2, 3], [2, 3]]
    assert done.tokens == [5, 3] and abs(done.passes[4].committed[0][2] - 0.4) < 1e-9


def test_paper_slots_go_on_their_own():
    masks = {2: (3, 0.9), 6: (3, 0.9)}
    done, network = run(masks, {2: (6, 0.9), 8: (6, 0.9)}, gen_length=8, block_length=8, slot_size=4, mode="paper")
    assert kinds(done) == ["plan", "verify", "check", "predict", "check"]
    # The first slot has one token, the second three; what is known is never fed again.
    assert done.passes[2].rows == list(range(2, 10)) and done.passes[3].rows == [3, 4, 5, 9]
    assert done.passes[4].rows == [3, 4, 5, 9] and [token for token, _, _ in network.sequences[3]] == [MASK] * 4
    assert places(done)[4] == list(range(2, 10))


def test_paper_end_in_completion():
    masks = {3: [(3, 0.9), (END, 0.9)]}
    done, _ = run(masks, {2: (6, 0.9)}, gen_length=6, block_length=6, mode="paper")
    assert done.tokens == [3, END] and places(done)[-1] == [2, 3] and done.met["end in completion"] == 1


def test_lacuna_never_draws_the_mask():
    row = np.full(VOCAB, -5.0)
    row[[MASK, 4]] = [5.0, 4.0]
    for accept in ("threshold", "exact"):
        done, _ = run({3: row}, {2: row}, gen_length=2, accept=accept)
        assert done.tokens == [3, 4]
        assert done.passes[1].committed[1][2] < 0.5  # the mask keeps its share of the probability


def test_lacuna_drops_selected_slots_behind_an_end():
    done, _ = run({3: (END, 0.9)}, {2: (END, 0.9)}, slot_size=3, gen_length=9, block_length=9)
    # Nothing after the end is fed: neither offset 2 nor later slots.
    assert [record.rows for record in done.passes] == [[*range(11)], [2, 3]] and done.tokens == [3, END]
    # The judge puts another token there: the old draft after it is fed after all.
    done, _ = run({3: (END, 0.9)}, {2: (6, 0.9)}, slot_size=3, gen_length=3, block_length=3)
    assert kinds(done) == ["plan", "verify", "fill"] and done.tokens == [3, 6, 3]
    assert done.passes[2].rows == [3, 4]


def test_lacuna_fill():
    done, network = run({}, {3: (6, 0.9), 6: (7, 0.9), 8: (7, 0.9)}, gen_length=8, block_length=8, slot_size=4,
                        fill="side-by-side")
    assert kinds(done) == ["plan", "verify", "fill", "fill"]
    # Slot one keeps one token's K/V and knows three; slot two starts again after its first token.
    assert done.passes[1].rows == list(range(2, 10))
    assert done.passes[2].rows == [4, 5, 6, 7, 8, 9]
    assert [token for token, _, _ in network.sequences[2]] == [6, 3, 3, 3, 3, 3]
    assert network.sequences[2][2][2] == [0, 1]
    # In its first fill pass position 7 is replaced, then positions 8 and 9 are judged, and 9 replaced.
    assert done.passes[3].rows == [7, 8, 9] and done.tokens == [3, 3, 6, 3, 3, 7, 3, 7]
    assert places(done)[3] == list(range(2, 10))


def test_lacuna_verifies_what_was_filled():
    # The same model confirms the second slot's tokens after the first one, the two that were taken from judges too.
    done, network = run({}, {3: (6, 0.9), 6: (7, 0.9), 8: (7, 0.9)}, gen_length=8, block_length=8, slot_size=4)
    assert kinds(done) == ["plan", "verify", "fill", "fill", "verify"]
    assert [record.rows for record in done.passes[2:]] == [[4, 5, 6, 7, 8, 9], [7, 8, 9], [6, 7, 8, 9]]
    assert places(done)[3:] == [[2, 3, 4, 5], [6, 7, 8, 9]] and done.tokens == [3, 3, 6, 3, 3, 7, 3, 7]
    assert [token for token, _, _ in network.sequences[4]] == [3, 7, 3, 7]
    assert network.sequences[4][1][2] == [0, 1, 2, 3, 4, 5, 6] and done.passes[4].pending == 0
    # A last token from the row before is pending in that pass.
    done, network = run({}, {2: (6, 0.9)})
    assert kinds(done) == ["plan", "verify", "fill", "verify"] and places(done) == [[], [], [2, 3], [4, 5]]
    assert done.passes[3].rows == [3, 4, 5] and network.sequences[3][0] == (6, 3, [0, 1, 2])


def seen(token, place):
    """For `after`: judges for `token` where position `place` is seen, else for 3."""
    return lambda row: (token if place in [cell.position for cell in row.sees] else 3, 0.9)


def test_lacuna_fills_one_slot_at_a_time_the_second_time():
    # Three slots of 3. The first is refused at offset 1. After the others the second wants another token at offset 1,
    # and it alone is then filled; the third is read a third time, confirmed, and was never fed in between.
    after = {2: (6, 0.9), 5: seen(7, 4)}
    done, network = run({}, after, gen_length=9, block_length=9, slot_size=3)
    # Row 5 of the first verify pass sees position 4 too, but the run has ended before.
    assert kinds(done) == ["plan", "verify", "fill", "verify", "fill", "verify"]
    assert [record.rows for record in done.passes[2:]] == [
        [3, 4, 5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 10], [6, 7], [8, 9, 10]]
    assert places(done)[2:] == [[2, 3, 4], [], [5, 6, 7], [8, 9, 10]] and done.tokens == [3, 6, 3, 3, 7, 3, 3, 3, 3]
    assert done.met["verified again"] == 2 and done.met["refused again"] == 1
    # The first slot is full after the verify pass: only the second one is filled.
    done, network = run({}, {2: (6, 0.9), 4: seen(7, 3)}, gen_length=4, block_length=4, slot_size=2)
    assert kinds(done) == ["plan", "verify", "fill", "verify"] and done.passes[2].rows == [4, 5]
    assert places(done) == [[], [], [2, 3], [4, 5]] and done.tokens == [3, 6, 3, 7]
    # A slot of one token takes part in no fill pass; if no other does either, there is none.
    done, network = run({}, {2: (6, 0.9)}, gen_length=4, block_length=4, slot_size=3)
    assert kinds(done) == ["plan", "verify", "fill", "verify"] and done.passes[3].rows == [5]
    done, network = run({}, {3: (6, 0.9)}, gen_length=4, block_length=4, slot_size=3)
    assert kinds(done) == ["plan", "verify", "verify"] and done.passes[2].rows == [4, 5]
    assert places(done) == [[], [2, 3, 4], [5]]


def test_lacuna_end_in_what_was_filled():
    # The second slot ends in its fill pass, which drops the third; after the first it does not end after all, so the
    # third is planned again.
    after = {2: (6, 0.9), 5: lambda row: (3 if 4 in [cell.position for cell in row.sees] else END, 0.9)}
    done, _ = run({}, after, gen_length=9, block_length=9, slot_size=3)
    assert kinds(done) == ["plan", "verify", "fill", "verify", "fill", "plan", "verify"]
    assert done.passes[2].rows == [3, 4, 5, 6, 7, 8, 9, 10] and done.passes[3].rows == [5, 6]
    assert done.passes[4].rows == [6, 7] and done.passes[5].rows == [8, 9, 10] and done.tokens == [3, 6] + [3] * 7
    # Confirmed, it ends the answer.
    done, _ = run({}, {2: (6, 0.9), 5: (END, 0.9)}, gen_length=9, block_length=9, slot_size=3)
    assert kinds(done) == ["plan", "verify", "fill", "verify"] and done.tokens == [3, 6, 3, 3, END]


def test_lacuna_owes_the_last_token():
    done, network = run({}, {2: (6, 0.9)}, gen_length=4, block_length=2)
    assert [record.rows for record in done.passes] == [[0, 1, 2, 3], [2, 3], [3, 4, 5], [4, 5]]
    assert done.passes[2].pending == 1 and network.sequences[2][0] == (6, 3, [0, 1, 2])
    done, network = run({}, {2: (6, 0.9)}, gen_length=4, block_length=2, fill="side-by-side", kv="recompute")
    assert done.passes[2].rows == [2, 3, 4, 5] and done.passes[2].pending == 2


def test_lacuna_end_in_fill():
    # The judge ends the first slot; the second one, selected with it, is dropped, done or not.
    for length in (1, 2):
        done, _ = run({}, {2: (END, 0.9)}, gen_length=2 + length)
        assert done.tokens == [3, END] and kinds(done) == ["plan", "verify"] and places(done)[1] == [2, 3]


def test_revocation():
    # All drafts are accepted, but the second of each slot is less likely than Q: each slot gives it back once.
    after = {place: shared(3, 4, 5, 6) for place in range(2, 6)}
    done, network = run({}, after, token_threshold=0.2, revoke=0.5)
    assert kinds(done) == ["plan", "verify", "plan", "verify"]
    assert places(done) == [[], [2, 4], [], [3, 5]] and done.met["revocation"] == 2
    # The second slot's cells moved, so it is pending; the first one's K/V stayed.
    assert done.passes[2].rows == [4, 3, 5] and done.passes[2].pending == 1
    assert network.sequences[2][0] == (3, 4, [0, 1, 2])
    assert network.sequences[2][1][2] == [0, 1, 2, 4]
    # A slot of k positions takes at most k goes, each of which keeps its first token.
    done, _ = run({}, after, token_threshold=0.2, revoke=0.5, slot_size=4)
    assert places(done) == [[], [2], [], [3], [], [4], [], [5]]
    # An end token that was cut off ends nothing.
    done, _ = run({3: [(END, 0.9), (5, 0.9)]}, {2: shared(3, 4, 5, END)}, token_threshold=0.2, revoke=0.5)
    assert done.tokens == [3, 5, 3, 3]


def test_revocation_restarts_what_is_being_filled():
    # The first slot stands and is cut; the second one, refused at its third token, keeps nothing of what was fed.
    after = {2: shared(3, 4), 6: (6, 0.9)}
    done, network = run({}, after, gen_length=8, block_length=8, slot_size=4, token_threshold=0.4, revoke=0.6)
    assert places(done)[1] == [2] and done.passes[2].kind == "fill" and done.passes[2].rows == [6, 7, 8, 9]
    assert [token for token, _, _ in network.sequences[2]] == [3, 6, 3, 3] and network.sequences[2][0][2] == [0, 1, 2]


def test_revocation_in_a_completion():
    # The first slot is done in the first fill pass and gives its last token back; the second one needs another pass.
    # Slots do not see each other, so it continues with what it keeps; its cells move at the end, so all of it is pending.
    after = {2: (6, 0.9), 3: shared(3, 4), 5: (7, 0.9), 6: (7, 0.9)}
    settings = dict(gen_length=6, block_length=6, slot_size=3, token_threshold=0.4, revoke=0.6)
    done, network = run({}, after, fill="side-by-side", **settings)
    assert kinds(done)[:4] == ["plan", "verify", "fill", "fill"]
    assert done.passes[2].rows == [3, 4, 5, 6, 7] and done.passes[3].rows == [6, 7]
    assert places(done)[3] == [2, 3, 5, 6, 7] and done.passes[4].rows[:4] == [5, 6, 7, 4] and done.passes[4].pending == 3
    # Verified, the first slot is cut when it is committed, and the second one is read after what is left.
    done, network = run({}, after, **settings)
    assert kinds(done)[:6] == ["plan", "verify", "fill", "fill", "verify", "plan"]
    assert places(done)[3:5] == [[2, 3], [5, 6, 7]] and done.passes[4].rows == [5, 6, 7]
    assert network.sequences[4][0][2] == [0, 1, 2, 3] and done.passes[5].rows == [4]
    # An end token that is cut off ends nothing. Verified, it was there until the commit, so it dropped the second slot.
    after = {2: (6, 0.9), 3: [(3, 0.9), (END, 0.45), (3, 0.9)]}
    done, network = run({}, after, **settings)
    assert kinds(done) == ["plan", "verify", "fill", "plan", "verify"] and done.tokens == [3, 6, 3, 3, 3, 3]
    assert places(done) == [[], [], [2, 3], [], [4, 5, 6, 7]]
    done, network = run({}, after, fill="side-by-side", **settings)
    assert places(done)[:3] == [[], [], [2, 3, 5, 6, 7]] and done.tokens == [3, 6, 3, 3, 3, 3]


def test_exact_is_left_to_right():
    for seed in range(6):
        model = small("qwen3", seed, tied=False, vocab=151)
        model.shape.mask_id = 150
        rng = np.random.default_rng(seed)
        prompt = rng.integers(0, 140, 5).tolist()
        end = int(rng.integers(0, 140))
        # Not verified with --revoke: what a verify pass accepts after a slot that is cut has seen what is cut off.
        for fill, revoke in (("verified", 0.0), ("side-by-side", 0.0), ("side-by-side", 0.3)):
            options = Options(gen_length=12, block_length=12, slot_size=4, slot_threshold=0.2, accept="exact",
                              fill=fill, kv="reuse" if fill == "verified" else "recompute", revoke=revoke)
            done = decode(Network(model), prompt, {end}, options)
            clean = list(enumerate(prompt))
            for record in done.passes:
                follow, previous = list(clean), None
                for place, token, _ in record.committed:
                    if previous is None or place != previous + 1 or (place - 5) % 4 == 0:
                        if record.kind == "fill" and fill == "side-by-side":
                            follow = list(clean)  # slots do not see each other
                        first = True
                    if not first:
                        out = model.logits([t for _, t in follow], [p for p, _ in follow])[-1]
                        out[150] = -np.inf
                        assert token == np.argmax(out)
                    follow.append((place, token))
                    first, previous = False, place
                clean += [(place, token) for place, token, _ in record.committed]


def test_one_slot_per_block_is_one_sequence():
    """With one slot per block nothing is approximate: K/V equal those of the plain causal pass over the answer."""
    for seed in range(4):
        model = small("qwen3", seed, tied=False, vocab=151)
        model.shape.mask_id = 150
        for mode in MODES:
            done = decode(Network(model), [3, 1, 4], set(), Options(mode, 12, 3, 3, token_threshold=0.05))
            whole = model.logits([3, 1, 4] + done.tokens)
            assert len(done.tokens) == 12
            for record in done.passes:
                for place, token, p in record.committed:
                    if mode == "lacuna" and (place - 3) % 3:
                        row = whole[place - 1]
                        assert abs(np.exp(row[token] - row.max()) / np.sum(np.exp(row - row.max())) - p) < 1e-9


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
