"""Speed of the CUDA backend's kernels on devices.

Nothing is measured here: `make gpu-check` writes lines on a machine with a device, and `python3 tools/results gpu` takes
them over. The lines of one run for each device are kept; a new run replaces those of its device.
"""
from book import condition, table, value
from errors import BookError
from measure import ROOT
from rows import read_lines
from text import code, percent, times

FULL = {"lines": "build/gpu/gpu.jsonl", "kept": "docs/results/gpu.jsonl"}
QUICK = {}
COMMON = ("device", "driver", "cuda", "commit")
PROGRESS = ("plan", "begin", "end", "suites")  # lines that say how far a run has come


def measure(_measurer, grid):
    """Rows of the last `make gpu-check`, and those of other devices."""
    path = ROOT / grid.lines
    if not path.exists():
        raise BookError(f"{path} does not exist: `make gpu-check` writes it on a machine with a CUDA device")
    new = [{"kind": line["what"], **line} for line in read_lines(path) if line["what"] not in PROGRESS]
    if not any("copy_gbs" in row for row in new):
        raise BookError(f"{path} has no copy bandwidth, which the shares of its kernels are relative to")
    devices = {row["device"] for row in new}
    yield from (row for row in read_lines(ROOT / grid.kept) if row["device"] not in devices)
    yield from new


def devices(run):
    """Devices in the order of the rows."""
    return list(dict.fromkeys(row["device"] for row in run.of_kind("device")))


def of(run, kind, device):
    """Rows of a kind of one device."""
    return [row for row in run.of_kind(kind) if row["device"] == device]


def one(run, kind, device, key, form):
    """A figure of the only row of its kind; "-" if it was not measured."""
    found = [row[key] for row in of(run, kind, device) if key in row]
    return form.format(found[0]) if found else "-"


@condition
def not_measured(run):
    """Whether no device was at hand yet."""
    return not devices(run)


@condition
def measured(run):
    """Whether there are figures."""
    return bool(devices(run))


@table
def peaks(run):
    """Devices and what they reach."""
    figures = (("copy, read and written", "copy", "copy_gbs", "{:.0f} GB/s"),
               ("read", "read", "read_gbs", "{:.0f} GB/s"),
               ("bf16 by cuBLASLt", "library", "bf16_tflops", "{:.0f} TFLOP/s"),
               ("from kernel to kernel", "gap", "gap_us", "{:.2f} µs"))
    rows = [[*(of(run, "device", device)[0][key] for key in COMMON), *(one(run, kind, device, key, form)
             for _, kind, key, form in figures)] for device in devices(run)]
    return ["device", "driver", "CUDA", "commit", *(title for title, *_ in figures)], rows


@table
def bits(run):
    """Kernel tests and comparisons of bits."""
    rows = []
    for device in devices(run):
        suites = of(run, "tests", device)
        if suites:
            rows.append([device, "kernel tests", sum(found["passed"] for found in suites),
                         sum(len(found["failed"]) for found in suites)])
        for found in of(run, "invariance", device):
            rows.append([device, f'{found["kernel"]}: rows of {found["plans"]} random plans', found["rows"],
                         found["different"]])
        for found in of(run, "sums", device):
            rows.append([device, "tensor cores' sums, published rule", found["elements"], found["different"]])
    return ["device", "what", "compared", "different or failed"], rows


@table
def logits(run):
    """Logits on the device against the CPU's."""
    return (["device", "model", "type", "rows", "difference, median row", "largest", "bound", "same best token"],
            [[row["device"], code(row["model"]), row["dtype"], row["rows"], f'{row["difference"]:.1e}',
              f'{row["largest_difference"]:.1e}', f'{row["bound"]:.1e}', f'{row["same_best"]} of {row["rows"]}']
             for row in run.of_kind("logits")])


@table
def tokens(run):
    """Greedy tokens on the device against the CPU's."""
    return (["device", "model", "type", "tokens", "same"],
            [[row["device"], row["model"], row["dtype"], row["tokens"], row["same"]] for row in run.of_kind("tokens")])


def by_rows(found, keys, cell):
    """A line for each combination of keys, a column for each number of rows."""
    counts = list(dict.fromkeys(row["rows"] for row in found))
    lines = {}
    for row in found:
        lines.setdefault(tuple(row[key] for key in keys), {})[row["rows"]] = cell(row)
    head = [*keys, *("1 row" if count == 1 else f"{count} rows" for count in counts)]
    return head, [[*key, *(cells.get(count, "-") for count in counts)] for key, cells in lines.items()]


@table
def products(run):
    """Share of the copy bandwidth by shape, format and rows."""
    return by_rows(run.of_kind("product"), ["device", "shape", "format"], lambda row: percent(row["share_of_copy"]))


@table
def library(run):
    """Speedup over cuBLASLt."""
    found = [row for row in run.of_kind("product") if "library_us" in row]
    return by_rows(found, ["device", "shape", "format"], lambda row: times(row["library_us"] / row["us"]))


@table
def attention(run):
    """Attention: time and share of the copy bandwidth."""
    return by_rows(run.of_kind("attention"), ["device", "shape", "cells"],
                   lambda row: f'{row["us"]:.0f} µs, {percent(row["share_of_copy"])}')


@table
def statistics(run):
    """Sampling, drift and norms."""
    return (["device", "kernel", "rows", "time", "share of the copy bandwidth"],
            [[row["device"], row["kernel"], row["rows"], f'{row["us"]:.1f} µs', percent(row["share_of_copy"])]
             for row in run.of_kind("statistics")])


@table
def models(run):
    """Passes of whole models."""
    return (["device", "command", "rows", "time", "rows/s"],
            [[row["device"], code(row["command"]), found["rows"], f'{1e3 * found["seconds_median"]:.2f} ms',
              f'{found["rows_per_second"]:.0f}']
             for row in run.of_kind("model") for found in row["result"]["results"]])


@table
def threads(run):
    """Step time on the machine's CPU, by threads."""
    return (["processor", "kernels", "rows", "threads", "time", "speedup"],
            [[row["processor"], row["result"]["isa"], found["rows"], found["threads"],
              f'{1e3 * found["seconds_median"]:.1f} ms', times(found["speedup"])]
             for row in run.of_kind("cpu_threads") for found in row["result"]["by_threads"]])


@value
def left_out(run):
    """Parts that a run left out, or that failed."""
    rows = [f'- {row["device"]}, {row["check"]}: {row["why"]}.'
            for kind in ("left_out", "failed") for row in run.of_kind(kind)]
    return "\n".join(rows) or "- Nothing."
