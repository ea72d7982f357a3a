#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing a PyTorch job from its first step on, and the cost of its start to the agent.

    bench/capture/torch_bench.py BUILD [--rounds N] [--steps N] [--device-ms MS]

The job is torch_job.py: DistributedDataParallel on Gloo, 2 ranks. A round runs it untraced, untraced again as a control,
traced, and traced with --live; only what the traced ones exceed the control's scatter says anything. Then jobs of 2, 4
and 8 ranks that end behind their first step: the agent's CPU time until then, in which all ranks import torch. Needs
root, Debian's python3-torch, and a network namespace of its own with `lo` up (bench/run.sh makes one).
"""

import argparse
import functools
import json
import pathlib
import subprocess
import tempfile

import conditions
from job import outputs_of
from paired import Ratio, rounds_of, spread
from processes import free_port, rank_environment

PYTHON = "/usr/bin/python3"
JOB = pathlib.Path(__file__).resolve().with_name("torch_job.py")
JOB_SECONDS = 180
RANKS = 2
START_RANKS = (2, 4, 8)
START_ROUNDS = 3
SLOWDOWN_BUDGET = 0.01
START_BUDGET = (8, 0.3)  # ranks, seconds of CPU time


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0


def run_job(ranks, steps, device_ms, started=None):
    """Runs to the end; calls `started` after the first step. Returns rank 0's measurements."""
    port = free_port()
    more = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [subprocess.Popen([PYTHON, JOB, str(steps), str(device_ms)], stdout=subprocess.PIPE, text=True,
                                  env=rank_environment(rank, ranks, port, more)) for rank in range(ranks)]

    def first_step():
        conditions.wait_readable(processes[0].stdout, "the PyTorch job")
        if processes[0].stdout.readline() == "started\n" and started:
            started()

    return json.loads(outputs_of(processes, first_step, JOB_SECONDS)[0].splitlines()[-1])


def bench_steps(build, folder, arguments):
    traced = functools.partial(conditions.stalltrace, build, [], folder)
    watch = {"untraced": conditions.untraced, "control": conditions.untraced, "stalltrace": traced,
             "stalltrace --live": functools.partial(traced, "--live")}
    lost = []

    def measure(condition):
        with watch[condition]() as agent:
            figures = run_job(RANKS, arguments.steps, arguments.device_ms)
        if agent:
            lost.append(agent.lost())
        return figures

    results = rounds_of(watch, arguments.rounds, measure)
    print(f"PyTorch, {RANKS} ranks, {arguments.steps} steps with {arguments.device_ms:g} ms of sleep, {arguments.rounds} rounds")
    for name, title in (("wall_ms", "wall time of a step"), ("cpu_ms", "CPU time of rank 0 in a step")):
        values = {condition: [figures[name] for figures in runs] for condition, runs in results.items()}
        print(f"  {title}: {spread(values['untraced'], 'ms untraced')}")
        for condition in list(watch)[1:]:
            ratio = Ratio(values[condition], values["untraced"])
            kept = "" if name == "cpu_ms" or condition == "control" else (
                f"; budget {SLOWDOWN_BUDGET * 100:.0f} %: {'kept' if ratio.slowdown <= SLOWDOWN_BUDGET else 'MISSED'}")
            print(f"    {condition} {ratio.percent()}{kept}")
    print(f"  lost events of all traced runs: {sum(lost)}")


def bench_start(build, folder):
    for ranks in START_RANKS:
        seconds, lost = [], []
        for _ in range(START_ROUNDS):
            with conditions.stalltrace(build, [], folder) as agent:
                before = agent.cpu_seconds()
                run_job(ranks, 1, 0, lambda: seconds.append(agent.cpu_seconds() - before))
            lost.append(agent.lost())
        budget, limit = START_BUDGET
        kept = "" if ranks != budget else f"; budget {limit} s: {'kept' if max(seconds) <= limit else 'MISSED'}"
        print(f"agent's CPU until the first step of {ranks} ranks is over, {START_ROUNDS} starts: "
              f"{spread(seconds, 's')}{kept}; lost events {sum(lost)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--device-ms", type=float, default=15)
    arguments = parser.parse_args()
    if not has_torch():
        print(f"left out: {PYTHON} has no torch (Debian's python3-torch)")
        return
    with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
        bench_steps(arguments.build.resolve(), pathlib.Path(path), arguments)
        bench_start(arguments.build.resolve(), pathlib.Path(path))


if __name__ == "__main__":
    main()
