"""`lacuna tune`: what can be promised for the models that ship, and whether promises hold on fresh prompts."""
from book import table, value
from text import code, percent

FULL = {"models": ("mini-llada", "mini-dream", "mini-sdar"), "risks": (0.01, 0.02, 0.05), "samples": 400,
        "tuned": "mini-llada", "risk": 0.05, "tunings": 30, "tuning_samples": 120, "fresh": 1000, "fresh_seed": 1000000}
QUICK = {"models": ("mini-llada",), "risks": (0.05,), "samples": 160, "tunings": 2, "tuning_samples": 100, "fresh": 50}


def tune(model, risk, samples, seed):
    """One tuning on generated prompts."""
    return f"lacuna tune -m {model} --task arithmetic --risk {risk} --samples {samples} --seed {seed} --threads 1"


def compare(model, setting, samples, seed):
    """A setting and the defaults on the same prompts."""
    return (f'lacuna compare -m {model} --task arithmetic --samples {samples} --seed {seed} --threads 1 '
            f'--b "{setting}"')


def chosen(found):
    """The chosen setting of a tuning, or None."""
    return None if found["chosen"] is None else found["tested"][found["chosen"]]


def frontier_row(run, model, risk):
    """What tune chooses for a model at a risk."""
    best = chosen(run.result(tune(model, risk, run.grid.samples, 0)))
    if best is None:
        return [model, percent(risk), "the baseline", "1.000", "1.000", "-"]
    return [model, percent(risk), code(best["settings"]), f'{best["relative"]["flops"]:.3f}',
            f'{best["relative"]["rows"]:.3f}', f'{best["losses"]:.0f} of {best["prompts"]}']


@table
def frontier(run):
    """The certified setting of each model at each risk."""
    return ["model", "risk", "setting", "FLOPs", "rows", "changed"], [
        frontier_row(run, model, risk) for model in run.grid.models for risk in run.grid.risks]


def exact_row(run, model):
    """The preset that changes nothing by its construction, on the prompts of the tuning."""
    found = run.result(compare(model, "--preset exact", run.grid.samples, 0))
    same = found["same_texts"]
    return [model, f'{found["b_over_a"]["flops"]:.3f}', f'{found["b_over_a"]["rows"]:.3f}',
            f'{round((1 - same["value"]) * same["of"])} of {same["of"]}']


@table
def exact(run):
    """What `--preset exact` saves relative to the defaults."""
    return ["model", "FLOPs", "rows", "changed"], [exact_row(run, model) for model in run.grid.models]


def retests(run):
    """Each tuning's chosen setting with its changed answers among the fresh prompts; None where none was certified."""
    found = []
    for seed in range(1, run.grid.tunings + 1):
        best = chosen(run.result(tune(run.grid.tuned, run.grid.risk, run.grid.tuning_samples, seed)))
        if best is None:
            found.append((None, 0))
            continue
        same = run.result(compare(run.grid.tuned, best["settings"], run.grid.fresh, run.grid.fresh_seed))["same_texts"]
        found.append((best["settings"], round((1 - same["value"]) * same["of"])))
    return found


@table
def retest(run):
    """Settings that were certified, how often, and their changed answers among fresh prompts."""
    found = retests(run)
    rows = []
    for setting, changed in sorted(set(found), key=lambda each: (each[1], str(each[0]))):
        times = sum(each == (setting, changed) for each in found)
        if setting is None:
            rows.append(["none: the baseline stays", times, "-", "yes"])
            continue
        share = changed / run.grid.fresh
        rows.append([code(setting), times, f"{changed} ({percent(share)})", "yes" if share <= run.grid.risk else "no"])
    return ["certified setting", "tunings", "changed", "within the risk"], rows


@value
def kept(run):
    """How many tunings chose a setting within the risk."""
    return sum(changed <= run.grid.risk * run.grid.fresh for _, changed in retests(run))


@value
def uncertified(run):
    """How many tunings certified no setting."""
    return sum(setting is None for setting, _ in retests(run))


@value
def expected(run):
    """How many tunings keep the risk at least, on average, at a confidence of 0.9."""
    return f"{0.9 * run.grid.tunings:.0f} of {run.grid.tunings}"


@value
def precision(run):
    """Half of the 95% interval of a share that equals the risk, in points."""
    return f"{196 * (run.grid.risk * (1 - run.grid.risk) / run.grid.fresh) ** 0.5:.1f}"


@value
def asked_risk(run):
    """The risk that was asked for."""
    return percent(run.grid.risk)


@value
def commands(run):
    """One command of each kind."""
    grid = run.grid
    return "\n".join(f"- {code(each)}" for each in (
        tune(grid.models[0], grid.risks[0], grid.samples, 0),
        tune(grid.tuned, grid.risk, grid.tuning_samples, "1 ... " + str(grid.tunings)),
        compare(grid.tuned, "SETTING", grid.fresh, grid.fresh_seed)))
