# SPDX-License-Identifier: Apache-2.0
"""One rank of the check: calls NCCL directly and notes, by its own clock and by CUDA events, what each call took.

    rank.py FOLDER RANK RANKS MAX_BYTES [held]

With `held` it goes on with short calls until FOLDER/end is there: a job that nothing has recorded from its begin.
"""

import json
import os
import pathlib
import sys
import time

import libraries
from nccl import Device, Nccl, nccl_hash

WAIT_SECONDS = 60
PROBED_SECONDS = 1  # time for a tracer to find and probe the library
LATE_MS = 300
LOSS_PERCENT = 30  # high enough that retransmissions are lost too: one that arrives costs almost nothing


def shared_id(folder, nccl, rank, ranks):
    """Rank 0's unique id, passed to the others in a file."""
    path = folder / "unique_id"
    if rank == 0:
        temporary = path.with_suffix(".new")
        temporary.write_bytes(nccl.unique_id())
        temporary.rename(path)
    end = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > end:
            raise SystemExit("rank 0 gave no unique id")
        time.sleep(0.02)
    return path.read_bytes()


class Rank:
    def __init__(self, folder, rank, ranks, max_bytes):
        self.folder, self.rank, self.ranks, self.max_bytes = folder, rank, ranks, max_bytes
        self.log = open(folder / f"own{rank}.jsonl", "w", encoding="utf-8")
        self.device = Device(libraries.find_cudart(), max(max_bytes, 4 << 20))
        self.nccl = Nccl(libraries.find_nccl())
        time.sleep(PROBED_SECONDS)
        unique_id = shared_id(folder, self.nccl, rank, ranks)
        self.comm = self.nccl.init(unique_id, ranks, rank)
        self.note(kind="rank", rank=rank, ranks=ranks, pid=os.getpid(), hash=f"{nccl_hash(unique_id):x}")

    def note(self, **values):
        self.log.write(json.dumps(values) + "\n")
        self.log.flush()

    def timed(self, phase, calls, comm=None):
        """Runs [(op, count, root)], as one group if there are several; one line per call."""
        start = time.time_ns()
        self.device.mark(0)
        if len(calls) > 1:
            self.nccl.group(True)
        for op, count, root in calls:
            self.nccl.collective(op, comm or self.comm, self.device, count, root)
        if len(calls) > 1:
            self.nccl.group(False)
        launched = time.time_ns()
        self.device.mark(1)
        self.device.synchronize()
        end = time.time_ns()
        for op, count, _ in calls:
            self.note(kind="call", phase=phase, op=op, count=count, start_ns=start, launch_ns=launched - start,
                      wall_ns=end - start, device_ns=self.device.elapsed_ns(), grouped=len(calls))

    def sizes(self):
        size = 1024
        while size <= self.max_bytes:
            for _ in range(10 if size <= 16 << 20 else 3):
                self.timed("sizes", [("ALL_REDUCE", size // 4, 0)])
            size *= 8
        if self.max_bytes >= 512 << 20:
            self.timed("sizes", [("ALL_REDUCE", self.max_bytes // 4, 0)])

    def operations(self):
        count = 65536
        for op in ("ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "REDUCE"):
            for _ in range(3):
                self.timed("operations", [(op, count, 1)])
        self.timed("groups", [("ALL_REDUCE", count, 0), ("ALL_REDUCE", 2 * count, 0), ("BROADCAST", count, 0)])
        following, previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        for _ in range(3):
            self.timed("send_recv", [("SEND", count, following), ("RECV", count, previous)])

    def split(self):
        child = self.nccl.split(self.comm, 0, -self.rank)
        for _ in range(3):
            self.timed("split", [("ALL_REDUCE", 65536, 0)], child)
        self.device.synchronize()
        self.nccl.destroy(child)

    def late(self):
        for _ in range(5):
            if self.rank == 1:
                time.sleep(LATE_MS / 1e3)
            self.timed("late", [("ALL_REDUCE", 262144, 0)])

    def loss(self):
        """Rank 0 switches loss on and off; collectives before and after keep the other ranks in step."""
        self.timed("before_loss", [("ALL_REDUCE", 1024, 0)])
        if self.rank == 0:
            (self.folder / "loss").write_text(str(LOSS_PERCENT))
        for _ in range(20):
            self.timed("loss", [("ALL_REDUCE", 1 << 20, 0)])
        if self.rank == 0:
            (self.folder / "loss").write_text("0")

    def held(self):
        end = time.monotonic() + WAIT_SECONDS
        while not (self.folder / "end").exists() and time.monotonic() < end:
            self.timed("held", [("ALL_REDUCE", 1024, 0)])
            time.sleep(0.02)
        self.nccl.destroy(self.comm)

    def run(self):
        for phase in (self.sizes, self.operations, self.split, self.late, self.loss):
            phase()
        self.nccl.destroy(self.comm)


if __name__ == "__main__":
    one = Rank(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    if sys.argv[5:] == ["held"]:
        one.held()
    else:
        one.run()
