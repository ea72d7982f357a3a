# SPDX-License-Identifier: Apache-2.0
"""Each fault of the lab at a high dose: the finding names the cause and the location in truth.json."""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from lab import LOUD, LabRun, location_of
from stalltrace import DONE, FINDINGS, ROOT, Case, run
from unprivileged import run_as_nobody


class Faults(Case):
    def explain(self, name):
        self.need_root()
        lab = LabRun(self.folder / name, LOUD[name])
        self.assertTrue(lab.truth["run"]["completed"], lab.truth["run"]["problem"])
        return lab

    def assert_cause(self, lab, cause):
        """Exactly this cause is reported; returns the location of the most expensive finding."""
        reported = [location_of(finding) for finding in lab.findings]
        self.assertEqual({finding["cause"] for finding in lab.findings}, {cause}, reported)
        return lab.findings[0]

    def assert_rank(self, lab, cause):
        fault = lab.truth["faults"][0]
        finding = self.assert_cause(lab, cause)
        node = lab.truth["nodes"][fault["rank"]]
        culprit = {"node": node["node"], "rank": node["rank"], "pid": node["pid"]}
        self.assertEqual(finding["culprit"], culprit, location_of(finding))
        self.assertLess(finding["window"]["from_ns"], fault["to_ns"])
        self.assertGreater(finding["window"]["to_ns"], fault["from_ns"])
        self.assertGreater(finding["stall_ms"], 0)
        return finding

    def test_a_healthy_run_has_no_findings(self):
        lab = self.explain("none")
        self.assertEqual([location_of(finding) for finding in lab.findings], [])
        self.assertTrue(lab.report["healthy"])
        self.assertEqual(lab.report["recording"]["ranks"], 4)

    def test_process_stopped(self):
        self.assert_rank(self.explain("process_stopped"), "process_stopped")

    def test_a_slow_device(self):
        """Its CPU calls in time; the profiler plugin reports when its kernels begin."""
        self.need_root()
        lab = LabRun(self.folder / "lab", "slow_device:rank=2,ms=80", steps=36, more=("--plugin",))
        self.assertTrue(lab.truth["run"]["completed"], lab.truth["run"]["problem"])
        self.assertTrue(lab.truth["faults"][0]["injected"])
        self.assertEqual(self.assert_rank(lab, "slow_device")["culprit"]["rank"], 2)

    def test_cpu_contention_names_what_ran(self):
        lab = self.explain("cpu_contention")
        finding = self.assert_rank(lab, "cpu_contention")
        self.assertIn("stress-cpu", finding["summary"] + str(finding["evidence"]))


class PacketLoss(Case):
    """One run with 2 % loss towards rank 2's node, checked in every output format."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        cls.lab_folder = pathlib.Path(tempfile.mkdtemp(prefix="stalltrace-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.lab_folder, ignore_errors=True)
        cls.lab_folder.chmod(0o755)
        cls.lab = LabRun(cls.lab_folder / "lab", LOUD["packet_loss"])
        cls.merged = cls.lab_folder / "stall.db"
        merged = run("merge", *cls.lab.recordings, "--out", cls.merged)
        assert merged.returncode == DONE, merged.stderr

    def test_the_loss_really_happened(self):
        fault = self.lab.truth["faults"][0]
        self.assertTrue(fault["injected"])
        self.assertGreater(fault["packets_dropped"], 0)

    def test_cause_and_location(self):
        reported = [location_of(finding) for finding in self.lab.findings]
        self.assertEqual({finding["cause"] for finding in self.lab.findings}, {"packet_loss"}, reported)
        finding = self.lab.findings[0]
        culprit, link = finding["culprit"], finding["link"]
        if culprit is not None:
            self.assertEqual((culprit["node"], culprit["rank"]), ("node2", 2), reported)
        else:
            self.assertEqual(link["dst_rank"], 2, reported)

    def test_evidence_and_cost(self):
        finding = self.lab.findings[0]
        self.assertGreater(finding["stall_ms"], 100)
        self.assertGreater(finding["collectives_affected"], 0)
        self.assertTrue(finding["evidence"])
        self.assertTrue(finding["summary"] and finding["remedy"])
        self.assertIn("packet", self.lab.text)

    def test_the_drops_have_their_side(self):
        """The host's own firewall drops the packets."""
        text = str(self.lab.findings[0]["evidence"])
        self.assert_says("dropped on the way in", text)
        self.assertIn("NETFILTER_DROP", text)

    def test_every_network_event_belongs_to_the_sockets_owner(self):
        owners = {node["node"]: (node["pid"], node["rank"]) for node in self.lab.truth["nodes"]}
        seen = 0
        for node, (pid, rank) in self.lab.rows("SELECT pid, rank FROM tcp_events"):
            self.assertEqual((pid, rank), owners[node["node"]])
            seen += 1
        self.assertGreater(seen, 0)
        retransmits = sum(1 for _ in self.lab.rows("SELECT 1 FROM tcp_events WHERE event = 'tcp_retransmit_skb'"))
        self.assertGreater(retransmits, 0)

    def test_a_launch_is_never_passed_off_as_a_duration(self):
        for _, (completion, duration, launch) in self.lab.rows(
                "SELECT completion, duration_ns, launch_ns FROM nccl_events WHERE op = 'ALL_REDUCE'"):
            self.assertIn(completion, ("sync", "network", "open"))
            self.assertEqual(duration is None, completion == "open")
            if duration is not None:
                self.assertGreaterEqual(duration, launch)

    def test_every_rank_of_an_instance_is_there(self):
        sequences = {}
        for node, (comm, seq) in self.lab.rows(
                "SELECT comm_id_hash, seq FROM nccl_events WHERE op = 'ALL_REDUCE' AND completion <> 'open'"):
            self.assertIsNotNone(comm)
            sequences.setdefault((comm, seq), set()).add(node["rank"])
        self.assertGreater(len(sequences), 100)
        partial = [key for key, ranks in sequences.items() if ranks != {0, 1, 2, 3}]
        self.assertEqual(partial, [])

    def test_merged_says_the_same(self):
        report = json.loads(self.done(run("explain", self.merged, "--json")))
        self.assertEqual([location_of(finding) for finding in report["findings"]],
                         [location_of(finding) for finding in self.lab.findings])
        self.assertEqual(run("explain", self.merged, "--exit-code").returncode, FINDINGS)

    def test_the_published_queries_run_verbatim(self):
        for name in ("retransmits", "slowest"):
            sql = (ROOT / "docs" / "queries" / f"{name}.sql").read_text()
            ours = list(csv.reader(io.StringIO(self.done(run("query", self.merged, sql, "--format", "csv")))))
            shell = subprocess.run(["sqlite3", "-header", "-csv", self.merged, sql], capture_output=True, text=True,
                                   check=True)
            theirs = list(csv.reader(io.StringIO(shell.stdout)))
            with self.subTest(query=name):
                self.assertEqual(ours[0], theirs[0])
                self.assertEqual(len(ours), len(theirs))
                self.assertGreater(len(ours), 1)
                for our_row, their_row in zip(ours[1:], theirs[1:]):
                    self.assertEqual([self.number(field) for field in our_row],
                                     [self.number(field) for field in their_row])

    @staticmethod
    def number(field):
        """Fields compare as numbers: shells print the last digit of a fraction differently."""
        try:
            return round(float(field), 6)
        except ValueError:
            return field

    def test_slow_allreduces_have_their_retransmits(self):
        sql = (ROOT / "docs" / "queries" / "retransmits.sql").read_text()
        rows = json.loads(self.done(run("query", self.merged, sql, "--format", "json")))
        self.assertGreater(max(row["retransmits_in_window"] for row in rows), 0)
        self.assertTrue(all(row["ms"] > 50 and row["rank"] in range(4) for row in rows))

    def test_reading_is_unprivileged(self):
        self.merged.chmod(0o644)
        self.done(run_as_nobody(self.folder, "explain", self.merged))

    def test_nothing_is_left_of_the_lab(self):
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("stalltrace-", names)
