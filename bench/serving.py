"""Starts `lacuna serve` for the scripts in this folder."""
import contextlib
import os
import subprocess
import tempfile
import time
import urllib.request

LACUNA = os.environ.get("LACUNA", "build/release/lacuna")


@contextlib.contextmanager
def server(lacuna, arguments, port):
    """A server that is ready, as a process; it ends with the block."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([lacuna, "serve", "--port", str(port), *arguments], stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).read()
                    break
                except OSError:
                    if process.poll() is not None:
                        errors.seek(0)
                        raise SystemExit(f"{lacuna} serve {' '.join(arguments)}: ended with {process.returncode}: "
                                         f"{errors.read().decode(errors='replace').strip()}") from None
                    time.sleep(0.2)
            yield process
        finally:
            process.terminate()
            process.wait()
