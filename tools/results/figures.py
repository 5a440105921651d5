"""Figures in one style, made with matplotlib: the same SVG text for the same values, readable in light and dark."""
import io

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

# Mid-lightness: a contrast of about 4 with white and with black.
COLOURS = ["#2f7fd6", "#d9711a", "#249a5a", "#c04aa0", "#8a67d8", "#a68a00"]
GREY = "#808080"

plt.rcParams.update({
    "svg.fonttype": "none",  # text as text
    "svg.hashsalt": "lacuna",  # the same ids each time
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": GREY,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlelocation": "left",
    "axes.prop_cycle": plt.cycler(color=COLOURS),
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
    """SVG text of a matplotlib figure, which is closed."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
