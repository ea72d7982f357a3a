# SPDX-License-Identifier: Apache-2.0
"""A job of the lab's training program over loopback: its ranks, their printed figures and their CPU time."""

import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))

from processes import free_port, rank_environment  # noqa: E402

JOB_SECONDS = 120


def children_cpu():
    """CPU seconds of all children that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def outputs_of(processes, during=None, seconds=JOB_SECONDS):
    """Calls `during`, then waits for all ranks; returns the output of each. Ends all of them on any failure."""
    try:
        if during:
            during()
        outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    if any(process.returncode for process in processes):
        raise SystemExit("bench: the job failed; see the lines above")
    return outputs


class Job:
    """Programs and libraries copied to a folder of the benchmark, so that no other program's probes are on them."""

    def __init__(self, build, folder):
        self.program = folder / "bin" / "nccl-train"
        self.program.parent.mkdir()
        shutil.copy2(build / "lab/bin/nccl-train", self.program)
        shutil.copytree(build / "lab/lib", folder / "lib", symlinks=True)
        self.libraries = [(folder / "lib" / name).resolve() for name in ("libnccl.so.2", "libcudart.so.12")]

    def run(self, ranks, words, during=None):
        """Runs to the end; calls `during` once all ranks were started. Returns (the output of each rank, CPU seconds of
        all of them).
        """
        port = free_port()
        before = children_cpu()
        processes = [self._start(rank, ranks, port, words) for rank in range(ranks)]
        return outputs_of(processes, during), children_cpu() - before

    def _start(self, rank, ranks, port, words):
        return subprocess.Popen([self.program, *map(str, words)], stdout=subprocess.PIPE, text=True,
                                env=rank_environment(rank, ranks, port))


def paced(job, ranks, calls_per_second, seconds, during=None):
    """Small AllReduces at a steady rate: {"call_us": ..., "launch_us": ..., "cpu_us": the job's per call, ...}."""
    calls = int(calls_per_second * seconds)
    outputs, cpu = job.run(ranks, ["--calls", calls, "--calls-per-second", calls_per_second], during)
    rows = [json.loads(output.splitlines()[-1]) for output in outputs]

    def mean(pick):
        return sum(pick(row) for row in rows) / len(rows)

    return {"call_us": mean(lambda row: row["call_us"]["median"]), "call_mean_us": mean(lambda row: row["call_us"]["mean"]),
            "launch_us": mean(lambda row: row["launch_us"]["median"]), "rate": mean(lambda row: row["calls_per_second"]),
            "cpu_us": cpu * 1e6 / calls / ranks}


def training(job, ranks, steps, **shape):
    """The training loop at full speed: {"wall_ms": per step, "cpu_ms": per step and rank}."""
    words = ["--steps", steps]
    for name, value in shape.items():
        words += ["--" + name.replace("_", "-"), value]
    outputs, cpu = job.run(ranks, words)
    seconds = [float(re.search(r"steps in ([\d.]+) s", output).group(1)) for output in outputs]
    return {"wall_ms": max(seconds) / steps * 1e3, "cpu_ms": cpu / steps / ranks * 1e3}
