"""`lacuna serve` under a limit of memory, asked by clients that want more: 503, not the kernel's kill.

    python3 tests/deploy/check_memory.py build/dev/lacuna
    python3 tests/deploy/check_memory.py build/dev/lacuna --way prlimit --mib 300

The limit is the first of these that this machine allows, and the last line says which: a unit of systemd (of the user, then of the
system, with MemoryMax and without swap), a control group of version 2 below this process's own, one of version 1, and a limit of the
address space (prlimit), where allocations fail instead. Then many clients at once send long bodies and keep some half sent, send
values without number, schemas at the limit of their memory, and ask for long replies that they do not read. Every reply must be an answer
or one of 400, 413, 429 and 503, some must be 503, the server must live, and must then answer as before. Only the standard library is used.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import check_replicas as base

MODEL = base.DEPLOY.parent / "models" / "mini-llada"
CLIENTS = 64


def below_own_group(controller):
    """The folder of this process's own group: of a controller of version 1, or of version 2 where that is ""."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") if controller else not names:
            mount = pathlib.Path("/sys/fs/cgroup") / controller
            return next((folder for folder in (mount / path.lstrip("/"), mount) if folder.is_dir()), mount)
    return None


@contextlib.contextmanager
def group(controller, name, limit):
    """Command that starts a program in a new group; None where there can be none."""
    parent = below_own_group(controller)
    folder = parent / f"lacuna-test-{os.getpid()}" if parent else None
    try:
        folder.mkdir()
        if not (folder / name).exists():  # the kernel's; else the parent has no such controller
            raise OSError
        (folder / name).write_text(str(limit))
        for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
            with contextlib.suppress(OSError):
                if (folder / swap).exists():
                    (folder / swap).write_text("0" if swap.endswith("max") else str(limit))
    except (OSError, AttributeError):
        with contextlib.suppress(OSError, AttributeError):
            folder.rmdir()
        yield None
        return
    try:
        yield ["sh", "-c", f'echo $$ >{folder}/cgroup.procs; exec "$@"', "sh"]
    finally:
        time.sleep(0.2)
        folder.rmdir()


@contextlib.contextmanager
def limited(way, mib):
    """(name, command before the program's) of the first way there is."""
    limit = mib << 20
    for user in ("--user", "--system"):
        command = ["systemd-run", user, "--scope", "--quiet", "-p", f"MemoryMax={limit}", "-p", "MemorySwapMax=0"]
        if way in ("", "systemd" + user) and shutil.which("systemd-run"):
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                yield f"systemd-run {user}", command
                return
    for name, controller, file in (("cgroup2", "", "memory.max"), ("cgroup1", "memory", "memory.limit_in_bytes")):
        if way in ("", name):
            with group(controller, file, limit) as command:
                if command:
                    yield name, command
                    return
    if way not in ("", "prlimit"):
        raise SystemExit(f"there is no {way} on this machine")
    yield "prlimit", []


def request(path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def hostile(index):
    """(bytes, whether they are all sent, whether the reply is read) of one client."""
    message = {"role": "user", "content": "a"}
    schema = {"enum": [f"{index} {i} {'x' * 60}" for i in range(3000)]}
    chosen = index % 6
    if chosen == 0:  # a body that never ends
        return request("/v1/chat/completions", b" " * (4 << 20))[:-1], True
    if chosen == 1:  # values
        return request("/v1/chat/completions", b'{"messages":[' + b"[]," * 250000 + b"1]}"), True
    if chosen == 2:  # a long text
        return request("/v1/chat/completions", {"messages": [{**message, "content": "a b " * 1000000}], "max_tokens": 4}), True
    if chosen == 3:
        return request("/v1/chat/completions", {"messages": [message], "max_tokens": 4, "response_format": {
            "type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {
                f"p{i}": schema for i in range(1)}, "additionalProperties": schema}}}}), True
    if chosen == 4:  # a long reply that nobody reads
        return request("/tokenize", {"content": "a b " * 60000, "with_pieces": True}), False
    return request("/v1/chat/completions", {"messages": [message], "max_tokens": 4, "lacuna": {
        "regex": "((a{1,30}){1,30}){1,30}" + str(index)}}), True


class Attack:
    def __init__(self, port):
        self.port = port
        self.statuses = collections.Counter()
        self.lock = threading.Lock()
        self.ends = threading.Event()

    def one(self, index):
        data, is_read = hostile(index)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=100) as connection:
                connection.sendall(data)
                if not is_read or index % 6 == 0:
                    self.ends.wait(8)
                    return
                begin = b""
                while len(begin) < 12 and (piece := connection.recv(65536)):
                    begin += piece
                status = begin[9:12].decode() or "closed"
        except OSError:
            status = "closed"
        with self.lock:
            self.statuses[status] += 1

    def run(self, rounds):
        for turn in range(rounds):
            clients = [threading.Thread(target=self.one, args=(turn * CLIENTS + i,)) for i in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        return self.statuses


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "Mia has 12 shells.", "max_tokens": 16}))
    reply = connection.getresponse()
    body = reply.read()
    return json.loads(body)["choices"][0]["text"] if reply.status == 200 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna")
    parser.add_argument("--way", default="", help="systemd--user, systemd--system, cgroup2, cgroup1 or prlimit (default: the first there is)")
    parser.add_argument("--mib", type=int, default=256, help="limit; with prlimit beyond what the idle server has (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of hostile clients (default %(default)s)")
    arguments = parser.parse_args()
    port = base.free_port()
    with limited(arguments.way, arguments.mib) as (name, before):
        server = subprocess.Popen([*before, arguments.lacuna, "serve", "-m", str(MODEL), "--port", str(port), "--threads", "1",
                                   "--kv-memory", "32", "--log-format", "off"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            base.wait_until(lambda: base.get(port, "/health") == 200 or server.poll() is not None)
            if server.poll() is not None:
                raise SystemExit(f"{name}: the server did not start")
            if name == "prlimit":
                size = next(int(line.split()[1]) << 10 for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines()
                            if line.startswith("VmSize"))
                resource.prlimit(server.pid, resource.RLIMIT_AS, (size + (arguments.mib << 20),) * 2)
            alone = ask(port)
            statuses = Attack(port).run(arguments.rounds)
            problems = []
            if server.poll() is not None:
                problems.append(f"the server ended with {server.returncode}")
            else:
                base.wait_until(lambda: base.get(port, "/health") == 200)
                if alone is None or ask(port) != alone:
                    problems.append("it does not answer as before")
            expected = {"200", "400", "413", "429", "503"}
            if name == "prlimit":  # where there is no memory to say so
                expected.add("closed")
            if strange := set(statuses) - expected:
                problems.append(f"replies {sorted(strange)}")
            if statuses["503"] == 0:
                problems.append("nothing was refused: the limit was not reached")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    print(f"{name}, {arguments.mib} MiB: {dict(statuses)}" + "".join(f"; {problem}" for problem in problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
