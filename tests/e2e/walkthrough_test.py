# SPDX-License-Identifier: Apache-2.0
"""A fleet of real agents: docs/walkthrough.md, whose commands run as they stand there, and agents whose servers fail."""

import contextlib
import json
import os
import signal
import subprocess
import time

import recordings
from servers import ServedLab
from stalltrace import BUILD, DONE, ROOT, Case, run

PAGE = ROOT / "docs" / "walkthrough.md"

FAULTS = {0: "down", 1: "hangs", 2: "garbage", 3: "version"}
REASONS = {"down": "a node is down", "hangs": "a node does not answer in time", "garbage": "a node sends garbage",
           "version": "a node speaks another version"}
WELL = (4, 5)
NODE_TIMEOUT = 4  # s; explain asks first with half of it


class Walkthrough(Case):
    def test_every_command_of_the_page(self):
        """The fleet's findings are those of the merged file."""
        self.need_root()
        commands = [line.strip()[2:] for line in PAGE.read_text().splitlines() if line.startswith("    $ ")]
        self.assertGreaterEqual(len(commands), 11)
        script = "set -e\n" + "\n".join(commands)
        shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}, start_new_session=True)
        try:
            shell.wait(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):  # nothing is left where all went well
                for _ in range(150):  # a lab that is ended removes its network first
                    os.killpg(shell.pid, signal.SIGTERM)
                    time.sleep(0.2)
        output, errors = shell.communicate(timeout=20)
        log = (self.folder / "lab.log").read_text()
        self.assertEqual(shell.returncode, 0, output + errors + log)
        self.assert_says("agents answer after the job", log)
        self.assertEqual([name for name in ("node0", "node1", "node2", "node3") if name not in output], [], output)
        last, *_ = (self.folder / "times_last.txt").read_text().splitlines()[2:]
        self.assertEqual(last.split()[0], "2")
        fleet, merged = (json.loads((self.folder / name).read_text()) for name in ("fleet.json", "merged.json"))
        self.assertEqual(fleet["findings"], merged["findings"])
        self.assertEqual((fleet["recording"]["ranks"], fleet["recording"]["collectives"]), (4, merged["recording"]["collectives"]))
        costliest = max(fleet["findings"], key=lambda finding: finding["stall_ms"])
        self.assertEqual((costliest["cause"], costliest["culprit"]["rank"]), ("late_rank", 2))
        self.assertGreater((self.folder / "job.pftrace").stat().st_size, 10_000)
        self.assertFalse((self.folder / "job" / "token").exists())


class AgentsThatFail(Case):
    maxDiff = None

    def asked(self, lab, *words):
        """The answer as JSON. It comes within the time limit and a second, and each node that failed is named with its reason."""
        begin = time.monotonic()
        result = lab.ask(*words, "--node-timeout", f"{NODE_TIMEOUT}s")
        took = time.monotonic() - begin
        answer = json.loads(self.done(result))
        self.assertLess(took, NODE_TIMEOUT + 1, result.stderr)
        for node, fault in FAULTS.items():
            self.assert_says(REASONS[fault], result.stderr, fault, address=lab.addresses[node])
        self.assertEqual([node for node in WELL if lab.addresses[node] in result.stderr], [], result.stderr)
        return answer

    def test_the_rest_is_answered_in_time(self):
        self.need_root()
        lab = ServedLab(self.folder / "job", "--ranks", 6, "--steps", 45, "--fault", "late_rank:rank=5,ms=60", faults=FAULTS)
        self.addCleanup(lab.close)
        rows = self.asked(lab, "query", "SELECT rank, count(*) AS calls FROM collective GROUP BY rank", "--format", "json")
        report = self.asked(lab, "explain", "--json")
        code, errors = lab.close()
        self.assertEqual(code, DONE, errors)
        files = [lab.out / f"node{node}.db" for node in WELL]
        calls = [recordings.rows(file, "SELECT rank, count(*) FROM collective GROUP BY rank") for file in files]
        self.assertEqual([(row["node"], row["rank"], row["calls"]) for row in rows],
                         [(file.stem, *row) for file, found in zip(files, calls) for row in found])
        self.assertGreater(sum(row["calls"] for row in rows), 2 * 45)
        here = json.loads(self.done(run("explain", *files, "--json")))
        for finding in report["findings"] + here["findings"]:
            del finding["severity"]  # by the share of the recordings' time, which went on after the question
        self.assertEqual(report["findings"], here["findings"])
        for key in ("nodes", "ranks", "collectives"):
            self.assertEqual(report["recording"][key], here["recording"][key], key)
