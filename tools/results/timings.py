"""Which values of a row a second run of its command may change: the one place that decides it."""
import re

FASTEST = ("seconds", "processor_seconds")  # of a result: the fastest of several runs is kept (rows.py)

# Keys that name a timing in the result of any command: seconds, pass_seconds, seconds_min, tokens_per_second, ...
ANYWHERE = re.compile(r"(^|_)seconds(_|$)|_per_second(_|$)")

# Keys that name a timing, or peak memory, in the results of these commands only.
OF_COMMANDS = {
    "lacuna bench ": ("time_ratio", "speedup", "saved_flops_turned_into_time", "first_step_ratio",  # ratios of times
                      "attention", "selection", "rest",  # parts of a step's time
                      "peak_bytes", "most_resident_bytes"),
}

# Keys that say where and on what a command ran: a temporary folder; the instruction set, which the row's machine has.
OF_PLACES = {"lacuna quantize ": ("out",), "lacuna bench ": ("isa",)}

# Commands whose results hold timings and their own settings, and nothing else that a second run would give again.
# The clients of a server count what it did within some seconds; the comparisons with ggml are of speed alone.
PURE = ("lacuna bench step ", "lacuna bench load ", "lacuna bench matmul ", "lacuna bench attention ",
        "lacuna analyze profile ", "python3 bench/serve_", "python3 bench/beside_")


def is_pure_timing(row):
    """Whether nothing of a row can be compared: rows with a kind are those of the pages about speed."""
    return "kind" in row or row["command"].startswith(PURE)


def is_timing(key, command):
    """Whether a key of a command's result names a timing, or where it ran."""
    found = [keys for table in (OF_COMMANDS, OF_PLACES) for prefix, keys in table.items() if command.startswith(prefix)]
    return bool(ANYWHERE.search(key)) or any(key in keys for keys in found)


def same_machine(first, second):
    """Whether two machines give the same figures to the last bit: the number of cores does not change them."""
    return all(first[key] == second[key] for key in ("processor", "instructions"))
