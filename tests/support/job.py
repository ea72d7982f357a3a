# SPDX-License-Identifier: Apache-2.0
"""A job of the lab's training loop over loopback, and a tracer beside it: for tests of when each begins and ends.
Everything is ended by the test's clean-up, whatever happens."""

import contextlib
import os
import select
import signal
import socket
import sqlite3
import subprocess
import time

from stalltrace import BUILD, PROGRAM

WORKLOAD = BUILD / "lab" / "bin" / "nccl-train"
LIBRARIES = BUILD / "lab" / "lib"


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=30):
    """Bounded."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


class Job:
    """Ranks as torchrun would start them."""

    def __init__(self, case, ranks=2, steps=100000):
        self.case = case
        self.logs = [case.folder / f"steps{rank}.jsonl" for rank in range(ranks)]
        port = free_port()
        self.ranks = [self.start(rank, ranks, steps, port) for rank in range(ranks)]
        case.addCleanup(self.kill)

    def start(self, rank, ranks, steps, port):
        environment = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "NCCL_SOCKET_IFNAME": "lo", "LD_LIBRARY_PATH": str(LIBRARIES)}
        with open(self.case.folder / f"rank{rank}.log", "w") as log:
            return subprocess.Popen([WORKLOAD, "--steps", str(steps), "--log", self.logs[rank]], stdout=log,
                                    stderr=log, env=environment)

    def steps(self, rank=0):
        return self.logs[rank].read_text().count("\n") if self.logs[rank].exists() else 0

    def wait_for_steps(self, steps):
        wait_until(lambda: self.steps() >= steps, f"{steps} steps")

    def wait(self):
        for process in self.ranks:
            process.wait(timeout=60)

    def kill(self):
        for process in self.ranks:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(timeout=10)


class Tracer:
    """`stalltrace trace`; the constructor returns once calls are seen."""

    def __init__(self, case, *words):
        self.path = case.folder / "t.db"
        read_end, write_end = os.pipe()
        self.log = open(case.folder / "tracer.log", "w")
        self.process = subprocess.Popen([PROGRAM, "trace", "--out", self.path, "--ready-fd", str(write_end), *words],
                                        pass_fds=[write_end], stdout=self.log, stderr=self.log)
        case.addCleanup(self.stop)
        os.close(write_end)
        ready, _, _ = select.select([read_end], [], [], 30)
        seen = os.read(read_end, 1) if ready else b""
        os.close(read_end)
        assert seen, "the tracer is not ready: " + (case.folder / "tracer.log").read_text()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=30)
        self.log.close()
        return self.process.returncode

    def rows(self, sql):
        database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()
