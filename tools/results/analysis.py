"""Figures of what `lacuna analyze --json` prints, and of a trainer's log.csv: `python3 tools/results draw FIGURE.svg [FILE]`."""
import argparse
import csv
import json
import sys
from collections import namedtuple
from pathlib import Path

import figures
from errors import BookError

# Rows that have `x`, a number or a name, and figures of them: each a series, or one for each value of `series`. Zeros are
# left out of logarithmic ones.
Chart = namedtuple("Chart", "title x y_title figures series logarithmic", defaults=(None, False))
CHARTS = {
    "drift": Chart("K/V drift", "region", "1 - cosine", ("drift",), "passes", True),
    "attention": Chart("Attention of the block", "region", "probability", ("mass",)),
    "entropy": Chart("Entropy of the block", "step", "nats; probability", ("entropy", "largest_probability")),
    "changes": Chart("Tokens that change", "step", "share", ("of_answer", "of_block")),
    "staleness": Chart("Staleness of the cache", "region", "1 - cosine", ("error",), "age", True),
    "profile": Chart("Time of the passes", "operation", "seconds", ("seconds",), "passes_of"),
    "recall": Chart("The first step's cells among the heaviest", "step", "recall", ("recall",), "budget"),
    "lock": Chart("Step divergence of rows that may lock", "step", "nats", ("divergence_q50", "divergence_q95"), None, True),
    "locality": Chart("Influence of a revealed token", "distance", "Jensen-Shannon divergence, nats", ("divergence",),
                      "masked"),
}

# Maps by step,layer have a panel for each part and figure. Those with positions have a logarithmic scale, whatever this
# says: a few positions get most.
Map = namedtuple("Map", "title value_title figures logarithmic")
MAPS = {
    "drift": Map("K/V drift", "1 - cosine", ("key", "value"), True),
    "attention": Map("Attention of the block's queries", "probability", ("mass",), False),
}
AXES = ("step", "layer", "position")
DECADES = 5  # values further below the highest count as the lowest of a logarithmic scale


def map_axes(row):
    """(rows, columns) of a row of --map, None for others."""
    first = [key for key in row if key not in ("instrument", "model")][:2]
    return tuple(first) if len(first) == 2 and set(first) <= set(AXES) else None


def figure_of(rows):
    """The figure of an instrument's rows, dictionaries: the heat map where they have one, else the chart."""
    sources = sorted({(row["instrument"], row["model"]) for row in rows})
    if len(sources) != 1:
        raise BookError(f"rows of {len(sources)} commands; expected those of one `lacuna analyze ... --json`")
    (instrument, model), = sources
    if instrument not in CHARTS:
        raise BookError(f"instrument {instrument}; expected {', '.join(CHARTS)}")
    cells = [row for row in rows if map_axes(row)]
    return heat_map(MAPS[instrument], model, cells) if cells else chart(CHARTS[instrument], rows)


def chart(spec, rows):
    """Lines over steps, marks over everything else."""
    series = {}
    for row in rows:
        for figure in spec.figures:
            if spec.x not in row or row.get(figure) is None or (spec.logarithmic and row[figure] <= 0):
                continue
            value = row[spec.series] if spec.series else figure
            name = value if isinstance(value, str) else f"{spec.series} {value:g}"
            series.setdefault(name, []).append((row[spec.x], row[figure]))
    if not series:
        raise BookError(f"no rows with {spec.x} and {' or '.join(spec.figures)}")
    drawn, axes = figures.axes(spec.title, spec.x, spec.y_title, log="y" if spec.logarithmic else "")
    figures.line_chart(axes, series, "-" if spec.x == "step" else "o")
    return drawn


def heat_map(spec, model, cells):
    """Panels with the same rows (downwards) and columns, and one scale of colours, which a bar explains."""
    rows, columns = map_axes(cells[0])
    has_positions = columns == "position"
    panels = panels_of(spec, cells, rows, columns)
    per_line = len(spec.figures) if len(spec.figures) > 1 else 2 if has_positions else 4
    x, y = ([cell[axis] for cell in cells] for axis in (columns, rows))
    place = figures.Place(range(min(y), max(y) + 1), range(min(x), max(x) + 1),
                          rows, "position (0: the answer's first)" if has_positions else columns)
    return figures.scaled_map(f"{spec.title}: {model}, by {rows} and {columns}", spec.value_title, place, panels,
                              min(per_line, len(panels)), DECADES if spec.logarithmic or has_positions else 0)


def panels_of(spec, cells, rows, columns):
    """{title: {(row, column): value}}: a panel for each part or layer, and for each figure."""
    def name(cell):
        if "part" in cell:
            return cell["part"]
        return f'layer {cell["layer"]}' if "layer" in cell and "layer" not in (rows, columns) else ""

    panels = {}
    for part in dict.fromkeys(map(name, cells)):
        for figure in spec.figures:
            title = ", ".join(each for each in (figure if len(spec.figures) > 1 else "", part) if each)
            panels[title] = {(cell[rows], cell[columns]): cell[figure] for cell in cells if name(cell) == part}
    return panels


def curves(lines):
    """Losses over steps, or over tokens where several runs follow each other, and next to them the accuracies on unseen samples, where the
    log has any."""
    log = list(csv.DictReader(lines))
    axis = "step" if log and "step" in log[0] else "tokens"
    if not log or not {axis, "loss"} <= set(log[0]):
        raise BookError("no step and loss; expected the log.csv of lacuna-train")
    found = {name: [(int(line[axis]), float(line[name])) for line in log if line[name]]
             for name in log[0] if name in ("loss", "held_out_loss") or name.startswith("accuracy_")}
    accuracies = {name.removeprefix("accuracy_"): points for name, points in found.items() if name.startswith("accuracy_") and points}
    drawn, axes = figures.axes("Loss", axis, "loss", columns=2 if accuracies else 1)
    losses = axes[0] if accuracies else axes
    losses.set_yscale("log")
    figures.plain_ticks(losses.yaxis)
    lines = {"training": found["loss"], "held out": found.get("held_out_loss", [])}
    figures.line_chart(losses, {name: points for name, points in lines.items() if points}, ".-")
    if accuracies:
        axes[1].set(title="Accuracy on unseen samples", ylabel="accuracy", ylim=(0, 1))
        figures.line_chart(axes[1], accuracies, ".-")
    return drawn


def read_rows(lines):
    """Rows of `lacuna analyze --json`."""
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not {"instrument", "model"} <= set(row):
            raise BookError(f"line {number} is no row of `lacuna analyze ... --json`")
        rows.append(row)
    return rows


def main(arguments):
    """`python3 tools/results draw`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python3 tools/results draw", description=__doc__)
    parser.add_argument("out", metavar="FIGURE.svg", help="file to write")
    parser.add_argument("input", metavar="FILE", nargs="?", help="rows of `lacuna analyze --json` (default standard input), or log.csv")
    given = parser.parse_args(arguments)
    if not given.out.endswith(".svg"):
        raise BookError(f"{given.out}: the figure is an SVG file; expected a name that ends with .svg")
    lines = Path(given.input).read_text(encoding="utf-8").splitlines() if given.input else list(sys.stdin)
    is_log = bool(lines) and lines[0].startswith(("step,", "tokens,"))
    Path(given.out).write_text(figures.to_svg(curves(lines) if is_log else figure_of(read_rows(lines))), encoding="utf-8")
    return 0
