# SPDX-License-Identifier: Apache-2.0
"""Findings while the job runs: within seconds of the fault, from the agent with the evidence; the others report
`unknown`.
"""

import json
import signal
import time

from job import Job, Tracer
from lab import LabRun, location_of
from stalltrace import DONE, Case, run

REPORTED_WITHIN_NS = 5_000_000_000


class Live(Case):
    def setUp(self):
        super().setUp()
        self.need_root()

    def live(self, fault, *more, steps=140):
        self.lab = LabRun(self.folder / "lab", fault, steps=steps, more=("--live", *more))
        return json.loads((self.folder / "lab" / "live.json").read_text())["findings"]

    def expect(self, fault, *more, location, reported_by, steps=140):
        """`reported_by`'s agent reported the fault's cause in time, and no agent reported much stall time of another
        cause.
        """
        reported = self.live(fault, *more, steps=steps)
        truth = self.lab.truth["faults"][0]
        named = [f"{finding['reported_by']} {location_of(finding)}" for finding in reported]
        right = [finding for finding in reported if finding["cause"] == truth["cause"]]
        self.assertTrue(right, named)
        self.assertTrue(all(location(finding) for finding in right), named)
        onset_ns = truth["intervals"][0]["from_ns"]
        first = min(right, key=lambda finding: finding["detected_ns"])
        self.assertEqual(first["reported_by"], reported_by, named)
        self.assertLessEqual(first["detected_ns"] - onset_ns, REPORTED_WITHIN_NS, named)
        self.assertGreaterEqual(first["detected_ns"], onset_ns, named)
        others = sum(finding["stall_ms"] for finding in reported if finding["cause"] not in (truth["cause"], "unknown"))
        self.assertLess(others, 0.5 * first["stall_ms"], named)  # docs/accuracy.md, "Where tests are milder"
        return first

    def test_a_late_rank_by_its_own_agent(self):
        self.expect("late_rank:rank=1,ms=80", steps=120, reported_by="node1",
                    location=lambda finding: finding["culprit"]["rank"] == 1)
        # Once all recordings are together, each agent's `unknown` has its cause.
        self.assertEqual({(finding["cause"], finding["culprit"]["rank"]) for finding in self.lab.findings}, {("late_rank", 1)})

    def test_a_lossy_link_by_the_senders_agent(self):
        finding = self.expect("packet_loss:rank=2,peer=1,direction=link,percent=2", location=lambda finding: finding["link"]["src_rank"] == 1,
                              reported_by="node1")
        rows = self.lab.rows("SELECT cause, src_rank, detected_ns FROM finding ORDER BY 1")
        self.assertIn(("packet_loss", 1, finding["detected_ns"]), [row for node, row in rows if node["node"] == "node1"])

    def test_a_rank_that_stays_away_by_its_own_agent(self):
        finding = self.expect("missing_collective:rank=2", "--timeout", "8s", steps=60, reported_by="node2",
                              location=lambda finding: finding["culprit"]["rank"] == 2)
        self.assert_says("a rank has not entered", finding["summary"])

    def test_a_healthy_job_has_no_live_finding(self):
        self.assertEqual(self.live("none"), [])

    def test_one_agent_that_sees_all_ranks_reports_a_stop_and_its_end(self):
        tracer = Tracer(self, "--live")
        job = Job(self)
        job.wait_for_steps(60)
        stopped_ns = time.time_ns()
        job.ranks[1].send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 8
        while not tracer.rows("SELECT 1 FROM finding") and time.monotonic() < deadline:
            time.sleep(0.1)
        job.ranks[1].send_signal(signal.SIGCONT)
        cause, pid, detected_ns = tracer.rows("SELECT cause, culprit_pid, detected_ns FROM finding")[0]
        self.assertEqual((cause, pid), ("process_stopped", job.ranks[1].pid))
        self.assertLessEqual(detected_ns - stopped_ns, REPORTED_WITHIN_NS)
        deadline = time.monotonic() + 12
        while not tracer.rows("SELECT 1 FROM finding WHERE ended_ns IS NOT NULL") and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(len(tracer.rows("SELECT 1 FROM finding WHERE ended_ns IS NOT NULL")), 1)
        self.assertEqual(tracer.stop(), DONE)
        self.assertEqual(run("explain", tracer.path, "--exit-code").returncode, 3)
