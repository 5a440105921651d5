"""Claims of the papers, each with the paper's conditions, those here, a figure with its interval, and a verdict."""

import headlines
import uniform
from book import table, value
from claim import (
    LOCK, MAGE, MARGIN, MASKED, NO, OPEN, REFUSION, SHAPES, UNIFORM, WEAK, YES, Claim, above, all_of, as_fast, decided,
    fewer, kept, points, speed,
)
from errors import BookError
from mage import UNMASK, block_command
from text import code, percent

FULL = {"samples": 1000, "trained_samples": 200, "points": f"{100 * MARGIN:g}", "has_shapes": True,
        "has_trained": True}  # models that are trained for other pages, whose rows are borrowed
QUICK = {"samples": 4, "trained_samples": 4, "has_shapes": False, "has_trained": False}
BATCH = uniform.FULL["batches"][-1]
DECODE = uniform.shape_command(uniform.FULL["deep_shape"], f"{uniform.PLAN} --cache uniform", BATCH)
BLOCKS = block_command("random:sdar-8b,layers=8")
THEOREM = (
    "lacuna analyze lock -m {} --task arithmetic --gen-length 32 --lock eps=5e-2,gate=off --samples 10 --threads 1"
)


class Asked:
    """Asks for rows and remembers their commands in order."""

    def __init__(self, run):
        self._run, self.commands = run, []

    @property
    def grid(self):
        return self._run.grid

    def evaluate(self, flags):
        """Figures of `lacuna eval`."""
        return self._run.evaluate(self._noted(f"lacuna eval {flags} --batch 8 --samples {self.grid.samples}"))

    def command(self, command):
        """Figures of a whole command of `lacuna eval`, with its fastest times."""
        return self._run.evaluate(self._noted(command))

    def result(self, command):
        """Output of a command."""
        return self._run.result(self._noted(command))

    def tables(self, command):
        """Tables of `lacuna analyze`."""
        return self._run.tables(self._noted(command))

    def _noted(self, command):
        if command not in self.commands:
            self.commands.append(command)
        return command


# --- SureLock ---


def surelock(asked):
    """Claims of SureLock."""
    flags = "-m mini-llada --task arithmetic --block-length 8"
    plain = asked.evaluate(flags)
    loose, usual, strict = (asked.evaluate(f"{flags} --lock eps={eps},gate=20") for eps in ("5e-2", "5e-3", "5e-4"))
    ratios = [each.layer_flops / plain.layer_flops for each in (strict, usual, loose)]
    here = "mini-llada, arithmetic, 32 positions in blocks of 8, one token a step, m = 20"
    yield Claim(
        "SureLock: locks save 30 to 50% of the layers' FLOPs",
        "abstract; one block; LLaDA-8B-Instruct on MT-Bench 45.3 to 52.5% for 32 prompts (Table 1) and 30.2 to 48.5% for "
        "the benchmark (Table 3), LLaDA-8B-Base on WikiText 30 to 51% (Table 2)",
        here + ", ε = 5e-3",
        f"{percent(1 - ratios[1])}, counted",
        decided(ratios[1] <= 0.7),
        "prompts much longer than the answer whose rows do not converge, or few steps per token",
        MASKED,
    )
    yield Claim(
        "SureLock: quality is kept",
        "judge's scores 0.96 to 1.09 times the baseline's (Table 3); perplexity 1.02 to 1.37 times (Table 2)",
        here + ", ε = 5e-3; exact answers instead of a judge",
        points(usual, plain),
        kept(usual, plain),
        "a task on which the baseline is not near 100%, or another ε",
        MASKED,
    )
    yield Claim(
        "SureLock: a larger ε saves more",
        "FLOPs .547, .506 and .482 for 5e-4, 5e-3 and 5e-2 at 64 tokens, .494, .492 and .490 at 1,024 (Table 1)",
        here,
        "FLOPs " + ", ".join(f"{ratio:.3f}" for ratio in ratios) + ", counted",
        decided(ratios == sorted(ratios, reverse=True)),
        "nothing but a lock that ignores ε",
        MASKED,
    )
    yield theorem(asked)


def theorem(asked):
    """The premise of Theorem 1."""
    locks = [
        dict(zip(found["head"], row))
        for model in ("mini-llada", "mini-dream")
        for found in asked.tables(THEOREM.format(model))
        if found["head"][0] == "lock_of_request"
        for row in found["rows"]
    ]
    moved = [lock for lock in locks if lock["steps_after"] > 0]
    if not moved:
        raise BookError("no row was locked before the last step, so that Theorem 1 has no case")
    contract = sum(lock["largest_contraction"] < 1 for lock in moved) / len(moved)
    return Claim(
        "SureLock: the divergence of a locked row would have contracted geometrically (A2), which bounds its error",
        "assumed for Theorem 1 (section 2.3), not measured",
        "mini-llada and mini-dream, arithmetic, first step with D ≤ 0.05",
        f"A2 holds to the end for {percent(contract)} of {len(moved)} locks",
        decided(contract >= 0.95),
        "a checkpoint on which `lacuna analyze lock` finds contractions below 1 in 95% of the locks",
        LOCK,
    )


# --- FlashDLM ---


QUEST_PAGES = (1, 2, 4)
GEOMETRY = "-m random:llada-8b,layers=1 --prompt-length 1333 --gen-length 256 --timed-passes 1 --repeat 1 --threads 1"
NEAR = 0.95  # of a claimed ratio: rows that come so near do not decide about a time


def freecache(asked, has_shapes):
    """FreeCache at the paper's geometry, where rows are counted, and with blocks: with one block all caches are the same."""
    ratio = f"lacuna bench decode {GEOMETRY} --cache free"
    rows = 1 / asked.result(ratio)["row_ratio"] if has_shapes else None
    for model, closed, speed, least, clock in (
        (
            "mini-llada",
            "LLaDA-8B-Instruct, blocks of 64: 77.18% against 79.30%",
            "6.20 times as fast or more",
            6.2,
            "time per problem, LLaDA-8B-Instruct on GSM8K: 6.32× with blocks of 64 (Table 2), 6.20× with blocks of 32 "
            "(Table 7); one cache block of 256, as above",
        ),
        (
            "mini-dream",
            "Dream-7B-Instruct: 77.40% against 79.68%",
            "4.42 times as fast or more",
            4.42,
            "time per problem, Dream-7B-Instruct on GSM8K: 4.42× (Table 2); 1.91× (ARC-E) to 3.47× (PIQA) on five other "
            "tasks (Table 3); one cache block of 256, as above",
        ),
    ):
        flags = f"-m {model} --task phrasings --block-length 8"
        plain, free, prefix, dual = (
            asked.evaluate(flags + more) for more in ("", " --cache free", " --cache prefix", " --cache dual")
        )
        if len({each.all_rows for each in (plain, free, prefix, dual)}) < 4:
            raise BookError(
                f"{model}: two of the caches compute the same rows, so that nothing here is about FreeCache"
            )
        here = f"{model}, rephrased arithmetic, 32 positions in blocks of 8"
        paper = (
            f"GSM8K with 8 worked examples: {closed} (Table 2). Answers have at most 256 tokens and are one cache block "
            "(Table 11; section 4 says 1,024 tokens), so that the K/V of the prompt alone are frozen"
        )
        yield Claim(
            f"FlashDLM: frozen K/V of finished blocks cost little accuracy, {model}",
            paper,
            here,
            points(free, plain),
            kept(free, plain),
            "an accuracy that differs by more than the margin",
            MASKED,
        )
        if rows:
            yield Claim(
                f"FlashDLM: FreeCache is {speed}, the paper's geometry",
                clock,
                "a prompt of 1,333 tokens, which eight worked examples of GSM8K take, an answer of 256 in one block, one "
                "token a step; any model; rows instead of time, undecided from 95% of the claim on",
                f"{rows:.2f} times fewer rows; counted",
                YES if rows >= least else OPEN if rows >= NEAR * least else NO,
                "a longer prompt, or a baseline that computes more than its rows",
                SHAPES,
            )
        yield Claim(
            f"FlashDLM: FreeCache is {speed}, {model} with a short prompt",
            clock,
            f"{here}; rows instead of time",
            f"{fewer(plain, free):.2f} times fewer rows; prefix cache {fewer(plain, prefix):.2f}, dual cache "
            f"{fewer(plain, dual):.2f}; counted",
            decided(fewer(plain, free) >= least),
            "prompts longer than the answer: what FreeCache saves is at most prompt and finished blocks",
            MASKED,
        )


def guided(asked):
    """Guided diffusion."""
    flags = "-m mini-llada --task arithmetic"
    guide = f"{flags} --cache free --guide mini-qwen --guide-match "
    plain, alone = asked.evaluate(flags), asked.evaluate("-m mini-qwen --task arithmetic")
    first, half, two, five = (
        asked.evaluate(guide + match) for match in ("exact", "relative=0.5", "top-k=2", "top-k=5")
    )
    model = (
        f"mini-llada guided by mini-qwen, which alone solves {percent(alone.accuracy)}; arithmetic, one block of 32, FreeCache"
    )
    here = f"{model}, top-2"
    for setting, found in (("Table 11's acceptance, half of the best token's probability", half), ("top-2 alone", two)):
        yield from guided_at(setting, f"{model}, {setting}", found, plain)
    yield Claim(
        "FlashDLM: a looser criterion costs no accuracy and takes fewer passes",
        "LLaDA-8B on GSM8K with Qwen2.5-1.5B, 3B, 7B: top-1 79.91, 79.53, 79.30%; top-5 79.91, 80.06, 79.76%, faster "
        "with each; but top-2 with 1.5B 78.85% at 12.96× against top-1's 79.91% at 13.29× (Table 7)",
        here.replace("top-2", "top-5 against exact"),
        f"{points(five, first)}; {five.passes:.1f} against {first.passes:.1f} passes",
        all_of(kept(five, first), decided(five.passes < first.passes)),
        "guides whose second to fifth choices are plausible; a tiny guide's are not",
        MASKED,
    )


def guided_at(setting, here, found, plain):
    """Cost and savings of a guide with one rule of acceptance."""
    yield Claim(
        f"FlashDLM: more than ten times as fast with a guide, {setting}",
        "end-to-end time: 12.14× with Dream-7B, the mean of six tasks from 1.78× (GPQA) to 34.1× (PIQA) (Table 3), and "
        "13.29× with LLaDA-8B, on average by section 1, on GSM8K alone by Table 7",
        here,
        f"{fewer(plain, found):.1f} times fewer rows, {plain.passes / found.passes:.1f} times fewer passes; counted",
        decided(fewer(plain, found) >= 10),
        "a guide that agrees on fewer drafts",
        MASKED,
    )
    yield Claim(
        f"FlashDLM: the guide costs no accuracy, {setting}",
        "with Qwen2.5-1.5B, which alone has 68.54% on GSM8K (Table 4): Dream-7B 80.33% against 79.68%, and -0.41 to +10.26 "
        "points on five other tasks (Table 3); LLaDA-8B, top-2, 78.85% against 81.52% in blocks of 32 and 79.30% in blocks "
        "of 64 (Table 7)",
        here,
        points(found, plain),
        kept(found, plain),
        "another acceptance; the paper's own case, a guide weaker than the model, is on weak_guide.md",
        MASKED,
    )


NOISE = "noise on its weights"
WEAK_GUIDES = {
    NOISE: [f"mini-qwen-{noise}" for noise in ("0.48-1", "0.48-2", "0.45-2", "0.45-1", "0.48-3")],
    "trained too briefly": [f"trained-{steps}" for steps in (1100, 1000, 700, 500)],
}


def weak_guides(asked):
    """Guides that are worse than the model."""
    for kind, names in WEAK_GUIDES.items():
        # Guides with noise cost about two points, the others up to ten: fewer samples tell.
        samples = asked.grid.samples if kind == NOISE else asked.grid.trained_samples
        task = f"--task arithmetic --samples {samples} --threads 1"
        plain = asked.command(f"lacuna eval -m mini-llada {task}")
        folders = [f"build/weak-guides/{name}" for name in names]
        alone = [asked.command(f"lacuna eval -m {folder} {task}") for folder in folders]
        found = [
            asked.command(f"lacuna eval -m mini-llada {task} --guide {folder} --guide-match exact")
            for folder in folders
        ]
        worst = min(found, key=lambda each: each.accuracy)
        yield Claim(
            f"FlashDLM: a guide weaker than the model suffices, {kind}",
            'accuracy "is maintained regardless of guider competence" (section 4.2), yet "the guider\'s alignment does impact '
            'the effectiveness" (section 5): Qwen2.5-1.5B alone 68.54% on GSM8K, with Dream-7B 80.3% (Table 4) against 79.68%, '
            "with LLaDA-8B 79.91% (top-1) against 81.52% in blocks of 32 and 79.30% in blocks of 64 (Table 7)",
            f"mini-llada, arithmetic, one block of 32, exact acceptance, {len(names)} guides that alone solve "
            f"{percent(min(each.accuracy for each in alone))} to {percent(max(each.accuracy for each in alone))}; "
            "yes where each guide keeps the accuracy",
            f"guided {', '.join(percent(each.accuracy) for each in found)}; the worst {points(worst, plain)}",
            all_of(*(kept(each, plain) for each in found)),
            "guides whose mistakes the model does not confirm, or more samples where undecided",
            WEAK,
        )


# --- ReFusion ---

LOSS = 0.0334  # of accuracy: the paper's mean loss at equal data (Table 2), in shares


def refusion_speed(asked, has_trained):
    """Tokens per second against autoregressive models."""
    pairs = [
        (f"mini-refusion against mini-qwen3, {task}", f"mini-qwen3 --task {task}", f"mini-refusion --task {task}")
        for task in ("arithmetic", "records")
    ]
    if has_trained:
        twin = "build/twins/{} --task records"
        pairs.append(("trained on the same data, records", twin.format("autoregressive"), twin.format("refusion")))
    for name, *models in pairs:
        serial, slots = (
            asked.command(f"lacuna eval -m {model} --batch 1 --samples 16 --threads 1")
            for model in (models[0], f"{models[1]} --refusion lacuna")
        )
        yield Claim(
            f"ReFusion: more tokens per second than an autoregressive model, {name}",
            "2.33 times Qwen3-8B's, the mean ratio of seven tasks (section 5.2) from 0.76 (ARC-C) to 3.36 (HumanEval) by "
            "Table 1, whose mean rates are 72.62 and 32.42; at equal data 53.34 against 30.16 (Table 2); A100, batch 1",
            "Lacuna's rules, one sample at a time, processor time of a CPU",
            speed(slots, serial),
            as_fast(slots, serial),
            "a machine on which a pass of many rows takes hardly longer than one of a single row, as a GPU is",
            REFUSION,
        )


def refusion(asked):
    """Claims of ReFusion."""
    for task in ("arithmetic", "records"):
        serial = asked.evaluate(f"-m mini-qwen3 --task {task}")
        slots = asked.evaluate(f"-m mini-refusion --task {task}")
        here = f"mini-refusion against mini-qwen3, {task}, Lacuna's rules"
        yield Claim(
            f"ReFusion: at most half an autoregressive model's passes (not time) for at most 3.34 points, {task}",
            "tokens per pass are plotted without numbers (Figure 6); at equal data 3.34 points less accurate on average (59.93 "
            "against 63.27), less on GSM8K (80.74 against 87.57) and MBPP (58.20 against 59.20), more on HumanEval (70.12 "
            "against 53.66) (Table 2); "
            "against Qwen3-8B 65.31 to 73.36 on average, more on GSM8K (84.91 against 81.96) and MBPP (68.20 against "
            "63.80) (Table 1)",
            here,
            f"{slots.passes:.1f} against {serial.passes:.1f} passes; {points(slots, serial)}",
            all_of(decided(slots.passes * 2 <= serial.passes), above(slots, serial, -LOSS)),
            "a model trained longer on the task: the two differ in training, not in rules alone",
            REFUSION,
        )
        released, parallel = (
            asked.evaluate(f"-m mini-refusion --task {task} {rules}")
            for rules in ("--refusion released", "--fill side-by-side")
        )
        yield Claim(
            f"ReFusion: the released rules decode as accurately as Lacuna's, {task}",
            "Algorithm in section 4.2, trained with slots of 4 to 32 (B.1)",
            f"mini-refusion, {task}, trained on slots of 4 to 32, most masked ones half-written (not in the paper)",
            f"{points(released, slots)}; filled in parallel by Lacuna's rules {percent(parallel.accuracy)}",
            kept(released, slots),
            "longer training on half-written masked slots, which these rules read; texts whose slots are independent",
            REFUSION,
        )
    flags = "-m mini-refusion --task records --fill side-by-side --kv "
    reused, recomputed = asked.evaluate(flags + "reuse"), asked.evaluate(flags + "recompute")
    yield Claim(
        "ReFusion: reusing the K/V of slots filled in parallel loses nothing",
        "0 to 1.22 points in its favour on seven tasks (Table 4)",
        "mini-refusion, records, slots committed as completed",
        points(reused, recomputed),
        kept(reused, recomputed),
        "tasks whose slots depend on each other",
        REFUSION,
    )


# --- Uniform-Cache ---


def uniform_cache(asked, has_shapes):
    """Claims of Uniform-Cache."""
    flags = "-m mini-gidd --task arithmetic --gen-length 32 --block-length 16 --steps 32 --tokens-per-step 1"
    plain, cached, never = (
        asked.evaluate(flags + more) for more in ("", " --cache uniform", " --cache uniform --refresh 0")
    )
    here = "mini-gidd, arithmetic, blocks of 16 in a context of 256, adaptive, one token a step"
    yield Claim(
        "Uniform-Cache: quality is kept",
        "GIDD 3B, WikiText, no accuracies; perplexity with the cache against without, always with overlapping intervals: "
        "blocks of 32, three tokens a step 4.86 against 5.33 (Table 6.1), blocks of 16 and 64 6.19 against 6.09 and 3.84 "
        "against 3.54 (Table 6.9), 5 and 10 tokens a step 5.93 against 4.88 and 8.21 against 7.27 (Table 6.11)",
        here,
        f"{points(cached, plain)}; {fewer(plain, cached):.1f} times fewer rows",
        kept(cached, plain),
        "longer blocks relative to the context",
        UNIFORM,
    )
    yield Claim(
        "Uniform-Cache: how often the next block is refreshed matters little",
        "perplexity 4.26, 4.69 and 4.79 with R = 1, 4 and never, overlapping intervals (Table 6.10)",
        here + "; never against R = 4",
        points(never, cached),
        kept(never, cached),
        "blocks that attend more to the next one",
        UNIFORM,
    )
    if has_shapes:
        found = asked.result(DECODE)
        yield Claim(
            "Uniform-Cache: 12.0 times as fast at 3B",
            "A100, batch 8 (Table 6.1); about 21.6 by the count of positions (section 7.3)",
            f"six layers of GIDD 3B's shape with random weights on one core of a CPU, batch {BATCH}",
            headlines.shown_speedup(found),
            headlines.reaches(found, 12),
            "a machine that is idle with few rows, as a GPU is",
            UNIFORM,
        )


# --- MAGE ---


def mage_accuracy(asked):
    """Claims of MAGE about answers, by both ways of unmasking."""
    for unmask, name in ((UNMASK["single"], "one token a step"), (UNMASK["dynamic"], "all tokens above 0.9999")):
        flags = f"-m mini-sdar --task arithmetic --gen-length 32 --unmask {unmask}"
        exact = asked.evaluate(flags)
        mage, sparsed, everywhere, sparsed_everywhere = (
            asked.evaluate(f"{flags} --sparse {sparse}")
            for sparse in ("mage=8", "sparsed=8", "mage=8,dense-layers=0", "sparsed=8,dense-layers=0")
        )
        quests = [asked.evaluate(f"{flags} --sparse quest=8,page={page}") for page in QUEST_PAGES]
        shares = ", ".join(
            f"{method} {percent(each.sparse_share)}" for method, each in (("MAGE", mage), ("SparseD", sparsed))
        )
        setting = f"mini-sdar, arithmetic, budget of 8 of about 30 cells, blocks of 8, {name}"
        here = f"{setting}, two of four layers exact"
        for layers, found in (("two of four layers exact", mage), ("no layer exact", everywhere)):
            yield Claim(
                f"MAGE: close to exact attention at a small budget, {layers}, {name}",
                "LongBench, SDAR-8B: 45.90, 46.27 and 46.37 at 256, 512 and 1,024 against 47.14 (Table 2); a needle at 32K 76, "
                "71 and 67 against 57, but with LLaDA 2.0 mini 62, 68 and 76 against 90 (Table 3); the first two of 36 layers "
                "are exact",
                f"{setting}, {layers}",
                points(found, exact),
                kept(found, exact),
                "a smaller budget, or a model with more layers, whose exact ones are fewer of them",
                MAGE,
            )
        against = "against MAGE's 45.90, 46.27 and 46.37 at 256, 512 and 1,024 (LongBench, SDAR-8B, Table 2)"
        yield Claim(
            f"MAGE: more accurate than Quest at the same budget, {name}",
            f"36.50, 41.47 and 45.01 {against}",
            f"{here}; Quest with pages of {', '.join(map(str, QUEST_PAGES))} cells: yes where MAGE is better than with each",
            "; ".join(f"pages of {page}: {points(mage, each)}" for page, each in zip(QUEST_PAGES, quests)),
            all_of(*(above(mage, each, 0) for each in quests)),
            "a budget of more pages: 8 cells are two pages of 4",
            MAGE,
        )
        for layers, one, other in (
            (f"two of four layers exact; rows that were sparse: {shares}", mage, sparsed),
            ("no layer exact", everywhere, sparsed_everywhere),
        ):
            yield Claim(
                f"MAGE: more accurate than SparseD at the same budget, {layers.split(';')[0]}, {name}",
                f"39.57, 44.34 and 46.27 {against}, exact for the first fifth of the steps",
                f"{setting}, {layers}",
                points(one, other),
                above(one, other, 0),
                "answers that take fewer steps than a fifth of those planned, in which SparseD is exact",
                MAGE,
            )


def mage_speed(asked):
    """Claims of MAGE about time."""
    by_prefix = sorted(asked.result(BLOCKS)["results"], key=lambda found: found["prefix"])
    longest = {found["sparse"].split("=")[0]: found for found in by_prefix}
    mage, quest, sparsed = longest["mage"], longest["quest"], longest["sparsed"]
    growing = [found for found in by_prefix if found["sparse"].startswith("mage=")]
    speedups = [found["speedup"] for found in growing]
    context, seconds = mage["prefix"], mage["block_seconds"]
    here = (
        f"eight layers of SDAR-8B's shape with random weights on a CPU, {context} cells before a block of 32,"
        " budget 512"
    )
    yield Claim(
        "MAGE: the longer the context, the larger the speedup over exact attention, as FLOPs allow",
        "up to 6.82× at 128K (abstract), more with each longer context for three models (Figure 5), H100",
        here.replace(f"{context} cells", f"{growing[0]['prefix']} to {context} cells"),
        ", ".join(f'{found["speedup"]:.2f} times at {found["prefix"]}' for found in growing)
        + f'; FLOPs allow {growing[0]["flops_allow"]:.2f} to {mage["flops_allow"]:.2f}',
        decided(
            all(shorter < longer for shorter, longer in zip(speedups, speedups[1:]))
            and speedups[-1] >= 0.85 * mage["flops_allow"]
            and speedups[-1] > speedups[0]
        ),
        "a slower gather of cells, or a speedup that no longer grows from one context to the next",
        MAGE,
    )
    yield Claim(
        "MAGE: selection costs the first step nearly nothing",
        "overlapped with the feed-forward layers on a second stream (section 4)",
        here,
        f'{mage["first_step_ratio"]:.2f} of an exact step',
        decided(mage["first_step_ratio"] <= 1.1),
        "a selection that takes more than a tenth of the step",
        MAGE,
    )
    # What is neither attention nor selection is the same work in every sparse step: how far its times differ is noise.
    rest = [each["later_step"]["rest"] for each in (mage, quest, sparsed)]
    noise = max(rest) / min(rest)
    rival = min(quest["block_seconds"], sparsed["block_seconds"])
    yield Claim(
        "MAGE: faster than Quest and SparseD",
        "up to 3.35× and 2.28× (abstract)",
        f"{here}; undecided where the times differ by less than those of the same work in the sparse steps, which differ by "
        f"{percent(noise - 1)}",
        f'{quest["block_seconds"] / seconds:.2f} times Quest\'s speed, {sparsed["block_seconds"] / seconds:.2f} times '
        "SparseD's",
        YES if seconds * noise < rival else NO if seconds > rival * noise else OPEN,
        "blocks of fewer steps, in which MAGE's exact first step weighs more",
        MAGE,
    )


def judge(run):
    """All claims, and the commands that they rest on."""
    asked = Asked(run)
    found = [
        *surelock(asked),
        *freecache(asked, run.grid.has_shapes),
        *guided(asked),
        *(weak_guides(asked) if run.grid.has_trained else ()),
        *refusion(asked),
        *refusion_speed(asked, run.grid.has_trained),
        *uniform_cache(asked, run.grid.has_shapes),
        *mage_accuracy(asked),
        *headlines.judged(asked),
    ]
    if run.grid.has_shapes:
        found += mage_speed(asked)
    return found, asked.commands


@table
def claims(run):
    """Every claim in one line."""
    return ["claim", "found here", "holds here", "details"], [
        [claim.name, claim.found, claim.verdict, claim.page] for claim in judge(run)[0]
    ]


@value
def details(run):
    """Conditions of every claim, and what would change its verdict."""
    return "\n\n".join(
        f"**{claim.name}**: {claim.verdict}.\n\n- Paper: {claim.paper}.\n- Here: {claim.here}.\n"
        f"- Found: {claim.found}.\n- What would change the verdict: {claim.flips}."
        for claim in judge(run)[0]
    )


@value
def commands(run):
    """The commands behind the claims, one on a line."""
    return "\n".join(f"- {code(command)}" for command in judge(run)[1])
