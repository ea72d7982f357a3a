# SPDX-License-Identifier: Apache-2.0
"""Serving processes for the tests."""

import re
import subprocess

from stalltrace import PROGRAM


class Served:
    """`stalltrace serve` on a port that the kernel chose. `lines` are those that it printed at its start."""

    def __init__(self, *words, lines=1, environment=None, prefix=()):
        self.process = subprocess.Popen([*prefix, PROGRAM, "serve", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = [self.process.stderr.readline() for _ in range(lines)]
        found = re.search(r"(https?)://\S+:(\d+)", self.lines[0])
        if found is None:
            self.close()
            raise RuntimeError(f"it does not serve: {self.lines}")
        self.scheme, self.port = found[1], int(found[2])
        self.address = f"127.0.0.1:{self.port}"

    def close(self):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(10)
        self.process.stderr.close()
        return code


class SimulatedNodes:
    """`stalltrace lab simulate --serve`, once it serves. `faults`: node -> what is wrong with it."""

    def __init__(self, out, *words, faults):
        self.out = out
        troubles = [word for node, fault in faults.items() for word in ("--node-fault", f"{node}={fault}")]
        self.process = subprocess.Popen([PROGRAM, "lab", "simulate", "--out", out, *map(str, words), "--serve", *troubles], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not any("--nodes" in line for line in self.process.stderr):
            self.close()
            raise RuntimeError("it does not serve")
        self.list = f"@{out / 'nodes'}"
        self.addresses = (out / "nodes").read_text().split()

    def file(self, node):
        return self.out / f"node{node}.db"

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(10)
        self.process.stderr.close()
