"""Checks that the Python module keeps no memory: python3 tests/python/check_memory.py [CALLS]

Calls of each kind are made in their own process. Resident memory after the first tenth of the calls and after the last
one may differ by 2%.
"""
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import lacuna

MODEL = Path(__file__).resolve().parents[2] / "models" / "mini-llada"
SHORT = {"gen_length": 8, "block_length": 8, "steps": 4}


def generate(model):
    model.generate("Mia has 12 shells.", **SHORT)


def leave_stream(model):
    """Reads one pass of four."""
    with model.stream("Mia has 12 shells.", **SHORT) as stream:
        next(stream)


def logits(model):
    assert model.logits(np.arange(8, dtype=np.int32)).shape[0] == 8


def fail(model):
    try:
        model.generate("Mia has 12 shells.", unmask="none such")
    except lacuna.Error:
        return
    raise AssertionError("a wrong setting was taken")


def load(model):
    lacuna.load(MODEL, threads=1)


KINDS = {call.__name__: call for call in (generate, leave_stream, logits, fail, load)}


def resident_mib():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def measure(kind, calls):
    model = lacuna.load(MODEL, threads=1)
    warm = 0.0
    for i in range(calls):
        if i == calls // 10:
            warm = resident_mib()
        KINDS[kind](model)
    end = resident_mib()
    print(f"{kind}: {calls} calls: {warm:.2f} MiB after {calls // 10}, {end:.2f} MiB after the last "
          f"({100 * (end / warm - 1):+.2f}%)", flush=True)
    return 0 if end <= warm * 1.02 else 1


def main(arguments):
    calls = int(arguments[0]) if arguments else 10000
    if len(arguments) > 1:
        return measure(arguments[1], calls)
    return max(subprocess.run([sys.executable, __file__, str(calls), kind], check=False).returncode for kind in KINDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
