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

    def test_merged_in_any_order(self):
        """Merging is associative and idempotent: the same findings and numbers, whatever was merged first or twice."""
        out = self.folder / "job"
        self.done(run("lab", "simulate", "--out", out, "--nodes", 3, "--ranks-per-node", 2, "--steps", 24, "--plugin",
                      "--clock-error", "20ms", "--fault", "late_rank:rank=3,ms=300,from=8"))
        a, b, c = sorted(out.glob("node*.db"))
        self.made = 0

        def merged(*inputs):
            self.made += 1
            path = self.folder / f"merged{self.made}.db"
            self.done(run("merge", *inputs, "--out", path))
            return path

        expected = self.explain([a, b, c], FINDINGS)
        self.assertEqual((expected["findings"][0]["cause"], expected["findings"][0]["culprit"]["rank"]), ("late_rank", 3))
        for recordings in ([merged(merged(a, b), c)], [merged(a, merged(b, c))], [merged(c, c, merged(b, a, c))],
                           [merged(a, b), merged(b, c)]):
            self.assertEqual(self.explain(recordings, FINDINGS), expected)

    def test_pushed(self):
        recordings, _ = self.simulate("--nodes", 2, "--ranks-per-node", 1)
        shared = self.folder / "shared"
        self.refused(run("push", recordings[0], "--to", shared), FAILED, str(shared))
        shared.mkdir()
        self.done(run("push", *recordings, "--to", shared))
        copies = sorted(shared.iterdir())
        self.assertEqual([copy.name.split("-")[0] for copy in copies], ["node0", "node1"])
        self.assertEqual([copy.read_bytes() for copy in copies], [path.read_bytes() for path in recordings])
        self.assertEqual([copy.stat().st_mode & 0o777 for copy in copies], [0o600, 0o600])
        again = run("push", recordings[1], "--to", shared)
        self.done(again)
        self.assertIn(str(copies[1]), again.stderr)
        self.assertEqual(sorted(shared.iterdir()), copies)
