# SPDX-License-Identifier: Apache-2.0
"""export: what is in the recording is in the file, and nothing is left of a file that could not be finished."""

import contextlib
import csv
import json
import signal
import sqlite3
import subprocess
import time

import perfetto
import recordings
from stalltrace import DONE, FAILED, PROGRAM, USAGE, Case, run

HOSTILE = "node\"',]}\n\x1b[2J\u202e\x00"


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path)) as database:
        for sql, values in statements:
            database.execute(sql, values)
        database.commit()


class Export(Case):
    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db", stalled=100, evidence=True)

    def count(self, sql, path=None):
        return recordings.rows(path or self.recording, sql)[0][0]

    def exported(self, *words, recording=None, name="a.pftrace"):
        out = self.folder / name
        result = run("export", recording or self.recording, "--out", out, *words)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertEqual(result.stdout, "")
        return out

    def test_perfetto_has_what_the_recording_has(self):
        self.need_program("protoc")
        trace = perfetto.Trace(self.exported())
        for category, table in [("collective", "collective"), ("launch", "collective"), ("wait", "wait_span"),
                                ("proxy_step", "proxy_step"), ("tcp_event", "tcp_events")]:
            self.assertEqual(len(trace.of(category)), self.count(f"SELECT count(*) FROM {table}"), category)
        spans = len(trace.of("net_send")), len(trace.of("net_receive"))
        self.assertEqual(spans, tuple(self.count(f"SELECT count(*) FROM net_span WHERE is_send = {is_send}") for is_send in (1, 0)))
        self.assertEqual(len(trace.ends), len(trace.slices))  # all calls ended
        values = {}
        for row in trace.counters:
            values[row["track"].split(" / ")[-1]] = values.get(row["track"].split(" / ")[-1], 0) + row["value"]
        self.assertEqual(values["congestion window"], self.count("SELECT sum(cwnd) FROM tcp_sample"))
        self.assertEqual(values["round trip time"], self.count("SELECT sum(srtt_us) FROM tcp_sample"))
        self.assertEqual(values["pressure_cpu_some_us"], self.count("SELECT sum(value) FROM host_sample"))

        calls = {row["notes"]["id"]: row for row in trace.of("collective")}
        for name, begin, seq in recordings.rows(self.recording, "SELECT name, timestamp_ns, seq FROM collective JOIN event_name USING(event_id)"):
            self.assertEqual((calls[name]["time"], calls[name]["notes"]["seq"]), (begin, str(seq)))
        self.assertEqual({row["track"].split(" / ")[0] for row in trace.of("collective")},
                         {"rank 0 · node0 · pid 100", "rank 1 · node0 · pid 101"})
        self.assertEqual({row["notes"]["ran_instead"] for row in trace.of("wait")}, {'=stress"'})

    def test_a_finding_has_flows_to_the_calls_that_waited(self):
        self.need_program("protoc")
        trace = perfetto.Trace(self.exported())
        report = json.loads(self.done(run("explain", self.recording, "--json")))["findings"]
        self.assertEqual([row["name"] for row in trace.of("finding")], [finding["cause"] for finding in report])
        self.assertEqual(trace.of("finding")[0]["notes"]["summary"], report[0]["summary"])
        (stall,) = trace.of("stall")
        waiting = [row for row in trace.of("collective") if row["in"]]
        self.assertEqual(sorted(row["notes"]["seq"] for row in waiting), ["100", "100"])
        self.assertEqual(sorted(stall["out"]), sorted(flow for row in waiting for flow in row["in"]))
        self.assertLessEqual(stall["time"], min(row["time"] for row in waiting))

    def test_a_part(self):
        self.need_program("protoc")
        part = perfetto.Trace(self.exported("--from", "+1s", "--to", "+2s", "--rank", "1", name="part"))
        begin = "(SELECT min(timestamp_ns) FROM collective)"
        self.assertEqual(len(part.of("collective")), self.count(
            f"SELECT count(*) FROM collective WHERE rank = 1 AND timestamp_ns < {begin} + 2000000000 "
            f"AND timestamp_ns + duration_ns >= {begin} + 1000000000"))
        result = run("export", self.recording, "--out", self.folder / "absent", "--rank", "7,1")
        self.assertEqual((result.returncode, result.stderr.split()[-1]), (DONE, "7"), result.stderr)
        findings = perfetto.Trace(self.exported("--findings-only", name="findings"))
        self.assertEqual({row["notes"]["seq"] for row in findings.of("collective")}, {"100"})
        self.refused(run("export", self.recording, "--out", self.folder / "x", "--rank", "7"), FAILED, "--rank", "from 0 to 1")
        self.refused(run("export", self.recording, "--out", self.folder / "x", "--to", "2020-01-01T00:00:00Z"), FAILED, "nothing was judged")
        self.assertFalse((self.folder / "x").exists())

    def test_two_exports_are_equal(self):
        for form in ("perfetto", "chrome"):
            one, other = (self.exported("--format", form, name=f"{form}{i}").read_bytes() for i in (1, 2))
            self.assertEqual(one, other)

    def test_hostile_names(self):
        self.need_program("protoc")
        change(self.recording, ("UPDATE node SET name = ?", (HOSTILE,)), ("UPDATE process SET exe = ?, exit_ns = start_ns", (HOSTILE,)))
        trace = perfetto.Trace(self.exported())
        self.assertIn("rank 0 · node\"',]}\n?[2J?? · pid 100", {row["track"].split(" / ")[0] for row in trace.of("collective")})
        events = json.loads(self.exported("--format", "chrome", name="a.json").read_text())["traceEvents"]
        self.assertEqual(len([event for event in events if event.get("cat") == "collective"]), 400)
        result = run("export", self.recording, "--out", self.folder / "b.pftrace")
        self.assertNotIn("\x1b", result.stderr)

    def test_impossible_rows(self):
        """What a reader leaves out is left out; what ends before it begins has no length."""
        self.need_program("protoc")
        change(self.recording, ("UPDATE collective SET kernel_start_ns = timestamp_ns + 10, kernel_end_ns = timestamp_ns", ()),
               ("UPDATE collective SET duration_ns = -5 WHERE seq = 7", ()), ("UPDATE collective SET timestamp_ns = -1 WHERE seq = 8", ()))
        trace = perfetto.Trace(self.exported())
        self.assertEqual(len(trace.of("collective")), 396)
        kernels = [row for row in trace.instants if row["category"] == "kernel"]
        self.assertEqual({row["notes"]["reversed_ns"] for row in kernels}, {"10"})

    def test_chrome(self):
        trace = json.loads(self.exported("--format", "chrome", name="a.json").read_text())
        phases = {}
        for event in trace["traceEvents"]:
            key = event["ph"], event.get("cat")
            phases[key] = phases.get(key, 0) + 1
        self.assertEqual((phases["X", "collective"], phases["X", "wait"], phases["i", "tcp_event"]), (400, 400, 400))
        self.assertEqual((phases["s", "flow"], phases["f", "flow"]), (2, 2))
        self.assertEqual(phases["C", "counter"], self.count("SELECT 5 * count(*) - 2 FROM tcp_sample") + 400)
        first = min(event["ts"] for event in trace["traceEvents"] if event.get("cat") == "collective")
        self.assertEqual(int(trace["otherData"]["zero_utc_ns"]) + first * 1000, self.count("SELECT min(timestamp_ns) FROM collective"))

    def test_csv_is_that_of_query(self):
        out = self.exported("--format", "csv", name="tables")
        for path in sorted(out.iterdir()):
            header, *rows = list(csv.reader(path.read_text().splitlines(keepends=True)))
            if path.stem not in ("finding", "clock"):
                streamed = "timestamp_ns" in header
                order = f"ORDER BY timestamp_ns, {'event_id' if 'event_id' in header else 'id'}" if streamed else ""
                sql = f"SELECT {', '.join(header)} FROM {path.stem} {order}"
                there = self.done(run("query", self.recording, sql, "--format", "csv")).splitlines()
                here = path.read_text().splitlines()
                self.assertEqual(here if streamed else sorted(here), there if streamed else sorted(there), path)
                self.assertEqual(len(rows), self.count(f"SELECT count(*) FROM {path.stem}"))
        self.assertIn("'=stress", (out / "wait_span.csv").read_text())
        self.assertEqual([row["cause"] for row in csv.DictReader((out / "finding.csv").open())], ["unknown"])
        self.assertEqual(list(csv.DictReader((out / "clock.csv").open())), 
                         [{"node_id": "7", "moved_by_ns": "0", "known_within_ns": "0", "drift_ppm": "", "drift_at_ns": "",
                           "known_by": "same boot"}])
        part = self.exported("--format", "csv", "--from", "+1s", "--to", "+2s", name="part/")
        self.assertEqual(len((part / "collective.csv").read_text().splitlines()), 1 + 2 * 25)
        self.refused(run("export", self.recording, "--format", "csv", "--rank", "1", "--out", self.folder / "x"), USAGE, "query FILE")

    def test_nothing_is_overwritten(self):
        taken = self.folder / "taken"
        taken.write_text("precious")
        (self.folder / "full").mkdir()
        link = self.folder / "link"
        link.symlink_to(self.folder / "nowhere")
        for form, out in [("perfetto", taken), ("chrome", link), ("csv", taken), ("csv", self.folder / "full"), ("perfetto", self.recording)]:
            self.refused(run("export", self.recording, "--format", form, "--out", out), FAILED, out.name, "the output exists", "--out")
        self.assertEqual(taken.read_text(), "precious")
        self.assertFalse((self.folder / "nowhere").exists())

    def test_what_is_not_a_recording_leaves_nothing(self):
        half = recordings.make_half(self.folder / "half.db")
        for path in (half, self.folder / "none.db"):
            for form in ("perfetto", "chrome", "csv"):
                self.refused(run("export", path, "--format", form, "--out", self.folder / "x"), FAILED, path.name)
                self.assertFalse((self.folder / "x").exists())
        for form in ("perfetto", "csv"):
            self.refused(run("export", self.recording, "--format", form, "--out", self.folder / "no" / "x"), FAILED, "a file does not exist")

    def test_a_full_disk_leaves_nothing(self):
        self.need_root()
        disk = self.folder / "disk"
        disk.mkdir()
        script = 'mount -t tmpfs -o size=64k none "$1" && disk=$1 && shift && "$@"; code=$?; ls -A "$disk"; exit $code'
        for form in ("perfetto", "chrome", "csv"):
            result = run("export", recordings.make(self.folder / f"{form}.db", 5000), "--format", form, "--out", disk / "x",
                         prefix=("unshare", "-m", "bash", "-c", script, "-", disk))
            self.refused(result, FAILED, "no space left", "free disk space")

    def test_ctrl_c_leaves_nothing(self):
        recording = recordings.make(self.folder / "long.db", 100_000)
        out = self.folder / "tables"
        export = subprocess.Popen([PROGRAM, "export", recording, "--format", "csv", "--out", out], stderr=subprocess.PIPE, text=True)
        self.addCleanup(export.wait, 10)
        self.addCleanup(export.kill)
        end = time.monotonic() + 20
        while not out.exists() and time.monotonic() < end:
            time.sleep(0.001)
        export.send_signal(signal.SIGINT)
        self.assertIn("interrupted", export.communicate(timeout=20)[1])
        self.assertEqual(export.returncode, FAILED)
        self.assertFalse(out.exists())
