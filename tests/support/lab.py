# SPDX-License-Identifier: Apache-2.0
"""One practice run and its results."""

import json

import recordings
from stalltrace import DONE, run

LOUD = {
    "none": "none",
    "packet_loss": "packet_loss:rank=2,percent=2",
    "cpu_contention": "cpu_contention:rank=3",
    "process_stopped": "process_stopped:rank=1,ms=1000",
}


class LabRun:
    """Runs the lab into `folder`; raises AssertionError with the tool's output if that fails."""

    def __init__(self, folder, fault, ranks=4, steps=140, more=(), workload="nccl"):
        self.folder = folder
        before_ms = cpu_pressure_ms()
        result = run("lab", "run", "--ranks", ranks, "--workload", workload, "--steps", steps, "--fault", fault, "--out",
                     folder, *more, timeout=300)
        assert result.returncode == DONE, f"{result.stdout}\n{result.stderr}"
        self.cpu_pressure_ms = cpu_pressure_ms() - before_ms
        self.text = result.stdout
        self.truth = json.loads((folder / "truth.json").read_text())
        self.report = json.loads((folder / "findings.json").read_text())
        first_ranks = {}  # of each recording, the entry of the first rank: nodes may have several
        for node in self.truth["nodes"]:
            first_ranks.setdefault(node["recording"], node)
        self.recordings = [folder / name for name in first_ranks]
        self.nodes = list(first_ranks.values())

    @property
    def findings(self):
        return self.report["findings"]

    def rows(self, sql):
        """(recording's node with its first rank, row) for every node's recording."""
        for node, path in zip(self.nodes, self.recordings):
            for row in recordings.rows(path, sql):
                yield node, row


def cpu_pressure_ms():
    """Time so far in which some task of this machine was ready without a CPU, by the kernel's own account; 0 if it
    keeps none.
    """
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            return int(file.readline().rpartition("total=")[2]) / 1000
    except OSError:
        return 0


def location_of(finding):
    """A finding's location as text for messages."""
    return f"{finding['cause']} culprit={finding['culprit']} link={finding['link']}"
