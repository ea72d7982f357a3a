# SPDX-License-Identifier: Apache-2.0
"""query, explain and merge: valid input, and one clear line for every invalid one."""

import csv
import hashlib
import io
import json
import re
import sqlite3
import time

import recordings
from stalltrace import DONE, FAILED, FINDINGS, USAGE, Case, run
from unprivileged import run_as_nobody

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT COUNT(*) FROM n"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Reading(Case):
    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db")


class Query(Reading):
    def test_formats(self):
        sql = "SELECT op, rank, NULL AS absent FROM nccl_events WHERE rank = 1 LIMIT 2"
        self.assertEqual(json.loads(self.done(run("query", self.recording, sql, "--format", "json"))),
                         [{"op": "ALL_REDUCE", "rank": 1, "absent": None}] * 2)
        rows = list(csv.reader(io.StringIO(self.done(run("query", self.recording, sql, "--format", "csv")))))
        self.assertEqual(rows[0], ["op", "rank", "absent"])
        self.assertEqual(rows[1][:2], ["ALL_REDUCE", "1"])
        self.assertIn("NULL", self.done(run("query", self.recording, sql)))

    def test_csv_fits_a_shell(self):
        result = run("query", self.recording, "SELECT name FROM event_name LIMIT 1", "--format", "csv")
        name = self.done(result).split("\n")[1]
        self.assertRegex(name, r"^[\w-]+:\d+$")
        self.done(run("explain", self.recording, "--instance", name))

    def test_no_rows_is_no_error(self):
        self.done(run("query", self.recording, "SELECT * FROM tcp_events"))

    def test_what_is_not_a_recording(self):
        for what, path, word in recordings.damaged(self.folder):
            with self.subTest(what=what):
                self.refused(run("query", path, "SELECT 1"), FAILED, word)

    def test_a_recording_cut_in_half(self):
        half = recordings.make_half(self.folder / "half.db")
        result = run("query", half, "SELECT COUNT(*), SUM(duration_ns) FROM collective")
        self.refused(result, FAILED, "half.db")

    def test_statements_that_write_are_refused_and_change_nothing(self):
        before = digest(self.recording)
        for sql in ["INSERT INTO meta VALUES('a', 'b')", "UPDATE collective SET rank = 0", "DELETE FROM collective",
                    "DROP TABLE collective", "CREATE TABLE t(a)", "CREATE TEMP TABLE t(a)", "VACUUM",
                    f"VACUUM INTO '{self.folder}/copy.db'", f"ATTACH '{self.folder}/other.db' AS o",
                    "PRAGMA journal_mode=DELETE", "PRAGMA writable_schema=1", "SELECT load_extension('x')",
                    f"SELECT writefile('{self.folder}/x', 'y')", "BEGIN IMMEDIATE", "REINDEX"]:
            with self.subTest(sql=sql):
                self.refused(run("query", self.recording, sql), USAGE)
        self.assertEqual(digest(self.recording), before)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.db"])

    def test_a_second_statement_is_refused(self):
        self.refused(run("query", self.recording, "SELECT 1; SELECT 2"), USAGE)

    def test_wrong_sql(self):
        self.refused(run("query", self.recording, "SELEKT 1"), USAGE, "syntax error", "sqlite_master")
        self.refused(run("query", self.recording, "SELECT * FROM nowhere"), USAGE, "nowhere", "sqlite_master")
        self.refused(run("query", self.recording, "SELECT * FROM collectives"), USAGE, "suggests collective")
        self.refused(run("query", self.recording, ".tables"), USAGE, "sqlite_master")
        self.refused(run("query", self.recording, "SHOW TABLES"), USAGE, "sqlite_master")
        self.refused(run("query", self.recording, "SELECT frobnicate(rank) FROM collective"), USAGE, "frobnicate()", "sqlite.org")
        self.refused(run("query", self.recording, "SELECT", "1"), USAGE, "put it in quotes")
        self.refused(run("query", "SELECT 1", self.recording), USAGE, "a word is no file",
                     "a command line to use", word="SELECT 1", words=f"query {self.recording} 'SELECT 1'")
        gone = self.folder / "not there.db"
        self.refused(run("query", gone, "SELECT 1"), FAILED, gone.name, "no such file")
        self.refused(run("query", gone), USAGE, "an argument is missing", argument="SQL")
        self.refused(run("query", "select 1"), USAGE, "an argument is missing", argument="FILE")
        self.refused(run("query", self.recording, ""), USAGE)

    def test_a_query_without_end_meets_its_time_limit(self):
        started = time.monotonic()
        self.refused(run("query", self.recording, ENDLESS, "--timeout", "500ms"), FAILED, "500 ms")
        self.assertLess(time.monotonic() - started, 20)

    def test_reading_needs_no_privilege(self):
        self.need_root()
        self.recording.chmod(0o644)
        self.done(run_as_nobody(self.folder, "query", self.recording, "SELECT COUNT(*) FROM collective"))

    def test_a_folder_that_is_read_only(self):
        self.need_root()
        self.recording.chmod(0o444)
        self.folder.chmod(0o555)
        self.done(run("query", self.recording, "SELECT 1"))

    def test_a_file_one_may_not_read(self):
        self.need_root()
        self.recording.chmod(0o600)
        self.refused(run_as_nobody(self.folder, "query", self.recording, "SELECT 1"), FAILED, "a.db", "ermission")


class Explain(Reading):
    def test_a_healthy_recording(self):
        report = json.loads(self.done(run("explain", self.recording, "--json", "--exit-code")))
        self.assertEqual((report["schema"], report["healthy"], report["findings"]), (1, True, []))
        self.assertEqual(report["judged"]["collectives"], report["recording"]["collectives"])
        self.assertEqual(report["recording"]["ranks"], 2)
        self.assertEqual(report["recording"]["nodes"], 1)

    def test_text_has_no_escape_codes_in_a_pipe(self):
        self.assertNotIn("\x1b", self.done(run("explain", self.recording)))

    def test_what_is_not_a_recording(self):
        for what, path, word in recordings.damaged(self.folder):
            with self.subTest(what=what):
                self.refused(run("explain", path), FAILED, word)

    def test_one_bad_among_good(self):
        (self.folder / "bad.db").write_text("no")
        self.refused(run("explain", self.recording, self.folder / "bad.db"), FAILED, "bad.db")

    def test_a_recording_cut_in_half(self):
        self.refused(run("explain", recordings.make_half(self.folder / "half.db")), FAILED, "half.db")

    def test_time_window(self):
        """The recording begins at 2026-01-31T02:47:00Z and stalls once, from 4 s to 7 s."""
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        for words, code in [([], FINDINGS), (["--from", "+3s"], FINDINGS), (["--from", "+8s"], DONE), (["--to", "+3s"], DONE),
                            (["--to", "2026-01-31T02:47:03Z"], DONE), (["--from", "2026-01-31T02:47:03.5Z"], FINDINGS)]:
            with self.subTest(words=words):
                self.assertEqual(run("explain", stalled, "--exit-code", *words).returncode, code)

    def test_the_times_of_a_report_are_those_of_the_flags(self):
        """The interval is also right if the agent began ten minutes before the job, and in a merged recording."""
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        with sqlite3.connect(stalled) as database:
            database.execute("UPDATE node SET started_ns = started_ns - 600000000000")
        database.close()
        merged = self.folder / "merged.db"
        self.assertEqual(run("merge", stalled, "--out", merged).returncode, DONE)
        for recording in (stalled, merged):
            report = self.done(run("explain", recording))
            first, last = re.search(r"\((\+[\d.]+s) to (\+[\d.]+s)\s+into\s+the\s+recording\)", report).groups()
            window = ["--from", first, "--to", last]
            whole, part = (json.loads(self.done(run("explain", recording, "--json", *words)))["findings"] for words in ([], window))
            self.assertEqual([(one["cause"], one["culprit"], one["link"]) for one in part],
                             [(one["cause"], one["culprit"], one["link"]) for one in whole])
            self.assertAlmostEqual(part[0]["stall_ms"], whole[0]["stall_ms"], delta=1)

    def test_a_window_is_judged_by_itself(self):
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        whole = json.loads(self.done(run("explain", stalled, "--json")))
        part = json.loads(self.done(run("explain", stalled, "--json", "--from", "+1s", "--to", "+2s")))
        self.assertIs(part["healthy"], True)
        self.assertEqual(part["recording"], whole["recording"])
        self.assertEqual(part["judged"]["to_ns"] - part["judged"]["from_ns"], 1_000_000_000)
        self.assertAlmostEqual(part["judged"]["collectives"], 2 * 25, delta=4)  # two ranks, one every 40 ms
        self.assert_says("share of the window", self.done(run("explain", stalled, "--from", "+1s", "--to", "+2s")))
        during = self.done(run("explain", stalled, "--from", "+5s", "--to", "+6s"))
        self.assert_says("share of the judged time", during)

    def test_nothing_judged_is_not_healthy(self):
        with sqlite3.connect(self.recording) as database:
            database.execute("UPDATE node SET ended_ns = started_ns + 9000000000")
        database.close()
        for start in ("+100s", "+2500000h"):
            self.refused(run("explain", self.recording, "--from", start), FAILED, "--from", "nothing was judged")
        self.refused(run("explain", self.recording, "--to", "2020-01-01T00:00:00Z"), FAILED, "--to", "nothing was judged")
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        with sqlite3.connect(stalled) as database:
            database.execute("DELETE FROM collective")
        database.close()
        self.assert_says("nothing to judge", self.done(run("explain", stalled)))
        result = run("explain", stalled, "--json", "--exit-code")
        self.assertEqual(result.returncode, FAILED, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["healthy"], report["judged"]["collectives"]), (None, 0))

    def test_a_stall_without_evidence_is_unknown(self):
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        report = json.loads(self.done(run("explain", stalled, "--json")))
        self.assertEqual([finding["cause"] for finding in report["findings"]], ["unknown"])

    def test_one_instance(self):
        stalled = recordings.make(self.folder / "stalled.db", stalled=100)
        slow, usual = [json.loads(self.done(run("query", stalled, "--format", "json",
            f"SELECT name, event_id FROM collective JOIN event_name USING(event_id) ORDER BY duration_ns {order} LIMIT 1")))[0]
            for order in ("DESC", "ASC")]
        for word in (slow["name"], str(slow["event_id"])):
            seen = json.loads(self.done(run("explain", stalled, "--instance", word, "--json")))["instance"]
            self.assertEqual([part["finding"] for part in seen["parts"] if part["stall"]], [1])
            self.assertGreater(seen["like"]["count"], 50)
        self.assert_says("counted in a finding", self.done(run("explain", stalled, "--instance", slow["name"])))
        self.assert_says("no stall", self.done(run("explain", stalled, "--instance", usual["name"])))
        self.assert_says("outside of the window", self.done(run("explain", stalled, "--instance", slow["name"], "--to", "+1ms")))

    def test_an_instance_that_is_not_there(self):
        self.refused(run("explain", self.recording, "--instance", "nowhere:1"), FAILED, "nowhere")
        self.refused(run("explain", self.recording, "--instance", "664"), USAGE, "a word is no event id", "node3:1535", "seq", word="664")
        self.refused(run("explain", self.recording, "--instance", "yesterday"), USAGE, "yesterday")

    def test_bad_times(self):
        self.refused(run("explain", self.recording, "--from", "yesterday"), USAGE, "--from", "yesterday")
        self.refused(run("explain", self.recording, "--from", "+3s", "--to", "+1s"), USAGE, "--from", "--to")


class Merge(Reading):
    def test_two_into_one(self):
        second = self.folder / "b.db"
        second.write_bytes(self.recording.read_bytes())
        before = digest(self.recording)
        result = run("merge", self.recording, second, "--out", self.folder / "all.db")
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertEqual(result.stdout, "")
        count = self.done(run("query", self.folder / "all.db", "SELECT COUNT(*) FROM collective", "--format", "csv"))
        self.assertEqual(count.split()[-1], "400")  # the same node run given twice is kept once
        self.assertEqual(digest(self.recording), before)

    def test_an_existing_output_is_kept(self):
        out = self.folder / "all.db"
        out.write_text("precious")
        result = run("merge", self.recording, "--out", out)
        self.refused(result, FAILED, "exists")
        self.assertEqual(result.stderr.count("all.db"), 1, result.stderr)
        self.assertEqual(out.read_text(), "precious")

    def test_the_output_must_not_be_an_input(self):
        before = digest(self.recording)
        self.refused(run("merge", self.recording, "--out", self.recording), FAILED, "a.db")
        self.assertEqual(digest(self.recording), before)

    def test_what_is_not_a_recording(self):
        for what, path, word in recordings.damaged(self.folder):
            with self.subTest(what=what):
                self.refused(run("merge", self.recording, path, "--out", self.folder / "all.db"), FAILED, word)
                self.assertFalse((self.folder / "all.db").exists())

    def test_a_recording_cut_in_half_leaves_no_output(self):
        half = recordings.make_half(self.folder / "half.db")
        self.refused(run("merge", self.recording, half, "--out", self.folder / "all.db"), FAILED, "half.db")
        self.assertFalse((self.folder / "all.db").exists())

    def test_no_out(self):
        self.refused(run("merge", self.recording), USAGE, "an argument is missing", argument="--out FILE")

    def test_a_folder_that_does_not_exist(self):
        self.refused(run("merge", self.recording, "--out", self.folder / "no" / "all.db"), FAILED, "all.db")

    def test_a_folder_one_may_not_write(self):
        self.need_root()
        self.folder.chmod(0o755)
        self.refused(run_as_nobody(self.folder, "merge", self.recording, "--out", self.folder / "all.db"), FAILED,
                     "all.db", "ermission")

    def test_a_full_disk(self):
        self.need_root()
        recordings.make(self.folder / "big.db", 20000)
        disk = self.folder / "disk"
        disk.mkdir()
        script = 'mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"'
        result = run("merge", self.folder / "big.db", "--out", disk / "all.db",
                     prefix=("unshare", "--mount", "sh", "-c", script, "sh", disk))
        self.refused(result, FAILED, "all.db", "full")


class Import(Reading):
    def test_a_recording_is_no_profiler_file(self):
        self.refused(run("import", self.recording, "--out", self.folder / "x.db"), USAGE, "a recording already",
                     "a command line to use", words=f"explain {self.recording}")
        self.assertFalse((self.folder / "x.db").exists())

    def test_a_pattern_that_matches_nothing(self):
        self.refused(run("import", self.folder / "*.profiler", "--out", self.folder / "x.db"), FAILED, "no file matches",
                     "NCCL_PROFILER_PLUGIN")

    def test_a_file_that_is_not_there(self):
        result = run("import", self.folder / "nosuch.profiler", "--out", self.folder / "x.db")
        self.assertEqual(result.returncode, FAILED)
        self.assert_says("give profiler files", result.stderr.splitlines()[-1])
        self.assertFalse((self.folder / "x.db").exists())
