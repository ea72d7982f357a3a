#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost that tracing adds to one call at the highest call rate: none, empty probes, stalltrace, bpftrace.

    bench/capture/call_cost_bench.py BUILD [--rounds N] [--seconds S]

A loop over a stand-in ncclAllReduce that returns at once, on one thread. bpftrace prints a line at entry and one at
return to a file (allreduce.bt). CPU time is compared: a probe runs on the calling thread, and a machine that is busy
otherwise disturbs it less than wall time. Needs root, Linux 6.6, bpftrace.
"""

import argparse
import functools
import json
import pathlib
import shutil
import subprocess
import tempfile

import conditions
from paired import Ratio, rounds_of, spread

BUDGET = 0.5  # relative to bpftrace's cost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    arguments = parser.parse_args()
    if shutil.which("bpftrace") is None:
        raise SystemExit("bench: bpftrace is not installed; scripts/packages.txt lists it")
    build = arguments.build.resolve()
    library = (build / "bench/capture/libnccl.so.2").resolve()
    with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
        folder = pathlib.Path(path)
        watch = {"none": conditions.untraced,
                 "empty probes": functools.partial(conditions.empty_probes, build, [library]),
                 "stalltrace": functools.partial(conditions.stalltrace, build, [library], folder),
                 "bpftrace": functools.partial(conditions.bpftrace, library, folder)}
        seen = {"stalltrace": [], "bpftrace": []}  # fraction of the expected records

        def measure(condition):
            with watch[condition]() as watcher:
                words = [build / "bench/capture/bench_call_loop", str(arguments.seconds)]
                output = subprocess.run(words, check=True, capture_output=True, timeout=60).stdout
            figures = json.loads(output)
            if condition == "stalltrace":
                seen[condition].append(watcher.count("SELECT count(*) FROM collective") / figures["calls"])
                watcher.recording.unlink()
            elif condition == "bpftrace":
                seen[condition].append(watcher.lines() / (2 * figures["calls"]))
            return figures

        report(rounds_of(watch, arguments.rounds, measure), seen, arguments)


def report(series, seen, arguments):
    print(f"cost of a traced call at full rate, {arguments.rounds} rounds of {arguments.seconds:g} s")
    ratio = report_clock("CPU time of the calling thread", "cpu_ns", series)
    report_clock("wall time (the tracer's own work competes for the cores)", "wall_ns", series)
    for condition, shares in seen.items():
        print(f"  {condition}: {spread([share * 100 for share in shares], '% of the calls in its output')}")
    print(f"  budget, by CPU time: {ratio.median:.2f} of at most {BUDGET}: {'kept' if ratio.median <= BUDGET else 'MISSED'}")


def report_clock(title, clock, series):
    """Prints the cost that each condition adds by one clock; returns stalltrace's ratio to bpftrace."""
    base = [figures[clock] for figures in series["none"]]
    added = {condition: [figures[clock] - none for figures, none in zip(runs, base)]
             for condition, runs in series.items()}
    for condition in ("empty probes", "stalltrace", "bpftrace"):
        if min(added[condition]) <= 0:
            raise SystemExit(f"bench: {condition} did not reach the calls: nothing to compare")
    print(f"  {title}: {spread(base, 'ns a call untraced')}")
    for condition in ("empty probes", "stalltrace", "bpftrace"):
        print(f"    {condition:<13}{spread([value / 1e3 for value in added[condition]], 'us added')}")
    ratio = Ratio(added["stalltrace"], added["bpftrace"])
    print(f"    stalltrace / bpftrace {ratio}; stalltrace / empty probes "
          f"{Ratio(added['stalltrace'], added['empty probes'])}")
    return ratio


if __name__ == "__main__":
    main()
