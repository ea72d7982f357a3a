# SPDX-License-Identifier: Apache-2.0
"""A restarted job has the old communicator's name, and is another job attempt."""

import json
import os
import subprocess
import time

from job import Job, Tracer
from processes import free_port, rank_environment
from stalltrace import DONE, Case, run

RANKS = 2
PYTHON = "/usr/bin/python3"  # which has PyTorch
PROGRAM = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
for step in range(100):
    if step == 60 and dist.get_rank() == 1 and sys.argv[1] == "raises":
        raise RuntimeError("a bad batch")
    time.sleep(0.01)
    dist.all_reduce(torch.ones(1000))
"""


class Attempts(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.port = free_port()

    def run_pytorch(self, how):
        """Returns the ranks' pids and exit codes."""
        ranks = [subprocess.Popen([PYTHON, "-c", PROGRAM, how], stderr=subprocess.DEVNULL,
                                  env=rank_environment(rank, RANKS, self.port, {"OMP_NUM_THREADS": "1"}))
                 for rank in range(RANKS)]
        for process in ranks:
            self.addCleanup(process.kill)
        return [process.pid for process in ranks], [process.wait(timeout=60) for process in ranks]

    def tracer(self):
        return Tracer(self, "--pid", str(os.getpid()))  # and this test's processes

    def explained(self, tracer, *words):
        time.sleep(0.5)
        self.assertEqual(tracer.stop(), DONE)
        return json.loads(self.done(run("explain", tracer.path, "--json", *words)))

    def test_a_job_that_raised_and_is_started_again(self):
        tracer = self.tracer()
        first, codes = self.run_pytorch("raises")
        self.assertEqual(codes[1], 1)
        second, codes = self.run_pytorch("works")
        self.assertEqual(codes, [0, 0])
        report = self.explained(tracer)
        names = tracer.rows("SELECT DISTINCT comm_id_hash FROM collective WHERE seq IS NOT NULL")
        self.assertEqual(len(names), 1, names)  # the precondition of this test
        attempts = report["attempts"]
        self.assertEqual([attempt["ranks"] for attempt in attempts], [RANKS, RANKS], attempts)
        self.assertIn(attempts[0]["ended_by"]["pid"], first)
        self.assertIsNone(attempts[1]["ended_by"])
        for finding in report["findings"]:
            self.assertLess(finding["stall_ms"], 1000, finding["summary"])  # no rank waited for the next attempt
        event, = tracer.rows("SELECT node_id || ':' || (event_id & 0xffffffffff) FROM collective WHERE op = 'ALL_REDUCE' "
                             f"AND pid = {second[0]} AND seq > 40 LIMIT 1")[0]
        instance = json.loads(self.done(run("explain", tracer.path, "--json", "--instance", event)))["instance"]
        self.assertEqual(instance["attempt"], 2)
        self.assertEqual(len(instance["calls"]), RANKS)
        for pid in second:
            self.assertTrue(any(f"pid {pid})" in call["who"] for call in instance["calls"]), instance["calls"])
        text = self.done(run("explain", tracer.path))
        self.assert_says("job attempts one after the other", text)

    def test_an_nccl_job_that_was_killed_and_is_started_again(self):
        """At the same port; its communicators have new names."""
        tracer = self.tracer()
        words, port = ("--device-ms", 15, "--watchdog-seconds", 1), {"MASTER_PORT": str(self.port)}
        first = Job(self, "--steps", 100000, *words, log="first.", environment=port)
        first.wait_for_steps(50)
        killed = first.ranks[1].pid
        first.ranks[1].kill()
        self.assertNotEqual(first.ranks[0].wait(timeout=30), 0)
        first.ranks[1].wait(timeout=10)
        Job(self, "--steps", 60, *words, log="second.", environment=port).wait()
        report = self.explained(tracer)
        attempts = report["attempts"]
        self.assertEqual([attempt["ranks"] for attempt in attempts], [RANKS, RANKS], attempts)
        self.assertEqual([attempt["ended_by"] and attempt["ended_by"]["pid"] for attempt in attempts], [killed, None], attempts)
        findings = report["findings"]
        self.assertEqual([finding["cause"] for finding in findings[:1]], ["dead_rank"], findings)
        self.assertEqual({finding["attempt"] for finding in findings}, {1}, findings)
        self.assert_says("job attempts one after the other", self.done(run("explain", tracer.path)))

    def test_two_jobs_at_once(self):
        tracer = self.tracer()
        jobs = self.two_jobs(60)
        for job in jobs:
            job.wait()
        self.expect_two_jobs(tracer)

    def test_two_jobs_at_once_attached_late(self):
        jobs = self.two_jobs(100000)
        for job in jobs:
            job.wait_for_steps(50)
        tracer = self.tracer()
        time.sleep(2)
        self.expect_two_jobs(tracer)
        # NCCL's memory shows which communicator each call is on.
        rows = tracer.rows("SELECT comm_id_hash, nranks, rank_source, group_concat(rank) FROM (SELECT * FROM communicator ORDER BY rank)"
                           " GROUP BY nccl_comm_hash")
        self.assertEqual([tuple(row) for row in rows], [(None, 2, "memory", "0,1")] * 2)

    def two_jobs(self, steps):
        return [Job(self, "--steps", steps, "--device-ms", 15, log=f"job{number}.") for number in range(2)]

    def expect_two_jobs(self, tracer):
        report = self.explained(tracer)
        self.assertEqual([attempt["ranks"] for attempt in report.get("attempts", [])], [2, 2], report)
        self.assertEqual(report["findings"], [])
        text = self.done(run("explain", tracer.path))
        self.assert_says("jobs at the same time", text)
