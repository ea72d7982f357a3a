#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing a PyTorch job on a GPU, and of the profiler plugin in it.

    bench/capture/gpu_bench.py STALLTRACE [--rounds N] [--seconds S] [--plugin-rounds N] [--plugin-steps N]

The job is gpu_job.py: DistributedDataParallel on NCCL, one rank, then two ranks that share the GPU. The tracer is measured within one
job that goes on: each round has a window of S seconds of each condition: untraced, untraced again as a control, `trace`, and
`trace --live`. A plugin is loaded when a job begins, so each condition is a job of its own there: none, none again, `run --no-trace`
(the plugin alone) and `run` (the plugin and the tracer). Needs root, a GPU, and PyTorch with NCCL in python3; no build but the program.
"""

import argparse
import functools
import pathlib
import subprocess
import sys
import tempfile
import time

import conditions
from paired import Ratio, rounds_of, spread

JOB = pathlib.Path(__file__).resolve().with_name("gpu_job.py")
BEGINS_SECONDS = 120
JOB_SECONDS = 240
SETTLE_SECONDS = 0.5  # after a tracer is ready, and after it ended
SLOWDOWN_BUDGET = 0.01
PLUGIN_BUDGET = 0.005


def blocks_of(path):
    """[(ns, CPU ns of rank 0, steps)] that the job has written so far."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines]


def figures(blocks):
    """Per step, from the first block's end to the last one's."""
    if len(blocks) < 3:
        raise SystemExit(f"bench: only {len(blocks)} blocks of steps in a window: raise --seconds or --plugin-steps")
    (begin, cpu_begin, first), (end, cpu_end, last) = blocks[0], blocks[-1]
    return {"wall_ms": (end - begin) / (last - first) / 1e6, "cpu_ms": (cpu_end - cpu_begin) / (last - first) / 1e6}


def print_ratios(title, results, budget):
    print(title)
    base, *others = results
    for name, what in (("wall_ms", "wall time of a step"), ("cpu_ms", "CPU time of rank 0 in a step")):
        values = {condition: [run[name] for run in runs] for condition, runs in results.items()}
        print(f"  {what}: {spread(values[base], 'ms ' + base)}")
        for condition in others:
            ratio = Ratio(values[condition], values[base])
            kept = f"; budget {budget * 100:.1f} %: {'kept' if ratio.slowdown <= budget else 'MISSED'}"
            print(f"    {condition} {ratio.percent()}{kept if name == 'wall_ms' and condition != 'control' else ''}")
    sys.stdout.flush()


def bench_tracer(build, folder, ranks, arguments):
    path = folder / f"blocks{ranks}"
    traced = functools.partial(conditions.stalltrace, build, [], folder)
    watch = {"untraced": conditions.untraced, "control": conditions.untraced, "trace": traced,
             "trace --live": functools.partial(traced, "--live")}
    lost, calls = [], []

    def measure(condition):
        with watch[condition]() as agent:
            time.sleep(SETTLE_SECONDS)
            begin = time.monotonic_ns()
            time.sleep(arguments.seconds)
            end = time.monotonic_ns()
        result = figures([block for block in blocks_of(path) if begin <= block[0] <= end])
        if agent:
            lost.append(agent.lost())
            calls.append(agent.count("SELECT count(*) FROM collective"))
        time.sleep(SETTLE_SECONDS)
        return result

    with conditions.running(sys.executable, JOB, ranks, 0, path) as job:
        limit = time.monotonic() + BEGINS_SECONDS
        while not blocks_of(path):
            if job.poll() is not None or time.monotonic() > limit:
                raise SystemExit("bench: the job did not begin; see the lines above")
            time.sleep(0.2)
        results = rounds_of(watch, arguments.rounds, measure)
        path.with_name(path.name + ".stop").touch()
        if job.wait(JOB_SECONDS):
            raise SystemExit("bench: the job failed; see the lines above")
    print_ratios(f"tracer, PyTorch on NCCL and a GPU, {ranks} rank(s), {arguments.rounds} rounds of {arguments.seconds:g} s",
                 results, SLOWDOWN_BUDGET)
    print(f"  calls in a window {min(calls)}..{max(calls)}, lost events of all windows {sum(lost)}", flush=True)


def bench_plugin(build, folder, arguments):
    run = [build / "stalltrace", "run", "--out"]
    watch = {"none": None, "control": None, "run --no-trace": ["--no-trace"], "run": []}
    number = 0

    def measure(condition):
        nonlocal number
        number += 1
        path = folder / f"plugin{number}"
        words = [sys.executable, JOB, 2, arguments.plugin_steps, path]
        if watch[condition] is not None:
            words = [*run, folder / f"run{number}", *watch[condition], "--", *words]
        ended = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=JOB_SECONDS, check=False)
        blocks = blocks_of(path)
        if not blocks or blocks[-1][2] < arguments.plugin_steps:
            raise SystemExit(f"bench: the job failed: {ended.stdout[-1000:]}{ended.stderr[-1000:]}")
        return figures(blocks)

    print_ratios(f"profiler plugin, 2 ranks, {arguments.plugin_steps} steps, {arguments.plugin_rounds} rounds",
                 rounds_of(watch, arguments.plugin_rounds, measure), PLUGIN_BUDGET)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stalltrace", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--plugin-rounds", type=int, default=4)
    parser.add_argument("--plugin-steps", type=int, default=100)
    arguments = parser.parse_args()
    build = arguments.stalltrace.resolve().parent
    with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
        for ranks in (1, 2):
            bench_tracer(build, pathlib.Path(path), ranks, arguments)
        bench_plugin(build, pathlib.Path(path), arguments)


if __name__ == "__main__":
    main()
