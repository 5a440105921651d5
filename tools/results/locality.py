"""Locality of masked diffusion: how far the knowledge of one token reaches."""
import figures
from book import figure, table, value
from text import code, percent

FULL = {"models": ("mini-llada", "mini-dream"), "tasks": ("arithmetic", "stories"), "samples": 50}
QUICK = {"models": ("mini-llada",), "samples": 2}


def command(run, model, task):
    """The instrument on one task."""
    return f"lacuna analyze locality -m {model} --task {task} --gen-length 32 --samples {run.grid.samples} --threads 1"


def records(run, model, task, key):
    """Rows of the instrument that have a key, as dictionaries."""
    return [dict(zip(found["head"], row)) for found in run.tables(command(run, model, task)) if key in found["head"]
            for row in found["rows"]]


@table
def reach(run):
    """Near and far by the share that is masked."""
    return ["model", "task", "masked", "up to 2 positions away", "8 and more", "far / near"], [
        [model, task, percent(found["masked"]), f'{found["near"]:.2e}', f'{found["far"]:.2e}',
         f'{found["far_over_near"]:.2f}']
        for model in run.grid.models for task in run.grid.tasks for found in records(run, model, task, "near")]


@value
def nearer(run):
    """In how many rows near predictions change more than far ones."""
    ratios = [found["far_over_near"] for model in run.grid.models for task in run.grid.tasks
              for found in records(run, model, task, "near")]
    return f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"


def falls_with_less_masked(run, model, task):
    """Whether far predictions change less, relative to near ones, wherever less is masked."""
    found = sorted(records(run, model, task, "near"), key=lambda each: each["masked"])
    ratios = [each["far_over_near"] for each in found]
    return all(less < more for less, more in zip(ratios, ratios[1:]))


@value
def shrinking(run):
    """For which models and tasks the difference of near and far shrinks with each larger share of masks."""
    settings = [(model, task) for model in run.grid.models for task in run.grid.tasks]
    does = [f"{model} on {task}" for model, task in settings if falls_with_less_masked(run, model, task)]
    others = [f"{model} on {task}" for model, task in settings if not falls_with_less_masked(run, model, task)]
    if not others:
        return "with every model and task"
    return f"{'only with ' + ' and '.join(does) if does else 'with no model and task'}, not with {', '.join(others)}"


@value
def far_as_near(run):
    """Where far predictions change as much as near ones or more."""
    found = [f"{model} on {task} with {percent(each['masked'])} masked ({each['far_over_near']:.2f})"
             for model in run.grid.models for task in run.grid.tasks
             for each in records(run, model, task, "near") if each["far_over_near"] >= 1]
    return "; ".join(found) or "nowhere"


@figure()
def distance(run, task):
    """Divergence by distance."""
    title = f"Influence of a revealed token by distance, {task}"
    drawn, both = figures.axes("", "position less that of the revealed token", "Jensen-Shannon divergence, nats",
                               columns=len(run.grid.models), log="y")
    for axes, model in zip(both if len(run.grid.models) > 1 else [both], run.grid.models):
        axes.set(title=f"{model}, {task}")
        found = records(run, model, task, "distance")
        figures.line_chart(axes, {f"{percent(masked)} masked": [(row["distance"], max(row["divergence"], 1e-9))
                                                                for row in found if row["masked"] == masked]
                                  for masked in sorted({row["masked"] for row in found})})
    return title, drawn


@value
def commands(run):
    """The instrument's commands."""
    return "\n".join(f"- {code(command(run, model, task))}" for model in run.grid.models for task in run.grid.tasks)
