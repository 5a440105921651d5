"""Checks recall.py: hand-computed cases.

    python test_recall.py         # or: pytest test_recall.py
"""
import sys

import numpy as np

import test_reference
from recall import Head, Instrument, Seen, gap


def head(scores, values, prefix, see=lambda gap: None):
    """A head of one channel: row i gives cell j the weight softmax(scores)[i, j], with a query of 1 each."""
    seen = Seen([], prefix, np.shape(scores)[1])
    seen.keys[2] = np.zeros((np.shape(scores)[1], 1, 1))
    seen.values[2] = np.array(values, dtype=float)[:, None, None]
    seen.queries[2] = np.ones((len(scores), 1, 1))
    made = Head(seen, 2, 0, see)
    made.weights = np.array(scores, dtype=float)[:, None]
    made.on_prefix = made.weights[:, :, :prefix]
    return made


WEIGHTS = [[0.5, 0.25, 0, 0.25], [0, 0.125, 0.375, 0.5]]


def test_sets_are_those_of_the_block_and_of_its_rows():
    two = head(WEIGHTS, [4, 8, 0, -4], 3)
    assert two.of_block(1) == {0} and two.of_block(2) == {0, 1}
    assert two.of_rows(1) == [{0}, {2}] and two.of_rows(2) == [{0, 1}, {1, 2}]


def test_a_near_tie_is_reported():
    gaps = []
    head(WEIGHTS, [4, 8, 0, -4], 3, gaps.append).of_block(2)
    assert gaps == [0]


def test_figures_of_chosen_cells():
    two = head(WEIGHTS, [4, 8, 0, -4], 3)
    assert two.accuracy([{0, 1}] * 2, [{0, 1}, {1, 2}], 2) == 0.75
    assert np.isclose(two.mass([{1, 2}] * 2), (1 / 3 + 1) / 2)
    assert np.isclose(two.mass([{0}, {2}]), (2 / 3 + 3 / 4) / 2)
    difference, exact = two.squares([{0, 2}] * 2)
    assert np.isclose(exact, 10) and np.isclose(difference, (4 / 3 - 3) ** 2 + (-16 / 7 + 1) ** 2)
    assert np.isclose(two.squares([{0, 2}, {0, 1}])[0], (4 / 3 - 3) ** 2 + (-8 / 5 + 1) ** 2)


def test_pages_of_a_row_are_those_of_its_own_queries():
    two = head(WEIGHTS, [0] * 4, 3)
    two.keys, two.prefix = np.array([[3.0, 0], [0, 3], [1, 1], [0, 0]]), 3
    assert two.pages(np.array([[1.0, 0]]), 2, 1) == {0, 2}
    assert two.pages(np.array([[0, 1.0]]), 2, 1) == {1, 2}
    assert two.pages(np.array([[1.0, 0], [0, 1.5]]), 2, 1) == {1, 2}


def test_the_gap_of_a_block_leaves_out_what_rows_cancel():
    first, now = np.array([[3.0, 4], [3, -4]]), np.array([[3.0, 6], [3, -6]])
    assert np.allclose(gap(first, now), [2, 0.4, 0, 0])
    assert np.allclose(gap(first, first + [1, 0]), [1, 0.2, 1, 1 / 3])


def test_predictions_are_compared_where_both_steps_have_masks():
    class Recorder:
        mask_id, shifted = 3, False

    def seen(canvas, rows):
        return Seen(canvas, 0, 2, np.log(np.array(rows)))

    first = seen([3, 3], [[0.25, 0.25, 0.25, 0.25]] * 2)
    now = seen([0, 3], [[0.7, 0.1, 0.1, 0.1], [0.4, 0.2, 0.2, 0.2]])
    instrument = Instrument([1], 1, None)
    instrument.predict(Recorder, first, now, [1], {"step": 2})
    # Without the mask token 1/3 each, and 1/2, 1/4, 1/4.
    expected = 0.5 * np.log(1.5) + 2 * 0.25 * np.log(0.75)
    assert np.isclose(instrument.predictions[0]["kl"], expected)


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
