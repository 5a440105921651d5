"""Claims of the papers, each compared with what was measured here."""
from book import table, value
from text import code, percent

NO_DIFFERENCE = 0.025  # accuracies of 200 samples that are closer than this, in shares, count as equal
FULL = {"samples": 200, "points": f"{100 * NO_DIFFERENCE:g}", "has_shapes": True}
QUICK = {"samples": 4, "has_shapes": False}

MASKED, REFUSION, UNIFORM, MAGE = (f"[{name}.md]({name}.md)" for name in ("masked", "refusion", "uniform", "mage"))
DECODE = ("lacuna bench decode -m random:gidd-3b,layers=6 --prompt-length 127 --gen-length 64 --block-length 32 "
          "--steps 32 --tokens-per-step 3 --cache uniform --ignore-eos --block-exit steps --last-layer all --batch 8 "
          "--threads 1")
BLOCKS = "lacuna bench block -m random:sdar-8b,layers=8 --prefix 8192,16384,32768,65536 --threads 2"


class Asked:
    """Asks for rows and remembers their commands in order."""

    def __init__(self, run):
        self._run, self.commands = run, []

    def evaluate(self, flags):
        """Figures of `lacuna eval`."""
        return self._run.evaluate(self._noted(f"lacuna eval {flags} --batch 8 --samples {self._run.grid.samples}"))

    def result(self, command):
        """What a command printed."""
        return self._run.result(self._noted(command))

    def _noted(self, command):
        if command not in self.commands:
            self.commands.append(command)
        return command


def rows_text(found, base):
    """Rows relative to the baseline."""
    return f"{found.all_rows / base.all_rows:.2f} of the rows"


def accuracies(found, base):
    """Accuracy with and without a method."""
    return f"accuracy {percent(found.accuracy)}, {percent(base.accuracy)} without"


def is_kept(found, base):
    """Whether the accuracy is no lower than the baseline's."""
    return found.accuracy >= base.accuracy - NO_DIFFERENCE


def surelock(asked):
    """Claims of SureLock."""
    base = "-m mini-llada --task arithmetic --block-length 8"
    plain = asked.evaluate(base)
    loose, usual, strict = (asked.evaluate(f"{base} --lock eps={eps},gate=20") for eps in ("5e-2", "5e-3", "5e-4"))
    ratios = [each.layer_flops / plain.layer_flops for each in (strict, usual, loose)]
    saved = 1 - ratios[1]
    yield "SureLock: layer FLOPs fall by 30 to 50%", f"by {100 * saved:.0f}%", saved >= 0.3, MASKED
    yield "SureLock: accuracy is kept", accuracies(usual, plain), is_kept(usual, plain), MASKED
    yield ("SureLock: a larger ε saves more",
           "ε of 5e-4, 5e-3, 5e-2: FLOPs " + ", ".join(f"{ratio:.3f}" for ratio in ratios),
           ratios == sorted(ratios, reverse=True), MASKED)


def flashdlm(asked):
    """Claims of FlashDLM."""
    base = "-m mini-llada --task arithmetic"
    plain, free = asked.evaluate(base), asked.evaluate(f"{base} --cache free")
    guided = asked.evaluate(f"{base} --cache free --guide mini-qwen --guide-match top-k=2")
    exact = asked.evaluate(f"{base} --cache free --guide mini-qwen --guide-match exact")
    yield ("FlashDLM: FreeCache computes far fewer rows and keeps the accuracy",
           f"{rows_text(free, plain)}; {accuracies(free, plain)}",
           free.all_rows < 0.7 * plain.all_rows and is_kept(free, plain), MASKED)
    yield ("FlashDLM: more than ten times as fast with the guide (12.1× and 13.3× in its abstract)",
           f"{plain.all_rows / guided.all_rows:.1f} times fewer rows, {plain.passes / guided.passes:.1f} times fewer passes",
           guided.all_rows * 10 <= plain.all_rows, MASKED)
    yield "FlashDLM: the guide keeps the accuracy", accuracies(guided, plain), is_kept(guided, plain), MASKED
    yield ("FlashDLM: a stricter acceptance criterion is more accurate and takes more passes",
           f"exact {percent(exact.accuracy)} in {exact.passes:.1f} passes, top-2 {percent(guided.accuracy)} in "
           f"{guided.passes:.1f}", exact.accuracy >= guided.accuracy and exact.passes >= guided.passes, MASKED)


def refusion(asked):
    """Claims of ReFusion."""
    for task in ("arithmetic", "records"):
        serial = asked.evaluate(f"-m mini-qwen3 --task {task}")
        slots = asked.evaluate(f"-m mini-refusion --task {task}")
        released = asked.evaluate(f"-m mini-refusion --task {task} --refusion released")
        yield (f"ReFusion: several tokens per pass, as accurate as autoregressive decoding, {task}",
               f"{slots.passes:.1f} passes, autoregressive {serial.passes:.1f}; accuracy {percent(slots.accuracy)}, "
               f"autoregressive {percent(serial.accuracy)}",
               slots.passes * 2 <= serial.passes and is_kept(slots, serial), REFUSION)
        yield (f"ReFusion: slots filled in parallel need no further pass, {task}",
               f"accuracy {percent(released.accuracy)} with the released rules, {percent(slots.accuracy)} with a pass "
               "that computes the slots again in order", is_kept(released, slots), REFUSION)
    parallel = "-m mini-refusion --task records --fill side-by-side --kv "
    reused, recomputed = asked.evaluate(parallel + "reuse"), asked.evaluate(parallel + "recompute")
    yield ("ReFusion: reusing the K/V of slots filled in parallel loses nothing",
           f"accuracy {percent(reused.accuracy)}, recomputed {percent(recomputed.accuracy)}",
           is_kept(reused, recomputed), REFUSION)


def uniform_cache(asked, has_shapes):
    """Claims of Uniform-Cache."""
    base = "-m mini-gidd --task arithmetic --gen-length 32 --block-length 16 --steps 32 --tokens-per-step 1"
    plain, cached = asked.evaluate(base), asked.evaluate(f"{base} --cache uniform")
    never = asked.evaluate(f"{base} --cache uniform --refresh 0")
    yield ("Uniform-Cache: accuracy is kept", f"{accuracies(cached, plain)}; {rows_text(cached, plain)}",
           is_kept(cached, plain), UNIFORM)
    yield ("Uniform-Cache: how often the next block is refreshed matters little",
           f"R = 4 {percent(cached.accuracy)}, never {percent(never.accuracy)}",
           abs(cached.accuracy - never.accuracy) <= NO_DIFFERENCE, UNIFORM)
    if has_shapes:
        found = asked.result(DECODE)
        yield ("Uniform-Cache: 12.0 times as fast at 3B, of 18.9 that FLOPs allow",
               f'{1 / found["time_ratio"]:.1f} times, of {1 / found["flops_ratio"]:.1f}, six layers of that shape',
               found["time_ratio"] * 12 <= 1, UNIFORM)


def mage_accuracy(asked):
    """Claims of MAGE about answers."""
    base = "-m mini-sdar --task arithmetic --gen-length 32 --unmask dynamic=0.9"
    exact = asked.evaluate(base)
    mage, quest, sparsed = (asked.evaluate(f"{base} --sparse {sparse}")
                            for sparse in ("mage=8", "quest=8,page=4", "sparsed=8,exact=0"))
    yield ("MAGE: close to exact attention at a small budget", accuracies(mage, exact), is_kept(mage, exact), MAGE)
    yield ("MAGE: more accurate than Quest and SparseD at the same budget",
           f"budget 8: MAGE {percent(mage.accuracy)}, Quest {percent(quest.accuracy)}, "
           f"SparseD {percent(sparsed.accuracy)}",
           mage.accuracy > quest.accuracy and mage.accuracy > sparsed.accuracy, MAGE)


def mage_speed(asked):
    """Claims of MAGE about time."""
    # The last row of each policy is the one with the longest prefix.
    longest = {found["sparse"].split("=")[0]: found for found in asked.result(BLOCKS)["results"]}
    mage, quest, sparsed = longest["mage"], longest["quest"], longest["sparsed"]
    context, seconds = mage["prefix"], mage["block_seconds"]
    yield ("MAGE: the longer the context, the larger the speedup over exact attention, as FLOPs allow",
           f'{mage["speedup"]:.2f} times at {context} tokens, FLOPs allow {mage["flops_allow"]:.2f}',
           mage["speedup"] >= 0.85 * mage["flops_allow"], MAGE)
    yield ("MAGE: selection costs the first step nearly nothing",
           f'the first step takes {mage["first_step_ratio"]:.2f} of an exact one at {context} tokens',
           mage["first_step_ratio"] <= 1.1, MAGE)
    yield ("MAGE: faster than Quest and SparseD",
           f'at {context} tokens {quest["block_seconds"] / seconds:.2f} times Quest\'s speed, '
           f'{sparsed["block_seconds"] / seconds:.2f} times SparseD\'s',
           seconds < 0.98 * min(quest["block_seconds"], sparsed["block_seconds"]), MAGE)


def judge(run):
    """All claims as (claim, here, whether it agrees, page), and the commands that they rest on."""
    asked = Asked(run)
    found = [*surelock(asked), *flashdlm(asked), *refusion(asked), *uniform_cache(asked, run.grid.has_shapes),
             *mage_accuracy(asked)]
    if run.grid.has_shapes:
        found += mage_speed(asked)
    return found, asked.commands


@table
def claims(run):
    """Every claim."""
    return ["claim", "here", "agrees", "details"], [[claimed, here, "yes" if agrees else "no", page]
                                                    for claimed, here, agrees, page in judge(run)[0]]


@value
def commands(run):
    """The commands behind the claims, one on a line."""
    return "\n".join(f"- {code(command)}" for command in judge(run)[1])
