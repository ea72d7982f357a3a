# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of one job on this machine, each a virtual node if possible, and waits for them.

    ranks.py FOLDER RANKS MAX_BYTES nodes|loopback nccl|ddp|held

The one command that `stalltrace run` starts. Everything it made ends with it.
"""

import os
import pathlib
import signal
import socket
import sys
import time

import network
import one_gpu

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_SECONDS = 420


def environment_of(rank, ranks, nodes):
    return {**os.environ, **one_gpu.settings_of(rank, network.INTERFACE if nodes else "lo"), "RANK": str(rank), "LOCAL_RANK": "0",
            "WORLD_SIZE": str(ranks), "MASTER_ADDR": network.address_of(0) if nodes else "127.0.0.1", "MASTER_PORT": "29517"}


def become_rank(rank, ranks, nodes, channel, words, parent):
    """In the child: enters its node, passes on the device, waits until all are there, and becomes the rank."""
    send = network.enter(rank) if nodes else None
    network.end_with(parent)  # after the namespace: a new user namespace would undo it
    if nodes:
        network.send_descriptor(channel, send)
        if channel.recv(1) != b"g":
            raise OSError("the other nodes did not come up")
    os.execve(sys.executable, [sys.executable, *words], environment_of(rank, ranks, nodes))


def start(rank, ranks, nodes, words):
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            become_rank(rank, ranks, nodes, theirs, words, parent)
        except OSError as error:
            print(f"rank {rank}: {error}", file=sys.stderr)
        finally:
            os._exit(1)
    theirs.close()
    return pid, ours


def wait_for(pids):
    """Returns 0, or 1 if a rank failed or none ended in time; the first failure ends the others after a while."""
    end = time.monotonic() + LIMIT_SECONDS
    code = 0
    while pids:
        ended = [(pid, status) for pid, status in (os.waitpid(pid, os.WNOHANG) for pid in pids) if pid]
        for pid, status in ended:
            pids.remove(pid)
            if status != 0:
                code, end = 1, min(end, time.monotonic() + 10)
        if ended:
            continue
        if time.monotonic() > end:
            for left in pids:
                os.kill(left, signal.SIGKILL)
            code = 1
            end += 10
        else:
            time.sleep(0.05)
    return code


def main():
    folder, ranks, max_bytes, nodes = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "nodes"
    program = ([str(HERE / "ddp.py")] if sys.argv[5] == "ddp" else None)
    held = ["held"] if sys.argv[5] == "held" else []
    started = [start(rank, ranks, nodes, program or [str(HERE / "rank.py"), str(folder), str(rank), str(ranks), max_bytes, *held])
               for rank in range(ranks)]
    forwarders = []
    try:
        if nodes:
            devices = [network.receive_descriptor(channel) for _, channel in started]
            if None in devices:
                return 1
            forwarders = network.start_forwarders(devices, folder / "loss")
            for _, channel in started:
                channel.send(b"g")
        return wait_for([pid for pid, _ in started])
    finally:
        for pid in forwarders:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
