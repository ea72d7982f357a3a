#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one build costs beside another, on the same jobs in one run.

    bench/against.py BEFORE AFTER [--rounds N] [--recordings FILE...]

BEFORE and AFTER are folders of the preset `bench`. Each round takes every condition once, in an order that turns: a call
at full rate, the lab's training loop on a device and on the CPU, paced AllReduces and the agent's own CPU time, the same
loop with the profiler plugin. `explain` of both builds reads the FILEs, which BEFORE has to be able to read. A ratio
above 1 says that AFTER costs more. Needs root, Linux 6.6, and a network namespace of its own with `lo` up.
"""

import argparse
import functools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "capture"), str(HERE / "plugin")]

import conditions  # noqa: E402
import job as jobs  # noqa: E402
import job_cost_bench as plugin_bench  # noqa: E402
import workload_bench as loops  # noqa: E402
from paired import Ratio, rounds_of, spread  # noqa: E402

CALL_SECONDS = 2


def print_ratios(title, unit, results, figure, base=None):
    """Of `after` to `before`; with `base`, of what each adds to that condition."""
    before, after = ([run[figure] for run in results[condition]] for condition in ("before", "after"))
    print(f"  {title}: after / before {Ratio(after, before)}; before {spread(before, unit)}, after {spread(after, unit)}")
    if base:
        untraced = [run[figure] for run in results[base]]
        print(f"    beside {base}: before {Ratio(before, untraced).percent()}, after {Ratio(after, untraced).percent()}")


def tracers(builds, libraries, folder):
    return {"untraced": conditions.untraced,
            **{name: functools.partial(conditions.stalltrace, build, libraries, folder) for name, build in builds.items()}}


def bench_call(builds, folder, rounds):
    """A loop over a stand-in ncclAllReduce that returns at once; program and library are those of AFTER."""
    build = builds["after"]
    watch = tracers(builds, [(build / "bench/capture/libnccl.so.2").resolve()], folder)

    def measure(condition):
        with watch[condition]() as watcher:
            output = subprocess.run([build / "bench/capture/bench_call_loop", str(CALL_SECONDS)], check=True,
                                    capture_output=True, timeout=60).stdout
        figures = json.loads(output)
        if watcher and not watcher.count("SELECT count(*) FROM collective"):
            raise SystemExit(f"bench: the build `{condition}` recorded no call")
        return figures

    results = rounds_of(watch, rounds, measure)
    print(f"a call at full rate, {rounds} rounds of {CALL_SECONDS} s")
    print_ratios("CPU time of a call", "ns", results, "cpu_ns", "untraced")


def bench_loops(builds, job, folder, rounds):
    watch = tracers(builds, job.libraries, folder)
    for where, shape in (("a device", loops.ON_DEVICE), ("the CPU", loops.ON_CPU)):

        def measure(condition, shape=shape):
            with watch[condition]():
                return jobs.training(job, loops.TRAINING_RANKS, **shape)

        results = rounds_of(watch, rounds, measure)
        print(f"training loop computing on {where}, {loops.TRAINING_RANKS} ranks, {rounds} rounds")
        print_ratios("CPU time of a step", "ms", results, "cpu_ms", "untraced")
        print_ratios("wall time of a step", "ms", results, "wall_ms", "untraced")


def bench_paced(builds, job, folder, rounds):
    watch = tracers(builds, job.libraries, folder)

    def measure(condition):
        usage = {"cpu": 0, "mib": 0}
        with watch[condition]() as watcher:
            during = functools.partial(loops.measure_agent, watcher, usage) if watcher else None
            figures = jobs.paced(job, 4, loops.RATE, loops.PACED_SECONDS, during)
        return {**figures, "agent_percent": usage["cpu"] * 100, "agent_mib": usage["mib"]}

    results = rounds_of(watch, rounds, measure)
    print(f"AllReduces paced at {loops.RATE}/s/rank, 4 ranks, {rounds} rounds")
    print_ratios("CPU time of the job per call", "us", results, "cpu_us", "untraced")
    print_ratios("launch and synchronisation", "us", results, "call_us", "untraced")
    print_ratios("agent's CPU time", "% of a core", results, "agent_percent")
    print_ratios("agent's peak memory", "MiB", results, "agent_mib")


def bench_plugin(builds, job, rounds):
    plugins = {"none": None, **{name: plugin_bench.find(build, "libnccl-profiler-stalltrace.so").resolve()
                                for name, build in builds.items()}}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as recorder_files:

        def measure(condition):
            plugin_bench.select(plugins[condition], recorder_files)
            figures = plugin_bench.measure(job, 2)
            for path in pathlib.Path(recorder_files).iterdir():
                path.unlink()
            return figures

        results = rounds_of(plugins, rounds, measure)
    os.environ.pop("NCCL_PROFILER_PLUGIN", None)
    print(f"the job with the profiler plugin alone, 2 ranks, {rounds} rounds")
    print_ratios("CPU time of a training step", "ms", results, "CPU ms of a training step", "none")
    print_ratios("CPU time of a paced AllReduce", "us", results, "CPU us of a paced AllReduce", "none")


def bench_explain(builds, recordings, rounds):
    def measure(condition):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        result = subprocess.run([builds[condition] / "stalltrace", "explain", *recordings], stdout=subprocess.DEVNULL,
                                timeout=600, check=False)
        if result.returncode != 0:
            raise SystemExit(f"bench: explain of the build `{condition}` ended with {result.returncode}")
        wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"wall": wall * 1e3, "cpu": cpu * 1e3}

    results = rounds_of(builds, rounds, measure)
    print(f"explain of {sum(path.stat().st_size for path in recordings) / 1e6:.0f} MB in {len(recordings)} recordings, {rounds} rounds")
    print_ratios("CPU time", "ms", results, "cpu")
    print_ratios("wall time", "ms", results, "wall")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--recordings", type=pathlib.Path, nargs="+", default=[])
    arguments = parser.parse_args()
    builds = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
        folder = pathlib.Path(path)
        job = jobs.Job(builds["after"], folder)
        bench_call(builds, folder, arguments.rounds)
        bench_loops(builds, job, folder, arguments.rounds)
        bench_paced(builds, job, folder, arguments.rounds)
        bench_plugin(builds, job, arguments.rounds)
        if arguments.recordings:
            bench_explain(builds, arguments.recordings, arguments.rounds)


if __name__ == "__main__":
    main()
