"""Checks pipelined.py: hand-computed cases, and what must equal decoding one block after the other.

    python test_pipelined.py         # or: pytest test_pipelined.py
"""
import sys

import numpy as np

import blocks
import test_reference
from pipelined import Network, Options, decode
from test_blocks import END, MASK, VOCAB, small
from test_reference import peaks


class Scripted:
    """wants(position, pass): (token, p) of the row that samples a position."""
    mask_id = MASK

    def __init__(self, wants, shifted=False):
        self.wants, self.shifted, self.passes = wants, shifted, 0

    def compute(self, canvas, numbers):
        assert len(canvas) == len(numbers)
        rows = [self.wants(position + self.shifted, self.passes) for position in range(len(canvas))]
        self.passes += 1
        return np.array([peaks([token], [p], VOCAB)[0] for token, p in rows])


def run(wants, prompt=(1, 2, 3), pipeline=(0.25, 0.75), shifted=False, **options):
    settings = {"gen_length": 8, "block_length": 4, "unmask": "dynamic=0.9", "whole_prompt": True} | options
    done = decode(Scripted(wants, shifted), list(prompt), {END}, Options(pipeline=pipeline, **settings))
    return done, [record.rows for record in done.passes], [[p for p, _ in record.committed] for record in done.passes]


def test_a_block_begins_and_is_full_by_shares():
    wants = {9: 0.95, 10: 0.85}
    _, rows, places = run(lambda position, _: (3, wants.get(position, 0.5)))
    # One of four is written: the second block begins. Three of four are: it writes in every pass.
    assert places == [[3], [4, 9], [5], [6, 10], [7], [8]]
    assert rows == [list(range(7)), *[list(range(3, 11))] * 4, list(range(7, 11))]


def test_nothing_behind_an_end_is_computed():
    done, rows, places = run(lambda position, n: (END, 0.95) if position == 8 and n == 1 else (3, 0.5),
                             pipeline=(0, 1), gen_length=16)
    assert places == [[3], [4, 8], [5], [6], [7]]
    assert [max(each) for each in rows] == [6, 10, 10, 10, 10] and done.tokens[-1] == END


def test_a_shift_computes_the_row_before_the_first_mask():
    _, rows, places = run(lambda position, _: (3, 0.9 - 0.1 * (position == 3)), shifted=True, gen_length=4)
    assert places == [[4], [5], [6], [3]]
    assert rows == [list(range(7)), *[list(range(2, 7))] * 3]


def test_whole_blocks_are_decoded_as_usual():
    for seed in range(3):
        model, ends = small(seed)
        prompt = np.random.default_rng(seed).integers(0, 90, 9).tolist()
        settings = {"gen_length": 13, "block_length": 4, "unmask": "dynamic=0.1"}
        usual = blocks.decode(blocks.Network(model), prompt, ends, blocks.Options(**settings))
        done = decode(Network(model, False), prompt, ends, Options(pipeline=(1, 1), **settings))
        assert done.tokens == usual.tokens
        assert [(p.rows, p.committed) for p in done.passes] == [(p.rows, p.committed) for p in usual.passes]


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
