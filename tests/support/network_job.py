# SPDX-License-Identifier: Apache-2.0
"""A job of the lab's workloads, each rank in a network namespace of its own, that can be made to hang and to go on. Nothing
traces it. The test's clean-up ends it and removes its namespaces in any case."""

import os
import pathlib
import signal
import subprocess

from job import LIBRARIES, WORKLOAD, wait_until
from processes import rank_environment
from stalltrace import BUILD, ROOT

PYTHON = "/usr/bin/python3"  # Debian's, which has torch
TORCH_TRAIN = ROOT / "lab" / "torch" / "torch-train.py"
MPI_TRAIN = BUILD / "lab" / "bin" / "mpi-train"
NETWORK = "10.79.0"


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


class NetworkJob:
    """`workload`: nccl, mpi or torch. Ranks are on NETWORK.(rank + 1)."""

    def __init__(self, case, workload, ranks=3, options=("--step-ms", 20, "--elements", 20000)):
        self.folder, self.ranks, self.workload = case.folder, ranks, workload
        self.options = ["--steps", "1000000", *map(str, options)]
        self.prefix = f"st-autopsy-{os.getpid()}"
        self.processes = []
        case.addCleanup(self.end)
        self.make_network()
        if workload == "mpi":
            self.start_mpi()
        else:
            for rank in range(ranks):
                self.start(rank)

    def namespace(self, rank):
        return f"{self.prefix}-{rank}"

    def make_network(self):
        bridge = self.namespace("b")
        for name in [bridge, *map(self.namespace, range(self.ranks))]:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "addr", "add", f"{NETWORK}.254/24", "dev", "br0")
        ip("-n", bridge, "link", "set", "br0", "up")
        for rank in range(self.ranks):
            ip("-n", bridge, "link", "add", f"port{rank}", "type", "veth", "peer", "name", "eth0", "netns", self.namespace(rank))
            ip("-n", bridge, "link", "set", f"port{rank}", "master", "br0", "up")
            ip("-n", self.namespace(rank), "addr", "add", f"{NETWORK}.{rank + 1}/24", "dev", "eth0")
            ip("-n", self.namespace(rank), "link", "set", "eth0", "up")

    def bugs(self, rank):
        return {"LAB_BUGS": f"{self.folder}/bug{rank}."}

    def log(self, rank):
        return self.folder / f"steps{rank}.jsonl"

    def start(self, rank):
        program = [WORKLOAD] if self.workload == "nccl" else [PYTHON, TORCH_TRAIN]
        more = {**self.bugs(rank), "TORCHELASTIC_RUN_ID": self.prefix, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
                "LD_LIBRARY_PATH": str(LIBRARIES)}
        environment = rank_environment(rank, self.ranks, 29500, more, address=f"{NETWORK}.1")
        self.spawn(["ip", "netns", "exec", self.namespace(rank), *program, *self.options, "--log", self.log(rank)], environment,
                   f"rank{rank}")

    def start_mpi(self):
        shell = self.folder / "node-shell"
        # With one folder for temporary files, daemons of OpenMPI remove each other's, and mpirun waits for one forever.
        shell.write_text(f'#!/bin/sh\nnode=$((${{1##*.}} - 1))\nshift\nexport TMPDIR={self.folder}/tmp$node\nmkdir -p "$TMPDIR"\n'
                         f'exec nsenter --net=/run/netns/{self.prefix}-$node sh -c "$*"\n')
        shell.chmod(0o755)
        words = ["ip", "netns", "exec", self.namespace("b"), "mpirun", "--allow-run-as-root", "--bind-to", "none"]
        for name, value in {
                "plm_rsh_agent": shell, "plm_rsh_no_tree_spawn": 1, "pml": "ob1", "btl": "tcp,self", "mpi_yield_when_idle": 1,
                "btl_tcp_if_include": f"{NETWORK}.0/24", "oob_tcp_if_include": f"{NETWORK}.0/24"}.items():
            words += ["--mca", name, value]
        for rank in range(self.ranks):
            words += [":"] if rank else []
            words += ["--host", f"{NETWORK}.{rank + 1}", "-np", "1"]
            words += [word for name, value in self.bugs(rank).items() for word in ("-x", f"{name}={value}")]
            words += [MPI_TRAIN, *self.options, "--log", self.log(rank)]
        self.spawn(words, dict(os.environ), "mpirun")
        wait_until(lambda: all(self.steps(rank) > 0 for rank in range(self.ranks)), "OpenMPI", 20)

    def spawn(self, words, environment, name):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen([str(word) for word in words], env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log, start_new_session=True))

    def steps(self, rank):
        return self.log(rank).read_text().count("\n") if self.log(rank).exists() else 0

    def wait_for_steps(self, more=5, seconds=30):
        """Until each rank has done `more` steps more."""
        wanted = [self.steps(rank) + more for rank in range(self.ranks)]
        wait_until(lambda: all(self.steps(rank) >= wanted[rank] for rank in range(self.ranks)), f"{more} steps", seconds)

    def pid(self, rank):
        """The rank's process: the one in its namespace that runs the workload."""
        words = subprocess.run(["ip", "netns", "pids", self.namespace(rank)], capture_output=True, text=True, check=True).stdout
        for pid in map(int, words.split()):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith((b"nccl-train", b"torch-train.py", b"mpi-train")) for word in command[:2]):
                return pid
        raise AssertionError(f"rank {rank} has no process")

    # Faults. Each returns what lifts it.

    def absent(self, rank, kind="input"):
        """The rank skips its collectives and waits for an input, or computes."""
        file = self.folder / f"bug{rank}.skip"
        file.write_text(kind)
        return file.unlink

    def stopped(self, rank):
        pid = self.pid(rank)
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def cut(self, rank):
        """No TCP packet gets from or to the rank's namespace."""
        nft = ["ip", "netns", "exec", self.namespace(rank), "nft"]
        for hook in ("input", "output"):
            for rule in ("add table inet cut", f"add chain inet cut {hook} {{ type filter hook {hook} priority 0; }}",
                         f"add rule inet cut {hook} meta l4proto tcp drop"):
                subprocess.run([*nft, rule], check=True, capture_output=True)
        return lambda: subprocess.run([*nft, "delete table inet cut"], check=True)

    def namespaces(self):
        return [*map(self.namespace, range(self.ranks)), self.namespace("b")]

    def kill_processes(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.processes.clear()
        for name in self.namespaces():
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            for pid in map(int, pids.split()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def end(self):
        self.kill_processes()
        for name in self.namespaces():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
