"""Figures in one style, made with matplotlib: the same SVG text for the same values, readable in light and dark."""
import io
import math
from collections import namedtuple

try:
    from cycler import cycler
    from matplotlib import rcParams
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
    from matplotlib.transforms import Bbox
    MISSING = None
except ModuleNotFoundError as error:  # pages and tables without figures need none of it
    MISSING = error
    rcParams, cycler = {}, dict

    def Figure(*_):  # pylint: disable=invalid-name  # every figure begins with one
        """Says what is missing, where a figure is to be drawn."""
        raise MISSING

# Mid-lightness: a contrast of about 4 with white and with black.
COLOURS = ["#2f7fd6", "#d9711a", "#249a5a", "#c04aa0", "#8a67d8", "#a68a00", "#c23b46", "#2a9d9d"]
GREY = "#808080"
LINE, LETTER = 11, 4.6  # height of a label and width of its letters, on average, in points

rcParams.update({
    "svg.fonttype": "none",  # text as text
    "svg.hashsalt": "lacuna",  # the same ids each time
    "figure.dpi": 72,  # that of SVG: a pixel is a point
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": GREY,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlelocation": "left",
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "legend.labelcolor": GREY,
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
})


def to_svg(figure):
    """SVG text of a figure."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def axes(title, x_label, y_label, columns=1, log=""):
    """A figure and its axes, one or a list of `columns`. `log`: the logarithmic ones, "", "x", "y" or "xy"."""
    figure = Figure((8.6 * columns, 4.8))
    found = figure.subplots(1, columns, squeeze=False)
    for each in found[0]:
        each.set(title=title, xlabel=x_label, ylabel=y_label)
        for name in log:
            getattr(each, f"set_{name}scale")("log")
            plain_ticks(getattr(each, f"{name}axis"))
    return figure, found[0][0] if columns == 1 else list(found[0])


def plain_ticks(axis, values=None):
    """Ticks of a logarithmic axis as plain numbers, at 1, 2 and 5 of each decade or at `values`."""
    axis.set_major_locator(FixedLocator(values) if values else LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def line_chart(found, series, style="-"):
    """Lines of {name: [(x, y), ...]} with a legend."""
    for colour, (name, points) in zip(COLOURS, series.items()):
        found.plot(*zip(*points), style, color=colour, label=name, linewidth=1.5)
    legend(found)


def legend(found):
    """A legend at the right, outside the axes."""
    found.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


def label_families(found, families):
    """Writes labels next to points, clear of all marks and of each other; a colour for each family.

    `families`: lists of (x, y, label). Call it when all else is drawn, because it depends on the layout. A label
    without room is left out: the table of the page has its value.
    """
    found.figure.draw_without_rendering()  # lays the axes out
    frame = found.get_window_extent()
    marks = [found.transData.transform((x, y)) for points in families for x, y, _ in points]
    taken = [Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in marks]
    rings = 110 if len(marks) <= 30 else 16  # long lines to many labels would hide the marks
    for colour, points in zip(COLOURS, families):
        label_points(found, points, colour, frame, taken, rings)


def label_points(found, points, colour, frame, taken, rings):
    """Writes labels in free places of the frame, and adds their boxes to `taken`."""
    for x, y, label in points:
        place = place_label(found.transData.transform((x, y)), len(label), frame, taken, rings)
        if place:
            offset, align, box = place
            taken.append(box)
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5} if abs(offset[1]) > LINE else None
            found.annotate(label, (x, y), offset, textcoords="offset points", color=colour, fontsize=8, ha=align,
                           va="center", arrowprops=line)


def place_label(point, letters, frame, taken, rings=110):
    """The nearest free place of a label: (offset in points, alignment, box), or None."""
    width = LETTER * letters
    for ring in range(rings):  # half a line apart, in turn above and below: the height from any point
        rise = (ring + 1) // 2 * LINE / 2 * (1 if ring % 2 else -1)
        for side in (1, -1):
            near = point[0] + 7 * side
            left, right = sorted((near, near + side * width))
            middle = point[1] + rise
            box = Bbox.from_extents(left, middle - LINE / 2, right, middle + LINE / 2)
            inside = frame.x0 <= left and right <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                return (7 * side, rise), "left" if side > 0 else "right", box
    return None


def scatter_families(found, families):
    """Marks with labels, a colour for each family: {family: [(x, y, label), ...]}. Equal points share a label."""
    merged = {family: merge(points) for family, points in sorted(families.items())}
    for colour, (family, points) in zip(COLOURS, merged.items()):
        found.plot([x for x, _, _ in points], [y for _, y, _ in points], "o", markersize=4, color=colour, label=family)
    found.margins(0.1)
    legend(found)
    label_families(found, merged.values())


def merge(points):
    """Points with the same coordinates as one, with all of their labels."""
    labels = {}
    for x, y, label in points:
        labels.setdefault((x, y), []).append(label)
    return [(x, y, ", ".join(all_labels)) for (x, y), all_labels in labels.items()]


def heat_map(title, x_label, y_label, columns, rows, panels):
    """Shares from 0 to 1 as coloured cells. `panels`: {name: values[rows][columns]}."""
    figure = Figure((0.6 + 2.2 * len(panels), 3.2))
    found = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    colours = LinearSegmentedColormap.from_list("shares", ["#b02a30", "#a67a00", "#1e7a46"])
    for each, (name, values) in zip(found[0], panels.items()):
        each.grid(False)
        each.pcolormesh(values, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=0.5)
        each.set_title(name, loc="center")
        each.set(xlabel=x_label, xticks=[x + 0.5 for x in range(len(columns))], xticklabels=columns,
                 yticks=[y + 0.5 for y in range(len(rows))], yticklabels=rows)
        for y, line in enumerate(values):
            for x, share in enumerate(line):
                each.text(x + 0.5, y + 0.5, f"{100 * share:.0f}", color="white", ha="center", va="center")
    found[0][0].invert_yaxis()  # of all panels, which share it
    found[0][0].set_ylabel(y_label)
    figure.suptitle(title)
    return figure


Place = namedtuple("Place", "rows columns y_label x_label")  # of the cells of a map: two ranges of integers, and their names


def scaled_map(title, value_title, place, panels, per_line, decades=0):
    """Cells in one scale of colours: light is high. Cells that were not measured are empty.

    `panels`: {name: {(row, column): value}}. `decades`: a logarithmic scale of at most so many, on which zeros are grey.
    """
    values = [value for cells in panels.values() for value in cells.values()]
    colours = LinearSegmentedColormap.from_list("heat", ["#261c5c", "#265ca0", "#20928c", "#7abe54", "#f6e246"])
    scale = scale_of(values, decades)
    lines = math.ceil(len(panels) / per_line)
    width = 4.6 if len(place.columns) > 16 else 2.4
    figure = Figure((1.4 + width * per_line, 0.4 + 2.9 * lines))
    found = figure.subplots(lines, per_line, squeeze=False).flatten()
    for each, (name, cells) in zip(found, panels.items()):
        each.imshow([[colour_of(cells.get((row, column)), colours, scale, decades) for column in place.columns]
                     for row in place.rows], interpolation="none", aspect="auto",
                    extent=(place.columns[0] - 0.5, place.columns[-1] + 0.5, place.rows[-1] + 0.5, place.rows[0] - 0.5))
        each.grid(False)
        each.set(title=name, xlabel=place.x_label, ylabel=place.y_label)
        each.xaxis.set_major_locator(MaxNLocator(integer=True))
        each.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        if place.columns[0] < 0 < place.columns[-1]:
            each.axvline(-0.5, color="white", linestyle="--", linewidth=1)
    for each in found[len(panels):]:
        each.set_visible(False)
    zeros = ", grey: 0" if decades and min(values) <= 0 else ""
    figure.colorbar(ScalarMappable(scale, colours), ax=list(found), label=value_title + zeros, fraction=0.05,
                    extend="min" if any(0 < value < scale.vmin for value in values) else "neither")
    figure.suptitle(title)
    return figure


def scale_of(values, decades):
    """The scale of a map's values."""
    high = max(values)
    positive = [value for value in values if value > 0]
    if not decades or not positive:
        return Normalize(0, max(high, 1e-9))
    low = max(min(positive), high / 10 ** decades)
    return LogNorm(low, high if high > low else 10 * low, clip=True)


def colour_of(value, colours, scale, decades):
    """RGBA of a cell; None: nothing was measured."""
    if value is None:
        return (0, 0, 0, 0)
    return to_rgba(GREY) if decades and value <= 0 else colours(scale(value))
