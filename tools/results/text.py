"""Markdown of figures: tables, code, percentages."""


def table(head, rows):
    """A Markdown table. `head`: names of the columns; `rows`: lists of cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def code(words):
    """`words`, a command or its flags."""
    return f"`{words}`"


def percent(share):
    """0.915 -> "91.5%"."""
    return f"{100 * share:.1f}%"


def times(ratio):
    """1.5 -> "1.50×"."""
    return f"{ratio:.2f}×"


def accuracy(found):
    """Accuracy of an Evaluation with its 95% interval: "91.5% (86.8 to 94.6)"."""
    return f"{percent(found.accuracy)} ({100 * found.accuracy_low:.1f} to {100 * found.accuracy_high:.1f})"


def perplexity(found):
    """Perplexity of an Evaluation with its 95% interval where its row has one: "1.699 (1.464 to 1.920)"."""
    middle = f"{found.perplexity:.3f}"
    if found.perplexity_low is None:
        return middle
    return f"{middle} ({found.perplexity_low:.3f} to {found.perplexity_high:.3f})"


def cell(value):
    """A value of an analysis in a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
