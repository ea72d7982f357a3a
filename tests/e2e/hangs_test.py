# SPDX-License-Identifier: Apache-2.0
"""Jobs that hang: the finding names the culprit and the cause."""

import re

from lab import LabRun, location_of
from stalltrace import Case, sentence

SHORT = 60  # steps; the fault begins after a third of them


class Hangs(Case):
    def explain(self, fault, *more):
        self.need_root()
        lab = LabRun(self.folder / "lab", fault, steps=SHORT, more=more)
        self.assertTrue(lab.truth["faults"][0]["injected"])
        reported = [location_of(finding) for finding in lab.findings]
        self.assertEqual(len(lab.findings), 1, reported)
        finding, rank = lab.findings[0], lab.truth["faults"][0]["rank"]
        self.assertEqual(finding["cause"], lab.truth["faults"][0]["cause"], reported)
        self.assertEqual(finding["severity"], "critical")  # the job was ended while it waited
        self.assertEqual(finding["culprit"]["rank"], rank, reported)
        self.assertEqual(finding["culprit"]["pid"], lab.truth["nodes"][rank]["pid"])
        return finding

    def test_a_killed_rank(self):
        finding = self.explain("dead_rank:rank=2,signal=9", "--", "--watchdog-seconds", 3)
        self.assertIn("signal 9", finding["summary"])

    def test_a_rank_that_stays_away(self):
        finding = self.explain("missing_collective:rank=0", "--timeout", "5s")
        self.assert_says("a rank had not entered AllReduce", finding["summary"])

    def test_a_rank_in_another_call(self):
        finding = self.explain("missing_collective:rank=2,doing=recv", "--timeout", "5s")
        self.assertIn("deadlock", finding["summary"])

    def test_another_size(self):
        finding = self.explain("mismatched_collective:rank=1,what=count", "--timeout", "5s")
        self.assert_says("AllReduce with its size", finding["summary"])

    def test_another_root(self):
        finding = self.explain("mismatched_collective:rank=2,what=root", "--timeout", "5s", "--", "--mix", 1)
        odd, usual = re.search(sentence("another root than the others"), finding["summary"]).groups()
        self.assertEqual(int(odd), (int(usual) + 1) % 4, finding["summary"])

    def test_a_pipeline_names_its_start(self):
        finding = self.explain("missing_collective:rank=1,doing=stage", "--timeout", "5s", "--", "--stages", 1)
        self.assert_says("a rank had not entered", finding["summary"])

    def test_two_communicators_in_another_order(self):
        finding = self.explain("missing_collective:rank=2,doing=order", "--timeout", "5s", "--", "--mix", 1)
        self.assertIn("deadlock", finding["summary"])

    def test_both_sides_send_first(self):
        self.need_root()
        lab = LabRun(self.folder / "lab", "missing_collective:rank=2,doing=send", steps=15,
                     more=("--timeout", "8s", "--", "--exchange", 1))
        reported = [location_of(finding) for finding in lab.findings]
        self.assertEqual([finding["cause"] for finding in lab.findings], ["missing_collective"], reported)
        text = str(lab.findings[0])
        self.assertIn("deadlock", lab.findings[0]["summary"])
        for rank in (2, 3):
            self.assert_says("a rank is inside Send", text, rank=rank, pid=lab.truth['nodes'][rank]['pid'])
