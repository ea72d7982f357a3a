# SPDX-License-Identifier: Apache-2.0
"""lab simulate: what it writes is read and explained as any recordings are, and truth.json says what was wrong."""

import json

from servers import SimulatedNodes
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

    def test_a_fault_of_the_whole_run(self):
        """It is its own baseline, and found beside a run that was right. A healthy run beside another gives nothing."""
        runs = {}
        for name, ranks, words in (("right", 2, ()), ("healthy", 2, ("--seed", 7)), ("other", 1, ()),
                                   ("slow", 2, ("--seed", 7, "--fault", "slow_link:node=2,factor=4,from=0"))):
            runs[name] = self.folder / name
            self.done(run("lab", "simulate", "--out", runs[name], "--nodes", 4, "--ranks-per-node", ranks, *STEPS, "--plugin", *words))
        slow = sorted(runs["slow"].glob("node*.db"))
        self.assertNotIn("like", self.explain(slow, DONE))
        report = self.explain(["--like", runs["right"], *slow], FINDINGS)
        finding = report["findings"][0]
        self.assertEqual((finding["cause"], finding["link"]["src_rank"], finding["link"]["dst_rank"]), ("slow_link", 5, 6))
        self.assertGreater(finding["like"]["took_ns"], 3 * finding["like"]["usual_ns"])
        self.assertEqual((report["like"]["ranks"], report["like"]["not_comparable"]), (8, 0))
        self.assertEqual(report["like"]["files"], [str(path) for path in sorted(runs["right"].glob("node*.db"))])
        self.assert_says("slower than in another run", self.done(run("explain", *slow, "--like", runs["right"])))
        healthy = self.explain(["--like", runs["right"], *sorted(runs["healthy"].glob("node*.db"))], DONE)
        self.assertGreater(healthy["like"]["comparable"], 0)
        incomparable = self.explain(["--like", runs["other"], *slow], FAILED)
        self.assertEqual((incomparable["like"]["comparable"], incomparable["healthy"]), (0, None))
        self.assert_says("a run is not comparable", "\n".join(incomparable["notes"]))

    def test_files_of_the_run_to_compare_with_are_not_judged(self):
        for name in ("right", "slow"):
            self.done(run("lab", "simulate", "--out", self.folder / name, "--nodes", 2, "--ranks-per-node", 2, *STEPS, "--plugin"))
        right, slow = (sorted((self.folder / name).glob("node*.db")) for name in ("right", "slow"))
        (self.folder / "right/other.txt").write_text("not a recording\n")
        report = self.explain([self.folder, "--like", self.folder / "right"], DONE)
        self.assertEqual(report["recording"]["nodes"], 2)
        self.assert_says("files of the run to compare with are not judged", "\n".join(report["notes"]))
        self.assertTrue(any(note.startswith("--like: ") for note in report["notes"]), report["notes"])
        self.refused(run("explain", *slow, "--like", *right), USAGE, "node1.db")
        self.refused(run("explain", self.folder / "right", "--like", self.folder / "right"), USAGE, "--like")

    def test_a_run_to_compare_with_that_is_none(self):
        recordings, _ = self.simulate("--nodes", 1, "--ranks-per-node", 2)
        empty = self.folder / "empty"
        empty.mkdir()
        self.refused(run("explain", *recordings, "--like", empty), FAILED, str(empty))
        self.refused(run("explain", *recordings, "--like", self.folder / "none.db"), FAILED, "none.db")
        self.refused(run("explain", *recordings, "--like", ""), USAGE, "--like")

    def test_a_campaigns_recordings_are_judged_with_moved_evidence(self):
        """lab matrix --shift explains what lies in a campaign's folder, here the recordings of a simulated job in place of draw 0's."""
        out = self.folder / "matrix"
        self.done(run("lab", "matrix", "--simulated", "--runs", 1, "--only", "late_rank", "--out", out))
        program = json.loads((out / "draws.jsonl").read_text())["program"]
        self.assertRegex(program, "^[0-9.]+, sha256:[0-9a-f]{64}$")
        self.assertIn(program, (out / "matrix.md").read_text())
        self.refused(run("lab", "matrix", "--shift", "3s", "--out", out), FAILED, str(out), "--keep")
        self.done(run("lab", "simulate", "--out", out / "draw0000", "--steps", 60, "--plugin", "--fault",
                      "packet_loss:node=1,per_step=1,from=10,to=14"))
        table = self.done(run("lab", "matrix", "--shift", "3s", "--out", out))
        self.assertEqual((out / "shift.md").read_text(), table)
        line = json.loads((out / "shift.jsonl").read_text())
        self.assertEqual((line["draw"], line["problem"], line["shift_ns"]), (0, "", 3_000_000_000))
        self.assertGreater(sum(cause["stalls"] for cause in line["causes"]), 0)
        self.assertEqual(line["judged"], sum(cause["judged"] for cause in line["causes"]))
        self.assertLessEqual(line["explained_falsely"], line["judged"])

    def test_clocks_that_are_ahead_and_drift(self):
        """What is found is what right clocks show, of files and of nodes, which answer with the same clocks."""
        words = ("--nodes", 3, "--ranks-per-node", 2, *STEPS, "--plugin", "--fault", "late_rank:rank=3,ms=80,from=10")
        nodes = SimulatedNodes(self.folder / "skewed", *words, faults={1: "skewed:5s,50ppm", 2: "skewed:-5s,-50ppm"})
        self.addCleanup(nodes.close)
        truth = json.loads((self.folder / "skewed/truth.json").read_text())
        clocks = {node["node"]: (node["clock"]["error_ns"], round(node["clock"]["drift_ppm"])) for node in truth["nodes"]}
        self.assertEqual(clocks, {"node0": (0, 0), "node1": (5_000_000_000, 50), "node2": (-5_000_000_000, -50)})
        rows = json.loads(self.done(run("nodes", "--nodes", nodes.list, "--format", "json")))
        for row, ahead_ms in zip(rows, (0, 5000, -5000), strict=True):
            self.assertAlmostEqual(row["clock_ms"] - rows[0]["clock_ms"], ahead_ms,
                                   delta=20 + row["clock_error_ms"] + rows[0]["clock_error_ms"])
        here = self.explain([nodes.file(node) for node in range(3)], FINDINGS)
        there = json.loads(self.done(run("explain", "--nodes", nodes.list, "--json")))
        for report in (here, there):
            self.assertEqual([(one["cause"], one["culprit"]["rank"]) for one in report["findings"]], [("late_rank", 3)])
        wrong = ("--serve", "--node-fault", "1=skewed:5s")
        self.refused(run("lab", "simulate", "--out", self.folder / "none", *wrong), USAGE, "skewed:5s,50ppm")

    def test_all_evidence(self):
        """The tables that an agent fills are there, and the finding is the same."""
        words = ("--nodes", 2, "--ranks-per-node", 2, *STEPS, "--plugin", "--fault", "late_rank:rank=3,ms=300,from=10")
        tables = ("proxy_step", "net_span", "host_sample", "port_counter", "python_stack", "stack")
        findings = {}
        for evidence in ("usual", "all"):
            out = self.folder / evidence
            self.done(run("lab", "simulate", "--out", out, *words, "--evidence", evidence))
            recordings = sorted(out.glob("node*.db"))
            for table in tables:
                counts = [json.loads(self.done(run("query", "--format", "json", path, f"SELECT count(*) AS n FROM {table}")))[0]["n"]
                          for path in recordings]
                self.assertEqual(sum(counts) > 0, evidence == "all", table)
            findings[evidence] = self.explain(recordings, FINDINGS)["findings"]
        for found in findings.values():
            self.assertEqual([(one["cause"], one["culprit"]["rank"]) for one in found], [("late_rank", 3)])
        self.refused(run("lab", "simulate", "--out", self.folder / "none", "--evidence", "some"), USAGE, "some")

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
