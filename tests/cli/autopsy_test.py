# SPDX-License-Identifier: Apache-2.0
"""`stalltrace autopsy` without a job that hangs, without root, and on a framework's frames."""

import json
import os
import signal
import subprocess
import sys
import time

from processes import rank_environment
from stalltrace import FAILED, FINDINGS, USAGE, Case, run

# A package whose frames look like PyTorch's: what counts is the path of the file.
DISTRIBUTED = "import time\n\n\ndef all_reduce():\n    time.sleep(100)\n"
RANK = """
import os, sys, time
sys.path.insert(0, sys.argv[1] + "/site-packages")
import torch.distributed.distributed_c10d as dist


def load_batch():
    time.sleep(100)


def train():
    open(sys.argv[1] + "/ready" + os.environ["RANK"], "w").close()
    if os.environ["RANK"] in sys.argv[2]:
        load_batch()
    dist.all_reduce()


train()
"""


class Autopsy(Case):
    def start(self, absent):
        """Three ranks; those in `absent` are elsewhere."""
        package = self.folder / "site-packages" / "torch" / "distributed"
        package.mkdir(parents=True)
        for folder in (package, package.parent):
            (folder / "__init__.py").touch()
        (package / "distributed_c10d.py").write_text(DISTRIBUTED)
        script = self.folder / "train.py"
        script.write_text(RANK)
        pids = []
        for rank in range(3):
            process = subprocess.Popen([sys.executable, script, self.folder, absent], start_new_session=True,
                                       env=rank_environment(rank, 3, 1, {"TORCHELASTIC_RUN_ID": self.id()}))
            self.addCleanup(process.wait)
            self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
            pids.append(process.pid)
        deadline = time.monotonic() + 30
        while not all((self.folder / f"ready{rank}").exists() for rank in range(3)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        time.sleep(0.1)
        return pids

    def autopsy(self, pids, *words):
        return run("autopsy", "--no-trace", "--seconds", 1, "--pid", ",".join(map(str, pids)), *words)

    def test_a_rank_that_is_elsewhere(self):
        pids = self.start(absent="2")
        file = self.folder / "autopsy.json"
        result = self.autopsy(pids, "--out", file, "--exit-code")
        self.assertEqual(result.returncode, FINDINGS, result.stderr)
        self.assert_says("rank 2 is elsewhere", " ".join(result.stdout.split()))
        report = json.loads(file.read_text())
        verdict, = report["jobs"]
        finding, = verdict["findings"]
        self.assertEqual((verdict["job"], finding["cause"], finding["op"]), (self.id(), "missing_collective", "ALL_REDUCE"))
        self.assertEqual(finding["culprit"]["pid"], pids[2])
        self.assertEqual([rank["call"] and rank["call"]["name"] for rank in report["ranks"]], ["all_reduce", "all_reduce", None])
        self.refused(self.autopsy(pids, "--out", file), FAILED, "exists")

    def test_no_rank_waits(self):
        pids = self.start(absent="012")
        verdict, = json.loads(self.done(self.autopsy(pids, "--json", "--exit-code")))["jobs"]
        self.assertEqual((verdict["state"], verdict["findings"]), ("nobody_waits", []))

    def test_what_is_not_there(self):
        self.refused(self.autopsy([0x3ffffffe]), FAILED, "no such process", "ps -e")
        self.refused(run("autopsy", "--seconds", 0), USAGE, "--seconds")
