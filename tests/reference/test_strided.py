"""Checks strided.py: hand-computed cases, and that drafts never change the text.

    python test_strided.py         # or: pytest test_strided.py
"""
import sys
import tempfile
from types import SimpleNamespace

import test_reference
from random_borrowed import make_idlm_checkpoint
from strided import Options, decode
from test_reference import peaks

MASK, END, VOCAB = 3, 1, 40


class Scripted:
    """Row p of a token predicts text(p + 1), of a mask drafted(p + 1)."""

    config, shape = {"block_size": 3, "eos_token_id": END}, SimpleNamespace(mask_id=MASK)

    def __init__(self, text=lambda p: 10 + p, drafted=lambda p: 10 + p):
        self.text, self.drafted = text, drafted

    def logits(self, tokens):
        wants = [(self.drafted if token == MASK else self.text)(p + 1) for p, token in enumerate(tokens)]
        return peaks(wants, [0.9] * len(wants), VOCAB)


def run(model, **options):
    return decode(model, [5, 6, 7], Options(**{"gen_length": 8} | options))


def rows(done):
    return [record.rows for record in done.passes]


def test_accepted_drafts():
    done = run(Scripted())
    assert done.tokens == list(range(13, 21)) and [p.kind for p in done.passes] == ["prefill", "verify", "verify"]
    # The drafts of 4 to 6 follow the token 3; of 8 to 10 the token 7. No row stands on 10, the answer's last position.
    assert rows(done) == [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8, 9], [7, 8, 9]]
    assert [len(p.committed) for p in done.passes] == [1, 4, 3] and done.met["all accepted"] == 1


def test_rejected_drafts():
    done = run(Scripted(drafted=lambda p: 20 + p if p == 5 else 10 + p))
    assert done.tokens == list(range(13, 21))
    assert [p.committed for p in done.passes[:2]] == [[(3, 13)], [(4, 14), (5, 15)]]
    assert [p.kind for p in done.passes] == ["prefill", "verify", "decode", "verify"]
    assert rows(done)[1:3] == [[3, 4, 5, 6, 7, 8, 9], [5, 6, 7, 8]], "the draft of 5 was wrong, its row is computed again"


def test_block_lengths():
    done = run(Scripted(), block_length=1)
    assert rows(done) == [[0, 1, 2], [3], [4], [5], [6], [7], [8], [9]] and done.passes[1].kind == "decode"
    assert rows(run(Scripted(), block_length=50)) == [list(range(10)), list(range(3, 10))]
    assert rows(run(Scripted(), gen_length=1)) == [[0, 1, 2]]


def test_ends():
    done = run(Scripted(text=lambda p: END if p == 5 else 10 + p))
    assert done.tokens == [13, 14, END] and done.passes[-1].committed == [(4, 14), (5, END)]
    assert run(Scripted(text=lambda p: END if p == 5 else 10 + p), ignore_eos=True).tokens == [13, 14, END, *range(16, 21)]
    assert run(Scripted(drafted=lambda p: END)).tokens == list(range(13, 21)), "a draft alone ends nothing"


def test_long_prompts():
    done = decode(Scripted(lambda p: p % 7 + 20, lambda p: p % 7 + 20), [5] * 1030, Options(gen_length=2))
    assert [(p.rows[0], p.rows[-1]) for p in done.passes] == [(0, 1023), (1024, 1030), (1030, 1030)]


def test_drafts_never_change_the_text():
    for seed in range(4):
        with tempfile.TemporaryDirectory() as scratch:
            model = make_idlm_checkpoint(scratch, seed)
        for temperature, top_p in ((0.0, 1.0), (0.9, 1.0), (0.8, 0.9)):
            options = dict(gen_length=14, temperature=temperature, top_p=top_p, seed=seed)
            texts = [decode(model, [5, 6, 7], Options(block_length=n, **options)).tokens for n in (1, 2, 4, 9)]
            assert all(text == texts[0] for text in texts)


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
