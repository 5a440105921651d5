"""Checks constrained answers of every way to decode from outside: random JSON schemas with `jsonschema` as the judge, random regular
expressions with Python's `re`.

    python check_answers.py ANSWER_PROBE [--cases N] [--seed S] [--jobs N] [--quiet]

ANSWER_PROBE is built from tests/engine/answer_probe.cpp: tiny models with random weights, which never want what a schema asks for.
Each case draws a constraint, a model, a schedule and a length. Every finished answer has to be valid and whole. A length below that
of the shortest answer has to be refused, and the shortest one to be enough. Exit status 0 when nothing failed.
"""
import argparse
import collections
import concurrent.futures
import json
import random
import sys

from check_constraint import Judge, Probe, SchemaGenerator, parse, random_regex, to_python

MASKED = [{}, {"steps": "4"}, {"unmask": "threshold=0.3"}, {"unmask": "factor=1"}, {"unmask": "random"}, {"unmask": "entropy"},
          {"unmask": "margin"}, {"unmask": "origin"}, {"unmask": "threshold=0.02"},
          {"cache": "dual", "block-length": "8", "unmask": "threshold=0.3"}, {"cache": "prefix", "block-length": "8", "unmask": "random"},
          {"lock": "eps=1e-3,gate=50"}, {"cfg-scale": "1.5"}, {"unmask": "threshold=0.1", "eos-exit": "true"}]
BLOCKS = [{}, {"unmask": "threshold=0.3"}, {"unmask": "dynamic=0.2"}, {"unmask": "sequential"}, {"unmask": "low-confidence", "steps": "2"},
          {"unmask": "factor=1"}]
UNIFORM = [{"steps": "6", "sampler": sampler} for sampler in ["adaptive", "ancestral"]]
SETTINGS = {
    "llada": MASKED,
    "dream": MASKED[:11],
    "dreamon": MASKED[:9],
    "llada2": BLOCKS,
    "sdar": BLOCKS + [{"edit": "tau=0.01,most=4"}, {"commit": "apart"}],
    "fast-dllm-v2": [{}, {"unmask": "threshold=0.3"}, {"unmask": "threshold=0.1", "cache": "block"}],
    "llada2.2": [{}, {"unmask": "dynamic=0.1"}],
    "qwen3": [{}],
    "refusion": [{}] + [{"slot-size": size, "block-length": block, **rest} for size, block in [("3", "9"), ("8", "32"), ("5", "16")]
                        for rest in [{"slot-threshold": "0.05", "token-threshold": "0.01"}, {"slot-threshold": "0.3", "accept": "exact"},
                                     {"slot-threshold": "0.05", "token-threshold": "0.3", "fill": "side-by-side", "revoke": "0.2"}]],
    "nemotron": BLOCKS + [{"accept": "exact"}, {"accept": "exact", "unmask": "threshold=0.1"}],
    "gidd": UNIFORM + [{**each, "block-length": "16"} for each in UNIFORM],
    "gidd-mask": UNIFORM,
    "sumi": [{"steps": "6"}, {"steps": "6", "sampler": "ancestral"}, {"steps": "6", "sampler": "greedy"}],
    "diffusion-gemma": [{"steps": "5"}, {"steps": "5", "block-length": "16"}],
}


def at_least(length, family, settings):
    """The next length that the settings allow."""
    block = int(settings.get("block-length", 1)) if family in ["llada", "dream", "dreamon"] else 1
    return -(-max(length, int(settings.get("steps", 1))) // block) * block


def draw(seed):
    """A case: what the probe is asked, and whether a text is an answer."""
    rng = random.Random(seed)
    family = rng.choice(list(SETTINGS))
    settings = dict(rng.choice(SETTINGS[family]))
    if settings.get("sampler") == "greedy":
        pass  # it takes no temperature
    elif rng.random() < 0.5:
        settings["temperature"] = "1" if family == "diffusion-gemma" else rng.choice(["0.3", "1", "4"])
    else:
        settings["temperature"] = "0"
    request = {"family": family, "length": at_least(rng.choice([2, 5, 8, 24, 32, 48, 64, 96, 160]), family, settings), "seed": seed,
               "scale": rng.choice([1, 1, 8, -4]), "options": settings}
    if rng.random() < 0.75:
        schema = SchemaGenerator(rng).document()
        judge = Judge(schema)
        request["schema"] = schema

        def is_answer(text):
            value, is_json = parse(text)
            if not is_json and json.loads(text) is not None:
                return True  # a repeated key of an object of any keys
            return is_json and judge.is_valid(value)
    else:
        pattern = random_regex(rng, 4)
        reference = to_python(f"(?:{pattern})")
        request["regex"] = pattern
        is_answer = lambda text: reference.fullmatch(text) is not None
    return request, is_answer


def is_valid(is_answer, text):
    try:
        return is_answer(text)
    except ValueError:
        return False


class Counts:
    def __init__(self):
        self.cases, self.refused, self.uncompiled, self.failures = collections.Counter(), collections.Counter(), collections.Counter(), []


def check(probe, seed, counts):
    request, is_answer = draw(seed)
    family = request["family"]
    reply = probe.ask(**request)
    if "refused" in reply and "too long" not in reply["refused"]:
        counts.refused[family] += 1
        if reply["least"] <= request["length"]:
            counts.failures.append(f"seed {seed}: {json.dumps(request)}: {json.dumps(reply)}")
        request["length"] = at_least(reply["least"], family, request["options"])
        if request["length"] > 600:
            return
        reply = probe.ask(**request)
    if "uncompiled" in reply or "too long" in reply.get("refused", ""):
        counts.uncompiled[family] += 1
        return
    text = reply.get("text")
    counts.cases[family] += 1
    if text is None or not is_valid(is_answer, text):
        counts.failures.append(f"seed {seed}: {json.dumps(request)}: {json.dumps(reply)}")


def run(program, seeds):
    counts = Counts()
    probe = Probe(program)
    for seed in seeds:
        check(probe, seed, counts)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=200, help="10000 for a release")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.cases)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        all_counts = list(pool.map(lambda job: run(options.probe, seeds[job::options.jobs]), range(options.jobs)))
    failures = [failure for counts in all_counts for failure in counts.failures]
    for failure in failures[:20]:
        print(f"FAIL {failure}")
    if not options.quiet:
        for family in SETTINGS:
            cases, refused, uncompiled = (sum(getattr(counts, name)[family] for counts in all_counts)
                                          for name in ["cases", "refused", "uncompiled"])
            print(f"{family}: {cases} answers, {refused} of them after a refused length; {uncompiled} constraints were refused")
    passed = sum(counts.cases.total() for counts in all_counts) - len(failures)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
