#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs come and go beside one agent for a long time: its memory, descriptors and file have to stay flat.

    scripts/soak.py BUILD [--seconds S] [--max-size SIZE] [--parallel N] [--live]

Short jobs of the lab's training program start, connect, make communicators and end, N at a time, some by SIGKILL. The agent
is sampled ten times a minute at least. The median of the samples of the last third is compared with that of the middle third:
the agent may not have grown by more than 4 MiB plus 5 %, nor by more than one descriptor; the recording and its log have to be
below the limit all the time. The jobs have to work: those that were not killed end with 0, their collectives are recorded, and
with a limit of 4m or less rows of ended processes are removed. Prints the samples. Exit code 1 when something is wrong. Needs
root.
"""

import argparse
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "support"))

from processes import free_port, rank_environment, start_tracer  # noqa: E402
import recordings  # noqa: E402

SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MORE_MIB = 4
MORE_SHARE = 0.05
RANKS = 2
KILLED_SHARE = 0.1
LONGEST_PAUSE = 6
WAIT_SECONDS = 3  # a job that lost a rank waits for it
JOB_SECONDS = 30  # any other has ended, also on a busy machine
SMALL_MIB = 4  # a recording of this size is full within seconds


class Job:
    """The processes of one job, and how it ended."""

    def __init__(self, processes, started, loses_a_rank):
        self.processes, self.started, self.loses_a_rank = processes, started, loses_a_rank
        if loses_a_rank:
            processes[0].send_signal(signal.SIGKILL)

    def runs(self):
        return any(process.poll() is None for process in self.processes)

    def is_late(self, now):
        return now - self.started > (WAIT_SECONDS if self.loses_a_rank else JOB_SECONDS)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def failed(self):
        return not self.loses_a_rank and any(process.returncode != 0 for process in self.processes)


def start_job(build):
    port = free_port()
    more = {"LD_LIBRARY_PATH": str(build / "lab" / "lib")}
    words = [build / "lab" / "bin" / "nccl-train", "--steps", "3", "--compute-ms", "1", "--device-ms", "1"]
    return [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env=rank_environment(rank, RANKS, port, more)) for rank in range(RANKS)]


def sample_of(agent, recording, begin):
    status = pathlib.Path(f"/proc/{agent.pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    files = [path for path in (recording, recording.with_name(recording.name + "-wal")) if path.exists()]
    return {"s": round(time.monotonic() - begin, 1), "rss_mib": round(rss / 1024, 2),
            "fds": len(list(pathlib.Path(f"/proc/{agent.pid}/fd").iterdir())),
            "file_mib": round(sum(path.stat().st_size for path in files) / (1 << 20), 2)}


def churn(build, agent, recording, arguments):
    """The samples, how many jobs ran, and how many of them failed."""
    choose = random.Random(arguments.seed)
    jobs, samples, count, failed, begin = [], [], 0, 0, time.monotonic()
    pause = min(LONGEST_PAUSE, arguments.seconds / 30)
    try:
        while (now := time.monotonic() - begin) < arguments.seconds:
            if agent.poll() is not None:
                raise SystemExit(f"soak: the agent ended with {agent.returncode}")
            for job in jobs:
                if job.runs() and job.is_late(now):
                    job.end()
            failed += sum(job.failed() for job in jobs if not job.runs())
            jobs = [job for job in jobs if job.runs()]
            while len(jobs) < arguments.parallel:
                jobs.append(Job(start_job(build), now, choose.random() < KILLED_SHARE))
                count += 1
            if len(samples) * pause <= now:
                samples.append(sample_of(agent, recording, begin))
                print(json.dumps(samples[-1]), flush=True)
            time.sleep(0.05)
    finally:
        for job in jobs:
            job.end()
    return samples, count, failed


def growth(samples, limit_mib):
    """What grew, as lines."""
    third = len(samples) // 3
    middle, last = samples[third:2 * third], samples[2 * third:]
    found = []
    for name, allowed in (("rss_mib", lambda value: value * (1 + MORE_SHARE) + MORE_MIB), ("fds", lambda value: value + 1)):
        before, after = (statistics.median(sample[name] for sample in part) for part in (middle, last))
        if after > allowed(before):
            found.append(f"{name} grew from {before} to {after}")
    largest = max(sample["file_mib"] for sample in samples)
    if largest > limit_mib:
        found.append(f"the recording had {largest} MiB, limit {limit_mib:g} MiB")
    return found


def idleness(failed, collectives, losses, limit_mib):
    """What shows that the jobs did not do what the agent is watched for, as lines."""
    found = [f"{failed} jobs that were not killed did not end with 0"] if failed else []
    if not collectives:
        found.append("no collective is recorded")
    if limit_mib <= SMALL_MIB and not losses.get("pruned:process"):
        found.append("no process was removed from the recording: more --seconds, or a smaller --max-size")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--max-size", default="4m")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    limit_mib = int(arguments.max_size[:-1]) * SIZES[arguments.max_size[-1]] / (1 << 20)
    with tempfile.TemporaryDirectory(prefix="stalltrace-soak-") as path:
        recording, log = pathlib.Path(path) / "soak.db", pathlib.Path(path) / "agent.log"
        flags = ["--live"] if arguments.live else []
        agent = start_tracer(build / "stalltrace", "--own-netns", "--max-size", arguments.max_size, "--out", recording, *flags, log=log)
        try:
            samples, jobs, failed = churn(build, agent, recording, arguments)
        finally:
            if agent.poll() is None:
                agent.send_signal(signal.SIGINT)
            agent.wait(timeout=60)
        losses = dict(recordings.rows(recording, "SELECT source, count FROM loss ORDER BY source"))
        collectives = recordings.rows(recording, "SELECT count(*) FROM collective")[0][0]
    found = growth(samples, limit_mib) + idleness(failed, collectives, losses, limit_mib)
    print(json.dumps({"seconds": arguments.seconds, "jobs": jobs, "exit_code": agent.returncode, "collectives": collectives,
                      "losses": losses, "wrong": found}))
    return 1 if found or agent.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
