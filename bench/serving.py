"""Starts `lacuna serve` for the scripts in this folder."""
import contextlib
import os
import shlex
import subprocess
import time
import urllib.request

LACUNA = os.environ.get("LACUNA", "build/release/lacuna")


@contextlib.contextmanager
def server(lacuna, arguments, port):
    """A server that is ready, as a process; it ends with the block."""
    process = subprocess.Popen([lacuna, "serve", "--port", str(port), *arguments], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).read()
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit(f"The server ended with {process.returncode}; this command prints why: "
                                     f"{shlex.join(map(str, process.args))}") from None
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait()
