"""The server under load, and its overhead."""
from book import table
from text import code

LOAD = "python3 bench/serve_load.py --cancel 0.1 --verify --memory-growth 0.1 --json --serve "
GUIDED = '"-m mini-llada --guide mini-qwen"'
OVERHEAD = "python3 bench/serve_overhead.py --json "

FULL = {
    "loads": [
        LOAD + GUIDED + " --clients 200 --seconds 60",
        LOAD + '"-m mini-sdar --prefix-memory 16" --clients 200 --seconds 30',
        LOAD + GUIDED + " --rate 20 --seconds 30",
    ],
    "overheads": [
        OVERHEAD + "-m random:llada-8b,layers=4 --canvas 256 --gen-length 32 --steps 4",
        OVERHEAD + "-m random:llada-8b,layers=4 --canvas 128 --gen-length 64 --steps 64 --set cache=dual "
        "--set block_length=16",
    ],
}
QUICK = {
    "loads": [command + " --clients 4 --seconds 2 --rate 0 --memory-growth 1" for command in FULL["loads"]],
    "overheads": [OVERHEAD + "-m mini-llada --canvas 64"],
}


@table
def loads(run):
    """One row for each load."""
    head = ["answers", "cancelled", "refused", "errors", "different texts", "median latency", "99th percentile",
            "memory, first third", "memory, afterwards", "command"]
    rows = []
    for command in run.grid.loads:
        found = run.result(command)
        counts = [found[key] for key in ("answers", "hung_up", "refused", "errors", "texts_that_differ")]
        rows.append([*counts, f'{found["latency_median"]:.3f} s', f'{found["latency_99"]:.3f} s',
                     f'{found["memory_first_third"]:.0f} MiB', f'{found["memory_afterwards"]:.0f} MiB',
                     code(command)])
    return head, rows


@table
def overheads(run):
    """One row for each request."""
    head = ["`lacuna run`", "server", "server / run", "client's wait / run", "one request", "batch", "batch size",
            "speedup", "command"]
    rows = []
    for command in run.grid.overheads:
        found = run.result(command)
        rows.append([f'{found["run_seconds"]:.3f} s', f'{found["server_seconds"]:.3f} s',
                     f'{found["server_by_run"]:.3f}', f'{found["client_by_run"]:.3f}',
                     f'{found["rows_per_second_alone"]:.1f} rows/s', f'{found["rows_per_second_at_once"]:.1f} rows/s',
                     f'{found["batch"]} requests', f'{found["gain"]:.2f}', code(command)])
    return head, rows
