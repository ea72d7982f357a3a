# SPDX-License-Identifier: Apache-2.0
"""lab simulate: what it writes is read and explained as any recordings are, and truth.json says what was wrong."""

import json

from stalltrace import DONE, FAILED, FINDINGS, USAGE, Case, run

STEPS = ("--steps", 40)


class Simulate(Case):
    def simulate(self, *words):
        out = self.folder / "job"
        self.done(run("lab", "simulate", "--out", out, *STEPS, *words))
        return sorted(out.glob("node*.db")), json.loads((out / "truth.json").read_text())

    def explain(self, recordings, code):
        result = run("explain", "--json", "--exit-code", *recordings)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_a_healthy_mesh(self):
        recordings, truth = self.simulate("--parallel", "tp=2,pp=2,dp=2", "--plugin", "--no-tcp")
        self.assertEqual(len(recordings), 2)
        self.assertEqual(truth["faults"], [])
        self.assertEqual(len(truth["nodes"]), 8)
        self.assertEqual(truth["nodes"][5]["recording"], "node1.db")
        self.assertTrue(truth["run"]["completed"])
        report = self.explain(recordings, DONE)
        self.assertEqual(report["findings"], [])

    def test_a_fault(self):
        recordings, truth = self.simulate("--nodes", 1, "--ranks-per-node", 8, "--plugin",
                                          "--fault", "slow_device:rank=5,ms=80,from=10")
        fault = truth["faults"][0]
        self.assertEqual((fault["cause"], fault["rank"], fault["injected"]), ("slow_device", 5, True))
        finding = self.explain(recordings, FINDINGS)["findings"][0]
        self.assertEqual((finding["cause"], finding["culprit"]["rank"]), ("slow_device", 5))
        self.assertLess(fault["from_ns"], finding["window"]["to_ns"])
        self.refused(run("lab", "simulate", "--out", self.folder / "job"), FAILED, "node0.db")

    def test_what_cannot_be(self):
        out = ("--out", self.folder / "none")
        self.refused(run("lab", "simulate", *out, "--shape", "square"), USAGE, "square")
        self.refused(run("lab", "simulate", *out, "--parallel", "tp=3,pp=1,dp=1"), USAGE, "tp=3,pp=1,dp=1")
        self.refused(run("lab", "simulate", *out, "--fault", "late_rank:rank=99"), USAGE, "rank=99")
        self.assertFalse((self.folder / "none").exists())
