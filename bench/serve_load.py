"""Loads a running `lacuna serve` and prints throughput, latencies and fairness.

    lacuna serve -m mini-llada --port 8080 &
    python3 bench/serve_load.py --url http://127.0.0.1:8080 --clients 200 --seconds 300 --cancel 0.1 [--verify]
    python3 bench/serve_load.py --rate 5 --seconds 60        # open loop: requests come whether answered or not
    python3 bench/serve_load.py --serve "-m mini-llada"      # starts the server itself, with these flags, and watches its memory

Requests mix methods, lengths and streaming, the same for the same --seed. --cancel is the share of requests whose client hangs up on the way.
--verify asks for each kind of request once more at the end, alone, and compares texts: no company may change an answer. --json prints one
object instead. Only the standard library is used. Exit status 1 for errors other than refusals (503), texts that differ, or memory that grew
after the first third by more than --memory-growth, a share.
"""
import argparse
import asyncio
import json
import random
import shlex
import sys
import time
import urllib.parse

from serving import LACUNA, server

STORIES = ["Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?",
           "Tom has 3 coins. He finds 9 more. How many coins does Tom have now?",
           "Ana has 20 pens. She gives 6 to Leo. She buys 11 more. She loses 4. How many pens does Ana have now?"]
METHODS = {"masked": [{}, {"block_length": 8}, {"block_length": 8, "cache": "dual"}, {"block_length": 8, "cache": "prefix"},
                      {"unmask": "threshold=0.9", "block_length": 8}, {"lock": "eps=5e-3"}, {"unmask": "random", "steps": 8},
                      {"temperature": 0.7, "seed": 3}],
           "any": [{}, {"temperature": 0.7, "seed": 3}],
           "guided": [{"guide": True}, {"guide": True, "block_length": 8}]}


def make_kinds(props, lengths, prompts):
    """Every kind of request: (name, body)."""
    methods = METHODS["masked" if props["can_infill"] else "any"] + (METHODS["guided"] if props["has_guide"] else [])
    return [(f"{json.dumps(method)} x{length}", {"prompt": prompt, "max_tokens": length, "lacuna": method})
            for method in methods for length in lengths for prompt in prompts]


async def ask(url, body, hang_up_after=None):
    """(status, text, seconds to the first byte of text, seconds); status 0: hung up."""
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        data = json.dumps(body).encode()
        writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
                     .encode() + data)
        await writer.drain()
        if hang_up_after is not None:
            await asyncio.wait([asyncio.ensure_future(reader.read())], timeout=hang_up_after)
            return 0, "", None, time.monotonic() - begin
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        first, raw = None, b""
        while piece := await reader.read(65536):
            raw += piece
            if first is None and b'"text":"' in raw:
                first = time.monotonic() - begin
        text = ""
        if status == 200 and body.get("stream"):
            for line in raw.split(b"\n"):
                if line.startswith(b"data: {"):
                    text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
        elif status == 200:
            text = json.loads(raw)["choices"][0]["text"]
        return status, text, first, time.monotonic() - begin
    finally:
        writer.close()


async def get(url, path):
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    raw = await reader.read()
    writer.close()
    return raw.split(b"\r\n\r\n", 1)[1].decode()


def resident(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def quantile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else 0


def quantiles(values):
    return " ".join(f"p{q} {quantile(values, q):.3f}" for q in (50, 90, 99)) if values else "-"


class Load:
    def __init__(self, arguments, kinds):
        self.arguments, self.kinds = arguments, kinds
        self.url = urllib.parse.urlparse(arguments.url)
        self.random = random.Random(arguments.seed)
        self.results = []   # (kind, status, seconds, first)
        self.texts = {}     # kind -> set of texts
        self.errors = []

    async def one(self):
        kind = self.random.randrange(len(self.kinds))
        body = {**self.kinds[kind][1], "stream": self.random.random() < 0.5}
        hang_up = self.random.uniform(0, 2) if self.random.random() < self.arguments.cancel else None
        try:
            status, text, first, seconds = await ask(self.url, body, hang_up)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.errors.append(repr(error))
            return
        self.results.append((kind, status, seconds, first))
        if status == 200:
            self.texts.setdefault(kind, set()).add(text)
        elif status not in (0, 503):
            self.errors.append(f"status {status}")
        if status == 503:
            await asyncio.sleep(0.5)

    async def closed_loop(self, end):
        while time.monotonic() < end:
            await self.one()

    async def open_loop(self, end):
        tasks = []
        while time.monotonic() < end:
            tasks.append(asyncio.ensure_future(self.one()))
            await asyncio.sleep(self.random.expovariate(self.arguments.rate))
        await asyncio.gather(*tasks)

    async def watch(self, memory):
        while True:
            memory.append(resident(self.arguments.pid))
            await asyncio.sleep(1)

    async def run(self):
        begin = time.monotonic()
        end = begin + self.arguments.seconds
        memory = []
        watch = asyncio.ensure_future(self.watch(memory)) if self.arguments.pid else None
        if self.arguments.rate:
            await self.open_loop(end)
        else:
            await asyncio.gather(*(self.closed_loop(end) for _ in range(self.arguments.clients)))
        seconds = time.monotonic() - begin
        if watch:
            watch.cancel()
        return seconds, memory


async def measure(arguments):
    url = urllib.parse.urlparse(arguments.url)
    props = json.loads(await get(url, "/props"))
    lengths = [int(length) for length in arguments.lengths.split(",")]
    # A model without a tokenizer is asked with ids.
    prompts = STORIES if props["has_tokenizer"] else [list(range(10, 74)), list(range(50, 90))]
    kinds = make_kinds(props, lengths, prompts)
    load = Load(arguments, kinds)
    seconds, memory = await load.run()
    good = [result for result in load.results if result[1] == 200]
    latencies = [result[2] for result in good]
    different = sum(len(texts) > 1 for texts in load.texts.values())
    if arguments.verify:
        for kind, texts in load.texts.items():
            _, alone, _, _ = await ask(url, kinds[kind][1])
            different += texts != {alone}
    found = {"answers": len(good), "seconds": seconds,
             "hung_up": sum(result[1] == 0 for result in load.results), "refused": sum(result[1] == 503 for result in load.results),
             "errors": len(load.errors), "kinds": len(load.texts), "texts_that_differ": different,
             "canvas_tokens_per_second": sum(kinds[kind][1]["max_tokens"] for kind, *_ in good) / seconds,
             "latency_median": quantile(latencies, 50), "latency_99": quantile(latencies, 99)}
    if memory:
        found["memory_first_third"] = max(memory[:max(1, len(memory) // 3)])
        found["memory_afterwards"] = max(memory)
    if arguments.json:
        print(json.dumps(found))
    else:
        print("{answers} answers in {seconds:.1f} s, {hung_up} hung up, {refused} refused, {errors} errors".format(**found),
              sorted(set(load.errors))[:5])
        print("{canvas_tokens_per_second:.1f} canvas tokens/s".format(**found))
        print(f"latency, s            {quantiles(latencies)}")
        print(f"first final text, s   {quantiles([r[3] for r in good if r[3] is not None])}")
        for length in lengths:
            of_length = [r[2] for r in good if kinds[r[0]][1]["max_tokens"] == length]
            per_token = [each / length for each in of_length]
            print(f"{length:5d} tokens: {len(of_length):5d} answers, latency {quantiles(of_length)}; per token {quantiles(per_token)}")
        print("{texts_that_differ} of {kinds} kinds had texts that differ".format(**found) + ("" if arguments.verify else " among themselves"))
        if memory:
            print("memory, MiB: first third at most {memory_first_third:.0f}, afterwards at most {memory_afterwards:.0f}".format(**found))
    grew = memory and found["memory_afterwards"] > (1 + arguments.memory_growth) * found["memory_first_third"]
    return 1 if load.errors or different or grew else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--clients", type=int, default=16, help="closed loop: each asks again when it is answered")
    parser.add_argument("--rate", type=float, default=0, help="open loop: requests per second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--lengths", default="8,16,32,64")
    parser.add_argument("--cancel", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--pid", type=int, default=0, help="of the server, to watch its memory")
    parser.add_argument("--memory-growth", type=float, default=0.02)
    parser.add_argument("--serve", metavar="FLAGS", help="start `lacuna serve` with these flags")
    parser.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
    parser.add_argument("--port", type=int, default=8378, help="of --serve")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve is None:
        sys.exit(asyncio.run(measure(arguments)))
    with server(arguments.lacuna, shlex.split(arguments.serve), arguments.port) as process:
        arguments.url, arguments.pid = f"http://127.0.0.1:{arguments.port}", process.pid
        status = asyncio.run(measure(arguments))
    sys.exit(status)


if __name__ == "__main__":
    main()
