"""Ten schemas of some 100 KB as APIs have them, made by seeds, and how long `lacuna serve` takes to compile each.

    python3 bench/api_schemas.py --lacuna build/release/lacuna            # every one in under a second, or exit status 1
    python3 bench/api_schemas.py --write FOLDER                           # the schemas alone

Compiled they stay below the limits of an automaton (docs/reference/limits.md): a text of at most 5,000 characters a hundred times over, or
100 KB of values in lists, would not. They have the structure, and no text, of what the descriptions of large APIs hold: sets of components that refer to one another, lists of a
hundred values, objects that are nested or expanded in place, maps of labels, addresses and times with formats, fields that may be null,
one field that says which of several objects follows, and descriptions that are most of the bytes. Processor time of the server is
measured, and a request whose schema is a trifle is subtracted. Only the standard library is used.
"""
import argparse
import json
import pathlib
import random
import sys
import urllib.error
import urllib.request

from serving import LACUNA, server

WORDS = ("account address amount balance batch branch charge check city code color commit count country created currency customer date "
         "default delta description detail discount email enabled event field file filter fork group hash head host image index invoice item "
         "key kind label language license limit line link list locale mode model name node number object order owner page parent path payment "
         "period phase plan policy port price product profile project proxy quota rate ref region release repository request resource result "
         "role rule scope secret selector service session size source spec stage state status storage strategy subject tag target task team "
         "template text time title token total type unit update url user value version volume weight zone").split()
FORMATS = ["date-time", "date", "email", "uri", "uuid", "ipv4", "time"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.components = {}

    def name(self):
        return "_".join(self.random.sample(WORDS, self.random.randint(1, 3)))

    def text(self, words):
        return " ".join(self.random.choice(WORDS) for _ in range(words)).capitalize() + "."

    def scalar(self):
        kind = self.random.randrange(8)
        if kind == 0:
            return {"type": "integer", "minimum": 0, "maximum": self.random.choice([100, 65535, 2147483647])}
        if kind == 1:
            return {"type": "boolean"}
        if kind == 2:
            return {"type": "number"}
        if kind == 3:
            return {"type": "string", "format": self.random.choice(FORMATS)}
        if kind == 4:
            return {"type": "string", "enum": sorted({self.name() for _ in range(self.random.choice([3, 5, 12, 40]))})}
        if kind == 5 and self.random.random() < 0.2:
            return {"type": "string", "maxLength": self.random.choice([8, 20, 63])}
        if kind == 6:
            return {"type": ["string", "null"]}
        return {"type": "string"}

    def described(self, schema):
        return {"description": self.text(self.random.randint(4, 30)), **schema}

    def object(self, fields, references, depth=0):
        properties = {}
        for _ in range(fields):
            kind = self.random.random()
            if references and kind < 0.12:
                value = {"$ref": f"#/$defs/{self.random.choice(references)}"}
            elif references and kind < 0.18:  # expanded or by its id
                value = {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{self.random.choice(references)}"}]}
            elif depth < 2 and kind < 0.25:
                value = self.object(self.random.randint(2, 6), references, depth + 1)
            elif kind < 0.31:
                value = {"type": "array", "items": self.scalar()}
            elif kind < 0.36:
                value = {"type": "object", "additionalProperties": {"type": "string"}}
            else:
                value = self.scalar()
            properties[self.name()] = self.described(value) if "$ref" not in value else value
        required = self.random.sample(sorted(properties), k=self.random.randint(0, len(properties)))
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def union(self, references):
        """One of several objects, told apart by a field."""
        choices = []
        for name in self.random.sample(WORDS, 5):
            choice = self.object(4, references)
            choice["properties"] = {"kind": {"const": name}, **choice["properties"]}
            choice["required"] = ["kind", *choice["required"]]
            choices.append(choice)
        return {"oneOf": choices}

    def schema(self, size):
        """Components in three layers, as sets of components have them: most are leaves, some refer to these, few to those."""
        layers = [[], [], []]
        while len(json.dumps(self.components)) < size:
            layer = self.random.choice([0, 0, 0, 1, 1, 2])
            below = self.random.sample(layers[layer - 1], min(3, len(layers[layer - 1]))) if layer else []
            is_union = layer and self.random.random() < 0.2
            component = self.union(below) if is_union else self.object(self.random.randint(4, 12), below)
            name = f"{self.name()}_{len(self.components)}"
            layers[layer].append(name)
            self.components[name] = self.described(component)
        # As a call's parameters: some components are reached from here, all are in the text.
        root = self.object(10, self.random.sample(layers[2] or layers[1], 1) + self.random.sample(layers[0], 3))
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": self.components}


def deep(maker):
    """A specification within a specification, as of a cluster's objects, most of it described at length."""
    def level(depth):
        inner = maker.object(6, [], 1)
        if depth:
            inner["properties"]["template"] = level(depth - 1)
            inner["properties"]["items"] = {"type": "array", "items": level(0)}
        return inner
    schema = level(9)

    def describe(value):
        if isinstance(value, dict):
            if "type" in value and len(json.dumps(schema)) < 100_000:
                value["description"] = maker.text(60)
            for each in list(value.values()):
                describe(each)
    while len(json.dumps(schema)) < 100_000:
        describe(schema)
        maker.random.random()
        schema["description"] = schema.get("description", "") + maker.text(200)
    return schema


def flat(maker):
    """A resource of many fields that are all there, many of them addresses of others."""
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    while len(schema["properties"]) < 70:
        value = {"type": "string", "format": "uri"} if maker.random.random() < 0.3 else maker.scalar()
        schema["properties"][maker.name()] = {"description": maker.text(200), **value}
    schema["required"] = list(schema["properties"])
    return schema


def listed(maker):
    """Lists of the events of many objects."""
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    actions = maker.random.sample(WORDS, 24)
    while len(json.dumps(schema)) < 100_000:
        objects = maker.random.sample(WORDS, 8)
        schema["properties"][maker.name()] = {"type": "string", "description": maker.text(500), "enum": sorted(f"{name}.{action}" for name in objects for action in actions)}
    schema["required"] = list(schema["properties"])
    return schema


def all_schemas():
    made = {f"components_{seed}": Maker(seed).schema(100_000) for seed in range(7)}
    return {**made, "deep": deep(Maker(7)), "flat": flat(Maker(8)), "listed": listed(Maker(9))}


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def ask(port, schema):
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 4,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode())
    try:
        return urllib.request.urlopen(request, timeout=300).status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]["message"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
    parser.add_argument("--port", type=int, default=8378)
    parser.add_argument("--write", help="a folder to write the schemas to, instead")
    arguments = parser.parse_args()
    schemas = all_schemas()
    if arguments.write:
        for name, schema in schemas.items():
            (pathlib.Path(arguments.write) / f"{name}.json").write_text(json.dumps(schema, indent=1))
        return
    failed = False
    with server(arguments.lacuna, ["-m", "mini-llada", "--threads", "1", "--log-format", "off"], arguments.port) as process:
        for name, schema in schemas.items():
            before = processor_seconds(process.pid)
            status, message = ask(arguments.port, schema)
            seconds = processor_seconds(process.pid) - before
            # An answer of four tokens is too short for most of them, which is found after compiling.
            is_compiled = status == 200 or "too short" in message
            failed |= not is_compiled or seconds >= 1
            print(f"{name:14} {len(json.dumps(schema)):7} bytes {seconds:6.2f} s  {'' if is_compiled else f'{status}: {message}'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
