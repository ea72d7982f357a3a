# SPDX-License-Identifier: Apache-2.0
"""Serving processes for the tests."""

import re
import subprocess

from stalltrace import PROGRAM, run, sentence


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


class ServedLab:
    """`stalltrace lab run --serve`, once its job has ended: its agents answer until close(). `faults`: node -> what is wrong with its
    server."""

    def __init__(self, out, *words, faults):
        self.out = out
        troubles = [word for node, fault in faults.items() for word in ("--node-fault", f"{node}={fault}")]
        self.process = subprocess.Popen([PROGRAM, "lab", "run", "--out", out, "--serve", "--hold", "5m", *map(str, words), *troubles],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if re.search(sentence("agents answer after the job"), line):
                break
        else:
            self.close()
            raise RuntimeError(f"no agent answers: {lines}")
        self.addresses = (out / "nodes").read_text().split()
        self.asked = ("--nodes", f"@{out / 'nodes'}", "--token-file", out / "token", "--tls-fingerprint", (out / "fingerprint").read_text().strip())

    def ask(self, *words):
        """Runs the program where the nodes are reached, for all of them."""
        return run(*words, *self.asked, prefix=("ip", "netns", "exec", "stalltrace-bridge"))

    def close(self):
        """Its exit code, and what else it printed to standard error: the run is finished and explained."""
        if self.process.stderr.closed:
            return self.process.returncode, ""
        if self.process.poll() is None:
            self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors
