# SPDX-License-Identifier: Apache-2.0
"""A short campaign: draws are run, scored and stored, and not run again; Ctrl-C leaves nothing behind."""

import json
import signal
import subprocess
import time

from stalltrace import FAILED, PROGRAM, Case, run


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


class Matrix(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.out = self.folder / "matrix"

    def draws(self):
        return [json.loads(line) for line in (self.out / "draws.jsonl").read_text().splitlines()]

    def campaign(self, runs):
        return run("lab", "matrix", "--seed", 11, "--runs", runs, "--only", "process_stopped 1 s", "--out", self.out,
                   timeout=240)

    def test_draws_are_run_scored_and_written(self):
        table = self.done(self.campaign(1))
        first = self.draws()
        self.assertEqual([draw["verdict"] for draw in first], ["right"], first)
        self.assertEqual(first[0]["faults"][0]["reported"], "process_stopped")
        self.assertGreater(first[0]["faults"][0]["cost_ms"], 500)
        self.assertRegex(first[0]["program"], "^[0-9.]+, sha256:[0-9a-f]{64}$")
        self.assertIn("| process_stopped 1 s | loud | 1 | 1 | 0 | 0 | 0 |", table)
        self.assertEqual((self.out / "matrix.md").read_text(), table)
        self.assertEqual(list((self.out / "draw0000").glob("*.db")), [], "a right draw keeps no recording")
        self.done(self.campaign(2))
        second = self.draws()
        self.assertEqual(second[0], first[0], "what was done is not done again")
        self.assertEqual(len(second), 2)
        self.assertEqual(json.loads((self.out / "matrix.json").read_text())["total"]["draws"], 2)
        self.assertNotIn("stalltrace-", namespaces())

    def test_recordings_that_are_kept_are_judged_with_moved_evidence(self):
        self.done(run("lab", "matrix", "--seed", 11, "--runs", 1, "--only", "packet_loss 2 % into a node", "--keep", "--out", self.out,
                      timeout=240))
        table = self.done(run("lab", "matrix", "--shift", "5s", "--out", self.out, timeout=240))
        self.assertEqual((self.out / "shift.md").read_text(), table)
        line = json.loads((self.out / "shift.jsonl").read_text())
        self.assertEqual((line["draw"], line["setting"], line["problem"]), (0, "packet_loss 2 % into a node", ""))
        self.assertGreater(sum(cause["stalls"] for cause in line["causes"] if cause["cause"] == "packet_loss"), 0)
        self.assertLessEqual(line["explained_falsely"], line["judged"])

    def test_an_interruption_leaves_nothing_behind(self):
        process = subprocess.Popen(
            [PROGRAM, "lab", "matrix", "--runs", "3", "--only", "healthy", "--out", self.out],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while "stalltrace-node3" not in namespaces() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, FAILED, errors)
        self.assertIn("interrupted", errors.splitlines()[-1])
        self.assertNotIn("stalltrace-", namespaces())
        self.assertEqual(self.draws(), [])
