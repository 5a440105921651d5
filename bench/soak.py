"""Soak test: serves several models for a long time and watches the server's memory, files and threads.

    python3 bench/soak.py --seconds 3600                   # load, hang-ups, refusals; models loaded and unloaded
    chrt -i 0 python3 bench/soak.py --seconds 900 --json

Clients ask three models of which two fit the memory, in all APIs, as streams and whole; some hang up, some send invalid JSON, some
read slowly. Between bursts nothing is asked, so that --unload-after unloads models. The server's resident memory, open files and threads are
sampled every second. A leak raises every sample, so after a warm-up of a fifth of the time the median memory of each later fifth may exceed
that of the second by at most --memory-growth, a share; the largest sample, which depends on what is asked at once, is printed. Every text is compared with those of the same request before. Only the standard library is used. Exit status 1 for
texts that differ, replies that are neither an answer nor an error, memory or files that grew, or a server that ended.
"""
import argparse
import asyncio
import json
import os
import random
import shlex
import statistics
import sys
import time
import urllib.parse

from serve_load import resident
from serving import LACUNA, server

MODELS = ["masked=mini-llada", "blocks=mini-sdar", "slots=mini-refusion"]
QUESTION = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?"


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
        self.requests = [each for name in MODELS for each in bodies(name.split("=")[0])]
        self.seen = {}
        self.counts = {"answers": 0, "errors": 0, "hung_up": 0, "wrong": 0, "differ": 0}
        self.samples = []  # (seconds, MiB, files, threads)

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
        begin = time.monotonic()
        end = begin + self.arguments.seconds
        watch = asyncio.ensure_future(self.watch(begin))
        while time.monotonic() < end:
            burst = min(end, time.monotonic() + 40)
            await asyncio.gather(*(self.client(burst) for _ in range(self.arguments.clients)))
            await asyncio.sleep(4)  # longer than --unload-after
        watch.cancel()


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
    parser.add_argument("--port", type=int, default=8379)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    flags = shlex.split(f"--models-memory {arguments.models_memory} --kv-memory 32 --unload-after 2 --log-format off")
    for model in MODELS:
        flags += ["-m", model]
    with server(arguments.lacuna, flags, arguments.port) as process:
        arguments.pid = process.pid
        soak = Soak(arguments)
        asyncio.run(soak.run())
        has_ended = process.poll() is not None
    memory = by_fifths(soak.samples, arguments.seconds, 1, statistics.median)
    files = by_fifths(soak.samples, arguments.seconds, 2)
    growth = max(memory[2:]) / max(memory[1], 1) - 1
    found = {**soak.counts, "seconds": arguments.seconds, "kinds": len(soak.seen), "median_memory_by_fifths": memory,
             "largest_memory_by_fifths": by_fifths(soak.samples, arguments.seconds, 1), "files_by_fifths": files,
             "threads_by_fifths": by_fifths(soak.samples, arguments.seconds, 3), "growth": growth, "ended": has_ended}
    print(json.dumps(found) if arguments.json else "\n".join(f"{key}: {value}" for key, value in found.items()))
    grew = growth > arguments.memory_growth or max(files[2:]) > files[1] + 2 * arguments.clients
    sys.exit(1 if soak.counts["wrong"] or soak.counts["differ"] or grew or has_ended else 0)


if __name__ == "__main__":
    main()
