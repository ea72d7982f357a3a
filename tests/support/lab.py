# SPDX-License-Identifier: Apache-2.0
"""One practice run and what came of it."""

import json

import recordings
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
        """(recording's node, row) of every node's recording."""
        for node, path in zip(self.truth["nodes"], self.recordings):
            for row in recordings.rows(path, sql):
                yield node, row


def place_of(finding):
    """Where a finding points, for messages."""
    return f"{finding['cause']} culprit={finding['culprit']} link={finding['link']}"


# Ranks of the lab share the cores of the machine that runs the tests, so that some stalls beside the fault's are real.
_OF_THE_MACHINE = {"unknown", "cpu_contention"}


def led_by(findings, cause):
    """The first finding, which has `cause`; all others have it too, or are the test machine's own and cost less than half."""
    said = [f"{place_of(finding)} {finding['stall_ms']:.0f} ms" for finding in findings]
    assert findings, "no finding"
    first = findings[0]
    assert first["cause"] == cause, said
    for finding in findings[1:]:
        if finding["cause"] != cause:
            assert finding["cause"] in _OF_THE_MACHINE, said
            assert finding["stall_ms"] < 0.5 * first["stall_ms"], said
    return first
