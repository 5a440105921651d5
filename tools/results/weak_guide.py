"""Guided diffusion with guides that are worse than the model."""
from book import table, value
from text import code, percent

FULL = {"model": "mini-llada", "guide": "mini-qwen", "task": "arithmetic", "samples": 200,
        "weak": ((0.48, 1), (0.48, 2), (0.45, 2), (0.45, 1), (0.48, 3)),  # noise and its seed; the first has all rows
        "trained": (1100, 1000, 700, 500),  # optimiser steps of guides that were trained too briefly
        "settings": ("exact", "relative=0.9", "relative=0.5", "relative=0.1", "top-k=2", "tau-literal=0.5",
                     "exact --guide-fallback ar", "exact --temperature 1", "exact --temperature 1 --top-k 2",
                     "top-k=2 --temperature 1"),
        "brief": ("exact", "relative=0.5", "top-k=2")}
QUICK = {"samples": 8, "weak": ((0.48, 1),), "trained": ()}
TRAINING = "--threads 1 --matmul f32 --batch-rows 16 --rate 0.003 --warmup-steps 50 --tasks arithmetic=1"


def evaluation(run, more="", model=None):
    """A model on the task."""
    return run.evaluate(f"lacuna eval -m {model or run.grid.model} --task {run.grid.task} --samples {run.grid.samples} "
                        f"--threads 1 {more}".rstrip())


def weakened(run, noise, seed):
    """The guide's folder, which tools/weaken_model.py writes before the page is measured."""
    return f"build/weak-guides/{run.grid.guide}-{noise}-{seed}"


def trained(steps):
    """The folder of a guide that lacuna-train writes before the page is measured."""
    return f"build/weak-guides/trained-{steps}"


def figures_of(found):
    """Accuracy with its interval, and passes of both models."""
    return [f"{percent(found.accuracy)} ({100 * found.accuracy_low:.1f} to {100 * found.accuracy_high:.1f})",
            f"{found.passes:.1f}"]


@table
def sweep(run):
    """Settings of guided diffusion, with the weakest guide and with the good one."""
    weak = weakened(run, *run.grid.weak[0])
    rows = []
    for setting in run.grid.settings:
        rows.append([f"`--guide-match {setting}`",
                     *(cell for guide in (weak, run.grid.guide)
                       for cell in figures_of(evaluation(run, f"--guide {guide} --guide-match {setting}")))])
    return ["", "weak guide, accuracy", "passes", f"{run.grid.guide}, accuracy", "passes"], rows


@table
def others(run):
    """All weak guides, alone and as guides."""
    rows = []
    guides = [(f"noise {noise}, seed {seed}", weakened(run, noise, seed)) for noise, seed in run.grid.weak]
    guides += [(f"trained for {steps} steps", trained(steps)) for steps in run.grid.trained]
    for name, guide in guides:
        alone = evaluation(run, model=guide)
        rows.append([name, figures_of(alone)[0],
                     *(percent(evaluation(run, f"--guide {guide} --guide-match {match}").accuracy)
                       for match in run.grid.brief)])
    return ["guide", "alone", *(f"guiding, `{match}`" for match in run.grid.brief)], rows


@table
def unguided(run):
    """The model and the good guide on their own."""
    rows = []
    for name, model, more in (("the model", run.grid.model, ""),
                              ("the model, `--unmask threshold=0.9`", run.grid.model, "--unmask threshold=0.9"),
                              (run.grid.guide, run.grid.guide, "")):
        rows.append([name, *figures_of(evaluation(run, more, model))])
    return ["alone", "accuracy", "passes"], rows


@value
def weak_alone(run):
    """Accuracy of the weakest guide."""
    return figures_of(evaluation(run, model=weakened(run, *run.grid.weak[0])))[0]


def lost_with_exact(run, guide):
    """Points that a guide costs with exact."""
    return 100 * (evaluation(run).accuracy - evaluation(run, f"--guide {guide} --guide-match exact").accuracy)


@value
def cost_of_exact(run):
    """Points that the first weakened guide costs with exact."""
    return f"{lost_with_exact(run, weakened(run, *run.grid.weak[0])):.1f}"


@value
def costs_of_exact(run, kind):
    """The least and the most points that guides of a kind cost with exact."""
    guides = {"weakened": [weakened(run, *each) for each in run.grid.weak],
              "trained": [trained(steps) for steps in run.grid.trained]}[kind]
    lost = [lost_with_exact(run, guide) for guide in guides]
    return f"{min(lost):.1f} to {max(lost):.1f}" if lost else "-"


@value
def training(run):
    """How the guides are written."""
    lines = [f"python3 tools/weaken_model.py models/{run.grid.guide} {weakened(run, noise, seed)} --noise {noise} --seed {seed}"
             for noise, seed in run.grid.weak]
    lines += [f"lacuna-train --family qwen2 --out {trained(steps)} --steps {steps} {TRAINING}" for steps in run.grid.trained]
    return "\n".join(f"- {code(line)}" for line in lines)
