# SPDX-License-Identifier: Apache-2.0
"""What tests and benchmarks share about the processes that they start: a rank's environment, a tracer that is ready. Needs no
built program, so that bench/ can import it."""

import contextlib
import os
import select
import socket
import subprocess


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def job_environment(ranks, port, address=None):
    """The variables that torchrun would set for all ranks of a job on this host; with the `address` of rank 0, of a job with
    a host for each rank, whose interface is eth0.
    """
    return {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": "1" if address else str(ranks), "MASTER_ADDR": address or "127.0.0.1",
            "MASTER_PORT": str(port), "NCCL_SOCKET_IFNAME": "eth0" if address else "lo"}


def rank_environment(rank, ranks, port, more=None, address=None):
    """The whole environment of one rank: the caller's, torchrun's variables, and `more`."""
    return {**os.environ, **job_environment(ranks, port, address), "RANK": str(rank),
            "LOCAL_RANK": "0" if address else str(rank), **(more or {})}


def start_tracer(program, *words, log, seconds=30):
    """Starts `program trace words...` with its output in the file `log`; returns the process once the tracer sees
    calls. Raises RuntimeError with that output, and leaves nothing running, if it ends before or takes longer than
    `seconds`.
    """
    read_end, write_end = os.pipe()
    command = [str(word) for word in (program, "trace", *words, "--ready-fd", write_end)]
    with open(log, "wb") as sink, open(read_end, "rb", buffering=0) as ready:
        process = subprocess.Popen(command, pass_fds=[write_end], stdout=sink, stderr=sink)
        os.close(write_end)
        readable, _, _ = select.select([ready], [], [], seconds)
        if readable and ready.read(1):
            return process
    process.kill()
    process.wait()
    with open(log, encoding="utf-8", errors="replace") as output:
        raise RuntimeError(f"the tracer is not ready: {output.read()}")
