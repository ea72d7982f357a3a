#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing a job at a realistic rate, and the agent's own use of resources.

    bench/capture/workload_bench.py BUILD [--rounds N] [--ranks N]

Three jobs of the lab's training program, each untraced, with empty probes, and traced (collectives, network and scheduler):
a training loop that does about 200 collectives a second and rank as fast as it goes, once with a device that computes
while the rank's thread waits for it, as on a GPU, and once with the rank's own CPU, so that all cores are busy all the time;
and small AllReduces paced at 200 a second and rank. Needs root, Linux 6.6, and a network namespace of its own with `lo` up (bench/run.sh makes one).
"""

import argparse
import functools
import pathlib
import statistics
import tempfile
import time

import conditions
import job as jobs
from paired import Ratio, rounds_of, spread

RATE = 200  # collectives per second and rank
TRAINING_RANKS = 2
# 4 AllReduces in about 20 ms
ON_DEVICE = {"steps": 150, "compute_ms": 2, "device_ms": 15.5, "buckets": 4, "elements": 16384}
ON_CPU = {"steps": 150, "compute_ms": 17.5, "buckets": 4, "elements": 16384}
PACED_SECONDS = 5
SLOWDOWN_BUDGET = 0.01
EMPTY_BUDGET = 1.2
AGENT_CPU_BUDGET = 0.02
AGENT_MIB_BUDGET = 64


def watchers(build, job, folder):
    return {"untraced": conditions.untraced,
            "empty probes": functools.partial(conditions.empty_probes, build, job.libraries),
            "stalltrace": functools.partial(conditions.stalltrace, build, job.libraries, folder)}


def verdict(kept):
    return "kept" if kept else "MISSED"


def print_slowdown(title, series, note=""):
    """{condition: [value per round]} → the slowdowns and their budget."""
    empty = Ratio(series["empty probes"], series["untraced"])
    traced = Ratio(series["stalltrace"], series["untraced"])
    print(f"  {title}{note}")
    print(f"    empty probes {empty.percent()}, stalltrace {traced.percent()}")
    return empty.slowdown, traced.slowdown


def print_budget(empty, traced):
    allowed = max(SLOWDOWN_BUDGET, EMPTY_BUDGET * empty)
    share = f"{traced / empty:.2f} x empty probes" if empty > 0 else "empty probes cost nothing measurable"
    print(f"    budget: {traced * 100:.2f} % of at most {allowed * 100:.2f} % ({share}): {verdict(traced <= allowed)}")


def bench_training(watch, job, rounds, where, shape):
    def measure(condition):
        with watch[condition]():
            return jobs.training(job, TRAINING_RANKS, **shape)

    results = rounds_of(watch, rounds, measure)
    wall, cpu = by_condition(results, "wall_ms"), by_condition(results, "cpu_ms")
    rate = shape["buckets"] * 1e3 / statistics.median(wall["untraced"])
    print(f"training loop computing on {where}, {TRAINING_RANKS} ranks, {rate:.0f} collectives/s/rank, {rounds} rounds")
    print_slowdown("CPU time of a step: ", cpu, spread(cpu["untraced"], "ms untraced"))
    print_budget(*print_slowdown("wall time of a step: ", wall, spread(wall["untraced"], "ms untraced")))


def by_condition(results, name):
    """Returns {condition: [that figure of each round]}."""
    return {condition: [figures[name] for figures in runs] for condition, runs in results.items()}


def measure_agent(agent, usage):
    """Measures the middle of a paced run; fills `usage`."""
    time.sleep(1)
    cpu, begin = agent.cpu_seconds(), time.monotonic()
    time.sleep(PACED_SECONDS - 2)
    usage["cpu"] = (agent.cpu_seconds() - cpu) / (time.monotonic() - begin)
    usage["mib"] = agent.peak_mib()


def bench_paced(watch, job, ranks, rounds):
    agents = []

    def measure(condition):
        usage = {}
        with watch[condition]() as watcher:
            during = functools.partial(measure_agent, watcher, usage) if condition == "stalltrace" else None
            figures = jobs.paced(job, ranks, RATE, PACED_SECONDS, during)
        if condition == "stalltrace":
            usage["lost"] = watcher.lost()
            usage["calls"] = watcher.count("SELECT count(*) FROM collective WHERE op = 'ALL_REDUCE'")
            agents.append(usage)
        return figures

    results = rounds_of(watch, rounds, measure)
    series = functools.partial(by_condition, results)

    rate = statistics.median(series("rate")["untraced"])
    print(f"paced AllReduces, {ranks} ranks, {rate:.0f} collectives/s/rank, {rounds} rounds")
    for name, title in (("call_us", "launch and synchronisation: "), ("launch_us", "launch alone: "),
                        ("cpu_us", "CPU time of the job per call: ")):
        print_slowdown(title, series(name), spread(series(name)["untraced"], "us untraced"))
    period = 1e6 / RATE
    added = {condition: [(call - base) / period + 1 for call, base in zip(values, series("call_us")["untraced"])]
             for condition, values in series("call_us").items()}
    print_budget(*print_slowdown(f"time added to each period of {period / 1e3:.0f} ms", added))
    print_agent(agents, ranks)


def print_agent(agents, ranks):
    cpu = statistics.median(usage["cpu"] for usage in agents)
    peak = max(usage["mib"] for usage in agents)
    print(f"agent of {ranks} ranks at {RATE} collectives/s/rank, {len(agents)} runs of {PACED_SECONDS} s")
    print(f"    CPU {spread([usage['cpu'] * 100 for usage in agents], '% of a core')}; budget "
          f"{cpu / AGENT_CPU_BUDGET:.2f} of {AGENT_CPU_BUDGET * 100:.0f} %: {verdict(cpu <= AGENT_CPU_BUDGET)}")
    print(f"    peak RSS {spread([usage['mib'] for usage in agents], 'MiB')}; budget "
          f"{peak / AGENT_MIB_BUDGET:.2f} of {AGENT_MIB_BUDGET} MiB: {verdict(peak <= AGENT_MIB_BUDGET)}")
    print(f"    AllReduces recorded {sum(usage['calls'] for usage in agents)}, lost events "
          f"{sum(usage['lost'] for usage in agents)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=4, help="of the paced job")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stalltrace-bench-") as path:
        folder = pathlib.Path(path)
        job = jobs.Job(arguments.build.resolve(), folder)
        watch = watchers(arguments.build.resolve(), job, folder)
        bench_training(watch, job, arguments.rounds, "a device", ON_DEVICE)
        bench_training(watch, job, arguments.rounds, "the CPU", ON_CPU)
        bench_paced(watch, job, arguments.ranks, arguments.rounds)


if __name__ == "__main__":
    main()
