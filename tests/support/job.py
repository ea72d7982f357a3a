# SPDX-License-Identifier: Apache-2.0
"""A job of the lab's training loop over loopback, with a tracer beside it. The test's clean-up ends both in any
case.
"""

import signal
import subprocess
import time

import recordings
from processes import free_port, rank_environment, start_tracer
from stalltrace import BUILD, PROGRAM

WORKLOAD = BUILD / "lab" / "bin" / "nccl-train"
LIBRARIES = BUILD / "lab" / "lib"
PLUGIN = BUILD / "libnccl-profiler-stalltrace.so"
# Starts ranks of OpenMPI on this host, connected by TCP over loopback.
OPENMPI = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self", "--mca", "pml",
           "ob1", "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo")


def wait_until(condition, what, seconds=30):
    """Waits, within a time limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


class Job:
    """Starts ranks as torchrun would. `arguments` go to the training loop, `environment` is added to each rank's; `log`
    is the prefix of their log files.
    """

    def __init__(self, case, *arguments, ranks=2, environment=None, log=""):
        self.case = case
        self.logs = [case.folder / f"{log}steps{rank}.jsonl" for rank in range(ranks)]
        self.arguments = [str(word) for word in arguments or ("--steps", 100000)]
        port = free_port()
        more = {"LD_LIBRARY_PATH": str(LIBRARIES), **(environment or {})}
        self.ranks = [self.start(rank, rank_environment(rank, ranks, port, more)) for rank in range(ranks)]
        case.addCleanup(self.kill)

    def start(self, rank, environment):
        with open(self.case.folder / f"rank{rank}.log", "w") as log:
            return subprocess.Popen([WORKLOAD, "--log", self.logs[rank], *self.arguments], stdout=log, stderr=log, env=environment)

    def steps(self, rank=0):
        return self.logs[rank].read_text().count("\n") if self.logs[rank].exists() else 0

    def wait_for_steps(self, steps):
        wait_until(lambda: self.steps() >= steps, f"{steps} steps")

    def wait(self):
        """Waits for its end, which must be successful."""
        self.case.assertEqual([process.wait(timeout=60) for process in self.ranks], [0] * len(self.ranks))

    def kill(self):
        for process in self.ranks:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(timeout=10)


class Tracer:
    """`stalltrace trace`; the constructor returns once calls are recorded."""

    def __init__(self, case, *words):
        self.path = case.folder / "t.db"
        self.process = start_tracer(PROGRAM, "--out", self.path, *words, log=case.folder / "tracer.log")
        case.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=30)
        return self.process.returncode

    def rows(self, sql):
        return recordings.rows(self.path, sql)
