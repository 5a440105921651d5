"""Three replicas of `lacuna serve` behind haproxy, asked many small questions while they are drained, killed, stopped for a moment and
started again at random.

    python3 tests/deploy/check_soak.py build/dev/lacuna --requests 100000 --seconds 900
    python3 tests/deploy/check_soak.py build/dev/lacuna --requests 2000 --seconds 30 --seed 7

The model is the smallest of tests/golden, so that a request costs about a millisecond. Every answer, tokens and their probabilities,
must equal the one that a server gave alone, as a stream or whole. A request may fail only where the replica was killed that had begun
to answer it. Ends after this many requests or seconds, whichever comes first. Only the standard library is used. Exit status 77:
haproxy is not installed.
"""
import argparse
import collections
import http.client
import json
import random
import shutil
import signal
import sys
import threading
import time

import check_replicas as base

MODEL = base.DEPLOY.parent / "tests" / "golden" / "fast_dllm"
VOCABULARY = 90  # the last ids of the model are special tokens
KINDS = 240


class Replica(base.Replica):
    FLAGS = ("-m", MODEL, "--log-format", "off", "--kv-memory", "256")


def make_bodies(chance):
    """Prompts in families with common beginnings, long and short answers, one or two choices, streams and whole replies."""
    beginnings = [[chance.randrange(5, VOCABULARY) for _ in range(chance.randrange(1, 200))] for _ in range(12)]
    bodies = []
    for kind in range(KINDS):
        prompt = chance.choice(beginnings) + [chance.randrange(5, VOCABULARY) for _ in range(chance.randrange(1, 24))]
        bodies.append({"prompt": prompt, "max_tokens": chance.choice([1, 7, 16, 32, 40]), "seed": kind, "n": chance.choice([1, 1, 1, 2]),
                       "temperature": chance.choice([0, 0.7, 1]), "logprobs": 1, "ignore_eos": chance.random() < 0.5})
    return bodies


def signature(choices_of_parts, count):
    """Tokens, probabilities and reasons of all choices, from the parts of a stream or the one of a whole reply."""
    answers = [[[], [], None] for _ in range(count)]
    for choice in choices_of_parts:
        answer = answers[choice["index"]]
        if choice["logprobs"]:
            answer[0] += choice["logprobs"]["ids"]
            answer[1] += choice["logprobs"]["token_logprobs"]
        answer[2] = choice["finish_reason"] or answer[2]
    return answers


class Client:
    """One connection that stays open as long as it can."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, body, wants_stream, gives_up=False):
        """(signature, ""), or (None, how it failed)."""
        has_begun = False
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self.connection.request("POST", "/v1/completions", json.dumps({**body, "stream": wants_stream}),
                                    {"Content-Type": "application/json"})
            if gives_up:
                self.close()
                return None, "given up"
            reply = self.connection.getresponse()
            has_begun = reply.status == 200
            raw = reply.read()
            if reply.status != 200:
                return None, f"status {reply.status} {raw[:160]!r}"
            return self.read(raw, body["n"], wants_stream)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return None, "cut" if has_begun else f"{type(error).__name__} before the reply"

    @staticmethod
    def read(raw, count, is_stream):
        if not is_stream:
            return signature(json.loads(raw)["choices"], count), ""
        events, is_whole = base.events_of(raw)
        errors = [event["error"]["message"] for event in events if "error" in event]
        if not is_whole:
            return None, "a stream without [DONE]"
        if errors:
            return None, f"event {errors[0]}"
        return signature([choice for event in events for choice in event["choices"]], count), ""

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Load:
    def __init__(self, port, bodies, expected, arguments):
        self.port, self.bodies, self.expected, self.arguments = port, bodies, expected, arguments
        self.end = time.monotonic() + arguments.seconds
        self.lock, self.begun, self.equal = threading.Lock(), 0, 0
        self.failures, self.wrong = collections.Counter(), []
        self.threads = [threading.Thread(target=self.work, args=(arguments.seed * 1000 + number,)) for number in range(arguments.clients)]
        for thread in self.threads:
            thread.start()

    def is_over(self):
        return self.begun >= self.arguments.requests or time.monotonic() > self.end

    def work(self, seed):
        chance, client = random.Random(seed), Client(self.port)
        while True:
            with self.lock:
                if self.is_over():
                    break
                self.begun += 1
            kind = chance.randrange(KINDS)
            answer, failure = client.ask(self.bodies[kind], chance.random() < 0.5, chance.random() < 0.01)
            with self.lock:
                if failure:
                    self.failures[failure] += 1
                elif answer == self.expected[kind]:
                    self.equal += 1
                else:
                    self.wrong.append((kind, answer))
        client.close()


class Chaos:
    """Does something to a replica every now and then, and leaves at least one as it is."""

    def __init__(self, replicas, load, seed):
        self.replicas, self.load, self.chance, self.done = replicas, load, random.Random(seed), collections.Counter()

    def restart(self, replica):
        time.sleep(self.chance.choice([0, 0, 0.3, 1.5]))
        replica.start()
        base.wait_until(replica.is_ready)
        time.sleep(0.5)  # until the proxy knows

    def drain(self, replica):
        replica.drain()
        self.restart(replica)

    def kill(self, replica):
        replica.kill()
        self.restart(replica)

    def kill_two(self, replica):
        other = self.chance.choice([each for each in self.replicas if each is not replica])
        replica.kill()
        other.kill()
        self.restart(replica)
        self.restart(other)

    def pause(self, replica):
        replica.process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.1, 2))
        replica.process.send_signal(signal.SIGCONT)

    def run(self):
        while not self.load.is_over():
            time.sleep(self.chance.uniform(0.2, 3))
            action = self.chance.choice([self.drain, self.drain, self.kill, self.kill, self.kill_two, self.pause])
            self.done[action.__name__] += 1
            action(self.chance.choice(self.replicas))


def report(load, chaos, seconds):
    kills = chaos.done["kill"] + 2 * chaos.done["kill_two"]
    given_up = load.failures.pop("given up", 0)
    print(f"{load.begun} requests in {seconds:.0f} s: {load.equal} answers equal to those of a server alone, {len(load.wrong)} differ, "
          f"{given_up} given up by the client, {load.failures['cut']} cut at {kills} kills; events: {dict(chaos.done)}")
    faults = [f"{count} requests: {failure}" for failure, count in load.failures.items() if failure != "cut"]
    if load.wrong:
        kind, answer = load.wrong[0]
        faults.append(f"{len(load.wrong)} answers differ, of kinds {sorted({each for each, _ in load.wrong})}; "
                      f"{answer} of {load.bodies[kind]}, expected {load.expected[kind]}")
    if load.failures["cut"] > kills * len(load.threads):
        faults.append("more requests were cut than the replicas that were killed could have been answering")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna")
    parser.add_argument("--requests", type=int, default=2000, help="at most (default 2000)")
    parser.add_argument("--seconds", type=float, default=60, help="at most (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of questions and events (default 1)")
    parser.add_argument("--clients", type=int, default=8, help="that ask at once (default 8)")
    arguments = parser.parse_args()
    if not shutil.which("haproxy"):
        print("haproxy is not installed")
        sys.exit(77)
    bodies = make_bodies(random.Random(arguments.seed))
    alone = Replica(arguments.lacuna, base.free_port())
    base.wait_until(alone.is_ready)
    client = Client(alone.port)
    expected = [client.ask(body, False)[0] for body in bodies]
    alone.drain()
    if None in expected:
        raise SystemExit("the server alone refused a question")
    replicas = [Replica(arguments.lacuna, base.free_port()) for _ in range(3)]
    with base.behind_proxy(replicas, lambda *rest: base.haproxy("haproxy.cfg", *rest)) as port:
        begin = time.monotonic()
        load = Load(port, bodies, expected, arguments)
        chaos = Chaos(replicas, load, arguments.seed)
        chaos.run()
        for thread in load.threads:
            thread.join()
    faults = report(load, chaos, time.monotonic() - begin)
    for fault in faults:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
