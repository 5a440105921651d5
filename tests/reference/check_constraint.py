"""Checks the languages of constrained answers from outside: JSON schemas with `jsonschema` as the judge, regular expressions with
Python's `re`.

    python check_constraint.py CONSTRAINT_PROBE [--seeds N] [--suite DIR] [--quiet]

CONSTRAINT_PROBE is built from tests/constraint/constraint_probe.cpp. Every text of a schema's language has to be valid, and so
has every mutation of one that the language has, too. Regular expressions have to match exactly the texts that `re` matches. With
the JSON-Schema-Test-Suite (Debian's json-schema-test-suite; default: where that package puts it), every schema compiles or is
refused, and every invalid instance is rejected; valid ones that are rejected are counted by file. Exit status 0 when nothing failed.
"""
import argparse
import collections
import datetime
import ipaddress
import itertools
import json
import random
import re
import subprocess
import sys
import uuid
from pathlib import Path

import jsonschema

SUITE = "/usr/share/json-schema-test-suite/tests"
SPACES = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
SETS = {"d": "0-9", "w": "A-Za-z0-9_", "s": SPACES}


def to_python(pattern):
    """An expression of ECMA-262 (flag "u") for Python's re."""
    result, in_class, i = [], False, 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            letter = pattern[i + 1]
            i += 2
            if letter.lower() in SETS:
                members = SETS[letter.lower()]
                if in_class and letter.isupper():
                    raise ValueError("a negated set within a class")
                result.append(members if in_class else f"[{'^' if letter.isupper() else ''}{members}]")
            elif letter in "pPcuk" or letter.isdigit():
                raise ValueError(f"\\{letter}")
            else:
                result.append("\\" + letter)
            continue
        if in_class:
            in_class = c != "]"
            result.append("\\" + c if c in "[&~|" else c)
        elif c == "[":
            in_class = True
            result.append(c)
        elif c == "$":
            result.append(r"\Z")
        elif c == ".":
            result.append(r"[^\n\r\u2028\u2029]")
        else:
            result.append(c)
        i += 1
    return re.compile("".join(result), re.ASCII)  # of word boundaries; classes are spelt out


def check_pattern(validator, pattern, instance, schema):
    if isinstance(instance, str) and not to_python(pattern).search(instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


FORMATS = {
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "date-time": datetime.datetime.fromisoformat,
    "uuid": uuid.UUID,
    "ipv4": ipaddress.IPv4Address,
}


def check_format(validator, name, instance, schema):
    if not isinstance(instance, str):
        return
    try:
        if name == "email":
            local, domain = instance.rsplit("@", 1)
            if not (0 < len(local) <= 64 and 0 < len(domain) <= 253 and all(0 < len(l) <= 63 for l in domain.split("."))):
                raise ValueError
        elif name in FORMATS:
            FORMATS[name](instance)
    except ValueError:
        yield jsonschema.ValidationError(f"{instance!r} is no {name}")


Judge = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": check_pattern, "format": check_format})


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the probe died on {json.dumps(request)}")
        return json.loads(answer)


class Report:
    def __init__(self, quiet):
        self.quiet, self.passed, self.failed = quiet, 0, 0

    def check(self, holds, name):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        if not holds:
            print(f"FAIL {name}", flush=True)

    def note(self, text):
        if not self.quiet:
            print(text, flush=True)


def canonical(value):
    """A JSON value as the engine writes it: integral numbers without a fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{canonical(key)}: {canonical(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def parse(text):
    """Parses a JSON text: its value and True; None and False for invalid JSON and for repeated keys, whose value is undefined."""
    def members(pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a repeated key")
        return dict(pairs)
    try:
        return json.loads(text, object_pairs_hook=members), True
    except ValueError:
        return None, False


class SchemaGenerator:
    """Other schemas than those of tests/constraint/random_schemas.h: what clients write, formats, patterns, bounds."""

    def __init__(self, rng):
        self.rng = rng

    def schema(self, depth):
        kinds = [self.string, self.string, self.number, self.enum, self.simple]
        if depth > 0:
            kinds += [self.object, self.object, self.object, self.array, self.union, self.all_of, self.tagged, self.reference,
                      self.names, self.condition, self.negated, self.different, self.overlapping]
        result = self.rng.choice(kinds)(depth)
        if self.rng.random() < 0.1:
            result["description"] = "ignored"
        return result

    def simple(self, depth):
        return self.rng.choice([{}, {"type": "null"}, {"type": "boolean"}, {"type": ["string", "null"]}, {"type": ["integer", "array"]}])

    def enum(self, depth):
        values = [None, True, 0, 1, -3, 2.5, "", "a", "b\\\"", "é\n", "😀", [], [1, {"x": None}], {"k": "v", "j": [2]}]
        picked = self.rng.sample(values, self.rng.randint(1, 5))
        result = {"enum": picked} if self.rng.random() < 0.7 else {"const": picked[0]}
        if self.rng.random() < 0.3:
            result["type"] = self.rng.choice(["string", "integer", "number", "object", ["string", "null"]])
        if self.rng.random() < 0.2:
            result["maxLength"] = 1
        return result

    def string(self, depth):
        result = {"type": "string"}
        if self.rng.random() < 0.25:
            result["format"] = self.rng.choice(["date", "time", "date-time", "uuid", "ipv4", "email", "uri"])
        elif self.rng.random() < 0.4:
            result["pattern"] = self.rng.choice([r"^\d{3}-\d{4}$", r"^[A-Z]{2,5}$", r"\w+@\w+", r"^(yes|no)?$", r"[^a-z\s]", r"^\S+\s\S+$",
                                                 r"a.c", r"^.{2,4}$", r"\\", r'"', r"^\W*$", "é|ü", r"^[\[\]\-]+$"])
        if self.rng.random() < 0.4:
            result["minLength"] = self.rng.randint(0, 5)
        if self.rng.random() < 0.4:
            result["maxLength"] = self.rng.randint(3, 40)
        return result

    def number(self, depth):
        result = {"type": self.rng.choice(["integer", "integer", "number"])}
        low = self.rng.choice([None, 0, 1, -1, -40, 17, 1000, 0.5, -2.5])
        high = self.rng.choice([None, 1, 100, 59, 365, 1000000, 20.5])
        if low is not None:
            result[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if high is not None:
            result[self.rng.choice(["maximum", "exclusiveMaximum"])] = high
        if self.rng.random() < 0.15:
            result["multipleOf"] = self.rng.choice([2, 7, 0.5, 0.01, 1.5, 1250])
        return result

    def array(self, depth):
        result = {"type": "array"}
        if self.rng.random() < 0.8:
            result["items"] = self.schema(depth - 1)
        if self.rng.random() < 0.3:
            result["prefixItems"] = [self.schema(depth - 1) for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.4:
            result["minItems"] = self.rng.randint(0, 3)
        if self.rng.random() < 0.4:
            result["maxItems"] = self.rng.randint(1, 5)
        return result

    def object(self, depth):
        keys = self.rng.sample(["id", "name", "a b", "ключ", "quote\"", "__proto__", ""], self.rng.randint(0, 4))
        result = {"type": "object", "properties": {key: self.schema(depth - 1) for key in keys},
                  "required": [key for key in keys if self.rng.random() < 0.6]}
        if self.rng.random() < 0.4:
            result["additionalProperties"] = self.rng.choice([False, False, True, self.schema(depth - 1)])
        if self.rng.random() < 0.1:
            result["required"].append("more")
        return result

    def names(self, depth):
        result = {"type": "object", "additionalProperties": self.rng.choice([False, self.schema(0), self.schema(0)])}
        if self.rng.random() < 0.5:
            # Without a dot: Python's matches more line ends than ECMA-262's, and these names are the ones that a pattern must not match.
            patterns = self.rng.sample(["^a", "b$", r"\d", "^[a-z]{3}$"], self.rng.randint(1, 2))
            result["patternProperties"] = {pattern: self.schema(0) for pattern in patterns}
        if self.rng.random() < 0.5:
            result["propertyNames"] = self.rng.choice([{"pattern": "^[a-c]+$"}, {"maxLength": 3}, {"enum": ["a", "bb", "c1"]}, {"not": {"const": "a"}}])
        if self.rng.random() < 0.4:
            result["properties"] = {key: self.schema(0) for key in self.rng.sample(["a", "b1", "cab"], 2)}
        if self.rng.random() < 0.4:
            result["minProperties"] = self.rng.randint(0, 3)
        if self.rng.random() < 0.4:
            result["maxProperties"] = self.rng.randint(1, 4)
        if self.rng.random() < 0.2:
            result["unevaluatedProperties"] = False
        return result

    def condition(self, depth):
        result = self.object(0)
        keys = list(result["properties"]) or ["id"]
        part = lambda: {"properties": {self.rng.choice(keys): self.schema(0)}, "required": self.rng.sample(keys, self.rng.randint(0, 1))}
        kind = self.rng.random()
        if kind < 0.6:
            result["if"] = part()
            result[self.rng.choice(["then", "else"])] = part()
        elif kind < 0.8:
            result["dependentRequired"] = {self.rng.choice(keys): [self.rng.choice(keys)]}
        else:
            result["dependentSchemas"] = {self.rng.choice(keys): part()}
        return result

    def negated(self, depth):
        kind = self.rng.choice([self.object, self.string, self.number, self.enum, self.array, self.simple])
        return {**self.rng.choice([self.simple, kind])(0), "not": kind(0)}

    def different(self, depth):
        result = {"type": "array", "items": self.rng.choice([self.enum, self.string, self.number, self.object, self.simple])(0)}
        if self.rng.random() < 0.7:
            result["uniqueItems"] = True
        if self.rng.random() < 0.4:
            result["contains"] = self.schema(0)
            if self.rng.random() < 0.5:
                result["maxContains"] = self.rng.randint(1, 2)
        if self.rng.random() < 0.4:
            result["minItems"] = self.rng.randint(1, 3)
        return result

    def overlapping(self, depth):
        kind = self.rng.choice([self.number, self.string, self.object])
        return {"oneOf": [kind(0) for _ in range(2)]}

    def union(self, depth):
        result = {"anyOf": [self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))]}
        if self.rng.random() < 0.3:
            result.update(self.schema(0))
        return result

    def all_of(self, depth):
        kind = self.rng.choice([self.object, self.object, self.string, self.number])
        return {"allOf": [kind(depth), kind(depth)]}

    def tagged(self, depth):
        branches = []
        for tag in ["x", "y", 3]:
            branch = self.object(depth)
            branch["properties"]["tag"] = {"const": tag}
            branch["required"].append("tag")
            branches.append(branch)
        return {"oneOf": branches}

    def reference(self, depth):
        return {"type": "array", "items": {"$ref": self.rng.choice(["#/$defs/one", "#/$defs/two"])}}

    def document(self):
        root = self.schema(3)
        return {**root, "$defs": {"one": self.schema(1), "two": self.schema(2)}}


def mutate(rng, text):
    """A small change, of structure more often than of letters."""
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text) + 1)
        kind = rng.random()
        if kind < 0.3:
            text = text[:at] + text[at + 1:]
        elif kind < 0.7:
            text = text[:at] + rng.choice(['"', "\\", ",", ", ", ": ", "{", "}", "[", "]", "0", "9", "-", ".", "e", " ", "a", "é", "null", "\n", '"a": 1']) + text[at:]
        else:
            end = rng.randrange(at, len(text) + 1)
            text = text[:at] + text[at:end] * rng.choice([0, 2]) + text[end:]
    return text


def check_schemas(probe, report, seed):
    rng = random.Random(seed)
    generator = SchemaGenerator(rng)
    num_compiled = 0
    for n in range(300):
        schema = generator.document()
        Judge.check_schema(schema)
        judge = Judge(schema)
        answer = probe.ask(schema=schema, samples=12, seed=n, length=rng.choice([10, 40, 120]))
        if "error" in answer:
            continue
        num_compiled += 1
        texts = [mutate(rng, text) for text in answer["samples"] for _ in range(4)]
        accepted = probe.ask(schema=schema, texts=texts)["accepted"]
        for text in answer["samples"] + [text for text, is_in in zip(texts, accepted) if is_in]:
            value, is_json = parse(text)
            if not is_json and json.loads(text) is not None:
                continue  # a repeated key of an object of any keys
            report.check(is_json and judge.is_valid(value), f"seed {seed}: {text!r} for {json.dumps(schema)}")
    report.check(num_compiled > 100, f"seed {seed}: only {num_compiled} of 300 schemas compile")
    report.note(f"seed {seed}: {num_compiled} of 300 schemas compile")


def random_regex(rng, depth):
    atoms = ["a", "b", "é", ".", "[ab]", "[^a]", r"\d", r"\w", r"[\d-]", "7"]
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return rng.choice(atoms)
    inner = lambda: random_regex(rng, depth - 1)
    if kind < 0.6:
        return inner() + inner()
    if kind < 0.75:
        return f"({inner()}|{inner()})"
    if kind < 0.78:
        return rng.choice(["^", "$", "(^|a)", "(b|$)"]) + inner()
    if kind < 0.83:
        return rng.choice([r"\b", r"\B", "(?<=a)", "(?<![ab])", f"(?={inner()})", f"(?!{inner()})"]) + inner()
    if kind < 0.85:
        return inner() + "$"
    return f"(?:{inner()}){rng.choice(['*', '+', '?', '{2}', '{1,3}', '{2,}', '*?', '+?'])}"


def check_regexes(probe, report, seed):
    rng = random.Random(seed)
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("abé7\n", repeat=length)]
    for _ in range(60):
        pattern = random_regex(rng, 4)
        accepted = probe.ask(regex=pattern, texts=texts)
        reference = to_python(f"(?:{pattern})")
        if "error" in accepted:
            matches = [text for text in texts if reference.fullmatch(text)]
            report.check("no text" in accepted["error"] and not matches, f"{pattern!r}: {accepted['error']}")
            continue
        for text, is_in in zip(texts, accepted["accepted"]):
            report.check(is_in == bool(reference.fullmatch(text)), f"{pattern!r} on {text!r}")


def check_suite(probe, report, folder):
    """The invalid instances of every schema that compiles; what refuses and what is not written is counted."""
    refused, unwritten = collections.Counter(), collections.Counter()
    num_schemas = num_valid = num_accepted = 0
    for draft in ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"]:
        for path in sorted((Path(folder) / draft).rglob("*.json")):
            is_format = path.parent.name == "format"
            if "optional" in path.parts and not (is_format and path.stem in [*FORMATS, "email"]):
                continue
            for group in json.loads(path.read_text()):
                tests = [test for test in group["tests"] if "\\ud" not in json.dumps(test["data"])]
                num_schemas += 1
                answer = probe.ask(schema=group["schema"], texts=[canonical(test["data"]) for test in tests])
                name = f"{draft}/{path.stem}: {group['description']}"
                if "error" in answer:
                    place = re.search(r'"(#[^"]*)"', answer["error"])
                    refused[place[1].rsplit("/", 1)[-1] if place else answer["error"]] += 1
                    continue
                for test, accepted in zip(tests, answer["accepted"]):
                    if test["valid"]:
                        num_valid += 1
                        num_accepted += accepted
                        unwritten[path.stem] += not accepted
                    else:
                        report.check(not accepted, f"{name}: {test['description']}")
    report.note(f"suite: {num_schemas} schemas, {refused.total()} refused; {num_accepted} of {num_valid} valid instances can be written")
    report.note(f"suite: refused because of {dict(refused.most_common())}")
    report.note(f"suite: valid and not written, by file: {dict(unwritten.most_common(20))}")


def check_objects(probe, report):
    for text in probe.ask(object=True, samples=200, length=150)["samples"]:
        report.check(isinstance(json.loads(text), dict), text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--suite", default=SUITE)
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    probe, report = Probe(options.probe), Report(options.quiet)
    check_objects(probe, report)
    for seed in range(options.seeds):
        check_schemas(probe, report, seed)
        check_regexes(probe, report, seed)
    if Path(options.suite).is_dir():
        check_suite(probe, report, options.suite)
    else:
        print(f"skip the JSON-Schema-Test-Suite: {options.suite} is not there")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
