# SPDX-License-Identifier: Apache-2.0
"""One practice run and what came of it."""

import json
import sqlite3

from stalltrace import DONE, run

LOUD = {
    "none": "none",
    "packet_loss": "packet_loss:rank=2,percent=2",
    "late_rank": "late_rank:rank=1,ms=80",
    "cpu_contention": "cpu_contention:rank=3",
    "process_stopped": "process_stopped:rank=1,ms=1000",
}


class LabRun:
    """Runs the lab into `folder`; raises AssertionError with the tool's words if that fails."""

    def __init__(self, folder, fault, ranks=4, steps=200, more=(), workload="nccl"):
        self.folder = folder
        result = run("lab", "run", "--ranks", ranks, "--workload", workload, "--steps", steps, "--fault", fault, "--out",
                     folder, *more, timeout=300)
        assert result.returncode == DONE, f"{result.stdout}\n{result.stderr}"
        self.text = result.stdout
        self.truth = json.loads((folder / "truth.json").read_text())
        self.report = json.loads((folder / "findings.json").read_text())
        self.recordings = [folder / node["recording"] for node in self.truth["nodes"]]

    @property
    def findings(self):
        return self.report["findings"]

    def rows(self, sql):
        """(recording's node, row) of every node's recording, read by an SQLite library that is not ours."""
        for node, path in zip(self.truth["nodes"], self.recordings):
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            for row in database.execute(sql):
                yield node, row
            database.close()


def place_of(finding):
    """Where a finding points, for messages."""
    return f"{finding['cause']} culprit={finding['culprit']} link={finding['link']}"
