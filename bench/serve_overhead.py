"""What `lacuna serve` costs over `lacuna run`, and what a batch of equal requests gains.

    python3 bench/serve_overhead.py --lacuna build/release/lacuna -m random:llada-8b,layers=2 --canvas 256 --steps 4

The same request goes to `lacuna run --json` and to a server, in turn; printed are medians of seconds as the program counts them, of the
server's own count (timings) and of what the client waited, and of their ratios. Then 1 and --batch clients at once, each with one such
request: rows and canvas tokens per second. Further settings of a request: --set block_length=32 --set cache=dual. Only the standard library
is used.
"""
import argparse
import concurrent.futures
import json
import statistics
import subprocess
import time
import urllib.request


def ask(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=3600) as reply:
        return json.loads(reply.read())


def run_alone(arguments, prompt, settings):
    command = [arguments.lacuna, "run", "-m", arguments.model, "--prompt-tokens", ",".join(map(str, prompt)), "--json"]
    for key, value in settings.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["stats"]


def start_server(arguments):
    command = [arguments.lacuna, "serve", "-m", arguments.model, "--port", str(arguments.port), "--kv-memory", "2048",
               "--pass-rows", str(arguments.canvas * arguments.batch)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while True:
        try:
            ask(f"http://127.0.0.1:{arguments.port}", "/health")
            return server
        except OSError:
            if server.poll() is not None:
                raise SystemExit("the server ended")
            time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lacuna", default="lacuna")
    parser.add_argument("-m", "--model", default="random:llada-8b,layers=2")
    parser.add_argument("--canvas", type=int, default=256, help="prompt and positions to generate")
    parser.add_argument("--gen-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--port", type=int, default=8377)
    arguments = parser.parse_args()
    url = f"http://127.0.0.1:{arguments.port}"
    prompt = [10 + i % 1000 for i in range(arguments.canvas - arguments.gen_length)]
    settings = {"gen_length": arguments.gen_length, "steps": arguments.steps}
    for each in arguments.set:
        key, value = each.split("=", 1)
        settings[key] = int(value) if value.isdigit() else value
    body = {"prompt": prompt, "lacuna": settings}
    server = start_server(arguments)
    try:
        ask(url, "/v1/completions", body)  # warms up
        alone, counted, waited = [], [], []
        for _ in range(arguments.repeat):
            alone.append(run_alone(arguments, prompt, settings)["seconds"])
            begin = time.monotonic()
            timings = ask(url, "/v1/completions", body)["timings"]
            waited.append(time.monotonic() - begin)
            counted.append((timings["prompt_ms"] + timings["predicted_ms"]) / 1e3)
        median = statistics.median
        if arguments.repeat:
            print(f"run {median(alone):.3f} s, server {median(counted):.3f} s, client {median(waited):.3f} s; ratios "
                  f"{median(c / a for c, a in zip(counted, alone)):.4f} and {median(w / a for w, a in zip(waited, alone)):.4f}; "
                  f"client less server {1e3 * median(w - c for w, c in zip(waited, counted)):.1f} ms")

        speeds = {1: [], arguments.batch: []}
        for _ in range(max(1, arguments.repeat)):
            for clients, speed in speeds.items():
                with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                    begin = time.monotonic()
                    replies = list(pool.map(lambda _: ask(url, "/v1/completions", body), range(clients)))
                    seconds = time.monotonic() - begin
                rows = sum(reply["choices"][0]["lacuna"]["stats"]["rows"] for reply in replies)
                speed.append((rows / seconds, clients * arguments.gen_length / seconds))
        for clients, speed in speeds.items():
            print(f"{clients} at once: {median(s[0] for s in speed):.1f} rows/s, {median(s[1] for s in speed):.2f} canvas tokens/s")
        print(f"rows/s of {arguments.batch} against 1: "
              f"{median(many[0] / one[0] for many, one in zip(speeds[arguments.batch], speeds[1])):.3f}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
