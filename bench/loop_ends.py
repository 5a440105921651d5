"""How long the end of a parallel loop takes by a model of caches: one counter for all threads, or one for each group of eight.

    python3 bench/loop_ends.py
    python3 bench/loop_ends.py --threads 16,64,128 --near 60 --far 140 --cores-of-socket 32

A thread that counts down needs the counter's cache line from the thread that had it: --near nanoseconds within a socket, --far from
another one. Requests of a line are served one after the other, in the order in which they come. Threads end their part of the loop at
random within --spread nanoseconds. Printed is the time from the last thread's end to that at which the caller sees it, in
nanoseconds, the mean of --loops loops, and what share of a pass with --loops-of-pass loops and --pass-ms milliseconds it takes.

A model, and no measurement: src/base/threads.cpp counts in groups because of it (docs/inside/decisions/0029-many-cores.md).
"""
import argparse
import random


class Line:
    """A cache line, and when the thread that has it can give it away."""

    def __init__(self, latency):
        self.owner, self.free_at, self.latency = None, 0.0, latency

    def take(self, thread, now):
        """The time at which `thread`, which asks at `now`, has written the line."""
        begin = max(now, self.free_at)
        self.free_at = begin + (0 if self.owner in (None, thread) else self.latency(self.owner, thread))
        self.owner = thread
        return self.free_at


def end_of_loop(ends, latency, group):
    """Nanoseconds from the last thread's end to the caller's (thread 0). ends: by worker, from thread 1 on."""
    groups = [range(first, min(first + group, len(ends) + 1)) for first in range(1, len(ends) + 1, group)]
    root = Line(latency)
    arrivals = []
    for threads in groups:
        line = Line(latency)
        order = sorted(threads, key=lambda thread: ends[thread - 1])
        times = [line.take(thread, ends[thread - 1]) for thread in order]
        arrivals.append((times[-1], order[-1]))
    if len(groups) > 1:
        for time, thread in sorted(arrivals):
            last = (root.take(thread, time), thread)
    else:
        last = arrivals[0]
    return last[0] + latency(last[1], 0) - max(ends)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="8,16,32,64,128", help="numbers of threads (default 8,16,32,64,128)")
    parser.add_argument("--near", type=float, default=60, help="nanoseconds for a line within a socket (default 60)")
    parser.add_argument("--far", type=float, default=140, help="nanoseconds for a line of another socket (default 140)")
    parser.add_argument("--cores-of-socket", type=int, default=64, help="threads of a socket (default 64)")
    parser.add_argument("--spread", type=float, default=300, help="nanoseconds within which threads end (default 300)")
    parser.add_argument("--loops", type=int, default=2000, help="loops that the mean is of (default 2000)")
    parser.add_argument("--loops-of-pass", type=int, default=320, help="loops of a pass (default 320: 32 layers of ten)")
    parser.add_argument("--pass-ms", type=float, default=40, help="milliseconds of a pass (default 40)")
    options = parser.parse_args()

    def latency(one, other):
        socket = options.cores_of_socket
        return options.near if one // socket == other // socket else options.far

    print(f"{'threads':>7} {'one counter':>12} {'groups of 8':>12} {'of a pass':>10} {'of a pass':>10}")
    for threads in map(int, options.threads.split(",")):
        sums = {}
        for group in (threads, 8):
            draws = random.Random(threads)
            sums[group] = sum(end_of_loop([draws.uniform(0, options.spread) for _ in range(threads - 1)], latency, group)
                              for _ in range(options.loops)) / options.loops
        shares = [100 * options.loops_of_pass * value * 1e-6 / options.pass_ms for value in (sums[threads], sums[8])]
        print(f"{threads:>7} {sums[threads]:>12.0f} {sums[8]:>12.0f} {shares[0]:>9.2f}% {shares[1]:>9.2f}%")


if __name__ == "__main__":
    main()
