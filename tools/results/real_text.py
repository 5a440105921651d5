"""The methods on real text: agreement with the uncached baseline, perplexity by a judge, rows and time."""
import os.path
import re
from dataclasses import dataclass

import figures
import frontier
import text
from book import condition, figure, value
from text import code, percent

MASKED, BLOCKS = "masked", "blocks"  # the models
WIKITEXT, MT_BENCH = "wikitext", "mt-bench"  # the texts
PROMPT_TOKENS = 64  # of a text that is continued
GEN_LENGTH = 32  # where no row says otherwise
COLUMNS = ["model", "setting", "rows per token", "rows", "passes", "time", "sparse rows", "same texts", "same as exact",
           "same tokens", "same beginning", "perplexity, WikiText", "perplexity, MT-Bench", "repetition"]
GUIDED = "--guide \"$GUIDE\" --cache free --eos-exit --guide-match"

APPROXIMATIONS = re.compile(r" ?--(cache|lock|sparse|suffix) \S+")  # of a pass; other flags say what is decoded

FULL, QUICK = {}, {}


@dataclass(frozen=True)
class Setting:
    """Flags of a model, and the pages of docs/methods whose tables show them."""
    model: str
    pages: tuple
    flags: str  # "{half}" stands for half of the positions

    def at(self, gen_length):
        """The flags for answers of so many positions."""
        return self.flags.replace("{half}", str(max(1, gen_length // 2)))

    @property
    def exact_flags(self):
        """The flags without cache, lock, suffix and sparse attention; "" where it has none of them, or a guide."""
        flags = APPROXIMATIONS.sub("", self.flags).strip()
        return "" if flags == self.flags or self.needs_guide else flags

    @property
    def needs_guide(self):
        """Whether another model verifies its drafts."""
        return "--guide " in self.flags


def settings(model, pages, *flags):
    """A Setting for each of `flags`; `pages`: names with a space between them."""
    return [Setting(model, tuple(pages.split()), each) for each in flags]


BASELINES = {MASKED: Setting(MASKED, (), "--unmask low-confidence"), BLOCKS: Setting(BLOCKS, (), "--unmask low-confidence")}

# In the order of measuring: each method with its usual flags first, and the cheaper model before the other.
MAIN = [
    *settings(BLOCKS, "unmask block_diffusion sparse_attention", "--unmask dynamic=0.9"),
    *settings(BLOCKS, "block_diffusion", "--unmask low-confidence --sub-block-length 2",
              "--unmask low-confidence --sub-block-length 2 --cache block"),
    *settings(BLOCKS, "sparse_attention", "--unmask low-confidence --sparse mage=16",
              "--unmask low-confidence --sparse quest=16,page=4", "--unmask low-confidence --sparse sparsed=16"),
    *settings(BLOCKS, "surelock", "--unmask low-confidence --lock eps=5e-4,gate=20"),
    *settings(BLOCKS, "sampling", "--unmask low-confidence --repeat-penalty 1.1"),
    *settings(MASKED, "unmask fewer_passes caches surelock growing_canvases", "--unmask threshold=0.9"),
    *settings(MASKED, "caches", "--unmask low-confidence --cache dkv",
              "--block-length 8 --unmask low-confidence --eos-exit",
              "--block-length 8 --unmask low-confidence --cache prefix --eos-exit",
              "--block-length 8 --unmask low-confidence --cache dual --eos-exit",
              "--block-length 8 --unmask low-confidence --cache free --eos-exit"),
    *settings(MASKED, "guided_diffusion", f"{GUIDED} relative=0.5"),
    *settings(MASKED, "surelock", "--unmask low-confidence --lock eps=5e-4,gate=20"),
    *settings(MASKED, "growing_canvases", "--unmask threshold=0.9 --grow end-mass,start={half},tail={half}"),
    *settings(MASKED, "fewer_passes", "--unmask klass=0.9,kl=0.001,history=2", "--unmask eb"),
]
MORE = [
    *settings(MASKED, "fewer_passes caches", "--block-length 8 --unmask threshold=0.9 --eos-exit"),
    *settings(MASKED, "fewer_passes", "--block-length 8 --suffix 8 --unmask threshold=0.9 --eos-exit", "--unmask local-leap",
              "--unmask credit"),
    *settings(MASKED, "caches", "--block-length 8 --unmask low-confidence --cache sparse-dllm --eos-exit",
              "--unmask threshold=0.9 --cache dkv", "--block-length 8 --unmask threshold=0.9 --cache dual --eos-exit"),
    *settings(MASKED, "unmask", "--unmask factor=1", "--unmask low-confidence --steps {half}", "--unmask entropy",
              "--unmask margin", "--unmask p2"),
    *settings(MASKED, "fewer_passes", "--unmask slow-fast=0.9,slow=0.8,span=0.1", "--unmask dsb=0.9,start=8",
              "--unmask prophet", "--unmask saber", "--unmask eb=0.1",
              "--block-length 8 --cache prefix --suffix 8 --unmask streaming=0.9,alpha=0.3 --eos-exit"),
    *settings(MASKED, "surelock", "--unmask low-confidence --lock eps=5e-3,gate=20",
              "--unmask threshold=0.9 --lock eps=5e-4,gate=20"),
    *settings(MASKED, "guided_diffusion", f"{GUIDED} exact", f"{GUIDED} top-k=2"),
    *settings(MASKED, "sampling", "--unmask low-confidence --repeat-penalty 1.1"),
    *settings(BLOCKS, "unmask block_diffusion", "--unmask dynamic=0.7", "--unmask threshold=0.9", "--unmask factor=1",
              "--unmask entropy-bounded=0.35", "--unmask sequential", "--unmask margin"),
    *settings(BLOCKS, "block_diffusion", "--unmask dynamic=0.9 --sub-block-length 2 --cache block"),
    *settings(BLOCKS, "sparse_attention", "--unmask low-confidence --sparse mage=32",
              "--unmask dynamic=0.9 --sparse mage=16", "--unmask dynamic=0.9 --sparse quest=16,page=4"),
    *settings(BLOCKS, "surelock", "--unmask low-confidence --lock eps=5e-3,gate=20"),
]
SETTINGS = [*BASELINES.values(), *MAIN, *MORE]
BY_FLAGS = {(each.model, each.flags): each for each in SETTINGS}


def exact_of(setting):
    """The same setting without approximations, or None if it is not measured."""
    return BY_FLAGS.get((setting.model, setting.exact_flags))


# Settings with which others are compared: their rows keep the answers.
COMPARED = {*BASELINES.values(), *filter(None, map(exact_of, SETTINGS))}


def command_of(setting, kind, gen_length, samples, threads):
    """The command that measures a setting on the texts of a kind. Words with a $ stand for folders and files."""
    task = {WIKITEXT: f'continuations --data "$WIKITEXT" --length {PROMPT_TOKENS}',
            MT_BENCH: 'mt-bench --turns 1 --data "$MT_BENCH"'}[kind]
    return (f'lacuna eval -m "${setting.model.upper()}" --task {task} {setting.at(gen_length)} --gen-length {gen_length} '
            f'--temperature 0 --batch 1 --samples {samples} --threads {threads} --judge "$JUDGE" --out answers.jsonl')


def shared_beginning(first, second):
    """Characters that two texts have in common from their beginning on, as a share of the longer one."""
    longest = max(len(first), len(second))
    return len(os.path.commonprefix([first, second])) / longest if longest else 1.0


def agreement(answers, baseline):
    """How two lists of answers agree, as sums over answers: equal texts, beginnings in common and, where answers have tokens,
    equal tokens, by position, of the longer answer."""
    found = {"texts": len(answers), "same_texts": 0, "beginnings": 0.0, "tokens": 0, "same_tokens": 0}
    for one, other in zip(answers, baseline, strict=True):
        found["same_texts"] += one["text"] == other["text"]
        found["beginnings"] += shared_beginning(one["text"], other["text"])
        tokens, others = one.get("tokens", []), other.get("tokens", [])
        found["tokens"] += max(len(tokens), len(others))
        found["same_tokens"] += sum(first == second for first, second in zip(tokens, others))
    return found


class Measured:
    """Figures of a setting, its texts of both kinds together where the name does not say otherwise."""

    def __init__(self, rows):
        self.rows = rows  # by kind of text
        results = [row["result"] for row in rows.values()]
        self.refused = next((found["refused"] for found in results if "refused" in found), "")
        if self.refused:
            return
        samples = sum(found["samples"] for found in results)
        passes = [found["passes_mean"] * found["samples"] for found in results]
        self.tokens = sum(found["tokens_per_forward"] * count for found, count in zip(results, passes))
        self.all_rows = sum(found["rows"] for found in results)
        self.sparse_rows = sum(found["sparse_rows"] for found in results)
        self.passes = sum(passes) / samples
        self.seconds = sum(found["processor_seconds"] for found in results)
        judged = [found["judge"] for found in results]
        judge_tokens = sum(found["tokens"] for found in judged)
        self.repetition = sum(found["repetition"] * found["tokens"] for found in judged) / max(1, judge_tokens)
        self.agreement, self.agreement_exact = self._sums("agreement"), self._sums("agreement_exact")

    def _sums(self, key):
        """The sums of both kinds of text; nothing where a row has none."""
        found = [row.get(key) for row in self.rows.values()]
        return {name: sum(each[name] for each in found) for name in found[0]} if all(found) else {}

    @property
    def machines(self):
        """Where its rows were measured."""
        return {str(sorted(row["machine"].items())) for row in self.rows.values()}

    def perplexity(self, kind):
        """By the judge, with its 95% interval."""
        judge = self.rows[kind]["result"]["judge"]
        if not judge.get("tokens") or judge.get("perplexity") is None:
            return "-"
        return f"{judge['perplexity']:.4g} ({judge['perplexity_low']:.4g} to {judge['perplexity_high']:.4g})"


def flags_text(setting, gen_length):
    """The flags of a setting in a table."""
    return code(setting.at(gen_length).replace('"$GUIDE"', "GUIDE"))


def gen_length_of(rows):
    """Positions of the answers of a file of rows."""
    return next((row["gen_length"] for row in rows), GEN_LENGTH)


def measured(run):
    """Settings of which rows of both kinds of text are known: Setting -> Measured."""
    rows = {(row["model"], row["flags"], row["text"]): row for row in run.known()}
    gen_length = gen_length_of(run.known())
    found = {}
    for setting in SETTINGS:
        both = {kind: rows.get((setting.model, setting.at(gen_length), kind)) for kind in (WIKITEXT, MT_BENCH)}
        if all(both.values()):
            found[setting] = Measured({kind: run.row(row["command"]) for kind, row in both.items()})
    return found


def cells(setting, found, baseline, gen_length):
    """Cells of a setting by column; the columns that it lacks have none."""
    shown = flags_text(setting, gen_length)
    if setting in BASELINES.values():
        shown = f"baseline: {shown}"
    made = {"model": setting.model, "setting": shown}
    if found.refused:
        return made | {"rows per token": "refused: " + found.refused.replace("|", "\\|")}
    sums, exact = found.agreement, found.agreement_exact
    if found.machines == baseline.machines:
        made["time"] = f"{found.seconds / baseline.seconds:.2f}"
    if exact:
        made["same as exact"] = f"{exact['same_texts']} of {exact['texts']}"
    if sums["tokens"]:
        made["same tokens"] = percent(sums["same_tokens"] / sums["tokens"])
    if found.tokens:
        made["rows per token"] = f"{found.all_rows / found.tokens:.1f}"
    return made | {
        "rows": f"{found.all_rows / baseline.all_rows:.3f}",
        "passes": f"{found.passes:.1f}",
        "sparse rows": percent(found.sparse_rows / found.all_rows),
        "same texts": f"{sums['same_texts']} of {sums['texts']}",
        "same beginning": percent(sums["beginnings"] / sums["texts"]),
        "perplexity, WikiText": found.perplexity(WIKITEXT),
        "perplexity, MT-Bench": found.perplexity(MT_BENCH),
        "repetition": percent(found.repetition),
    }


def columns_of(page):
    """Columns of the table of a page."""
    has_exact = any(page in each.pages and exact_of(each) for each in SETTINGS)
    hidden = {"" if page == "sparse_attention" else "sparse rows", "" if has_exact else "same as exact"}
    return [each for each in COLUMNS if each not in hidden]


@value
def section(run, page):
    """The table of a page of docs/methods, with the baselines of its models."""
    known, gen_length, columns = measured(run), gen_length_of(run.known()), columns_of(page)
    lines, missing = [], []
    for model, baseline in BASELINES.items():
        asked_for = [each for each in SETTINGS if each.model == model and page in each.pages]
        shown = [each for each in asked_for if each in known and baseline in known]
        missing += [each for each in asked_for if each not in shown]
        lines += [cells(each, known[each], known[baseline], gen_length) for each in ([baseline] if shown else []) + shown]
    parts = []
    if lines:
        parts.append(text.table(columns, [[line.get(column, "-") for column in columns] for line in lines]))
    if missing:
        names = [f"- {each.model}: {flags_text(each, gen_length)}" for each in missing]
        parts.append("\n".join(["Not measured yet:", "", *names]))
    return "\n\n".join(parts)


@dataclass
class Point:
    """A setting of a figure, as frontier.plot_cost() takes it."""
    label: str
    accuracy: float  # share of the baseline's tokens
    time: float
    rows: float


def label(flags):
    """The flags of a setting in a figure, without those that most settings have."""
    kept = re.sub(r"--unmask low-confidence |--eos-exit|--(unmask|cache) |--|\"\$GUIDE\"|-match", "", flags)
    return " ".join(kept.split())


def points(run, model):
    """The settings of a model that are to save something, measured on one machine with its baseline."""
    known, gen_length = measured(run), gen_length_of(run.known())
    baseline = known.get(BASELINES[model])
    found = [(each, result) for each, result in known.items()
             if each.model == model and "sampling" not in each.pages and not result.refused]
    return [Point(label(each.at(gen_length)),
                  result.agreement["same_tokens"] / max(1, result.agreement["tokens"]),
                  result.seconds / baseline.seconds, result.all_rows / baseline.all_rows)
            for each, result in found if result.machines == baseline.machines]


@figure(file="real_text_{}")
def costs(run, model):
    """Tokens that equal the baseline's, by time and by rows."""
    drawn, both = figures.axes(f"{model}, continuations of WikiText", "", "tokens as the baseline's, %", columns=2, log="x")
    plotted = []
    for axes, name in zip(both, ("time", "rows")):
        axes.set_xlabel(f"{name} relative to the baseline")
        plotted.append(frontier.plot_cost(axes, points(run, model), lambda each, name=name: getattr(each, name)))
    for axes, families in zip(both, plotted):
        figures.label_families(axes, families)
    return f"Agreement by time and by rows, {model}", drawn


@condition
def is_begun(run):
    """Whether anything was measured."""
    return bool(run.known())


@condition
def is_not_begun(run):
    """Whether nothing was measured."""
    return not run.known()


def baseline_result(run, kind):
    """The result of a baseline on the texts of a kind."""
    return next((row["result"] for row in run.known() if row["text"] == kind and "samples" in row["result"]), {"samples": 0})


@value
def continued(run):
    """How many texts of WikiText are continued."""
    return baseline_result(run, WIKITEXT)["samples"]


@value
def asked(run):
    """How many questions of MT-Bench are asked."""
    return baseline_result(run, MT_BENCH)["samples"]


@value
def positions(run):
    """Positions of an answer."""
    return gen_length_of(run.known())


@value
def inputs(run):
    """The models and files, each with the first digits of its hash."""
    names = {key: found for row in run.known() for key, found in row["inputs"].items()}
    return "; ".join(f"{key} {found['name']} ({found['sha256'][:12]})" for key, found in sorted(names.items()))


@value
def commands(run):
    """The commands of the baselines."""
    return "\n".join(f"- {code(row['command'])}" for row in run.known()
                     if row["flags"] == BASELINES[row["model"]].at(row["gen_length"]))
