#!/usr/bin/env python3
"""Draws the README's animation: several decoders answer the same question on one time axis.

    python3 tools/draw_decoders.py          # runs build/release/lacuna, writes docs/decoders.svg

Each row of LANES is run once with `lacuna run --trace`. The traces become one SVG file that needs no script: its
animation is CSS, and without motion (prefers-reduced-motion) the file shows the last frame. Time is measured in rows
computed: a forward pass lasts as long as it has rows, on the same axis for all lanes.
"""
import argparse
import itertools
import json
import shlex
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

QUESTION = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?"

# Label, model (a folder in --models), flags of `lacuna run`. The first lane is the baseline of the comparison.
LANES = [
    ("LLaDA, uncached: one token per pass", "mini-llada", "-n 32"),
    ("LLaDA, threshold 0.9", "mini-llada", "-n 32 --unmask threshold=0.9"),
    ("LLaDA, threshold 0.9 with DualCache", "mini-llada", "-n 32 --block-length 8 --unmask threshold=0.9 --cache dual"),
    ("SDAR, block diffusion, dynamic 0.9", "mini-sdar", "-n 32 --unmask dynamic=0.9"),
    ("ReFusion, slots", "mini-refusion", "-n 32"),
]

# Colours for a light and for a dark background: accents of the lanes, used in order, and what the lanes share.
ACCENTS = [("#bf3989", "#f778ba"), ("#0969da", "#58a6ff"), ("#0f857a", "#39c5b7"), ("#8250df", "#b087ff"),
           ("#bc4c00", "#f0883e")]
NEUTRALS = {
    "card": ("#ffffff", "#0d1117"),
    "border": ("#d1d9e0", "#30363d"),
    "ink": ("#1f2328", "#f0f6fc"),
    "soft": ("#59636e", "#9198a1"),
    "mask": ("#e6eaef", "#262c36"),
}
TINT, GLOW = (0.18, 0.32), (0.7, 0.8)  # share of the accent in the cell of a token, and when it has just appeared

# Seconds: masked canvases before the first pass, the longest lane, the last frame.
LEAD, PLAY, HOLD = 1.5, 16.0, 3.5
ROUND = LEAD + PLAY + HOLD
FADE_ROUND = 0.4  # seconds in which the lanes fade in and out where a round begins and ends
FADE_IN, GLOW_OUT = 0.12, 0.9  # seconds in which a token appears, and in which its cell then fades to the tint

# Sizes in pixels at the nominal width.
WIDTH, MARGIN = 900, 24
TRACK = WIDTH - 2 * MARGIN  # width of canvases, progress bars and the axis
QUESTION_LETTERS, QUESTION_LINE = 58, 30
LANE, FOOTER = 99, 78
CELL_HEIGHT, CELL_FONT, CELL_GAP, BAR_HEIGHT = 34, 20, 2, 7
LETTER = 0.6  # width of an average letter relative to the font size, in a wide font
MAX_LETTERS = 7  # of a token in a cell
COUNTER_HEIGHT, COUNTER_STEPS = 40, 200


class DrawError(Exception):
    """An error, as one sentence for the user."""


# --- traces ---


@dataclass(frozen=True)
class Span:
    """An interval of rows computed, [begin, end), in which a cell of the answer does not change.

    `end` is None where the interval lasts to the end of the run.
    """
    position: int  # 0: the first position after the prompt
    begin: int
    end: int | None
    token: int | None = None  # None: the span says that the position exists, whatever it holds


@dataclass
class Timeline:
    """One run: the rows of each forward pass, and when each cell exists and holds which token."""
    rows: list[int] = field(default_factory=list)
    cells: list[Span] = field(default_factory=list)  # positions that exist, masked unless a token covers them
    tokens: list[Span] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    ends: frozenset[int] = frozenset()

    @property
    def total_rows(self):
        """Rows of all passes."""
        return sum(self.rows)

    @property
    def num_positions(self):
        """Positions of the answer when the canvas is longest."""
        return 1 + max((span.position for span in self.cells), default=-1)


def apply_pass(canvas, line, mask):
    """Applies a pass of a trace to `canvas` in place, in the order "length", "committed", "changed"."""

    def resize(length):
        canvas[length:] = [mask] * (length - len(canvas))

    resize(line.get("length", len(canvas)))
    commits = [(commit["position"], commit["token"]) for commit in line["committed"]]
    for position, token in commits + line.get("changed", []):
        resize(max(len(canvas), position + 1))
        canvas[position] = token


def runs(values, times):
    """Runs of equal values as (value, begin, end), without those that last no time; the last one has no end (None).

    `times[i]` is the time from which `values[i]` holds.
    """
    first = 0
    for value, equal in itertools.groupby(values):
        behind = first + len(list(equal))
        begin, end = times[first], times[behind] if behind < len(times) else None
        if begin != end:
            yield value, begin, end
        first = behind


def read_timeline(lines):
    """Timeline of the first request in the lines of a trace (docs/reference/files.md, "Traces")."""
    lines = [json.loads(line) for line in lines if line.strip()]
    first, *passes = [line for line in lines if line.get("request", 0) == 0]
    mask, prompt = first.get("mask", -1), first["prompt_tokens"]
    timeline = Timeline(ends=frozenset(first.get("ends", [])))
    canvas = list(first["canvas"])
    frames, times = [canvas[prompt:]], [0]
    for line in passes:
        apply_pass(canvas, line, mask)
        timeline.rows.append(len(line["rows"]))
        frames.append(canvas[prompt:])
        times.append(timeline.total_rows)
    for line in [first, *passes]:
        timeline.texts |= {int(token): text for token, text in line.get("pieces", {}).items()}
    for position in range(max(map(len, frames))):
        exists = [position < len(frame) for frame in frames]
        tokens = [frame[position] if position < len(frame) else mask for frame in frames]
        timeline.cells += [Span(position, begin, end) for on, begin, end in runs(exists, times) if on]
        timeline.tokens += [Span(position, begin, end, token) for token, begin, end in runs(tokens, times)
                            if token != mask]
    return timeline


def run_lane(label, model, flags, options):
    """Runs one lane with --trace and returns its Timeline."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        command = [options.lacuna, "run", "-m", Path(options.models) / model, *shlex.split(flags),
                   "-p", options.question, "--trace", trace]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise DrawError(f"{options.lacuna}: cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise DrawError(f'lane "{label}" failed: {reason}')
        try:
            return read_timeline(trace.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DrawError(f'lane "{label}": the trace cannot be read: {error!r}') from error


# --- text ---


def counted(count, noun, plural):
    """"1 pass", "2 passes"."""
    return f"{count} {noun if count == 1 else plural}"


def compared(rows, baseline):
    """How many times fewer (or more) rows than the baseline."""
    if rows == baseline:
        return "as many"
    fewer, more = baseline / max(rows, 1), rows / max(baseline, 1)
    return f"{fewer:.1f}x fewer" if fewer > 1 else f"{more:.1f}x more"


def done_label(timeline, baseline):
    """"done: 3 passes, 177 rows, 10.7x fewer"; without the ratio for the baseline itself."""
    label = f"done: {counted(len(timeline.rows), 'pass', 'passes')}, {counted(timeline.total_rows, 'row', 'rows')}"
    return label if timeline is baseline else f"{label}, {compared(timeline.total_rows, baseline.total_rows)}"


def cell_text(timeline, token):
    """Text of a token in its cell: without spaces around it, at most MAX_LETTERS long."""
    text = timeline.texts.get(token, f"<{token}>")
    text = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return text if len(text) <= MAX_LETTERS else text[:MAX_LETTERS - 1] + "…"


def number(value):
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


# --- animation ---


def percent(seconds):
    """A moment of the round as a keyframe offset."""
    return f"{number(100 * seconds / ROUND)}%"


class Animations:
    """CSS of everything that moves. Elements that appear and disappear together share one class."""

    def __init__(self, longest):
        self._longest = max(longest, 1)  # rows
        self._windows = {}  # (begin, end) in rows: class

    def window(self, begin, end):
        """Class of what is visible from `begin` to `end` rows (end None: to the end); "" if that is always."""
        if begin == 0 and end is None:
            return ""
        return self._windows.setdefault((begin, end), f"w{len(self._windows)}")

    def css(self):
        """Style rules; without motion they show the last frame."""
        start, stop = percent(LEAD), percent(LEAD + PLAY)
        moves = {  # class: what it has become at the end, and how it gets there
            "counter": (f"translateY({-COUNTER_HEIGHT * COUNTER_STEPS}px)", f"steps({COUNTER_STEPS})"),
            "head": (f"translateX({TRACK}px)", "linear"),
            "ahead": ("scaleX(0)", "linear"),
        }
        hidden = [f".{name}{{opacity:0}}" for (_, end), name in self._windows.items() if end is not None]
        names = ["round", *moves, *self._windows.values()]
        return "\n".join([
            *hidden,
            *(f".{name}{{transform:{moved}}}" for name, (moved, _) in moves.items()),
            *(f"@keyframes {name}{{0%{{transform:none}}{start}{{transform:none;animation-timing-function:{timing}}}"
              f"{stop}{{transform:{moved}}}}}" for name, (moved, timing) in moves.items()),
            f"@keyframes round{{0%,100%{{opacity:0}}{percent(FADE_ROUND)},{percent(ROUND - FADE_ROUND)}{{opacity:1}}}}",
            *(self._keyframes(begin, end, name) for (begin, end), name in self._windows.items()),
            "@media (prefers-reduced-motion:no-preference){",
            f"{','.join(f'.{name}' for name in names)}{{animation:{number(ROUND)}s linear infinite}}",
            *(f".{name}{{animation-name:{name}}}" for name in names),
            "}",
        ])

    def _seconds(self, rows):
        return LEAD + PLAY * rows / self._longest

    def _keyframes(self, begin, end, name):
        """Keyframes of a window: fade in, glow, fade out."""
        last = ROUND if end is None else self._seconds(end)
        if begin == 0:
            frames = ["0%{opacity:1}"]
        else:
            start = self._seconds(begin)
            frames = [f"0%,{percent(start)}{{opacity:0;fill:var(--glow)}}",
                       f"{percent(min(start + FADE_IN, last))}{{opacity:1;fill:var(--glow)}}",
                       f"{percent(min(start + FADE_IN + GLOW_OUT, last))}{{fill:var(--tint)}}"]
        if end is not None:
            frames.append(f"{percent(last)}{{opacity:1}}{percent(last + FADE_IN)},100%{{opacity:0}}")
        return f"@keyframes {name}{{{''.join(frames)}}}"


def blend(colour, background, share):
    """Colour "#rrggbb" that has `share` of `colour` on `background`."""
    pairs = [(int(colour[i:i + 2], 16), int(background[i:i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * top + (1 - share) * bottom):02x}" for top, bottom in pairs)


def scheme_rules(scheme):
    """CSS variables of the light (0) or the dark (1) scheme: shared ones, then those of each lane."""
    rules = ["svg{" + ";".join(f"--{name}:{colours[scheme]}" for name, colours in NEUTRALS.items()) + "}"]
    card = NEUTRALS["card"][scheme]
    for i, accents in enumerate(ACCENTS):
        accent = accents[scheme]
        tint, glow = blend(accent, card, TINT[scheme]), blend(accent, card, GLOW[scheme])
        rules.append(f".lane{i}{{--accent:{accent};--tint:{tint};--glow:{glow}}}")
    return "\n".join(rules)


def scheme_css():
    """Colours: light, and dark where the reader prefers it."""
    return f"{scheme_rules(0)}\n@media (prefers-color-scheme:dark){{\n{scheme_rules(1)}\n}}"


FONT_CSS = """\
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
.question{font-size:22px;font-weight:600}
.count{font-size:36px;font-weight:700;text-anchor:end;font-variant-numeric:tabular-nums}
.small{font-size:16px;fill:var(--soft)}
.name{font-size:18px;font-weight:600}
.done{font-size:18px;font-weight:600;text-anchor:end;fill:var(--accent)}
.cells{text-anchor:middle;fill:var(--tint)}
.mask,.masks rect{fill:var(--mask)}
.accent{fill:var(--accent)}"""


# --- drawing ---


def text_element(x, y, text, name, more=""):
    """A line of text with the CSS class `name`."""
    return f'<text class="{name}" x="{number(x)}" y="{number(y)}"{more}>{escape(text)}</text>'


def group(name, content):
    """A group of elements; without a class where `name` is empty."""
    return f'<g class="{name}">{content}</g>' if name else f"<g>{content}</g>"


class Grid:
    """Columns of the canvases, the same for every lane: each is as wide as the longest text at its position."""

    def __init__(self, timelines):
        widths = [CELL_FONT] * max(1, *(timeline.num_positions for timeline in timelines))
        for timeline in timelines:
            for span in timeline.tokens:
                if span.token not in timeline.ends:
                    letters = len(cell_text(timeline, span.token))
                    widths[span.position] = max(widths[span.position], CELL_FONT * (LETTER * letters + 0.5))
        scale = TRACK / sum(widths)
        self.font_size = CELL_FONT * min(1, scale)
        self._edges = [0, *itertools.accumulate(width * scale for width in widths)]

    def rect(self, position):
        """Box of a cell, its top at 0."""
        x, width = self._edges[position], self._edges[position + 1] - self._edges[position] - CELL_GAP
        return f'<rect x="{number(x)}" width="{number(width)}" height="{CELL_HEIGHT}" rx="4"/>'

    def center(self, position):
        """Middle of a cell."""
        return number((self._edges[position] + self._edges[position + 1] - CELL_GAP) / 2)


def draw_token(grid, timeline, span):
    """A committed token: its cell with its text, or with a dot for an end token."""
    x = grid.center(span.position)
    if span.token in timeline.ends:
        return f'{grid.rect(span.position)}<circle class="accent" cx="{x}" cy="{CELL_HEIGHT / 2:.0f}" r="2.5"/>'
    y = number(CELL_HEIGHT / 2 + 0.35 * grid.font_size)
    text = escape(cell_text(timeline, span.token))
    return grid.rect(span.position) + (f'<text x="{x}" y="{y}">{text}</text>' if text else "")


def draw_windows(spans, animations, draw):
    """The output of `draw` for each span, in one group for all spans of the same interval."""
    windows = {}
    for span in spans:
        windows.setdefault((span.begin, span.end), []).append(draw(span))
    return "\n".join(group(animations.window(*window), "".join(drawn)) for window, drawn in windows.items())


def draw_canvas(grid, timeline, animations):
    """Cells that exist as masks, and above them the tokens that fill them."""
    masks = draw_windows(timeline.cells, animations, lambda span: grid.rect(span.position))
    tokens = draw_windows(timeline.tokens, animations, lambda span: draw_token(grid, timeline, span))
    return f'<g class="masks">{masks}</g>\n<g class="cells" font-size="{number(grid.font_size)}">{tokens}</g>'


def draw_bar(timeline, longest):
    """Progress bar with one segment for each pass; a cover in the colour of the track shrinks to the right."""
    scale = TRACK / max(longest, 1)
    segments, x = [], 0
    for rows in timeline.rows:
        width = rows * scale
        segments.append(f"M{number(x)} 1h{number(max(width - 1.5, 0.6 * width))}v{BAR_HEIGHT - 2}H{number(x)}z")
        x += width
    track = f'width="{TRACK}" height="{BAR_HEIGHT}"'
    return (f'<rect class="mask" {track}/><path class="accent" d="{"".join(segments)}"/>'
            f'<g transform="translate({TRACK})"><rect class="mask ahead" x="-{TRACK}" {track}/></g>')


def draw_lane(index, label, timeline, baseline, longest, grid, animations):
    """One lane, its top at 0: name, canvas, progress bar, and what it took once it is done."""
    done = text_element(TRACK, 16, done_label(timeline, baseline), "done")
    return "\n".join([
        f'<g class="lane{index % len(ACCENTS)}" transform="translate(0 {index * LANE})">',
        text_element(0, 16, label, "name"),
        '<g class="round">',
        group(animations.window(timeline.total_rows, None), done),
        f'<g transform="translate(0 26)">{draw_canvas(grid, timeline, animations)}</g>',
        f'<g transform="translate(0 {26 + CELL_HEIGHT + 5})">{draw_bar(timeline, longest)}</g>',
        "</g></g>",
    ])


def draw_question(lines):
    """The lines of the question."""
    return "\n".join(text_element(MARGIN, 48 + i * QUESTION_LINE, line, "question") for i, line in enumerate(lines))


def draw_counter(longest):
    """Rows computed so far: a column of numbers that moves up behind a window of one line."""
    numbers = "".join(f'<tspan x="200" dy="{COUNTER_HEIGHT}">{round(i * longest / COUNTER_STEPS)}</tspan>'
                      for i in range(COUNTER_STEPS + 1))
    return (f'<svg x="{WIDTH - MARGIN - 200}" y="20" width="200" height="{COUNTER_HEIGHT}">'
            f'<text class="count counter" y="-8">{numbers}</text></svg>'
            + text_element(WIDTH - MARGIN, 78, "rows computed", "small", ' text-anchor="end"'))


def tick_step(longest):
    """The smallest of 1, 2, 5, 10, 20, 50, ... rows that gives an axis at most five ticks."""
    steps = (digit * 10 ** power for power in itertools.count() for digit in (1, 2, 5))
    return next(step for step in steps if longest <= 5 * step)


def draw_axis(longest, top):
    """Axis in rows computed, with a marker that moves along it, and a line that explains the figure."""
    ticks = [(rows, f"{rows}", "middle" if rows else "start")
             for rows in range(0, int(0.75 * longest) + 1, tick_step(longest))]
    ticks.append((longest, f"{longest} rows computed", "end"))
    drawn = []
    for rows, label, anchor in ticks:
        x = TRACK * rows / max(longest, 1)
        drawn.append(f'<path d="M{number(x)} 0v6" stroke="var(--soft)"/>'
                     + text_element(x, 24, label, "small", f' text-anchor="{anchor}"'))
    return (f'<g transform="translate({MARGIN} {top})"><path d="M0 0H{TRACK}" stroke="var(--soft)"/>'
            + "".join(drawn) + '<path class="head" d="M0 0l-6 -9h12z" fill="var(--ink)"/>'
            + text_element(0, 50, "A forward pass lasts as long as it has rows. Grey: masked. Dot: end of the answer.",
                           "small") + "</g>")


def draw(question, labels, timelines, command):
    """The SVG file for one Timeline per label; the first one is the baseline."""
    baseline, longest = timelines[0], max(timeline.total_rows for timeline in timelines)
    grid, animations = Grid(timelines), Animations(longest)
    lanes = [draw_lane(i, label, timeline, baseline, longest, grid, animations)
             for i, (label, timeline) in enumerate(zip(labels, timelines))]
    lines = textwrap.wrap(question, QUESTION_LETTERS)
    header = 48 + max(2, len(lines)) * QUESTION_LINE
    height = header + len(lanes) * LANE + FOOTER
    results = " ".join(f"{label}; {done_label(timeline, baseline)}." for label, timeline in zip(labels, timelines))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img">',
        f"<title>{escape(question)} Answered by {counted(len(lanes), 'decoder', 'decoders')}</title>",
        f"<desc>{escape(results)} Made by: {escape(command)}</desc>",
        f"<style>\n{scheme_css()}\n{FONT_CSS}\n{animations.css()}\n</style>",
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="12" fill="var(--card)" '
        'stroke="var(--border)"/>',
        draw_question(lines),
        draw_counter(longest),
        f'<g transform="translate({MARGIN} {header})">',
        *lanes,
        "</g>",
        draw_axis(longest, height - FOOTER + 6),
        "</svg>\n",
    ])


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(
        description="Draw one question answered by several decoders as an animated SVG file. LANES in this file "
        "lists the decoders.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--lacuna", default="build/release/lacuna", metavar="FILE", help="binary that runs the lanes")
    parser.add_argument("--models", default="models", metavar="FOLDER", help="folder of the models in LANES")
    parser.add_argument("--question", default=QUESTION, metavar="TEXT", help="prompt of every lane")
    parser.add_argument("--out", default="docs/decoders.svg", metavar="FILE", help="SVG file to write")
    return parser.parse_args(arguments)


def main(arguments):
    """Runs the lanes and writes the SVG file; returns the exit code."""
    options = parse_arguments(arguments)
    command = shlex.join(["python3", "tools/draw_decoders.py", *arguments])
    try:
        timelines = [run_lane(*lane, options) for lane in LANES]
        svg = draw(options.question, [label for label, _, _ in LANES], timelines, command)
        Path(options.out).write_text(svg, encoding="utf-8")
    except DrawError as error:
        print(f"draw_decoders: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"draw_decoders: {options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
