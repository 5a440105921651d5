"""Steps of check.py, in order, each with a limit in seconds. The limits of a plan add up to less than its own, so that no step
takes another's time; what is most telling comes first."""
from dataclasses import dataclass

KERNELS = ("sums", "invariance", "peaks", "products", "attention", "statistics")  # sections of gpu_check
SMALL_MODELS = "mini-(llada|llada2|fast-dllm)"  # of models/, whose tokens plan A compares
AGAIN_SECONDS = 100  # of plan B, for what failed or is missing in an earlier file


@dataclass(frozen=True)
class Step:
    """A method of Checks with its arguments."""
    name: str
    limit: float
    method: str
    arguments: tuple = ()


def kernels(section, limit, *words):
    """A section of gpu_check."""
    return Step(section, limit, "kernels", (section, *words))


def model(name, limit, *words):
    """Passes of a published shape with random weights."""
    return Step(f"model {name}", limit, "model", (f"random:{name}", *words))


def logits(name, limit, dtype="bf16"):
    """Logits of a published shape, cut to few layers, against the CPU's."""
    return Step(f"logits {name}, {dtype}", limit, "compare_logits", (name, dtype))


PLANS = {
    "a": (240, (
        Step("facts", 6, "facts"),
        Step("tests", 50, "tests"),
        kernels("sums", 4),
        kernels("invariance", 24, "--plans", "20"),
        kernels("peaks", 12),
        kernels("products", 26, "--formats", "bf16", "--rows", "1,32,128,256,1024"),
        kernels("attention", 10, "--attention-rows", "32,128", "--cells", "1024,32768", "--shapes", "sdar-8b"),
        kernels("statistics", 6),
        model("llada-8b", 46, "--canvas", "1024", "--rows", "32,256,1024"),
        Step("ncu", 24, "profile"),
        Step("memcheck", 8, "sanitize", ("memcheck",)),
        Step("racecheck", 8, "sanitize", ("racecheck",)),
        Step("tokens, f32", 16, "compare_small_models", ("f32", SMALL_MODELS)),
    )),
    "b": (400, (  # behind what has to be run again
        Step("facts", 6, "facts"),
        model("sdar-8b", 46, "--canvas", "8192", "--rows", "32,4"),
        model("llada2-mini", 70, "--canvas", "1024", "--rows", "128,32"),
        Step("products of formats", 36, "kernels", ("products", "--rows", "32")),
        logits("llada-8b", 30), logits("sdar-1.7b", 20), logits("llada2-mini", 40), logits("diffusion-gemma", 50),
    )),
}

# Without a plan: all there is, for as long as --minutes says.
COMPARED = ("llada-8b", "dream-7b", "sdar-1.7b", "fast-dllm-v2-7b", "gidd-3b", "sumi-7b", "qwen3-0.6b", "llada-moe-7b",
            "llada2-mini", "llada2.2-mini", "nemotron-labs-diffusion-3b-base", "diffusion-gemma")


def everything(seconds):
    """Steps without limits of their own."""
    steps = [Step("facts", seconds, "facts"), Step("tests", seconds, "tests"),
             *(kernels(section, seconds) for section in KERNELS)]
    for dtype in ("bf16", "f32"):
        steps += [logits(name, seconds, dtype) for name in COMPARED]
        steps.append(Step(f"tokens, {dtype}", seconds, "compare_small_models", (dtype, ".*")))
    steps += [model("llada-8b", seconds, "--canvas", "1024", "--rows", "1024,256,32"),
              model("sdar-8b", seconds, "--canvas", "8192", "--rows", "32,4"),
              model("llada2-mini", seconds, "--canvas", "1024", "--rows", "128,32"),
              Step("threads", seconds, "threads")]
    return steps


def missing(lines):
    """Names of steps, and of suites of tests as "tests: SUITE", that a run was to take and that did not end well."""
    steps = [name for line in lines if line["what"] == "plan" for name in line["steps"]]
    ended = {line["step"] for line in lines if line["what"] == "end" and line["outcome"] == "done"}
    suites = [name for line in lines if line["what"] == "suites" for name in line["names"]]
    passed = {line["suite"] for line in lines if line["what"] == "tests" and not line.get("why")}
    return [name for name in steps if name not in ended] + [f"tests: {name}" for name in suites if name not in passed]


def steps_of(plan, earlier=()):
    """(seconds, steps) of a plan.

    earlier  lines of another run: plan B begins with what that one lacks
    """
    seconds, steps = PLANS[plan]
    again = []
    if plan == "b":
        lacking, left = set(missing(earlier)), AGAIN_SECONDS
        for step in PLANS["a"][1]:
            if step.name in lacking and step.limit <= left and step not in steps:
                again.append(step)
                left -= step.limit
    return seconds, [*steps[:1], *again, *steps[1:]]


def rehearsed(step, slower):
    """A step as the simulator can take it: small sizes, and `slower` times as long."""
    small = {"model": ("models/mini-llada", "--canvas", "32", "--rows", "8", "--repeat", "1"),
             "compare_logits": ("models/mini-llada", *step.arguments[1:]), "threads": ("models/mini-llada",)}
    return Step(step.name, step.limit * slower, step.method, small.get(step.method, step.arguments))
