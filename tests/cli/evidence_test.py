# SPDX-License-Identifier: Apache-2.0
"""import and explain of evidence that others made. The inputs are written here in the documented formats of NCCL's log (src/enqueue.cc,
src/init.cc of NCCL) and of PyTorch's Flight Recorder; none is a copy of another project's file."""

import contextlib
import json
import os
import pickle
import sqlite3
import struct

import recordings
from stalltrace import FAILED, FINDINGS, USAGE, Case, run

HASH = "0xabcdef0123456789"
BEGIN_NS = 1_777_975_200_000_000_000  # 2026-05-05T10:00:00Z


def call(rank, number, ranks=8, operation="AllReduce", count=1024, prefix=""):
    return (f"{prefix}node{rank // 4}:{100 + rank}:{200 + rank} [{rank % 4}] NCCL INFO {operation}: opCount {number:x} sendbuff 0x7f00 "
            f"recvbuff 0x7f01 count {count} datatype 7 op 0 root 0 comm 0x7f{rank}000 [nranks={ranks}] stream 0x55d5ffb73110\n")


def set_up(rank, ranks=8):
    line = (f"node{rank // 4}:{100 + rank}:{200 + rank} [{rank % 4}] NCCL INFO ncclCommInitRank comm 0x7f{rank}000 rank {rank} nranks {ranks} "
            f"cudaDev {rank % 4} nvmlDev {rank % 4} busId 1000 commId {HASH} - Init ")
    return line + "START\n" + line + "COMPLETE\n"


def destroyed(rank, ranks=8):
    return (f"node{rank // 4}:{100 + rank}:{200 + rank} [{rank % 4}] NCCL INFO comm 0x7f{rank}000 rank {rank} nranks {ranks} cudaDev {rank % 4} "
            "busId 1000 - Destroy COMPLETE\n")


def timeout(rank):
    return (f"[rank{rank}]:[E505 10:10:03.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600060 milliseconds\n")


def dump(calls, ranks=4, last="started"):
    def entry(number):
        ended = number < calls or last == "completed"
        return {"record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number, "p2p_seq_id": 0,
                "op_id": number, "profiling_name": "nccl:all_reduce", "time_created_ns": BEGIN_NS + number * 10**8, "duration_ms": None,
                "input_sizes": [[1024]], "input_dtypes": ["Float"], "output_sizes": [[1024]], "output_dtypes": ["Float"],
                "state": "completed" if ended else last, "time_discovered_started_ns": BEGIN_NS + number * 10**8 + 1000,
                "time_discovered_completed_ns": BEGIN_NS + number * 10**8 + 10**6 if ended else None, "retired": ended,
                "timeout_ms": 600000, "is_p2p": False, "frames": [{"name": "step", "filename": "/home/u/train.py", "line": 88}]}
    return {"version": "2.4", "nccl_version": "2.21.5",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
            "pg_status": {"0": {"last_enqueued_collective": calls}}, "entries": [entry(number) for number in range(1, calls + 1)]}


def packets(lost):
    """A pcap file: 10.0.0.1 sends 100 segments to 10.0.0.2, which acknowledges each; of the first, `lost` were sent twice."""
    def frame(source, destination, seq, ack, size, flags=0x10):
        tcp = struct.pack(">HHIIBBHHH", 5000 + source, 5000 + destination, seq, ack, 0x50, flags, 500, 0, 0)
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + size, 0, 0, 64, 6, 0, 0x0a000000 + source, 0x0a000000 + destination)
        return bytes(12) + b"\x08\x00" + ip + tcp, size
    frames = []
    for i in range(100):
        seq = 1000 + 1448 * i
        frames += (2 if i < lost else 1) * [frame(1, 2, seq, 1, 1448)] + [frame(2, 1, 1, seq + 1448, 0)]
    content = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 96, 1)
    for i, (head, size) in enumerate(frames):
        content += struct.pack("<IIII", 1777975200, 1000 * i, len(head), len(head) + size) + head
    return content


class Evidence(Case):
    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def logs(self, last, ranks=8, more=lambda rank: ""):
        for rank in range(ranks):
            text = set_up(rank, ranks) + "".join(call(rank, number, ranks) for number in range(last(rank) + 1))
            self.write(f"logs/{rank}.log", text + more(rank))
        return self.folder / "logs"

    def dumps(self, last, ranks=4, write=lambda what: pickle.dumps(what, protocol=2), state="started"):
        for rank in range(ranks):
            if last(rank):
                self.write(f"dumps/nccl_trace_rank_{rank}", write(dump(last(rank), last=state if last(rank) == 30 else "completed")))
        return self.folder / "dumps"

    def report(self, *paths, code=0):
        result = run("explain", "--json", *paths)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def culprits(self, report):
        return [(one["cause"], one["severity"], (one["culprit"] or {}).get("rank")) for one in report["findings"]]

    def blames_none(self, report, name):
        """Neither a finding nor a healthy job; a note has the sentence `name`."""
        self.assertEqual(report["findings"], [])
        self.assertIsNone(report["healthy"])
        self.assert_says(name, "\n".join(report["notes"]))


class NcclLogs(Evidence):
    def test_two_logs_of_a_hang(self):
        """The published example: rank 0 is at opCount 1e, rank 7 at 1d."""
        first = self.write("rank0.log", call(0, 0x1e))
        second = self.write("rank7.log", call(7, 0x1d))
        for paths in ([first, second], [self.folder]):
            report = self.report(*paths)
            self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 7)])
            self.assertLessEqual(report["findings"][0]["confidence"], 0.4)
            self.assertIn("0x1e", report["findings"][0]["summary"])
            self.assert_says("a log has no ends", "\n".join(report["notes"]))
        self.assertEqual(run("explain", first, second, "--exit-code").returncode, FINDINGS)

    def test_a_watchdog_makes_it_certain_that_the_job_hangs(self):
        folder = self.logs(lambda rank: 30 - (rank == 5), more=lambda rank: "" if rank == 5 else timeout(rank))
        self.assertEqual(self.culprits(self.report(folder)), [("missing_collective", "critical", 5)])

    def test_a_healthy_job_has_no_finding(self):
        for what, more in (("it was killed", lambda rank: ""), ("it ended", destroyed)):
            with self.subTest(what):
                folder = self.logs(lambda rank: 30, more=more)
                self.blames_none(self.report(folder), "no rank is behind")
                self.assertEqual(run("explain", folder, "--exit-code").returncode, FAILED)
                self.assert_says("no finding without ends", self.done(run("explain", folder)))

    def test_a_traceback_names_the_rank_that_ended_the_job(self):
        """Without any line of NCCL's: rank 1 raised, rank 0 waited for it."""
        text = "step 9\n" + "".join(f"[rank1]: {line}\n" for line in (
            "Traceback (most recent call last):", '  File "/home/u/train.py", line 88, in <module>', "    main()",
            '  File "/home/u/train.py", line 42, in step', "    raise ValueError(batch)", "ValueError: secret"))
        path = self.write("out.log", text + "\n" + timeout(0))
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("dead_rank", "critical", 1)])
        self.assert_says("a logged exception", report["findings"][0]["summary"])
        self.assertNotIn("secret", json.dumps(report))
        out = self.folder / "o.db"
        self.done(run("import", path, "--out", out))
        self.assertEqual(self.culprits(self.report(out)), [("dead_rank", "critical", 1)])
        self.assertNotIn(b"secret", out.read_bytes())

    def test_reports_of_torch(self):
        """TORCH_DISTRIBUTED_DEBUG=DETAIL, amid a traceback, without any line of NCCL's."""
        def print_of(shape):
            return f"CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=cpu)"
        text = "".join(f"[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
                       f"{print_of(10)}, but Rank 2 is running collective: {print_of(20)}.\n" for rank in (0, 1))
        path = self.write("out.log", "Traceback (most recent call last):\n" + text)
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("mismatched_collective", "critical", 2)])
        out = self.folder / "job.db"
        self.done(run("import", path, "--out", out))
        self.assertEqual(self.report(out)["findings"], report["findings"])
        path = self.write("unused.log", "[rank1]: Parameters which did not receive grad for rank 1: fc2.weight, fc2.bias\n")
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("missing_collective", "critical", 1)])
        self.assertIn("fc2.bias, fc2.weight", report["findings"][0]["summary"])

    def test_logs_that_were_cut_while_the_job_ran(self):
        self.blames_none(self.report(self.logs(lambda rank: 30 + rank % 3)), "logs while a job runs")
        folder = self.logs(lambda rank: 30 - (rank == 5))
        with open(folder / "5.log", "a", encoding="utf-8") as file:
            file.write(call(5, 30)[:50])
        self.blames_none(self.report(folder), "a file is cut off")

    def test_ranks_mixed_in_one_file_with_times(self):
        """Rank 2's lines are 0.3 s behind those of the others when the output ends."""
        text = "".join(set_up(rank, 4) for rank in range(4))
        for number in range(40):
            for rank in (0, 1, 3, 2):
                behind = number - 3 if rank == 2 else number
                if behind >= 0:
                    text += call(rank, behind, 4, prefix=f"2026-05-05T10:00:{number * 0.1:09.6f}Z ")
        self.blames_none(self.report(self.write("job.log", text)), "no log shows that the job hangs")

    def test_different_calls_under_one_number(self):
        for rank in range(4):
            text = set_up(rank, 4) + "".join(call(rank, number, 4) for number in range(20))
            text += call(rank, 20, 4, *(("AllGather", 5) if rank == 2 else ("AllReduce", 1024)))
            self.write(f"{rank}.log", text)
        self.assertEqual(self.culprits(self.report(self.folder)), [("mismatched_collective", "critical", 2)])

    def test_a_set_up_that_failed(self):
        self.write("a.log", "node0:77:77 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n\nnode0:77:79 [0] misc/socket.cc:484 NCCL WARN "
                   "socketPollConnect: connect to 10.0.0.1<45123> returned Connection refused, exceeded error retry count\n")
        finding = self.report(self.folder)["findings"][0]
        self.assertEqual(finding["cause"], "init_failure")
        self.assertIn("10.0.0.1:45123", finding["summary"])
        self.assertIn("eth0", json.dumps(finding["evidence"]))

    def test_import_makes_a_recording_that_explains_alike(self):
        folder = self.logs(lambda rank: 30 - (rank == 5))
        out = self.folder / "job.db"
        result = run("import", folder, "--out", out)
        self.done(result)
        self.assert_says("what was imported", result.stderr)
        self.assertEqual(self.culprits(self.report(out)), self.culprits(self.report(folder)))
        sql = "SELECT completion, COUNT(*) AS n, COUNT(duration_ns) AS ends, COUNT(DISTINCT comm_id_hash) AS comms FROM nccl_events WHERE seq >= 0"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))),
                         [{"completion": "unobserved", "n": 247, "ends": 0, "comms": 1}])
        self.refused(run("import", folder, "--out", out), FAILED, "job.db")

    def test_a_broken_log_says_where_and_keeps_what_was_good(self):
        text = set_up(0, 2) + call(0, 0, 2) + call(0, 1, 2)[:40] + "\n" + call(0, 2, 2)
        path = self.write("a.log", text.encode() + b"\xff\x1b]0;x\x07\0" * 100)
        result = run("import", path, "--out", self.folder / "a.db")
        self.done(result)
        self.assertIn("line 4", result.stderr)
        self.assertIn("2 calls", result.stderr)
        losses = json.loads(self.done(run("query", self.folder / "a.db", "SELECT source, count FROM loss", "--format", "json")))
        self.assertEqual(losses, [{"source": "log:damaged_lines", "count": 1}])


class FlightRecorder(Evidence):
    def test_the_rank_that_is_outside(self):
        for protocol in (2, 4):
            with self.subTest(protocol=protocol):
                folder = self.dumps(lambda rank: 30 - (rank == 3), write=lambda what, p=protocol: pickle.dumps(what, protocol=p))
                report = self.report(folder)
                self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 3)])
                self.assertIn("train.py:88", json.dumps(report["findings"][0]["evidence"]))

    def test_json(self):
        folder = self.dumps(lambda rank: 30 - (rank == 1), write=lambda what: json.dumps(what).encode())
        self.assertEqual(self.culprits(self.report(folder)), [("missing_collective", "waiting", 1)])

    def test_a_rank_without_a_dump(self):
        report = self.report(self.dumps(lambda rank: 30 if rank < 3 else 0))
        self.assertEqual(self.culprits(report), [("unknown", "waiting", None)])
        self.assertIn("rank 3", report["findings"][0]["summary"])

    def test_a_watchdog_that_names_the_rank_without_a_dump(self):
        """Ranks 0 to 2 wait in call 30; rank 3, asked at that moment, has not begun it."""
        numbers = "last enqueued work: {0}, last completed work: 29"
        lines = [f"[rank{rank}]:[E505 10:10:03.408271257 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected "
                 f"by watchdog at work sequence id: 30 PG status: {numbers.format(30)}" for rank in range(3)]
        lines.append("[rank3]:[E505 10:10:03.908271257 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal "
                     "due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 29, "
                     "last completed NCCL work: 29.")
        folder = self.dumps(lambda rank: 30 if rank < 3 else 0)
        self.write("dumps/job.log", "\n".join(lines) + "\n")
        (cause, _, rank), = self.culprits(self.report(folder))
        self.assertEqual((cause, rank), ("missing_collective", 3))

    def test_dumps_of_a_healthy_job(self):
        self.blames_none(self.report(self.dumps(lambda rank: 30, state="completed")), "no rank is behind")

    def test_a_pickle_that_wants_to_run_something(self):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(bomb),)
        bomb = self.folder / "made"
        path = self.write("nccl_trace_rank_0", pickle.dumps({"entries": [Bomb()]}))
        self.refused(run("explain", path), FAILED, "a pickle is data only")
        self.assertFalse(bomb.exists())

    def test_broken_dumps_are_named_with_their_offset(self):
        folder = self.dumps(lambda rank: 30)
        whole = (folder / "nccl_trace_rank_0").read_bytes()
        (folder / "nccl_trace_rank_0").write_bytes(whole[:1000])
        notes = "\n".join(self.report(folder)["notes"])
        self.assertIn("nccl_trace_rank_0: offset ", notes)
        self.assert_says("a dump is missing", notes)


class Everything(Evidence):
    def test_one_folder(self):
        (self.folder / "all").mkdir()
        recordings.make(self.folder / "all" / "node9.db")
        self.logs(lambda rank: 30 - (rank == 5)).rename(self.folder / "all" / "logs")
        self.dumps(lambda rank: 30).rename(self.folder / "all" / "dumps")
        self.write("all/net.pcap", packets(lost=10))
        self.write("all/README.txt", "what happened at night\n")
        report = self.report(self.folder / "all")
        self.assertIn(("missing_collective", "waiting", 5), self.culprits(report))
        notes = "\n".join(report["notes"])
        for name in ("logs were read", "dumps were read", "a file is of another format"):
            self.assert_says(name, notes)
        capture, = report["captures"]
        flow, = capture["troubled_flows"]
        self.assertEqual((capture["packets"], flow["src"], flow["dst"], flow["retransmits"]), (210, "10.0.0.1:5001", "10.0.0.2:5002", 10))
        alone = self.report(self.folder / "all" / "node9.db")
        self.assertGreater(report["recording"]["collectives"], alone["recording"]["collectives"])

    def test_broken_and_foreign_files_in_a_folder_are_left_out(self):
        self.logs(lambda rank: 30 - (rank == 5))
        found = {"args.pkl": pickle.dumps({"lr": 0.1}), "cut.json": b'{"version": "2.4", "pg_config": {"0"', "damaged": b"STBLKBOX\0\0"}
        for name, content in found.items():
            self.write(f"logs/{name}", content)
        with contextlib.closing(sqlite3.connect(self.folder / "logs" / "cache.db")) as cache:
            cache.execute("CREATE TABLE x (y)")
            cache.commit()
        self.write("elsewhere/secret.log", call(6, 99))
        (self.folder / "logs" / "link.log").symlink_to(self.folder / "elsewhere" / "secret.log")
        report = self.report(self.folder / "logs")
        self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 5)])
        notes = "\n".join(report["notes"])
        for part in ("cut.json", "damaged", "cache.db"):
            self.assertIn(part, notes)
        self.assert_says("a file is of another format", notes)
        self.assertNotIn("secret", notes)
        self.done(run("import", self.folder / "logs", "--out", self.folder / "o.db"))
        for name, content in (*found.items(), ("cache.db", (self.folder / "logs" / "cache.db").read_bytes())):
            with self.subTest(name):
                path = self.write(f"alone_{name}/{name}", content)
                self.refused(run("explain", path.parent), FAILED)
                self.refused(run("import", path.parent, "--out", self.folder / "alone.db"), FAILED)
                self.refused(run("explain", path, *sorted((self.folder / "logs").glob("[0-9].log"))), FAILED)

    def test_a_log_without_evidence(self):
        path = self.write("train.log", "epoch 1, loss 0.3\n" * 3)
        short = self.write("short.log", "hello\n")
        missing = self.folder / "missing.log"
        out = self.folder / "o.db"
        self.refused(run("import", path, "--out", out), FAILED, "of no known format", "train.log", "a kernel log was tried", "docs/import.md")
        self.refused(run("import", short, "--out", out), FAILED, "of no known format")
        self.refused(run("import", missing, "--out", out), FAILED, "missing.log", "a file does not exist")
        self.assertFalse(out.exists())
        log = self.write("rank0.log", set_up(0) + call(0, 1))
        self.assert_says("of no known format", run("import", log, path, "--out", out).stderr)

    def test_folders_without_evidence(self):
        (self.folder / "empty").mkdir()
        self.refused(run("explain", self.folder / "empty"), FAILED, "there is no file")
        self.write("other/a.txt", "hello\n")
        self.refused(run("explain", self.folder / "other"), FAILED, "a folder has no evidence")
        self.refused(run("import", self.folder / "other", "--out", self.folder / "o.db"), FAILED)
        self.assertFalse((self.folder / "o.db").exists())
        self.assertNotEqual(run("explain", self.folder / "other" / "a.txt").returncode, USAGE)
