"""Measures the overhead of `lacuna serve` over `lacuna run`, and the gain of a batch of equal requests.

    python3 bench/serve_overhead.py -m random:llada-8b,layers=2 --canvas 256 --steps 4

The same request goes to `lacuna run --json` and to a server, in turn; printed are medians of seconds as the program counts them, of the
server's own count (timings) and of what the client waited, and of their ratios. Then 1 and --batch clients at once, each with one such
request: rows and canvas tokens per second. Further settings of a request: --set block_length=32 --set cache=dual. --json prints one object
instead. Only the standard library is used.
"""
import argparse
import concurrent.futures
import json
import statistics
import subprocess
import time
import urllib.request

from serving import LACUNA, server


def ask(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=3600) as reply:
        return json.loads(reply.read())


def run_alone(arguments, prompt, settings):
    command = [arguments.lacuna, "run", "-m", arguments.model, "--prompt-tokens", ",".join(map(str, prompt)), "--json"]
    for key, value in settings.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["stats"]


def measure(arguments, url, body):
    """Medians by the names that --json prints."""
    median = statistics.median
    ask(url, "/v1/completions", body)  # warms up
    alone, counted, waited = [], [], []
    for _ in range(arguments.repeat):
        alone.append(run_alone(arguments, body["prompt"], body["lacuna"])["seconds"])
        begin = time.monotonic()
        timings = ask(url, "/v1/completions", body)["timings"]
        waited.append(time.monotonic() - begin)
        counted.append((timings["prompt_ms"] + timings["predicted_ms"]) / 1e3)

    speeds = {1: [], arguments.batch: []}
    for _ in range(arguments.repeat):
        for clients, speed in speeds.items():
            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                begin = time.monotonic()
                replies = list(pool.map(lambda _: ask(url, "/v1/completions", body), range(clients)))
                seconds = time.monotonic() - begin
            rows = sum(reply["choices"][0]["lacuna"]["stats"]["rows"] for reply in replies)
            speed.append((rows / seconds, clients * arguments.gen_length / seconds))
    one, many = speeds[1], speeds[arguments.batch]
    return {"run_seconds": median(alone), "server_seconds": median(counted), "client_seconds": median(waited),
            "server_by_run": median(c / a for c, a in zip(counted, alone)),
            "client_by_run": median(w / a for w, a in zip(waited, alone)),
            "batch": arguments.batch,
            "rows_per_second_alone": median(s[0] for s in one), "rows_per_second_at_once": median(s[0] for s in many),
            "tokens_per_second_alone": median(s[1] for s in one), "tokens_per_second_at_once": median(s[1] for s in many),
            "gain": median(m[0] / o[0] for m, o in zip(many, one))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
    parser.add_argument("-m", "--model", default="random:llada-8b,layers=2")
    parser.add_argument("--canvas", type=int, default=256, help="prompt and positions to generate")
    parser.add_argument("--gen-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error(f"--repeat {arguments.repeat}: expected 1 or more")
    url = f"http://127.0.0.1:{arguments.port}"
    prompt = [10 + i % 1000 for i in range(arguments.canvas - arguments.gen_length)]
    settings = {"gen_length": arguments.gen_length, "steps": arguments.steps}
    for each in arguments.set:
        key, value = each.split("=", 1)
        settings[key] = int(value) if value.isdigit() else value
    body = {"prompt": prompt, "lacuna": settings}
    serve = ["-m", arguments.model, "--kv-memory", "2048", "--pass-rows", str(arguments.canvas * arguments.batch)]
    with server(arguments.lacuna, serve, arguments.port):
        found = measure(arguments, url, body)
    if arguments.json:
        print(json.dumps(found))
        return
    print("run {run_seconds:.3f} s, server {server_seconds:.3f} s, client {client_seconds:.3f} s; ratios {server_by_run:.4f} and "
          "{client_by_run:.4f}".format(**found))
    print("alone {rows_per_second_alone:.1f} rows/s, {tokens_per_second_alone:.2f} canvas tokens/s; {batch} at once "
          "{rows_per_second_at_once:.1f} rows/s, {tokens_per_second_at_once:.2f} canvas tokens/s: {gain:.3f} times".format(**found))


if __name__ == "__main__":
    main()
