# SPDX-License-Identifier: Apache-2.0
"""Jobs that begin before or after the start of a trace, or fail while it runs."""

import os
import signal
import time

from job import LIBRARIES, Job, Tracer
from stalltrace import DONE, Case


class Lifecycle(Case):
    def setUp(self):
        super().setUp()
        self.need_root()

    def test_a_job_that_starts_later_is_seen_from_its_first_call(self):
        tracer = Tracer(self, "--library", str(LIBRARIES / "libnccl.so.2"))
        job = Job(self, "--steps", 20)
        job.wait()
        self.assertEqual(tracer.stop(), DONE)
        for rank, process in enumerate(job.ranks):
            calls = tracer.rows(f"SELECT op, seq, rank, rank_source, comm_id_hash FROM nccl_events WHERE pid = {process.pid} "
                                "ORDER BY timestamp_ns")
            self.assertIn("COMM_INIT_RANK", calls[0][0], calls[:3])
            reductions = [call for call in calls if call[0] == "ALL_REDUCE"]
            self.assertEqual([call[1] for call in reductions], list(range(len(reductions))))
            self.assertGreaterEqual(len(reductions), 20)
            for _, _, row_rank, source, comm in reductions:
                self.assertEqual((row_rank, source), (rank, "init"))
                self.assertIsNotNone(comm)
        pids = ", ".join(str(process.pid) for process in job.ranks)  # the host may run other jobs too
        communicators = tracer.rows(f"SELECT comm_id_hash, rank, nranks, rank_source FROM communicator WHERE pid IN ({pids}) "
                                    "ORDER BY rank")
        self.assertEqual([row[1:] for row in communicators], [(0, 2, "init"), (1, 2, "init")])
        self.assertEqual(len({row[0] for row in communicators}), 1, communicators)

    def trace_a_job_that_started_before(self, job):
        job.wait_for_steps(5)
        tracer = Tracer(self)
        job.wait_for_steps(job.steps() + 40)
        self.assertEqual(tracer.stop(), DONE)
        for rank, process in enumerate(job.ranks):
            self.assertEqual(tracer.rows(f"SELECT rank, rank_source, world_size FROM process WHERE pid = {process.pid}"),
                             [(rank, "environment", 2)])
        return [tracer.rows("SELECT DISTINCT call.rank, call.rank_source, call.comm_id_hash, comm.nranks, comm.nccl_comm_hash "
                            "FROM nccl_events call JOIN communicator comm USING (node_id, pid, comm_ptr) "
                            f"WHERE op = 'ALL_REDUCE' AND pid = {process.pid}") for process in job.ranks]

    def test_a_job_that_started_before_has_the_communicators_that_nccls_memory_shows(self):
        calls = self.trace_a_job_that_started_before(Job(self))
        self.assertEqual([[row[:4] for row in rows] for rows in calls], [[(0, "memory", None, 2)], [(1, "memory", None, 2)]])
        self.assertEqual(len({rows[0][4] for rows in calls}), 1, "both ranks have one communicator")

    def test_by_nccls_counts_ranks_number_the_calls_of_such_a_job_alike(self):
        job = Job(self)
        job.wait_for_steps(5)
        tracer = Tracer(self)
        job.wait_for_steps(job.steps() + 40)
        self.assertEqual(tracer.stop(), DONE)
        ends = []
        for process in job.ranks:
            rows = tracer.rows("SELECT comm.calls_before, call.seq, call.timestamp_ns + call.duration_ns "
                               "FROM nccl_events call JOIN communicator comm USING (node_id, pid, comm_ptr) "
                               f"WHERE op = 'ALL_REDUCE' AND pid = {process.pid} AND call.duration_ns IS NOT NULL")
            self.assertGreater(min(row[0] for row in rows), 0)
            ends.append({before + seq: end for before, seq, end in rows})
        # Both ranks leave an AllReduce together: with another number, the last of each step would be a step apart.
        apart = {}
        for shift in range(-3, 4):
            common = [number for number in ends[0] if number + shift in ends[1]]
            self.assertGreater(len(common), 30)
            apart[shift] = sum(abs(ends[0][number] - ends[1][number + shift]) for number in common) / len(common)
        self.assertEqual(min(apart, key=apart.get), 0, apart)

    def test_with_an_nccl_of_another_layout_it_has_the_environments_rank(self):
        calls = self.trace_a_job_that_started_before(Job(self, environment={"LAB_NCCL_MEMORY": "0"}))
        self.assertEqual(calls, [[(0, "environment", None, 2, None)], [(1, "environment", None, 2, None)]])

    def test_a_process_killed_in_an_allreduce_leaves_it_open(self):
        tracer = Tracer(self)
        job = Job(self)
        job.wait_for_steps(10)
        peer, victim = job.ranks[1], job.ranks[0]
        peer.send_signal(signal.SIGSTOP)
        before = -1
        while job.steps() != before:  # the victim is inside a collective once its step count stops
            before = job.steps()
            time.sleep(0.5)
        victim.kill()
        victim.wait(timeout=10)
        time.sleep(0.5)
        self.assertEqual(tracer.stop(), DONE)
        last = tracer.rows(f"SELECT completion, duration_ns FROM nccl_events WHERE op = 'ALL_REDUCE' AND pid = {victim.pid} "
                           "ORDER BY timestamp_ns DESC LIMIT 1")
        self.assertEqual(last, [("open", None)])
        self.assertEqual(tracer.rows(f"SELECT exit_signal FROM process WHERE pid = {victim.pid}"), [(signal.SIGKILL,)])

    def test_a_tracer_killed_leaves_a_readable_recording(self):
        tracer = Tracer(self)
        job = Job(self)
        job.wait_for_steps(40)
        time.sleep(1)  # the agent writes twice a second
        os.kill(tracer.process.pid, signal.SIGKILL)
        tracer.process.wait(timeout=10)
        self.assertEqual(tracer.rows("PRAGMA integrity_check"), [("ok",)])
        self.assertGreater(tracer.rows("SELECT COUNT(*) FROM nccl_events")[0][0], 0)

    def test_only_the_process_asked_for_is_traced(self):
        job = Job(self)
        job.wait_for_steps(5)
        tracer = Tracer(self, "--pid", str(job.ranks[1].pid))
        job.wait_for_steps(job.steps() + 20)
        self.assertEqual(tracer.stop(), DONE)
        self.assertEqual(tracer.rows("SELECT DISTINCT pid FROM nccl_events"), [(job.ranks[1].pid,)])
