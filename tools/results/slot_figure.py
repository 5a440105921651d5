"""Figure of one decoding by slots: a line for each pass, a cell for each position."""
from dataclasses import dataclass

import figures

LEGEND = ("Filled: committed, one colour per plan; pale in later passes. Coloured text: accepted. Grey: drafted. "
          "Struck out: rejected;\nbold: the token in its place. Dashed: selected by the plan.")
LETTERS = 6  # that fit a cell


@dataclass
class Cell:
    """Result of a pass for a position."""
    text: str = ""
    is_committed: bool = False  # by this pass or by an earlier one
    is_accepted: bool = False
    is_rejected: bool = False
    is_replacement: bool = False  # of a rejected draft


def fitted(text):
    """Text of a token, cut to the width of a cell."""
    text = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return text if len(text) <= LETTERS else text[:LETTERS - 1] + "…"


def is_final(slot, following):
    """Whether the next pass continues with no more than the accepted tokens: the rest of the drafts was not judged."""
    return following is not None and following["kind"] != "plan" and any(
        later["position"] == slot["position"] and len(later["tokens"]) <= slot["accepted"]
        for later in following["slots"])


class Canvas:
    """The cells of each pass, from a trace."""

    def __init__(self, row):
        # Of tokens that stood in the canvas; of drafts that never did, a trace has no texts.
        self.texts = {each["token"]: fitted(each["text"]) for each in row["result"]["texts"]}
        self.written = {}  # position -> iteration in which it was committed
        self._shown, self._iteration = {}, None  # position -> last token of this iteration

    def cells(self, line, following):
        """Cells of a pass by position; `following` is the next pass, or None."""
        if line["iteration"] != self._iteration:
            self._iteration, self._shown = line["iteration"], {}
        cells = {position: Cell(is_committed=True) for position in self.written}
        for slot in line["slots"]:
            judges = line["kind"] in ("verify", "check") and not is_final(slot, following)
            for offset, token in enumerate(slot["tokens"]):
                position, accepted = slot["position"] + offset, offset < slot["accepted"]
                cells[position] = Cell(
                    self.texts.get(token, "?"), is_accepted=accepted, is_rejected=judges and offset == slot["accepted"],
                    is_replacement=line["kind"] == "fill" and accepted and self._shown.get(position, token) != token)
                self._shown[position] = token
        for commit in line["committed"]:
            cells[commit["position"]] = Cell(self.texts[commit["token"]], is_committed=True)
            self.written[commit["position"]] = line["iteration"]
        return cells


def draw_cell(axes, x, y, cell, colour):
    """Draws a cell."""
    pale = cell.is_committed and not cell.text
    face = {"facecolor": colour, "alpha": 0.3 if pale else 1} if cell.is_committed else {"facecolor": "none"}
    axes.add_patch(figures.Rectangle((x + 0.03, y + 0.06), 0.94, 0.88, edgecolor="none", **face))
    if not cell.text:
        return
    ink = "white" if cell.is_committed else colour if cell.is_accepted else figures.GREY
    axes.text(x + 0.5, y + 0.5, cell.text, color=ink, ha="center", va="center", fontsize=7,
              fontweight="bold" if cell.is_replacement else "normal")
    if cell.is_rejected:
        axes.plot([x + 0.15, x + 0.85], [y + 0.5, y + 0.5], color=ink, linewidth=0.8)


def outline_selected(axes, y, line, following, prompt, colour):
    """Outlines the selected slots of a plan; only the next pass knows how long they are."""
    for slot in line["slots"]:
        if slot["selected"]:
            later = [each["tokens"] for each in following["slots"] if each["position"] == slot["position"]] \
                if following else []
            width = max(map(len, [slot["tokens"], *later]))
            axes.add_patch(figures.Rectangle((slot["position"] - prompt + 0.03, y + 0.06), width - 0.06, 0.88,
                                     facecolor="none", edgecolor=colour, linestyle="--"))


def draw(row, title):
    """A matplotlib figure of the row of `lacuna run --trace`."""
    passes, prompt = row["result"]["trace"], row["prompt_length"]
    columns = 1 + max(slot["position"] + len(slot["tokens"]) - 1 - prompt for line in passes for slot in line["slots"])
    drawn = figures.Figure((0.9 + 0.42 * columns, 1 + 0.24 * len(passes)))
    axes = drawn.subplots()
    axes.set(xlim=(0, columns), ylim=(len(passes), 0), xticks=[x + 0.5 for x in range(0, columns, 8)],
             xticklabels=range(0, columns, 8), yticks=[y + 0.5 for y in range(len(passes))],
             yticklabels=[f'{i} {line["kind"]}' for i, line in enumerate(passes, 1)])
    axes.set_title(f"{title}\n{LEGEND}", fontsize=9)
    axes.grid(False)
    axes.tick_params(length=0)
    canvas = Canvas(row)
    for y, (line, following) in enumerate(zip(passes, [*passes[1:], None])):
        cells = canvas.cells(line, following)
        for position, cell in sorted(cells.items()):
            iteration = canvas.written.get(position, line["iteration"])
            draw_cell(axes, position - prompt, y, cell, figures.COLOURS[iteration % len(figures.COLOURS)])
        if line["kind"] == "plan":
            colour = figures.COLOURS[line["iteration"] % len(figures.COLOURS)]
            outline_selected(axes, y, line, following, prompt, colour)
    return drawn
