"""Tests of the figures of `lacuna analyze --json` and of log.csv, on synthetic rows."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import analysis  # noqa: E402
import figures  # noqa: E402
from errors import BookError  # noqa: E402

LOG = ["step,tokens,loss,held_out,accuracy_arithmetic,accuracy_records", "50,1000,3.5,,,", "100,2000,2.25,,0.25,0.5"]


def rows(instrument, *found):
    """Rows of one command."""
    return [{"instrument": instrument, "model": "m", **row} for row in found]


def cell(step, position, key, **more):
    """A cell of a map of drift."""
    return {"step": step, "position": position, **more, "key": key, "value": key, "count": 1}


@unittest.skipIf(figures.MISSING, f"needs numpy and matplotlib: {figures.MISSING}")
class AnalysisTest(unittest.TestCase):
    def panels(self, *cells):
        """Titles of a map's panels."""
        drawn = analysis.figure_of(rows("drift", {"region": "prompt", "drift": 1}, *cells))
        return [axes.get_title("left") for axes in drawn.axes if axes.get_title("left")]

    def test_a_chart_has_a_line_for_each_value_of_its_series(self):
        drawn = analysis.figure_of(rows("recall", {"budget": 16, "step": 1, "recall": 0.5}, {"budget": 16, "step": 2, "recall": 0.6},
                                        {"budget": 24, "step": 1, "recall": 0.7}, {"blocks": 4}))
        lines = {line.get_label(): list(line.get_ydata()) for line in drawn.axes[0].lines}
        self.assertEqual(lines, {"budget 16": [0.5, 0.6], "budget 24": [0.7]})

    def test_zeros_have_no_place_on_a_logarithmic_axis(self):
        drawn = analysis.figure_of(rows("drift", {"region": "prompt", "passes": "within", "drift": 0},
                                        {"region": "all", "passes": "within", "drift": 0.1}))
        self.assertEqual(list(drawn.axes[0].lines[0].get_ydata()), [0.1])

    def test_maps_have_a_panel_for_each_figure_layer_and_part(self):
        self.assertEqual(self.panels(cell(1, -1, 0.5), cell(1, 0, 0.1)), ["key", "value"])
        self.assertEqual(self.panels(cell(1, 0, 0.5, layer=3)), ["key, layer 3", "value, layer 3"])
        self.assertEqual(self.panels({"step": 1, "layer": 0, "part": "masked", "key": 1, "value": 0, "count": 1}),
                         ["key, masked", "value, masked"])

    def test_colours_tell_zeros_low_values_and_what_was_not_measured_apart(self):
        drawn = analysis.figure_of(rows("drift", cell(1, 0, 1.0), cell(1, 1, 0.0), cell(2, 0, 1e-9)))
        ((high, zero), (low, nothing)) = drawn.axes[0].images[0].get_array().tolist()
        self.assertGreater(high[0], 0.9)  # yellow
        self.assertEqual(zero[0], zero[1])  # grey
        self.assertLess(low[0], 0.2)  # dark blue: below five decades
        self.assertEqual(nothing[3], 0)

    def test_the_same_rows_give_the_same_text(self):
        cells = rows("drift", cell(1, -1, 0.5), cell(1, 0, 0.0))
        self.assertEqual(*(figures.to_svg(analysis.figure_of(cells)) for _ in range(2)))

    def test_a_log_gives_losses_and_the_accuracies_that_were_measured(self):
        drawn = analysis.curves(LOG)
        self.assertEqual([axes.get_title("left") for axes in drawn.axes], ["Loss", "Accuracy on unseen samples"])
        self.assertEqual([line.get_label() for line in drawn.axes[1].lines], ["arithmetic", "records"])
        self.assertEqual(len(analysis.curves(LOG[:2]).axes), 1)

    def test_what_cannot_be_drawn_is_named(self):
        for lines, message in (([], "rows of 0 commands"), (["x"], "line 1 is no row"), (["{}"], "line 1 is no row"),
                               ([json.dumps(row) for row in rows("nothing", {})], "instrument nothing; expected drift"),
                               ([json.dumps(row) for row in rows("drift", {}) + rows("lock", {})], "rows of 2 commands"),
                               ([json.dumps(row) for row in rows("drift", {"pearson": 1})], "no rows with region and drift")):
            with self.assertRaisesRegex(BookError, message):
                analysis.figure_of(analysis.read_rows(lines))
        with self.assertRaisesRegex(BookError, "no step and loss"):
            analysis.curves(["step,tokens,loss"])

    def test_the_command_reads_standard_input_or_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            log, out = Path(folder) / "log.csv", Path(folder) / "figure.svg"
            log.write_text("\n".join(LOG))
            with self.assertRaisesRegex(BookError, "ends with .svg"):
                analysis.main([str(out.with_suffix(".png")), str(log)])
            self.assertEqual(analysis.main([str(out), str(log)]), 0)
            self.assertIn("records", out.read_text())
            line = json.dumps(rows("entropy", {"step": 1, "entropy": 2, "largest_probability": 0.5})[0])
            with mock.patch("sys.stdin", io.StringIO(line + "\n")), contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(analysis.main([str(out)]), 0)
            self.assertIn("largest_probability", out.read_text())


if __name__ == "__main__":
    unittest.main()
