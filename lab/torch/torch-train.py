#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torch-train: one rank of a training-like job of PyTorch's DistributedDataParallel on Gloo.

Where it stands is in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them. LAB_SLOW_FILE names a file
that may hold extra compute milliseconds for this rank, read every step. LAB_BUGS begins the names of files that switch
on mistakes: skip, extra, mismatch, disk, leak, raise.
"""

import argparse
import datetime
import json
import mmap
import os
import select
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FORWARD_SHARE = 0.3
METRICS = 1024  # floats averaged over the ranks after each step
MIX_ELEMENTS = 4096  # of one rank's part in the other collectives
INPUT_TURN_SECONDS = 0.5
BLOCK_BYTES = 1 << 20
LEAKED = []


def text_of(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def bug(name):
    """The content of the file LAB_BUGS followed by this name; empty if there is none."""
    return text_of(os.environ.get("LAB_BUGS", "/nowhere/") + name)


def compute(cpu_ms):
    """Keeps this thread busy for this much of its own CPU time."""
    end = time.thread_time() + cpu_ms * 1e-3
    while time.thread_time() < end:
        pass


def wait_for_input(seconds=INPUT_TURN_SECONDS):
    """Simulates an input queue whose producer is gone."""
    read_end, write_end = os.pipe()
    select.select([read_end], [], [], seconds)
    os.close(read_end)
    os.close(write_end)


def wait_for_slow_input():
    """Waits for as many milliseconds as the bug "input" gives, as for the input of the step."""
    if milliseconds := int(bug("input") or 0):
        wait_for_input(milliseconds * 1e-3)


def write_checkpoint():
    """Writes as many megabytes as the bug "disk" gives, and waits until they are on disk."""
    megabytes = int(bug("disk") or 0)
    if megabytes <= 0:
        return
    block = mmap.mmap(-1, BLOCK_BYTES)  # aligned, as O_DIRECT asks
    path = os.environ["LAB_BUGS"] + "disk.checkpoint"
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_DIRECT, 0o600)
    for _ in range(megabytes):
        os.write(file, block)
    os.fdatasync(file)
    os.close(file)


def leak_memory():
    """Allocates and keeps as many megabytes as the bug "leak" gives, and more in each step."""
    if megabytes := int(bug("leak") or 0):
        LEAKED.append(b"x" * (megabytes << 20))


def fail():
    """Raises an exception, or calls sys.exit with the code that the bug "raise" gives."""
    what = bug("raise")
    if what == "exception":
        raise RuntimeError("a shard of the data set is broken")
    if what:
        sys.exit(int(what))


class Model(torch.nn.Module):
    """One parameter per bucket: only the sequence of gradients matters, not what is computed."""

    def __init__(self, buckets, elements):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(elements)) for _ in range(buckets))

    def forward(self, batch):
        for weight in self.weights:
            batch = (weight * batch).mean()
        return batch


class Trainer:
    def __init__(self, options):
        self.options = options
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        bucket_megabytes = options.elements * 4 / (1 << 20)
        self.model = DistributedDataParallel(Model(options.buckets, options.elements), bucket_cap_mb=bucket_megabytes)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batch = torch.ones(1)
        self.log = open(options.log, "w") if options.log else None

    def run(self):
        start = after = time.monotonic()
        for number in range(self.options.steps):
            self.step(number)
            after += self.options.step_ms * 1e-3
            rest = after - time.monotonic()
            if rest > 0:
                time.sleep(rest)
            else:
                after = time.monotonic()  # a late step delays the following ones and is not caught up
        seconds = time.monotonic() - start
        print(f"rank {self.rank}: {self.options.steps} steps in {seconds:.3f} s, "
              f"{self.options.steps / seconds:.2f} steps/s", flush=True)

    def step(self, number):
        start_ns = time.time_ns()
        compute(self.options.compute_ms * FORWARD_SHARE + float(text_of(os.environ.get("LAB_SLOW_FILE", "")) or 0))
        wait_for_slow_input()
        write_checkpoint()
        leak_memory()
        fail()
        self.stay_away()
        loss = self.model(self.batch)
        compute(self.options.compute_ms * (1 - FORWARD_SHARE))
        wait_start = time.monotonic()
        loss.backward()
        if bug("extra"):  # a common bug: if rank == 0: dist.all_reduce(t)
            dist.all_reduce(torch.ones(1))
        self.average_metrics()
        wait_ms = (time.monotonic() - wait_start) * 1e3
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.options.mix > 0 and (number + 1) % self.options.mix == 0:
            self.mix()
        if self.log:
            line = {"step": number, "start_ns": start_ns, "end_ns": time.time_ns(), "wait_ms": round(wait_ms, 3)}
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def average_metrics(self):
        """The all-reduce, or what the bug "mismatch" selects: half the "count", another "datatype" or "op"."""
        kind = bug("mismatch")
        metrics = torch.ones(METRICS // 2 if kind == "count" else METRICS)
        if kind == "datatype":
            metrics = metrics.half()
        if kind == "op":
            dist.broadcast(metrics, src=0)
        else:
            dist.all_reduce(metrics)

    def stay_away(self):
        """While the bug "skip" is on: waits for "input", continues with "compute", or receives ("recv") a message that
        the rank before never sends.
        """
        while kind := bug("skip"):
            if kind == "recv":
                dist.recv(torch.ones(1), src=(self.rank - 1) % self.ranks, tag=8)
            elif kind == "compute":
                compute(100)
            else:
                wait_for_input()

    def mix(self):
        tensor = torch.ones(MIX_ELEMENTS)
        parts = [torch.ones(MIX_ELEMENTS) for _ in range(self.ranks)]
        dist.broadcast(tensor, src=self.rank if bug("mismatch") == "root" else 0)
        dist.reduce(tensor, dst=0)
        dist.all_gather(parts, tensor)
        dist.gather(tensor, parts if self.rank == 0 else None, dst=0)
        dist.scatter(tensor, parts if self.rank == 0 else None, src=0)
        dist.barrier()


def read_options():
    parser = argparse.ArgumentParser(prog="torch-train", description="A training-like loop of DDP on Gloo.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--elements", type=int, default=262144, help="floats of each gradient bucket")
    parser.add_argument("--buckets", type=int, default=4, help="gradient buckets, one AllReduce each")
    parser.add_argument("--compute-ms", type=float, default=2, help="CPU time of a step's forward and backward pass")
    parser.add_argument("--step-ms", type=float, default=0, help="start steps no more often than this")
    parser.add_argument("--mix", type=int, default=0, help="every K-th step also runs the other collectives")
    parser.add_argument("--log", default="", help="one JSON line for each step")
    parser.add_argument("--timeout-seconds", type=float, default=1800, help="until PyTorch gives up a collective")
    return parser.parse_args()


def main():
    options = read_options()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout_seconds))
    Trainer(options).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
