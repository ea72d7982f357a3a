# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs whose ranks do not meet: the finding names the rank and the variable."""

import json
import os
import subprocess
import time

from job import Tracer, wait_until
from processes import free_port, rank_environment
from stalltrace import DONE, Case, run

RANKS = 3
PYTHON = "/usr/bin/python3"  # which has PyTorch
PROGRAM = """
import datetime, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
for step in range(20):
    dist.all_reduce(torch.ones(1000))
"""


class SetUp(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.port = free_port()
        self.tracer = Tracer(self, "--live", "--pid", str(os.getpid()))  # and this test's processes

    def start(self, rank, **environment):
        self.errors = self.folder / "errors"
        with open(self.errors, "a") as errors:
            process = subprocess.Popen([PYTHON, "-c", PROGRAM], stderr=errors,
                                   env={**rank_environment(rank, RANKS, self.port, {"OMP_NUM_THREADS": "1"}), **environment})
        self.addCleanup(process.wait, timeout=10)
        self.addCleanup(process.kill)
        return process

    def findings(self):
        self.assertEqual(self.tracer.stop(), DONE)
        return json.loads(self.done(run("explain", self.tracer.path, "--json")))["findings"]

    def finding(self, rank):
        """The only finding, once it is reported while the job is still being set up."""
        wait_until(lambda: "init_failure" in (self.folder / "tracer.log").read_text(), "the live finding")
        findings = self.findings()
        self.assertEqual([finding["cause"] for finding in findings], ["init_failure"], findings)
        self.assertEqual(findings[0]["culprit"]["rank"], rank, findings)
        return findings[0]

    def test_another_port_on_one_rank(self):
        self.start(0)
        culprit = self.start(1, MASTER_PORT=str(free_port()))
        self.start(2)
        finding = self.finding(1)
        self.assertEqual(finding["culprit"]["pid"], culprit.pid)
        self.assert_says("MASTER_PORT differs", finding["summary"])

    def test_a_rank_that_raises_before_it_meets_the_others(self):
        self.start(0)
        culprit = self.start(1, GLOO_SOCKET_IFNAME="nonesuch0")
        self.start(2)
        self.assertEqual(culprit.wait(timeout=30), 1)
        finding = self.finding(1)
        self.assert_says("a rank ended with exit code 1", finding["summary"])
        self.assertTrue(any("GLOO_SOCKET_IFNAME" in evidence["text"] for evidence in finding["evidence"]), finding)

    def test_rank_0_that_was_never_started(self):
        self.start(1)
        self.start(2)
        finding = self.finding(0)
        self.assertIsNone(finding["culprit"]["pid"])
        self.assertIn(f"127.0.0.1:{self.port}", finding["summary"])

    def test_a_rank_that_comes_late_is_no_failure(self):
        for late in (0, 2):
            with self.subTest(late=late):
                self.come_late(late)
        self.assertEqual(self.findings(), [])
        self.assertNotIn("init_failure", (self.folder / "tracer.log").read_text())

    def come_late(self, late):
        self.port = free_port()
        ranks = [self.start(rank) for rank in range(RANKS) if rank != late]
        time.sleep(4)
        ranks.append(self.start(late))
        self.assertEqual([process.wait(timeout=30) for process in ranks], [0] * RANKS, self.errors.read_text())
