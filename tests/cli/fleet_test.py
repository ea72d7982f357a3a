# SPDX-License-Identifier: Apache-2.0
"""`query`, `nodes` and `explain` with --nodes, where nodes fail: each is named with its reason, the rest is answered."""

import json
import socket
import sqlite3
import subprocess

import recordings
from servers import Served, SimulatedNodes
from stalltrace import DONE, FAILED, PROGRAM, Case, run

FAULTS = {1: "down", 2: "hangs", 3: "stalls", 4: "trickles", 5: "refuses", 6: "garbage", 7: "bad-rows", 8: "version"}
NEWER = 9  # of which the recording has a schema that no version knows yet
WELL = [0, 10, 11, 12, 13]
SILENT = "a node does not answer in time"
REASONS = {1: "a node is down", 2: SILENT, 3: SILENT, 4: SILENT, 5: "a node wants another token", 6: "a node sends garbage",
           7: "a node sends rows that are garbage", 8: "a node speaks another version", 9: "a node has a newer recording"}
LIMIT = ("--node-timeout", "16s")  # explain asks with half of it first; three nodes make each verb wait as long
ENDS_WITHIN = 120  # s; that it never ends is what could be wrong


class NodesThatFail(Case):
    def closed_ports(self, count):
        """Addresses that refuse connections: a socket that does not listen holds the port of each."""
        held = [socket.socket() for _ in range(count)]
        for one in held:
            self.addCleanup(one.close)
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in held]

    def named(self, stderr, failed, nodes):
        """Each of `failed` has a line with its reason, and no other node has one."""
        for node in failed:
            self.assert_says(REASONS[node], stderr, node, address=nodes.addresses[node])
        self.assertEqual(sum(any(address in line for address in nodes.addresses) for line in stderr.splitlines()), len(failed), stderr)

    def test_the_rest_is_answered(self):
        nodes = SimulatedNodes(self.folder / "job", "--nodes", 14, "--ranks-per-node", 1, "--steps", 30, "--plugin", "--fault",
                               "late_rank:rank=12,ms=80,from=10", faults=FAULTS)
        self.addCleanup(nodes.close)
        with sqlite3.connect(nodes.file(NEWER)) as database:
            database.execute("PRAGMA user_version = 99999")
        database.close()
        asked = {"query": ("query", "SELECT count(*) AS n FROM collective", "--format", "json"), "nodes": ("nodes", "--format", "json"),
                 "explain": ("explain", "--json"), "files": ("explain", nodes.file(0), "--json")}
        asking = {name: subprocess.Popen([PROGRAM, *map(str, words), "--nodes", nodes.list, *LIMIT], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name, words in asked.items()}
        answers = {}
        for name, process in asking.items():
            self.addCleanup(process.kill)
            stdout, stderr = process.communicate(timeout=ENDS_WITHIN)
            self.assertEqual(process.returncode, DONE, stderr)
            answers[name] = (json.loads(stdout), stderr)

        rows, stderr = answers["query"]
        self.named(stderr, [1, 2, 3, 4, 5, 6, 8, NEWER], nodes)
        self.assertEqual([row["node"] for row in rows], [f"node{node}" for node in (0, 7, *WELL[1:])])
        rows, stderr = answers["nodes"]
        self.named(stderr, [1, 2, 3, 4, 5, 6, 8], nodes)
        self.assertEqual([row["recording"] for row in rows], [nodes.file(node).name for node in (0, 7, NEWER, *WELL[1:])])
        self.assert_says("a newer recording", rows[2]["state"])
        report, stderr = answers["explain"]
        self.named(stderr, range(1, 10), nodes)
        self.assert_finds(report, [nodes.file(node) for node in WELL])
        report, stderr = answers["files"]
        self.named(stderr, [1, 2, 3, 4, 5, 6, 8, NEWER], nodes)
        self.assert_finds(report, [nodes.file(node) for node in (0, 7, *WELL[1:])])

    def assert_finds(self, report, files):
        """What the files of the nodes that answer show."""
        here = json.loads(self.done(run("explain", *files, "--json")))
        self.assertEqual(report["findings"], here["findings"])
        self.assertEqual((here["findings"][0]["cause"], here["findings"][0]["culprit"]["rank"]), ("late_rank", 12))

    def test_many_that_fail_alike_are_named_with_one_reason(self):
        served = Served(recordings.make(self.folder / "a.db"), "--listen", "127.0.0.1:0")
        self.addCleanup(served.close)
        closed = self.closed_ports(30)
        result = run("nodes", "--nodes", ",".join([*closed, served.address]))
        self.assertIn("a.db", self.done(result))
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 21, result.stderr)
        for address in closed:
            line = next(line for line in lines if f"{address}:" in line or f"{address}," in line)
            self.assertIn("refused", line)

    def test_where_none_answers_each_is_named(self):
        served = Served(recordings.make(self.folder / "a.db"), "--listen", "127.0.0.1:0")
        self.addCleanup(served.close)
        closed = self.closed_ports(2)
        result = run("nodes", "--nodes", f"{closed[0]},https://{served.address}")
        self.assertEqual((result.returncode, result.stdout), (FAILED, ""))
        first, second, last = result.stderr.splitlines()
        self.assertIn(f"{closed[0]}:", first)
        self.assertIn(served.address, second)
        self.assert_says("no node answers", last, count=2)
        self.refused(run("nodes", "--nodes", ",".join(closed)), FAILED, closed[0])
