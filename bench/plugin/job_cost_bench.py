#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the profiler plugin alone to a job, against no plugin and a plugin that does nothing (nothing_plugin.cpp).

    bench/plugin/job_cost_bench.py BUILD [--plugins FOLDER] [--rounds N] [--ranks N]

The lab's training loop, and small AllReduces paced at 500 a second and rank; every round takes each condition once. BUILD
holds the lab; --plugins the two libraries where they are not in it (a build of plugin/ alone). No privilege needed.
Goals: the training loop at most 0.5 % slower than with the plugin that does nothing; a file of at most 64 MiB a process.
The paced calls have no goal: they are all wake-ups, whose cost varies by ten times what a plugin adds.
"""

import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "capture"))

import job as jobs  # noqa: E402
from paired import Ratio, rounds_of, spread  # noqa: E402

SLOWDOWN_GOAL = 0.005
FILE_GOAL_MIB = 64
TRAINING = {"steps": 300, "compute_ms": 10, "buckets": 4, "elements": 16384}
RATE = 500  # AllReduces per second and rank
PACED_SECONDS = 6
JOBS_A_ROUND = 4


def find(folder, name):
    found = sorted(folder.rglob(name))
    if not found:
        raise SystemExit(f"bench: no {name} under {folder}; build the preset bench, or give --plugins")
    return found[0]


def select(plugin, profiler_folder):
    """The next jobs load `plugin`, or no plugin if None."""
    os.environ["STALLTRACE_DIR"] = str(profiler_folder)
    os.environ.pop("NCCL_PROFILER_PLUGIN", None)
    if plugin:
        os.environ["NCCL_PROFILER_PLUGIN"] = str(plugin)


def loop_only(long, short):
    """CPU milliseconds per step without the job's start and end: from two runs with different numbers of steps."""
    (long_ms, steps), (short_ms, few) = long, short
    return (long_ms * steps - short_ms * few) / (steps - few)


def measure(job, ranks):
    short = jobs.training(job, ranks, **{**TRAINING, "steps": 1})
    training = jobs.training(job, ranks, **TRAINING)
    few, many = (int(RATE * seconds) for seconds in (0.1, PACED_SECONDS))
    briefly = jobs.paced(job, ranks, RATE, 0.1)
    paced = jobs.paced(job, ranks, RATE, PACED_SECONDS)
    return {"CPU ms of a training step": loop_only((training["cpu_ms"], TRAINING["steps"]), (short["cpu_ms"], 1)),
            "wall ms of a training step": training["wall_ms"],
            "CPU us of a paced AllReduce": loop_only((paced["cpu_us"], many), (briefly["cpu_us"], few)),
            "us of a paced AllReduce": paced["call_us"],
            "CPU ms of starting and ending the job": short["cpu_ms"]}


def print_results(results):
    for figure in results["none"][0]:
        series = {condition: [run[figure] for run in runs] for condition, runs in results.items()}
        print(f"  {figure}: {spread(series['none'], 'without a plugin')}")
        if "starting" in figure:
            print(f"    a plugin that does nothing {spread(series['nothing'], '')}, ours {spread(series['stalltrace'], '')}")
            continue
        ours = Ratio(series["stalltrace"], series["nothing"])
        print(f"    a plugin that does nothing {Ratio(series['nothing'], series['none']).percent()}")
        verdict = "met" if ours.slowdown <= SLOWDOWN_GOAL else "missed"
        goal = f", goal {SLOWDOWN_GOAL * 100:.1f} %: {verdict}" if "training" in figure else ""
        print(f"    ours beside it {ours.percent()}{goal}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--plugins", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    libraries = arguments.plugins or arguments.build
    plugins = {"none": None, "nothing": find(libraries, "libnccl-profiler-nothing.so").resolve(),
               "stalltrace": find(libraries, "libnccl-profiler-stalltrace.so").resolve()}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as profiler_folder, tempfile.TemporaryDirectory() as folder:
        job = jobs.Job(arguments.build.resolve(), pathlib.Path(folder))

        def measure_with(condition):
            select(plugins[condition], profiler_folder)
            return measure(job, arguments.ranks)

        print(f"the job beside the plugin, {arguments.ranks} ranks, {arguments.rounds} rounds")
        print_results(rounds_of(list(plugins), arguments.rounds, measure_with))
        sizes = [path.stat().st_size / 2**20 for path in pathlib.Path(profiler_folder).glob("*.profiler")]
        if len(sizes) != JOBS_A_ROUND * arguments.rounds * arguments.ranks:
            raise SystemExit("bench: the plugin did not record; NCCL_DEBUG=INFO says why")
        print(f"  file: {max(sizes):.1f} MiB a process, goal {FILE_GOAL_MIB}: {'met' if max(sizes) <= FILE_GOAL_MIB else 'missed'}")


if __name__ == "__main__":
    main()
