# SPDX-License-Identifier: Apache-2.0
"""Third-party collective libraries: PyTorch on Gloo, and OpenMPI. The fault of a job is named while it hangs."""

import json
import signal
import subprocess
import time

from job import Tracer
from lab import LabRun, location_of
from stalltrace import DONE, PROGRAM, Case

REPORTED_WITHIN_NS = 5_000_000_000


class OneHost(Case):
    """All ranks on one host, as most jobs begin: one tracer, without prior knowledge of them, sees all."""

    def setUp(self):
        super().setUp()
        self.need_root()

    def reported(self, workload, fault, *more):
        """The most expensive finding of a job with this fault, reported within 5 s of its onset, as a row of the
        recording.
        """
        tracer = Tracer(self, "--live")
        lab = self.folder / "lab"
        job = subprocess.Popen([PROGRAM, "lab", "run", "--no-trace", "--workload", workload, "--steps", "60", "--timeout", "14s",
                                "--fault", fault, "--out", lab, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait, timeout=30)
        self.addCleanup(job.terminate)
        deadline = time.monotonic() + 30
        cause = fault.split(":")[0]
        while not tracer.rows(f"SELECT 1 FROM finding WHERE cause = '{cause}'") and time.monotonic() < deadline:
            if job.poll() is not None:
                deadline = min(deadline, time.monotonic() + 5)  # the job may have ended just after its fault
            time.sleep(0.1)
        try:
            self.assertEqual(job.wait(timeout=2), DONE)  # ranks that fail end by themselves
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGINT)  # it hangs; the lab writes the truth down all the same
            job.wait(timeout=30)
        tracer.stop()
        fault = json.loads((lab / "truth.json").read_text())["faults"][0]
        self.assertTrue(fault["injected"])
        rows = tracer.rows("SELECT cause, culprit_rank, detected_ns, summary FROM finding ORDER BY stall_ms DESC")
        self.assertTrue(rows, "nothing was reported")
        cause, rank, detected_ns, summary = rows[0]
        self.assertEqual(cause, fault["cause"], rows)
        if cause != "mtu_blackhole":  # which has a link
            self.assertEqual(rank, fault["rank"], rows)
        onset_ns = fault["intervals"][0]["from_ns"]
        if cause in ("init_failure", "mtu_blackhole"):  # in effect before the start: felt in the first calls
            first = "COMM_INIT_RANK" if cause == "init_failure" else "BROADCAST"
            onset_ns, = tracer.rows(f"SELECT min(timestamp_ns) FROM collective WHERE op = '{first}'")[0]
        self.assertLessEqual(detected_ns - onset_ns, REPORTED_WITHIN_NS, rows)
        return summary

    def test_a_call_that_only_rank_0_makes(self):
        summary = self.reported("torch", "mismatched_collective:rank=0,what=extra")
        self.assert_says("entered AllReduce of 4 bytes", summary)
        self.assert_says("the others entered AllReduce of 4096 bytes", summary)

    def test_a_rank_that_never_comes(self):
        self.assert_says("an absent rank is alive", self.reported("torch", "missing_collective:rank=0"))

    def test_a_rank_that_the_kernel_ended_for_want_of_memory(self):
        self.assert_says("out of memory", self.reported("torch", "dead_rank:rank=2,how=memory"))

    def test_a_tensor_of_another_size(self):
        self.assert_says("where the others entered", self.reported("torch", "mismatched_collective:rank=1,what=count"))

    def test_a_killed_rank(self):
        self.assertIn("signal 9", self.reported("torch", "dead_rank:rank=2,signal=9"))

    def test_a_rank_that_raised(self):
        """Python closes its sockets before its process ends, so the others' calls fail first."""
        summary = self.reported("torch", "dead_rank:rank=2,how=exception")
        self.assert_says("rank 2 ended first", summary)
        self.assert_says("the job ended", summary)

    def test_a_rank_that_leaves_with_success(self):
        summary = self.reported("torch", "dead_rank:rank=1,how=exit")
        self.assert_says("ended while others waited", summary)

    def test_a_stopped_rank(self):
        # reported() holds the first report; the row has the latest text, and the stop ends before the job
        self.assertRegex(self.reported("torch", "process_stopped:rank=1,ms=6000"), r"(is|was) stopped \(SIGSTOP")

    def test_a_firewall_before_the_rendezvous(self):
        self.assertIn(":29500 (refused)", self.reported("torch", "init_failure:rank=2"))

    def test_an_interface_that_others_do_not_reach(self):
        summary = self.reported("torch", "init_failure:rank=2,how=network")
        self.assertIn("10.66.0.3", summary)
        self.assert_says("the wrong interface was chosen", summary)

    def test_an_mtu_black_hole_from_the_start(self):
        """The usual black hole: the set-up's small messages pass, the first large one never does."""
        self.assert_says("large packets are lost", self.reported("torch", "mtu_blackhole:rank=2,start=launch"))

    def test_an_mpi_rank_that_computes_on(self):
        summary = self.reported("mpi", "missing_collective:rank=3,doing=compute")
        self.assert_says("an absent rank is computing", summary)


class EachOnItsHost(Case):
    """One recording per rank: equal numbers mean the same collective."""

    def costliest(self, workload, library, fault, *more):
        self.need_root()
        lab = LabRun(self.folder / "lab", fault, steps=80, more=more, workload=workload)
        self.assertTrue(lab.findings, lab.text)
        finding, fault = lab.findings[0], lab.truth["faults"][0]
        self.assertEqual(finding["cause"], fault["cause"], location_of(finding))
        self.assertEqual(finding["culprit"]["rank"], fault["rank"], location_of(finding))
        self.assertEqual(finding["culprit"]["pid"], lab.truth["nodes"][fault["rank"]]["pid"])
        instances = {}
        for node, (comm, seq, rank) in lab.rows(
                f"SELECT comm_id_hash, seq, rank FROM collective WHERE library = '{library}' AND op = 'ALL_REDUCE' "
                "AND completion <> 'open'"):
            self.assertIsNotNone(comm)
            self.assertEqual(rank, node["rank"])
            instances.setdefault((comm, seq), set()).add(rank)
        self.assertGreater(len(instances), 100)
        partial = [key for key, ranks in instances.items() if len(ranks) != len(lab.truth["nodes"])]
        self.assertEqual(partial, [])

    def test_a_stopped_rank_of_mpi(self):
        self.costliest("mpi", "mpi", "process_stopped:rank=1,ms=1000")

    def test_a_late_rank_of_pytorch(self):
        self.costliest("torch", "gloo", "late_rank:rank=2,ms=80")
