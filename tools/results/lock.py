"""SureLock's Theorem 1: what it assumes of every step, and what its bound says of every lock."""
import math

import figures
from book import figure, table, value
from text import code, percent

FULL = {
    "models": ("mini-llada", "mini-dream"),
    "tasks": ("arithmetic", "stories"),
    "samples": 10,
    "length": 32,
    "deltas": (0.1, 1, 10, 100),
    "delta_samples": 40,
}
QUICK = {"models": ("mini-llada",), "tasks": ("arithmetic",), "samples": 1, "deltas": (1,), "delta_samples": 2}
QUANTILES = ("q05", "q25", "q50", "q75", "q95")
EVERY_LOCK, USUAL = "eps=5e-2,gate=off", "eps=5e-4,gate=20"  # each row at once; SureLock's settings


def command(run, model, task, lock):
    """The instrument on one task."""
    return (f"lacuna analyze lock -m {model} --task {task} --gen-length {run.grid.length} --lock {lock} "
            f"--samples {run.grid.samples} --threads 1")


def records(run, key, model, task, lock=EVERY_LOCK):
    """Rows of the instrument that have a key, as dictionaries."""
    return [dict(zip(found["head"], row)) for found in run.tables(command(run, model, task, lock))
            if found["head"][0] == key for row in found["rows"]]


def settings(run):
    """Model and task of each measurement."""
    return [(model, task) for model in run.grid.models for task in run.grid.tasks]


def number(found):
    """A figure in a table."""
    return "-" if found is None else f"{found:.3g}"


def share(found):
    """A share in a table."""
    return "-" if found is None else percent(found)


@table
def premise(run):
    """Distributions of what the theorem assumes, in rows of answers."""
    rows = []
    for model, task in settings(run):
        for found in records(run, "rows", model, task):
            if found["rows"] == "answer":
                rows.append([model, task, found["figure"], *(number(found[q]) for q in QUANTILES),
                             share(found["share"]), found["count"]])
    return ["model", "task", "figure", "5%", "25%", "50%", "75%", "95%", "below 1; divergence: at most ε",
            "count"], rows


@table
def gates(run):
    """How often each condition of a lock holds, with SureLock's settings."""
    rows = []
    for model, task in settings(run):
        steps = records(run, "step", model, task, USUAL)
        total = sum(step["rows"] for step in steps)
        rows.append([model, task, *(percent(sum(step[key] * step["rows"] for step in steps) / total)
                                    for key in ("converged", "confident", "both")),
                     sum(step["locks"] for step in steps), total])
    return ["model", "task", "D ≤ ε", "within the gate", "both", "locks", "rows that may lock, all steps"], rows


@table
def decades(run):
    """Error of locks by divergence at lock."""
    rows = []
    for model, task in settings(run):
        for found in records(run, "divergence_at_lock", model, task):
            rows.append([model, task, found["divergence_at_lock"],
                         *(f'{number(found[f"{key}_q50"])}, {number(found[f"{key}_q95"])}'
                           for key in ("error", "likely_error", "tail")),
                         share(found["contracts_to_the_end"]), found["locks"]])
    return ["model", "task", "D at lock from", "error, nats (50%, 95%)", "of likely tokens", "error / √D",
            "contract to the end", "locks"], rows


@table
def bounds(run):
    """The bound with constants of all rows and of each row."""
    rows = []
    for model, task in settings(run):
        for found in records(run, "constants", model, task):
            rows.append([model, task, found["constants"].replace("q", ""), number(found["contraction"]),
                         number(found["gain"]), number(found["tail"]), share(found["applies"]), share(found["held"]),
                         number(found["bound_over_error_q50"]), found["locks"]])
    return ["model", "task", "constants: percentile", "ρ", "L_sm L", "C_tail", "locks with a bound",
            "of these within it", "bound / error, median", "locks"], rows


@table
def promises(run):
    """Rows that delta= alone locks."""
    rows = []
    for model in run.grid.models:
        for gate in ("20", "off"):
            for delta in run.grid.deltas:
                asked = (f"lacuna eval -m {model} --task arithmetic --gen-length {run.grid.length} "
                         f"--lock delta={delta},eps=0,gate={gate} --batch 8 --samples {run.grid.delta_samples} "
                         "--threads 1")
                found = run.evaluate(asked)
                rows.append([model, gate, delta, percent(1 - found.row_ratio), code(asked)])
    return ["model", "gate", "δ, nats", "rows saved", "command"], rows


@figure()
def errors(run):
    """Error of every lock over its divergence."""
    title = "Terminal error of every lock, by divergence at lock"
    drawn, axes = figures.axes(title, "D at lock, nats", "error, nats", log="xy")
    for axis, low, high in ((axes.xaxis, -13, 0), (axes.yaxis, -7, 3)):
        figures.plain_ticks(axis, [10.0 ** power for power in range(low, high, 2)])
    for colour, model in zip(figures.COLOURS, run.grid.models):
        locks = [found for task in run.grid.tasks for found in records(run, "lock_of_request", model, task)
                 if found["steps_after"] > 0]
        for key, mark, label in (("error", "o", model), ("likely_error", "x", f"{model}, likely tokens")):
            axes.plot([max(found["divergence"], 1e-12) for found in locks],
                      [max(found[key], 1e-7) for found in locks], mark, color=colour, markersize=3, alpha=0.5,
                      label=label)
    places = [10.0 ** (power / 4) for power in range(-48, -4)]
    axes.plot(places, [100 * math.sqrt(place) for place in places], "--", color=figures.GREY, label="100 √D")
    figures.legend(axes)
    return title, drawn


@figure()
def contracting(run, key):
    """Share of contracting rows by step or position."""
    title = f"Share of rows whose divergence falls, by {key}"
    drawn, axes = figures.axes(title, key, "share with D_s < D_{s-1}")
    figures.line_chart(axes, {f"{model}, {task}": [(found[key], found["contracting"])
                                                   for found in records(run, key, model, task)
                                                   if found["contracting"] is not None]
                              for model, task in settings(run)})
    axes.set_ylim(0, 1)
    return title, drawn


@value
def commands(run):
    """The instrument's commands."""
    return "\n".join(f"- {code(command(run, model, task, lock))}" for lock in (EVERY_LOCK, USUAL)
                     for model, task in settings(run))


@value
def falling(run):
    """Range of the share of contracting steps in answers."""
    shares = [found["share"] for model, task in settings(run) for found in records(run, "rows", model, task)
              if found["rows"] == "answer" and found["figure"] == "contraction"]
    return f"{percent(min(shares))} to {percent(max(shares))}"


@value
def to_the_end(run):
    """Locks whose every later step contracts, of all."""
    locks = [found for model, task in settings(run) for found in records(run, "lock_of_request", model, task)
             if found["steps_after"] > 0]
    contract = sum(found["largest_contraction"] < 1 for found in locks)
    return f"{contract} of {len(locks)}"


@value
def seen(run):
    """Effects of delta= in all settings tried."""
    saved = [row[3] for row in promises(run)[1]]
    nothing = sum(each == "0.0%" for each in saved)
    return f"{nothing} of {len(saved)}"
