# SPDX-License-Identifier: Apache-2.0
"""Profiler files, alone and with an agent beside: durations against the job's own clock, a killed rank, a late one, a lossy link."""

import json
import signal
import time

import recordings
from job import LIBRARIES, PLUGIN, Job, Tracer, wait_until
from stalltrace import DONE, Case, run
from unprivileged import run_as_nobody

SAME_NS = 50_000
SAME_SHARE = 0.01


class RecordedJob(Job):
    """Ranks with the profiler plugin."""

    def __init__(self, case, *arguments, ranks=2, environment=None):
        self.profiler_files = case.folder / "profiler"
        self.profiler_files.mkdir()
        plugin = {"NCCL_PROFILER_PLUGIN": str(PLUGIN), "STALLTRACE_DIR": str(self.profiler_files)}
        super().__init__(case, *arguments, ranks=ranks, environment={**plugin, **(environment or {})})

    def files(self):
        return sorted(self.profiler_files.glob("*.profiler"))

    def wait_for_profiler_files(self):
        wait_until(lambda: len(self.files()) == len(self.ranks), "the profiler files")


class ProfilerFile(Case):
    def setUp(self):
        super().setUp()
        self.recording = self.folder / "imported.db"

    def import_profiler_files(self, job):
        result = run("import", *job.files(), "--out", self.recording)
        self.assertEqual(result.returncode, DONE, result.stderr)

    def rows(self, sql):
        return recordings.rows(self.recording, sql)

    def explain(self):
        return json.loads(self.done(run("explain", self.recording, "--json")))

    def culprits(self, since_s=0):
        """(cause, rank) of each finding on what lasted beyond `since_s`, in seconds since the epoch: a busy host can stall
        the job before its fault, too."""
        return [(finding["cause"], (finding["culprit"] or {}).get("rank")) for finding in self.explain()["findings"]
                if finding["window"]["to_ns"] > since_s * 1e9]

    def check_calls(self, job, calls, rows_of):
        """Each call is there once, numbered without gaps, with launch and true duration, within the job's own time from
        the call to the end of its wait, and as long as between the CUDA events around it; `rows_of` answers a query.
        """
        for rank, process in enumerate(job.ranks):
            reported = [json.loads(line) for line in job.logs[rank].read_text().splitlines()]
            rows = rows_of("SELECT timestamp_ns, duration_ns, launch_ns, completion, seq FROM nccl_events "
                           f"WHERE op = 'ALL_REDUCE' AND pid = {process.pid} ORDER BY seq")
            seen = [row for row in rows if reported[0]["start_ns"] - 100_000 <= row[0] <= reported[-1]["end_ns"]]
            self.assertEqual(len(seen), calls)
            self.assertEqual([row[4] for row in rows], list(range(len(rows))))
            self.assertEqual({row[3] for row in rows}, {"profiler"})
            same = 0
            for call, (start_ns, duration_ns, launch_ns, _, _) in zip(reported, seen):
                self.assertLess(launch_ns, duration_ns)
                self.assertGreaterEqual(start_ns, call["start_ns"] - SAME_NS, "not before the call")
                self.assertLessEqual(start_ns + duration_ns, call["end_ns"] + SAME_NS, "not after the job saw its end")
                true_ns = call["device_us"] * 1e3
                same += abs(true_ns - duration_ns) <= max(SAME_SHARE * true_ns, SAME_NS)
            # On a busy machine the thread that plays the device may be off its CPU between the plugin's last report and
            # the event.
            self.assertGreaterEqual(same, 0.9 * calls, f"rank {rank}: {same} of {calls} durations are those of the job's events")

    def test_every_collective_is_there_once_with_launch_and_true_duration(self):
        job = RecordedJob(self, "--calls", 30, "--calls-per-second", 8, "--device-clock", "--elements", 1 << 23)
        job.wait()
        self.import_profiler_files(job)
        self.check_calls(job, 30, self.rows)
        self.assertEqual(self.rows("SELECT count(DISTINCT nccl_comm_hash), count(DISTINCT rank) FROM communicator"), [(1, 2)])

    def test_the_agent_makes_one_row_of_a_call_and_its_profiler_file(self):
        self.need_root()
        tracer = Tracer(self, "--library", LIBRARIES / "libnccl.so.2")
        job = RecordedJob(self, "--calls", 30, "--calls-per-second", 8, "--device-clock", "--elements", 1 << 23)
        job.wait()
        tracer.stop()
        self.check_calls(job, 30, tracer.rows)
        pids = ", ".join(str(process.pid) for process in job.ranks)
        self.assertEqual(tracer.rows(f"SELECT count(*) FROM communicator WHERE pid IN ({pids})"), [(2,)])
        orphans = (f"SELECT count(*), sum(collective_id NOT IN (SELECT event_id FROM collective)) FROM proxy_step "
                   f"WHERE pid IN ({pids})")
        steps, alone = tracer.rows(orphans)[0]
        self.assertGreaterEqual(steps, 120)
        self.assertEqual(alone, 0)

    def test_an_agent_that_comes_later_learns_the_ranks_from_the_profiler_files(self):
        self.need_root()
        job = RecordedJob(self, "--steps", 100000)
        job.wait_for_profiler_files()
        time.sleep(1)
        tracer = Tracer(self)
        time.sleep(3)
        tracer.stop()
        job.kill()
        for rank, process in enumerate(job.ranks):
            self.assertEqual(tracer.rows("SELECT DISTINCT rank, rank_source, nranks, nccl_comm_hash IS NOT NULL "
                                         f"FROM communicator WHERE pid = {process.pid}"), [(rank, "plugin", 2, 1)])
            twice = f"SELECT seq FROM collective WHERE op = 'ALL_REDUCE' AND pid = {process.pid} GROUP BY seq HAVING count(*) > 1"
            self.assertEqual(tracer.rows(twice), [])
            launched, reported = tracer.rows("SELECT count(*), sum(completion = 'profiler') FROM collective WHERE op = 'ALL_REDUCE' "
                                         f"AND pid = {process.pid}")[0]
            self.assertGreater(reported, 100)
            self.assertLess(launched - reported, 10)

    def test_what_ranks_send_to_themselves_is_no_hang(self):
        job = RecordedJob(self, "--steps", 100000, "--elements", 20000, "--mix", 1)
        job.wait_for_profiler_files()
        time.sleep(4)
        self.import_profiler_files(job)
        own = "op IN ('SEND', 'RECV') AND peer = rank"
        calls, unobserved, longest = self.rows(f"SELECT count(*), sum(completion = 'unobserved'), max(duration_ns) FROM collective WHERE {own}")[0]
        self.assertGreater(calls, 20)
        self.assertGreaterEqual(unobserved, calls - 4, "those being launched at this moment aside")
        self.assertIsNone(longest)
        self.assertEqual(self.rows("SELECT count(*) FROM loss WHERE source IN ('profiler:evicted', 'profiler:no_slot', 'profiler:late_part')"), [(0,)])
        gaps = self.rows("SELECT op, rank, peer FROM collective WHERE op IN ('SEND', 'RECV') GROUP BY op, rank, peer "
                         "HAVING count(*) <> max(seq) - min(seq) + 1")
        self.assertEqual(gaps, [], "each peer's are counted by themselves")
        self.assertEqual(self.explain()["findings"], [])

    def test_calls_of_which_nccl_reports_nothing_more_are_there_with_their_number(self):
        job = RecordedJob(self, "--steps", 30, "--elements", 20000, "--mix", 1,
                       environment={"NCCL_ALLGATHERV_ENABLE": "1"})  # Broadcasts as from NCCL 2.29 on
        job.wait()
        self.import_profiler_files(job)
        for process in job.ranks:
            rows = self.rows("SELECT completion, duration_ns, launch_ns, bytes, root FROM collective WHERE op = 'BROADCAST' "
                             f"AND pid = {process.pid} ORDER BY seq")
            self.assertEqual(len(rows), 30)
            self.assertEqual({row[:2] for row in rows}, {("unobserved", None)})
            self.assertGreater(min(row[2] for row in rows), 0)
            self.assertEqual([row[3:] for row in rows], [(40000, step % 2) for step in range(30)])
        numbers = [self.rows("SELECT comm_id_hash, seq, op FROM collective WHERE op NOT IN ('SEND', 'RECV') AND rank = "
                             f"{rank} AND nranks = 2 ORDER BY seq") for rank in range(2)]
        self.assertEqual(numbers[0], numbers[1], "the ranks agree on the numbers")
        self.assertEqual([row[1] for row in numbers[0]], list(range(len(numbers[0]))))
        self.assertEqual(self.explain()["findings"], [])

    def lab_profiler_files(self, fault, steps):
        """Runs the practice cluster without an agent, and explains its profiler files alone."""
        out = self.folder / "lab"
        self.done(run("lab", "run", "--ranks", 4, "--steps", steps, "--plugin", "--no-trace", "--fault", fault, "--out", out,
                      timeout=300))
        self.done(run("import", *(out / "profiler").glob("*.profiler"), "--out", self.recording))
        return self.explain()["findings"]

    def test_a_late_rank_is_named_by_profiler_files_alone(self):
        self.need_root()
        first = self.lab_profiler_files("late_rank:rank=1,ms=80", 100)[0]
        self.assertEqual((first["cause"], first["culprit"]["rank"]), ("late_rank", 1))
        self.assertLessEqual(first["confidence"], 0.7)
        self.assert_says("was not recorded", json.dumps(first["evidence"]))

    def test_of_a_lossy_link_profiler_files_alone_say_where_and_no_more(self):
        self.need_root()
        findings = self.lab_profiler_files("packet_loss:rank=2,percent=4", 150)
        self.assertTrue(findings)
        for finding in findings:
            self.assertIn(finding["cause"], ("slow_link", "unknown"), "steps do not show loss")
        links = [(f["link"]["src_rank"], f["link"]["dst_rank"]) for f in findings if f["cause"] == "slow_link"]
        self.assertTrue(all(2 in link for link in links), links)

    def test_a_killed_rank_is_named_while_the_others_hang(self):
        job = RecordedJob(self, "--steps", 100000, "--watchdog-seconds", 30, ranks=3)
        job.wait_for_profiler_files()
        time.sleep(2)
        killed_s = time.time()
        job.ranks[1].send_signal(signal.SIGKILL)
        job.ranks[1].wait()
        time.sleep(2.5)
        self.import_profiler_files(job)
        self.assertGreater(self.rows("SELECT count(*) FROM collective WHERE completion = 'open'")[0][0], 0)
        self.assertEqual(self.culprits(killed_s), [("dead_rank", 1)])

    def test_a_stopped_rank_is_named_by_profiler_files_alone(self):
        job = RecordedJob(self, "--steps", 100000, "--watchdog-seconds", 30, ranks=3)
        job.wait_for_profiler_files()
        time.sleep(2)
        stopped_s = time.time()
        job.ranks[1].send_signal(signal.SIGSTOP)
        time.sleep(4.5)
        self.import_profiler_files(job)
        job.ranks[1].send_signal(signal.SIGCONT)
        self.assertEqual(self.culprits(stopped_s), [("process_stopped", 1)], "while it is")
        time.sleep(2)
        job.kill()
        self.recording.unlink()
        self.import_profiler_files(job)
        self.assertIn(("process_stopped", 1), self.culprits(stopped_s), "when it was")

    def test_after_a_hang_the_rank_that_died_first_is_named(self):
        """A watchdog ends the others seconds later: the profiler files show which rank ended first, though all became
        silent together.
        """
        job = RecordedJob(self, "--steps", 100000, "--watchdog-seconds", 30, ranks=3)
        job.wait_for_profiler_files()
        time.sleep(2)
        killed_s = time.time()
        job.ranks[2].kill()
        job.ranks[2].wait()
        time.sleep(4)
        job.kill()
        self.import_profiler_files(job)
        self.assertEqual(self.culprits(killed_s), [("dead_rank", 2)])

    def test_profiler_files_of_a_job_that_died_whole_hold_what_was_open(self):
        job = RecordedJob(self, "--steps", 100000)
        job.wait_for_profiler_files()
        time.sleep(1.5)
        job.kill()
        self.import_profiler_files(job)
        self.assertGreater(self.rows("SELECT count(*) FROM collective WHERE completion = 'profiler'")[0][0], 0)
        self.assertEqual(self.rows("SELECT count(*) FROM process"), [(2,)])

    def test_the_profiler_files_user_needs_no_privilege(self):
        self.need_root()
        job = RecordedJob(self, "--steps", 3)
        job.wait()
        folder = self.folder / "unprivileged"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        copies = []
        for profiler_file in job.files():
            copy = folder / profiler_file.name
            copy.write_bytes(profiler_file.read_bytes())
            copy.chmod(0o644)
            copies.append(copy)
        self.done(run_as_nobody(folder, "import", *copies, "--out", folder / "imported.db"))
        self.assertIn("Healthy", self.done(run_as_nobody(folder, "explain", folder / "imported.db")))

    def test_what_is_no_evidence_is_refused_in_one_line(self):
        odd = self.folder / "odd.profiler"
        odd.write_bytes(b"x" * 9000)
        self.refused(run("import", odd, "--out", self.recording), 1, "of no known format", "a profiler file was tried")
        self.assertFalse(self.recording.exists())
