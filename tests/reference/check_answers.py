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
ENDS = [{"grow": f"end-mass,start={start},by={by},tail={tail},enough={enough},plenty=1,unsure={unsure}", "unmask": unmask, "block-length": block}
        for start, by, tail, enough, unsure, unmask, block in [("3", "2", "2", "0", "0.5", "threshold=0.3", "8"),
                                                               ("1", "9", "8", "0.01", "1", "threshold=0.02", "32"),
                                                               ("20", "4", "6", "0.3", "0.2", "factor=1", "5")]] + [
    {"grow": "end-mass,start=2,by=5,tail=4,enough=0,plenty=1,unsure=1", "unmask": "threshold=0.3", "cfg-scale": "1.5"},
    {"grow": "end-mass,start=6,by=3,tail=4,enough=0,plenty=1,unsure=1", "unmask": "threshold=0.1", "eos-exit": "true", "cache": "dual", "block-length": "8"}]
TOKENS = [{"grow": f"tokens,start={start},rest={rest}", "unmask": unmask} for start in [1, 6, 30] for rest in ["keep", "drop"]
          for unmask in ["entropy", "margin", "maskgit"]]
UNIFORM = [{"steps": "6", "sampler": sampler} for sampler in ["adaptive", "ancestral"]]
LIKED = {}
SETTINGS = {
    "llada": MASKED,
    "dream": MASKED[:11],
    "dreamon": [{"grow": "none", **each} for each in MASKED[:9]],
    "llada grows": ENDS,
    "dream grows": ENDS[:3],
    "dreamon grows": TOKENS,
    "llada infill": [{}, {"unmask": "threshold=0.3"}, {"unmask": "random"}] + [{"grow": "end-mass,by=3,unsure=0.5", "unmask": "threshold=0.3"},
                                                                             {"grow": "end-mass,by=2,unsure=1", "unmask": "threshold=0.05"}],
    "dreamon infill": [{"grow": "none"}] + [{**each, "grow": "tokens,rest=" + rest} for each in [{}, {"unmask": "margin"}] for rest in ["keep", "drop"]],
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
    block = int(settings.get("block-length", 1)) if family.split()[0] in ["llada", "dream", "dreamon"] and "grow" not in settings else 1
    return -(-max(length, int(settings.get("steps", 1))) // block) * block


def draw(seed):
    """A case: what the probe is asked, and whether a text is an answer."""
    rng = random.Random(seed)
    family = rng.choice(list(SETTINGS))
    model = family.split()[0]
    settings = dict(rng.choice(SETTINGS[family]))
    if settings.get("sampler") == "greedy":
        pass  # it takes no temperature
    elif rng.random() < 0.5:
        settings["temperature"] = "1" if family == "diffusion-gemma" else rng.choice(["0.3", "1", "4"])
    else:
        settings["temperature"] = "0"
    request = {"family": model, "length": at_least(rng.choice([2, 5, 8, 24, 32, 48, 64, 96, 160]), family, settings), "seed": seed,
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
    return family, request, is_answer


def with_holes(rng, tokens, settings):
    """A canvas of which the tokens are one way to fill the holes."""
    grows = settings.get("grow", "none") != "none"
    canvas, at = [], 0
    while at < len(tokens):
        length = min(rng.choice([1, 2, 3, 6]), len(tokens) - at)
        if rng.random() < 0.4:
            least = rng.randint(1, length)
            canvas.append([least, length + rng.choice([0, 1, 9])] if grows else [length, length])
        else:
            canvas += tokens[at:at + length]
        at += length
    return canvas


def is_valid(is_answer, text):
    try:
        return is_answer(text)
    except ValueError:
        return False


def liked_tokens(probe, request):
    """Two tokens, of which DreamOn's model of this scale often writes one. As its edits, they make a canvas change its length all the time."""
    key = request["scale"]
    if key not in LIKED:
        free = {"family": "dreamon", "seed": 1, "scale": key, "length": 64, "regex": "(.|\\n)*", "options": {"grow": "none", "temperature": "0"}}
        (first, _), *others = collections.Counter(probe.ask(**free)["tokens"]).most_common(2)
        LIKED[key] = [first, others[0][0] if others else first % 200 + 1]
    return LIKED[key]


class Counts:
    def __init__(self):
        self.cases, self.refused, self.uncompiled, self.failures = collections.Counter(), collections.Counter(), collections.Counter(), []


def check(probe, seed, counts):
    family, request, is_answer = draw(seed)
    is_infill = family.endswith("infill")
    settings = request["options"]
    if request["family"] == "dreamon" and settings.get("grow") != "none" and seed % 4:
        liked = liked_tokens(probe, request)
        request["edits"] = liked if seed % 2 else liked[::-1]
    if is_infill:  # holes in a text that is known to be possible
        request["options"] = {}
        if request["family"] == "dreamon":
            request["options"]["grow"] = "none"
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
    if is_infill and reply.get("tokens"):
        canvas = with_holes(random.Random(-seed), reply["tokens"], settings)
        if not any(isinstance(part, list) for part in canvas):
            return
        request = {**{key: value for key, value in request.items() if key != "length"}, "canvas": canvas, "options": settings}
        reply = probe.ask(**request)
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
