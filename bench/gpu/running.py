"""Runs programs for check.py. What they print is handed on line by line, so that whoever is killed has lost nothing."""
import ctypes
import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
TAIL = 1500  # characters of a program's last words that a line quotes


class Lines:
    """A file of JSON objects, each written by one call as soon as it exists."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self.common = {}

    def add(self, what, **more):
        """Writes a line with what all have in common."""
        os.write(self._file, (json.dumps({**self.common, "what": what, **more}) + "\n").encode())


def read_lines(path):
    """Lines of a file; the last one of a run that was killed may be cut off, and is left out."""
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]


@dataclass
class Job:
    """A program to run.

    on_line  called with each line of its output and errors, which are one stream
    """
    words: list
    limit: float  # seconds
    on_line: object = None
    environment: dict = None
    name: str = ""
    # How it ended:
    code: int = None  # negative: by this signal; None: it ran past its limit, or was not begun
    seconds: float = 0.0
    was_begun: bool = False
    tail: str = ""
    # While it runs:
    _rest: bytes = field(default=b"", repr=False)

    def problem(self):
        """Reason why it did not end well, with its last words; None."""
        if self.code == 0:
            return None
        if not self.was_begun:
            return "time was out"
        if self.code is None:
            how = f"ran past its limit of {self.limit:.0f} s"
        else:
            how = f"was ended by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with exit code {self.code}"
        return f"{self.name} {how}" + (f": {self.tail.strip()}" if self.tail.strip() else "")


def _begin_child():
    """A group of its own, which is ended as a whole, and ends with this process even if that is killed."""
    os.setpgrp()
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Runner:
    """Runs jobs, some at once. All that they print is appended to `log`, too."""

    def __init__(self, log, environment):
        self._environment = environment
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("wb", buffering=0)

    def _start(self, job, selector):
        job.was_begun = True
        self._log.write(f"$ {' '.join(job.words)}\n".encode())
        process = subprocess.Popen(job.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**self._environment, **(job.environment or {})}, preexec_fn=_begin_child)
        os.set_blocking(process.stdout.fileno(), False)
        begun = time.monotonic()
        selector.register(process.stdout, selectors.EVENT_READ, (job, process, begun))

    def _take(self, job, data):
        *lines, job._rest = (job._rest + data).split(b"\n")
        for line in lines:
            self._log.write((f"[{job.name}] ".encode() if job.name else b"") + line + b"\n")
            text = line.decode(errors="replace")
            if not text.startswith("{"):  # a line of JSON is no last word
                job.tail = f"{job.tail}\n{text}"[-TAIL:]
            if job.on_line:
                job.on_line(text)

    def _end(self, job, process, begun, selector):
        """Takes what is left in the pipe of a program that has ended."""
        selector.unregister(process.stdout)
        try:
            while data := os.read(process.stdout.fileno(), 1 << 16):
                self._take(job, data)
        except BlockingIOError:
            pass  # a program that it has begun holds the pipe
        process.stdout.close()
        if job._rest:
            self._take(job, b"\n")
        job.seconds = time.monotonic() - begun

    def run(self, jobs, end, at_once=1):
        """Yields each job when it has ended, or when there is no time left to begin it.

        end  time.monotonic() at which all are ended
        """
        waiting, selector = list(jobs), selectors.DefaultSelector()
        try:
            while waiting or selector.get_map():
                while waiting and len(selector.get_map()) < at_once and time.monotonic() < end:
                    self._start(waiting.pop(0), selector)
                if not selector.get_map():
                    break
                until = min(min(key.data[2] + key.data[0].limit for key in selector.get_map().values()), end)
                for key, _ in selector.select(max(0.0, until - time.monotonic())):
                    job, process, begun = key.data
                    data = os.read(key.fd, 1 << 16)
                    if data:
                        self._take(job, data)
                        continue
                    self._end(job, process, begun, selector)
                    job.code = process.wait()
                    yield job
                for job, process, begun in [key.data for key in selector.get_map().values()]:
                    if time.monotonic() >= min(begun + job.limit, end):
                        self._kill(process)
                        self._end(job, process, begun, selector)
                        job.limit = min(job.limit, job.seconds)
                        yield job
        finally:
            for key in list(selector.get_map().values()):
                self._kill(key.data[1])
        yield from waiting

    @staticmethod
    def _kill(process):
        """Ends a program and those that it has begun."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
