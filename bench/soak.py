"""Soak test: serves models for a long time under a mixed load and watches the server's memory, files, threads and /health.

    python3 bench/soak.py --seconds 3600                              # load, hang-ups, refusals; models loaded and unloaded
    python3 bench/soak.py --reload --clients 64 --seconds 1800        # one model, constraints at the budget's edge, weights reloaded
    chrt -i 0 python3 bench/soak.py --seconds 900 --json

Clients ask three models of which two fit the memory, or with --reload one whose weights a further client loads again and again, in all
APIs, as streams and whole, with constraints and without; some hang up, some send invalid JSON, some read slowly. Between bursts nothing is
asked, so that --unload-after unloads models. Each kind of request is asked once before the load, alone: every later text must equal that
one. The server's resident memory, open files and threads are sampled every second, /health is asked twenty times a second.

Memory: a leak raises every sample, and what is asked at once raises some: medians of fifths of half an hour differ by 5 % in either
direction. So after a warm-up of a fifth of the time the least sample of each of the last three fifths, which is that of a pause between
bursts, is compared with the least of the second, and may exceed it by at most --memory-growth, a share. At
the end the server gets SIGTERM while streams run: each must end whole, and the server with status 0. Only the standard library is used.
Exit status 1 for texts that differ, replies that are neither an answer nor an error, memory or files that grew, streams that were cut,
or a server that ended.
"""
import argparse
import asyncio
import contextlib
import json
import os
import random
import pathlib
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.parse

from serve_load import resident
from serving import LACUNA, server

MODELS = ["masked=mini-llada", "blocks=mini-sdar", "slots=mini-refusion"]
QUESTION = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?"


# Constraints that are compiled anew where {} differs: cheap, near the limit of an automaton, and refused after all the work that is allowed.
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "kind": {"enum": ["a", "b", "{}"]}}, "required": ["kind"]}
REGEXES = ["[a-z ]{1,20}{}", "[ -~]*[aeiou][ -~]{9}{}", "((a{1,30}){1,30}){1,30}{}"]


def constrained(name, number):
    """Requests with constraints that no cache holds yet: (path, body)."""
    chat = [{"role": "user", "content": QUESTION}]
    schema = json.loads(json.dumps(SCHEMA).replace("{}", str(number)))
    yield "/v1/chat/completions", {"model": name, "messages": chat, "max_tokens": 48, "response_format": {
        "type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
    for regex in REGEXES:
        yield "/v1/completions", {"model": name, "prompt": QUESTION, "max_tokens": 24, "lacuna": {"regex": regex.replace("{}", str(number))}}


def bodies(name):
    """Requests to one model: (path, body)."""
    chat = [{"role": "user", "content": QUESTION}]
    for length in (4, 16, 48):
        for stream in (False, True):
            yield "/v1/completions", {"model": name, "prompt": QUESTION, "max_tokens": length, "stream": stream}
            yield "/v1/chat/completions", {"model": name, "messages": chat, "max_tokens": length, "stream": stream}
            yield "/v1/messages", {"model": name, "messages": chat, "max_tokens": length, "stream": stream}
            yield "/api/chat", {"model": name, "messages": chat, "options": {"num_predict": length}, "stream": stream}
    yield "/v1/completions", {"model": name, "prompt": [QUESTION] * 4, "max_tokens": 8, "n": 2, "temperature": 0.7, "seed": 5}
    yield "/v1/completions", {"model": name, "prompt": QUESTION, "max_tokens": 0}
    yield "/v1/completions", {"model": name, "prompt": 5}
    yield "/tokenize", {"model": name, "content": QUESTION * 20}
    for number in range(4):  # more than are computed at once, few enough that each comes back
        yield from constrained(name, number)


def texts(value):
    """All texts and tokens of an answer, in order: what does not depend on times and ids."""
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in ("text", "content") and isinstance(each, str):
                yield each
            elif key == "tokens":
                yield json.dumps(each)
            else:
                yield from texts(each)


def content(reply):
    """The texts of a reply, whole or a stream; None: an error in its form. ValueError where it is neither."""
    lines = [line.removeprefix("data: ") for line in reply.split("\n")]
    values = [json.loads(line) for line in lines if line.startswith("{")]
    if not values:
        raise ValueError("no JSON")
    return None if any("error" in value for value in values) else "".join(text for value in values for text in texts(value))


class Soak:
    def __init__(self, arguments):
        self.arguments = arguments
        self.url = urllib.parse.urlparse(f"http://127.0.0.1:{arguments.port}")
        self.random = random.Random(arguments.seed)
        self.requests = [each for name in arguments.models for each in bodies(name.split("=")[0])]
        self.seen = {}
        self.counts = {"answers": 0, "errors": 0, "hung_up": 0, "wrong": 0, "differ": 0, "reloads": 0, "drained": 0, "cut": 0}
        self.samples = []  # (seconds, MiB, files, threads)
        self.health = []   # seconds

    async def ask(self, path, body=None):
        """Status and body of a whole reply, read at once."""
        reader, writer = await asyncio.open_connection(self.url.hostname, self.url.port)
        try:
            data = b"" if body is None else json.dumps(body).encode()
            writer.write(f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
            return int(head.split()[1]), rest.decode()
        finally:
            writer.close()

    async def ask_alone(self):
        """Every kind of request before there are others."""
        for index, (path, body) in enumerate(self.requests):
            status, reply = await self.ask(path, body)
            self.note(index, [status], reply)

    async def watch_health(self):
        while True:
            begin = time.monotonic()
            status, _ = await self.ask("/health")
            self.health.append(time.monotonic() - begin)
            if status != 200:
                self.counts["wrong"] += 1
            await asyncio.sleep(0.05)

    async def reload(self):
        """Loads the same weights from one folder and the other."""
        while True:
            for folder in ("0", "1"):
                await asyncio.sleep(5)
                status, reply = await self.ask("/v1/reload", {"folder": folder})
                self.counts["reloads"] += status == 200
                if status not in (200, 409, 503):
                    self.counts["wrong"] += 1
                    print(f"reload: {status} {reply[:200]}", file=sys.stderr)

    async def drain(self, process):
        """SIGTERM while streams run."""
        name = self.arguments.models[0].split("=")[0]
        body = {"model": name, "prompt": QUESTION, "max_tokens": 96, "steps": 96, "stream": True}
        data = json.dumps(body).encode()
        streams = [await asyncio.open_connection(self.url.hostname, self.url.port) for _ in range(8)]
        for _, writer in streams:
            writer.write(f"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        begins = [await reader.readuntil(b"\r\n\r\n") for reader, _ in streams]
        process.send_signal(signal.SIGTERM)
        for begin, (reader, writer) in zip(begins, streams):
            rest = await reader.read()
            is_whole = b" 200 " in begin and rest.endswith(b"data: [DONE]\n\n") and b'"error"' not in rest
            self.counts["drained" if is_whole else "cut"] += 1
            writer.close()

    async def one(self):
        index = self.random.randrange(len(self.requests))
        path, body = self.requests[index]
        data = json.dumps(body).encode()
        kind = self.random.random()
        if kind < 0.05:
            data = data[:-1]
        reader, writer = await asyncio.open_connection(self.url.hostname, self.url.port)
        try:
            writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode())
            writer.write(data[:len(data) // 2] if kind > 0.97 else data)
            await writer.drain()
            if kind > 0.85:
                reading = asyncio.ensure_future(reader.read())
                await asyncio.wait([reading], timeout=self.random.uniform(0, 1))
                reading.cancel()
                self.counts["hung_up"] += 1
                return
            raw = b""
            while piece := await reader.read(256 if kind > 0.75 else 65536):
                raw += piece
                if kind > 0.75:
                    await asyncio.sleep(0.002)
        finally:
            writer.close()
        head, _, rest = raw.partition(b"\r\n\r\n")
        if b"Transfer-Encoding: chunked" in head:
            parts = []
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                parts.append(rest[:int(size, 16)])
                rest = rest[int(size, 16) + 2:]
            rest = b"".join(parts)
        self.note(index, head.split()[1:2], rest.decode())

    def note(self, index, status, reply):
        try:
            text = content(reply)
        except ValueError:
            self.counts["wrong"] += 1
            print(f"neither an answer nor an error: {status} {reply[:300]}", file=sys.stderr)
            return
        self.counts["errors" if text is None else "answers"] += 1
        if text is not None and self.seen.setdefault(index, text) != text:
            self.counts["differ"] += 1
            print(f"{self.requests[index]}: {self.seen[index][:200]} and {text[:200]}", file=sys.stderr)

    async def client(self, end):
        while time.monotonic() < end:
            try:
                await self.one()
            except (OSError, ValueError) as error:  # ValueError: a reply that was cut
                self.counts["wrong"] += 1
                print(f"request failed: {type(error).__name__}: {error}", file=sys.stderr)
                await asyncio.sleep(1)

    async def watch(self, begin):
        pid = self.arguments.pid
        while True:
            self.samples.append((time.monotonic() - begin, resident(pid), len(os.listdir(f"/proc/{pid}/fd")),
                                 len(os.listdir(f"/proc/{pid}/task"))))
            await asyncio.sleep(1)

    async def run(self):
        await self.ask_alone()
        begin = time.monotonic()
        end = begin + self.arguments.seconds
        others = [asyncio.ensure_future(each) for each in (self.watch(begin), self.watch_health())]
        if self.arguments.reload:
            others.append(asyncio.ensure_future(self.reload()))
        while time.monotonic() < end:
            burst = min(end, time.monotonic() + 40)
            await asyncio.gather(*(self.client(burst) for _ in range(self.arguments.clients)))
            await asyncio.sleep(4)  # longer than --unload-after
        for other in others:
            if other.done():  # only an exception ends it
                other.result()
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def by_fifths(samples, seconds, column, statistic=max):
    """Splits the run into five equal intervals and applies the statistic to one column of each interval's samples; 0 without samples."""
    fifths = [[] for _ in range(5)]
    for sample in samples:
        fifths[min(4, int(5 * sample[0] / seconds))].append(sample[column])
    return [statistic(each) if each else 0 for each in fifths]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=900, help="duration of the load (default %(default)s)")
    parser.add_argument("--clients", type=int, default=6, help="concurrent clients (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the request order (default %(default)s)")
    parser.add_argument("--memory-growth", type=float, default=0.02,
                        help="allowed growth of resident memory, as a share (default %(default)s)")
    parser.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
    parser.add_argument("--models-memory", type=int, default=90, help="MiB, so that two of the three models fit (default %(default)s)")
    parser.add_argument("--reload", action="store_true", help="serve one model, and load its weights again and again")
    parser.add_argument("--port", type=int, default=8379)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        flags = shlex.split("--kv-memory 32 --log-format off --drain 60")
        arguments.models = ["mini-llada"] if arguments.reload else MODELS
        if arguments.reload:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for name in ("0", "1"):
                shutil.copytree(pathlib.Path(__file__).parents[1] / "models" / "mini-llada", folder / name)
            flags += ["-m", f"mini-llada={folder / '0'}", "--reload-from", str(folder)]
        else:
            flags += shlex.split(f"--models-memory {arguments.models_memory} --unload-after 2")
            for model in MODELS:
                flags += ["-m", model]
        process = stack.enter_context(server(arguments.lacuna, flags, arguments.port))
        arguments.pid = process.pid
        soak = Soak(arguments)
        asyncio.run(soak.run())
        has_ended = process.poll() is not None
        if not has_ended:
            asyncio.run(soak.drain(process))
            has_ended = process.wait() != 0
    memory = by_fifths(soak.samples, arguments.seconds, 1, statistics.median)
    files = by_fifths(soak.samples, arguments.seconds, 2)
    least = by_fifths(soak.samples, arguments.seconds, 1, min)
    growth = max(least[2:]) / max(least[1], 1) - 1
    health = sorted(soak.health)
    found = {**soak.counts, "seconds": arguments.seconds, "kinds": len(soak.seen), "median_memory_by_fifths": memory,
             "least_memory_by_fifths": least, "growth_of_the_largest_least_of_the_last_three_over_the_second": growth,
             "largest_memory_by_fifths": by_fifths(soak.samples, arguments.seconds, 1), "files_by_fifths": files,
             "threads_by_fifths": by_fifths(soak.samples, arguments.seconds, 3),
             "health_ms": {share: round(1000 * health[min(int(share * len(health)), len(health) - 1)], 1) for share in (0.5, 0.99, 1)},
             "ended": has_ended}
    print(json.dumps(found) if arguments.json else "\n".join(f"{key}: {value}" for key, value in found.items()))
    grew = growth > arguments.memory_growth or max(files[2:]) > files[1] + 2 * arguments.clients
    failures = soak.counts["wrong"] + soak.counts["differ"] + soak.counts["cut"]
    sys.exit(1 if failures or grew or has_ended else 0)


if __name__ == "__main__":
    main()
