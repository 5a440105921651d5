"""Tests of lock_bound.py on numbers worked out by hand."""
import math
import unittest

import numpy as np

from lock_bound import Request, Setting, bound, divergences, lockable, quantile, report


class LockBoundTest(unittest.TestCase):
    def test_nearest_rank(self):
        self.assertEqual([quantile([4, 1, 3, 2], share) for share in (0, 0.25, 0.26, 0.5, 1)], [1, 1, 2, 2, 4])
        self.assertIsNone(quantile([], 0.5))

    def test_divergence_is_from_the_pass_before_to_this_one(self):
        p, q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
        found, change = divergences(np.log(np.stack([[p], [q]])))
        self.assertTrue(math.isnan(found[0, 0]))
        self.assertAlmostEqual(found[1, 0], 0.8 * math.log(1.6) + 0.2 * math.log(0.4), places=12)
        self.assertAlmostEqual(change[1, 0], math.log(2.5), places=12)

    def test_a_row_may_lock_once_its_token_was_read(self):
        known = np.array([[True, False], [True, True], [True, True]])
        self.assertEqual(lockable(known, False, 1).tolist(), [[True, False], [True, True]])
        # Shifted: row 0 predicts position 1, known after the first pass; the last row predicts nothing.
        self.assertEqual(lockable(known, True, 1).tolist(), [[True, False], [True, True]])
        self.assertEqual(lockable(known, False, 2).tolist(), [[False, False], [True, False]])

    def test_the_bound_needs_contraction(self):
        self.assertAlmostEqual(bound(0.25, 3, 0.04), 1.2, places=12)
        self.assertIsNone(bound(1, 3, 0.04))

    def test_errors_of_contracting_rows_are_within_their_bound(self):
        # One row of the prompt whose log-odds converge geometrically: every assumption holds.
        odds = np.array([2 + 0.5 ** t for t in range(8)])
        p = 1 / (1 + np.exp(-odds))
        log_p = np.log(np.stack([p, 1 - p], axis=-1))[:, None, :]
        known = np.ones((9, 1), dtype=bool)
        request = Request(0, log_p, known, 1, False, Setting(eps=1, gate=100))
        lock, = request.locks
        self.assertEqual((lock["lock_step"], lock["steps_after"], lock["lock_position"]), (1, 6, -1))
        self.assertLess(lock["largest_contraction"], 1)
        self.assertLessEqual(lock["error"], lock["bound"])
        self.assertAlmostEqual(lock["error"], np.abs(log_p[-1, 0] - log_p[1, 0]).max(), places=12)
        own = next(row for row in report([request]) if row.get("constants") == "of the row itself")
        self.assertEqual((own["applies"], own["held"]), (1, 1))


if __name__ == "__main__":
    unittest.main()
