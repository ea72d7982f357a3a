#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agents of two builds cost on one job: both trace it at the same time, so that both have the machine's noise.

    bench/capture/agents_bench.py BEFORE AFTER [--rounds N] [--seconds N]

BEFORE and AFTER are folders of the preset `bench`; the job is AFTER's, of 4 ranks with paced AllReduces. A ratio above 1
says that AFTER costs more. Each agent's probes cost the other nothing but their traps in the job. Needs root, Linux 6.6,
and a network namespace of its own with `lo` up.
"""

import argparse
import pathlib
import tempfile
import time

import conditions
import job as jobs
import workload_bench as loops
from paired import Ratio, spread

SETTLE_SECONDS = 3


def measure(builds, job, folder, seconds):
    """{"before": (percent of a core, MiB), "after": ...} of one run."""
    figures = {}
    with (conditions.stalltrace(builds["before"], job.libraries, folder) as before,
          conditions.stalltrace(builds["after"], job.libraries, folder) as after):

        def during():
            time.sleep(SETTLE_SECONDS)
            agents = {"before": before, "after": after}
            begun = {name: agent.cpu_seconds() for name, agent in agents.items()}
            time.sleep(seconds)
            for name, agent in agents.items():
                figures[name] = ((agent.cpu_seconds() - begun[name]) * 100 / seconds, agent.peak_mib())

        jobs.paced(job, 4, loops.RATE, seconds + 2 * SETTLE_SECONDS, during)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    builds = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        job = jobs.Job(builds["after"], pathlib.Path(folder))
        runs = [measure(builds, job, pathlib.Path(folder), arguments.seconds) for _ in range(arguments.rounds)]
    for index, (title, unit) in enumerate((("CPU time", "% of a core"), ("peak memory", "MiB"))):
        before, after = ([run[name][index] for run in runs] for name in ("before", "after"))
        print(f"agent's {title}: after / before {Ratio(after, before)}; before {spread(before, unit)}, after {spread(after, unit)}")


if __name__ == "__main__":
    main()
