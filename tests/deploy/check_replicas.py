"""Replicas of `lacuna serve` behind the configurations of deploy/, under load while they are drained, killed and started again.

    python3 tests/deploy/check_replicas.py build/dev/lacuna                       # haproxy and nginx, where they are installed
    python3 tests/deploy/check_replicas.py build/dev/lacuna --requests 100000

Every answer must equal the one that a server gave alone. With haproxy, a replica that drains must cut nothing. A request fails
only where the replica that had begun its answer was killed, and at most as many at a time as it could have been answering. Only the
standard library is used. Exit status 77: neither proxy is installed.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
CLIENTS = 12
STORIES = ["Mia has 12 shells. She finds 7 more. How many shells does Mia have now?",
           "Tom has 9 coins. He loses 4. How many coins does Tom have now?",
           "Ana has 20 pens. She gives 6 to Leo. How many pens does Ana have now?"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path):
    """Status of a GET; None where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("nothing happened within a minute that was expected to")
        time.sleep(0.05)


class Replica:
    FLAGS = ("-m", "mini-sdar")

    def __init__(self, lacuna, port):
        self.lacuna, self.port, self.process = lacuna, port, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.lacuna, "serve", *self.FLAGS, "--threads", "1", "--port", str(self.port), "--drain", "60"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_ready(self):
        return get(self.port, "/ready") == 200

    def drain(self):
        """SIGTERM; returns when it has ended by itself."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(90) != 0:
            raise SystemExit(f"a drained replica ended with {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def body_of(kind):
    return {"prompt": STORIES[kind % 3], "max_tokens": 24, "seed": kind, "temperature": 1, "stream": kind % 2 == 0}


def events_of(raw):
    """Events of a stream, and whether it ended with [DONE]."""
    lines = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1:] == ["[DONE]"]


def ask(port, kind):
    """The text, or how the request failed: "cut" after the reply began, else a status or an error's name."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    begun = False
    try:
        connection.request("POST", "/v1/completions", json.dumps(body_of(kind)), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        begun = True
        raw = reply.read()
        if reply.status != 200:
            return None, f"status {reply.status}"
        if kind % 2:
            return json.loads(raw)["choices"][0]["text"], ""
        events, is_whole = events_of(raw)
        if not is_whole or any("error" in event for event in events):
            return None, "cut"
        return "".join(choice["text"] for event in events for choice in event["choices"]), ""
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, "cut" if begun else type(error).__name__
    finally:
        connection.close()


class Load:
    """Clients that ask until `total` requests were answered or have failed."""

    def __init__(self, port, total, kinds):
        self.port, self.total, self.kinds = port, total, kinds
        self.lock, self.begun, self.ended, self.failures, self.wrong = threading.Lock(), 0, 0, [], 0
        self.threads = [threading.Thread(target=self.work, args=(seed,)) for seed in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, seed):
        chance = random.Random(seed)
        while True:
            with self.lock:
                if self.begun >= self.total:
                    return
                self.begun += 1
            kind = chance.randrange(len(self.kinds))
            text, failure = ask(self.port, kind)
            with self.lock:
                self.ended += 1
                if failure:
                    self.failures.append(failure)
                elif text != self.kinds[kind]:
                    self.wrong += 1

    def wait_for(self, share):
        wait_until(lambda: self.ended >= share * self.total, 3600)

    def join(self):
        for thread in self.threads:
            thread.join()


def haproxy(config, replicas, port, folder):
    environment = {**os.environ, "LACUNA_ADMIN_SOCKET": f"{folder}/admin", "LACUNA_BIND": f"127.0.0.1:{port}",
                   **{f"LACUNA_REPLICA{i + 1}": f"127.0.0.1:{replica.port}" for i, replica in enumerate(replicas)}}
    return subprocess.Popen(["haproxy", "-db", "-f", DEPLOY / config], env=environment, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def nginx(config, replicas, port, folder):
    text = (DEPLOY / config).read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    for i, replica in enumerate(replicas):
        text = text.replace(f"127.0.0.1:808{i + 1}", f"127.0.0.1:{replica.port}")
    text = re.sub(r"^http \{", "http {" + "".join(f"\n    {kind}_temp_path {folder}/{kind};" for kind in
                                                 ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")), text, flags=re.M)
    path = pathlib.Path(folder) / "nginx.conf"
    path.write_text(f"pid {folder}/pid;\ndaemon off;\n{text}")
    return subprocess.Popen(["nginx", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def behind_proxy(replicas, start_proxy):
    """The port of a proxy in front of the replicas. All processes end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        port, proxy = free_port(), None
        try:
            for replica in replicas:
                wait_until(replica.is_ready)
            proxy = start_proxy(replicas, port, folder)
            wait_until(lambda: get(port, "/ready") == 200)
            yield port
        finally:
            if proxy is not None:
                proxy.terminate()
                proxy.wait()
            for replica in replicas:
                replica.kill()


def check(name, start_proxy, lacuna, kinds, requests):
    replicas = [Replica(lacuna, free_port()) for _ in range(3)]
    with behind_proxy(replicas, start_proxy) as port:
        load = Load(port, requests, kinds)
        load.wait_for(0.2)
        replicas[0].drain()
        replicas[0].start()
        wait_until(replicas[0].is_ready)
        load.wait_for(0.5)
        failures_of_drains = list(load.failures)
        replicas[1].kill()
        load.wait_for(0.7)
        replicas[1].start()
        wait_until(replicas[1].is_ready)
        load.join()
    print(f"{name}: {load.ended} requests, {load.wrong} texts that differ, {len(failures_of_drains)} failed at a drain, "
          f"{len(load.failures) - len(failures_of_drains)} at a kill: {sorted(set(load.failures))}")
    faults = []
    if load.wrong:
        faults.append("texts differ from those of a server alone")
    if failures_of_drains:
        faults.append("a drain failed requests")
    if len(load.failures) > CLIENTS or set(load.failures) - {"cut", "status 502", "status 504"}:
        faults.append("a kill failed requests that it had not begun to answer")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna")
    parser.add_argument("--requests", type=int, default=400, help="of each proxy (default 400)")
    arguments = parser.parse_args()
    setups = [(program, config, start) for program, config, start in
              [("haproxy", "haproxy.cfg", haproxy), ("haproxy", "haproxy_prefix.cfg", haproxy), ("nginx", "nginx.conf", nginx)]
              if shutil.which(program)]
    if not setups:
        print("neither haproxy nor nginx is installed")
        sys.exit(77)
    alone = Replica(arguments.lacuna, free_port())
    wait_until(alone.is_ready)
    kinds = [ask(alone.port, kind)[0] for kind in range(24)]
    alone.drain()
    faults = []
    for program, config, start in setups:
        faults += [f"{config}: {fault}" for fault in
                   check(config, lambda *rest, start=start, config=config: start(config, *rest), arguments.lacuna, kinds,
                         arguments.requests)]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
