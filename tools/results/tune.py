"""`lacuna tune`: what can be promised for the models that ship, and whether promises hold on fresh prompts."""
from book import table, value
from text import code, percent

FULL = {"models": ("mini-llada", "mini-dream", "mini-gidd", "mini-gidd-mask", "mini-refusion", "mini-sdar",
                   "mini-llada2", "mini-fast-dllm"),
        "risks": (0.01, 0.02, 0.05), "presets": ("exact", "balanced", "fast"), "samples": 400,
        "gflops": 400, "bandwidth": 20,
        "tuned": "mini-llada", "risk": 0.05, "tunings": 30, "tuning_samples": 120, "fresh": 2000, "fresh_seed": 1000000}
QUICK = {"models": ("mini-llada",), "risks": (0.05,), "presets": ("fast",), "samples": 160, "tunings": 2,
         "tuning_samples": 100, "fresh": 50}


def tune(run, model, risk, samples, seed):
    """One tuning on generated prompts."""
    return (f"lacuna tune -m {model} --task arithmetic --risk {risk} --samples {samples} --seed {seed} --threads 1 "
            f"--gflops {run.grid.gflops} --bandwidth {run.grid.bandwidth}")


def answer(model, setting, samples, seed):
    """Answers with a setting to generated prompts."""
    flags = f" {setting}" if setting else ""
    return (f"lacuna eval -m {model} --task arithmetic --samples {samples} --seed {seed} --threads 1{flags} "
            f"--out answers.jsonl")


def baseline_of(run, model):
    """The flags that make a run of the model its uncached baseline."""
    return run.result(tune(run, model, run.grid.risks[0], run.grid.samples, 0))["baseline"]


def chosen(found):
    """The chosen setting of a tuning, or None."""
    return None if found["chosen"] is None else found["tested"][found["chosen"]]


def seconds(run, found):
    """The predicted time of answers."""
    return found["flops"] / (1e9 * run.grid.gflops) + found["bytes"] / (1e9 * run.grid.bandwidth)


def changed(found, base):
    """How many answers differ from those of the baseline; each has six digits."""
    pairs = zip(found["answers"], base["answers"], strict=True)
    differs = [one != other for one, other in pairs]
    return sum(any(differs[i:i + 6]) for i in range(0, len(differs), 6))


def frontier_row(run, model, risk):
    """The setting that tune chooses for a model at a risk."""
    best = chosen(run.result(tune(run, model, risk, run.grid.samples, 0)))
    if best is None:
        return [model, percent(risk), "the baseline", "1.000", "1.000", "1.000", "-"]
    relative = best["relative"]
    return [model, percent(risk), code(best["settings"]), f'{relative["predicted"]:.3f}', f'{relative["flops"]:.3f}',
            f'{relative["rows"]:.3f}', f'{best["losses"]:.0f} of {best["prompts"]}']


@table
def frontier(run):
    """The certified setting of each model at each risk."""
    return ["model", "risk", "setting", "time", "FLOPs", "rows", "changed"], [
        frontier_row(run, model, risk) for model in run.grid.models for risk in run.grid.risks]


def preset_row(run, model, preset):
    """A preset of the family on the prompts of the tuning."""
    samples = run.grid.samples
    base = run.result(answer(model, baseline_of(run, model), samples, 0))
    found = run.result(answer(model, f"--preset {preset}", samples, 0))
    return [model, code(f"--preset {preset}"), f"{seconds(run, found) / seconds(run, base):.3f}",
            f'{found["flops"] / base["flops"]:.3f}', f'{found["rows"] / base["rows"]:.3f}',
            f"{changed(found, base)} of {samples}"]


@table
def presets(run):
    """Savings of the families' presets, and the answers that they change."""
    return ["model", "setting", "time", "FLOPs", "rows", "changed"], [
        preset_row(run, model, preset) for model in run.grid.models for preset in run.grid.presets]


def retests(run):
    """Each tuning's chosen setting with its changed answers among the fresh prompts; None where none was certified."""
    grid = run.grid
    found = []
    for seed in range(1, grid.tunings + 1):
        tuned = run.result(tune(run, grid.tuned, grid.risk, grid.tuning_samples, seed))
        best = chosen(tuned)
        if best is None:
            found.append((None, 0))
            continue
        base, retested = (run.result(answer(grid.tuned, setting, grid.fresh, grid.fresh_seed))
                          for setting in (tuned["baseline"], best["settings"]))
        found.append((best["settings"], changed(retested, base)))
    return found


@table
def retest(run):
    """Settings that were certified, how often, and their changed answers among fresh prompts."""
    found = retests(run)
    rows = []
    for setting, harm in sorted(set(found), key=lambda each: (each[1], str(each[0]))):
        times = sum(each == (setting, harm) for each in found)
        if setting is None:
            rows.append(["none: the baseline stays", times, "-", "yes"])
            continue
        share = harm / run.grid.fresh
        rows.append([code(setting), times, f"{harm} ({percent(share)})", "yes" if share <= run.grid.risk else "no"])
    return ["certified setting", "tunings", "changed", "within the risk"], rows


@value
def kept(run):
    """How many tunings chose a setting within the risk."""
    return sum(harm <= run.grid.risk * run.grid.fresh for _, harm in retests(run))


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
        tune(run, grid.models[0], grid.risks[0], grid.samples, 0),
        answer(grid.models[0], "--preset fast", grid.samples, 0),
        tune(run, grid.tuned, grid.risk, grid.tuning_samples, "1 ... " + str(grid.tunings)),
        answer(grid.tuned, "SETTING", grid.fresh, grid.fresh_seed)))
