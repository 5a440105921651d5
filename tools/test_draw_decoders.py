#!/usr/bin/env python3
"""Checks draw_decoders.py on a handmade trace: python3 tools/test_draw_decoders.py"""
import contextlib
import io
import json
import re
import stat
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

import draw_decoders
from draw_decoders import Span

MASK, END, PROMPT = 9, 8, 2
PIECES = {"3": " The", "4": "<&>", "5": "pneumonoultramicroscopic", "6": "a\x07b", str(END): "<|end|>"}


def a_pass(num_rows, committed, **other):
    """A line of a pass that commits {position: token} of the answer."""
    commits = [{"position": PROMPT + position, "token": token, "confidence": 0.9}
               for position, token in committed.items()]
    return {"request": 0, "rows": list(range(num_rows)), "committed": commits} | other


def a_trace():
    """Two masked positions; the second pass adds two more and edits a token, the third masks one again."""
    start = {"request": 0, "v": 1, "prompt_tokens": PROMPT, "canvas": [1, 2, MASK, MASK], "mask": MASK, "ends": [END],
             "pieces": PIECES}
    passes = [
        a_pass(4, {0: 3, 1: 4}),
        a_pass(2, {1: 5}, length=6, changed=[[PROMPT, 6]]),
        a_pass(1, {2: END}, changed=[[PROMPT + 1, MASK]]),
        a_pass(3, {1: 4, 3: END}),
        a_pass(3, {}, length=5),
    ]
    other_request = {"request": 1, "prompt_tokens": 0, "canvas": [MASK]}
    return [json.dumps(line) for line in [start, other_request, *passes]]


class TimelineTest(unittest.TestCase):
    def setUp(self):
        self.timeline = draw_decoders.read_timeline(a_trace())

    def test_rows(self):
        self.assertEqual(self.timeline.rows, [4, 2, 1, 3, 3])
        self.assertEqual(self.timeline.total_rows, 13)
        self.assertEqual(self.timeline.num_positions, 4)

    def test_cells_follow_the_length_of_the_canvas(self):
        self.assertEqual(self.timeline.cells, [Span(0, 0, None), Span(1, 0, None), Span(2, 6, None), Span(3, 6, 13)])

    def test_tokens(self):
        self.assertEqual(self.timeline.tokens, [
            Span(0, 4, 6, 3), Span(0, 6, None, 6),  # committed, then edited by "changed"
            Span(1, 4, 6, 4), Span(1, 6, 7, 5), Span(1, 10, None, 4),  # committed twice, masked again, committed
            Span(2, 7, None, END),
            Span(3, 10, 13, END),  # until the canvas is cut
        ])

    def test_a_pass_without_rows_takes_no_time(self):
        lines = a_trace()[:1] + [json.dumps(a_pass(0, {0: 3})), json.dumps(a_pass(2, {0: 4}))]
        tokens = draw_decoders.read_timeline(lines).tokens
        self.assertEqual(tokens, [Span(0, 0, 2, 3), Span(0, 2, None, 4)])

    def test_without_a_mask_token_the_canvas_is_text_that_grows(self):
        start = {"prompt_tokens": PROMPT, "canvas": [1, 2], "mask": -1}
        lines = [json.dumps(line) for line in [start, a_pass(2, {0: 3}), a_pass(1, {1: 4})]]
        timeline = draw_decoders.read_timeline(lines)
        self.assertEqual(timeline.tokens, [Span(0, 2, None, 3), Span(1, 3, None, 4)])
        self.assertEqual(timeline.cells, [Span(0, 2, None), Span(1, 3, None)])


class TextTest(unittest.TestCase):
    def test_cell_text(self):
        timeline = draw_decoders.read_timeline(a_trace())
        texts = {token: draw_decoders.cell_text(timeline, token) for token in (3, 5, 6, 7)}
        self.assertEqual(texts, {3: "The", 5: "pneumo…", 6: "a b", 7: "<7>"})

    def test_compared(self):
        self.assertEqual(draw_decoders.compared(177, 1888), "10.7x fewer")
        self.assertEqual(draw_decoders.compared(40, 20), "2.0x more")
        self.assertEqual(draw_decoders.compared(20, 20), "as many")

    def test_done_label(self):
        baseline = draw_decoders.Timeline(rows=[10] * 10)
        self.assertEqual(draw_decoders.done_label(baseline, baseline), "done: 10 passes, 100 rows")
        self.assertEqual(draw_decoders.done_label(draw_decoders.Timeline(rows=[50]), baseline),
                         "done: 1 pass, 50 rows, 2.0x fewer")


class FigureTest(unittest.TestCase):
    def setUp(self):
        timeline = draw_decoders.read_timeline(a_trace())
        slow = draw_decoders.Timeline(rows=[20, 20])
        self.svg = draw_decoders.draw('Is 1 < 2 & "2" > 1?', ["slow", "a < b"], [slow, timeline], "draw --out <x>")

    def test_is_xml_that_explains_itself(self):
        text = "\n".join(ET.fromstring(self.svg).itertext())
        for part in ('Is 1 < 2 & "2" > 1?', "a < b", "<&>", "done: 2 passes, 40 rows",
                     "done: 5 passes, 13 rows, 3.1x fewer", "40 rows computed", "Made by: draw --out <x>"):
            self.assertIn(part, text)

    def test_every_animated_class_has_keyframes(self):
        used = set(re.findall(r'class="(w\d+)"', self.svg))
        self.assertEqual(used, set(re.findall(r"@keyframes (w\d+)", self.svg)))
        windows = {(4, 6), (6, None), (6, 7), (10, None), (7, None), (10, 13), (6, 13), (13, None), (40, None)}
        self.assertEqual(len(used), len(windows))

    def test_every_window_says_what_the_first_frame_shows(self):
        animations = draw_decoders.Animations(10)
        shown, hidden = animations.window(0, 5), animations.window(5, None)
        self.assertIn(f"@keyframes {shown}{{0%{{opacity:1}}", animations.css())
        self.assertRegex(animations.css(), rf"@keyframes {hidden}{{0%,[\d.]+%{{opacity:0")

    def test_without_motion_what_does_not_last_is_hidden(self):
        animated = self.svg.index("@media (prefers-reduced-motion:no-preference)")
        self.assertEqual(len(re.findall(r"\.w\d+{opacity:0}", self.svg[:animated])), 4)
        self.assertNotIn("animation:", self.svg[:animated])

    def test_no_script(self):
        self.assertNotIn("<script", self.svg)

    def test_size(self):
        timeline = draw_decoders.Timeline(texts={3: " answer"})
        for position in range(128):
            timeline.rows.append(150)
            timeline.cells.append(Span(position, 0, None))
            timeline.tokens.append(Span(position, timeline.total_rows, None, 3))
        svg = draw_decoders.draw("?", list("abcde"), [timeline] * 5, "")
        self.assertLess(len(svg.encode()), 150 * 1024)

    def test_nothing_computed(self):
        ET.fromstring(draw_decoders.draw("?", ["empty"], [draw_decoders.Timeline()], ""))


class CommandTest(unittest.TestCase):
    def run_with(self, binary):
        """Exit code and standard error of a run with a stand-in for the lacuna binary, a shell script."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lacuna"
            if binary is not None:
                path.write_text(f"#!/bin/sh\n{binary}\n", encoding="utf-8")
                path.chmod(path.stat().st_mode | stat.S_IXUSR)
            out = Path(folder) / "figure.svg"
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                code = draw_decoders.main(["--lacuna", str(path), "--out", str(out)])
            self.assertEqual(out.exists(), code == 0)
            return code, errors.getvalue()

    def test_writes_the_file(self):
        trace = "\n".join(a_trace())
        copy = f"for last; do :; done; cat > \"$last\" <<'TRACE'\n{trace}\nTRACE"
        self.assertEqual(self.run_with(copy), (0, ""))

    def test_a_lane_that_fails_is_one_sentence(self):
        code, errors = self.run_with("echo 'lacuna: no such model' >&2; exit 2")
        self.assertEqual(code, 1)
        self.assertEqual(errors, f'draw_decoders: lane "{draw_decoders.LANES[0][0]}" failed: lacuna: no such model\n')

    def test_a_trace_that_is_missing_or_empty(self):
        for binary in ("exit 0", 'for last; do :; done; echo > "$last"'):
            code, errors = self.run_with(binary)
            self.assertEqual((code, errors.count("\n")), (1, 1))
            self.assertIn("trace cannot be read", errors)

    def test_a_missing_binary(self):
        code, errors = self.run_with(None)
        self.assertEqual((code, errors.count("\n")), (1, 1))
        self.assertIn("cannot be run", errors)


if __name__ == "__main__":
    unittest.main()
