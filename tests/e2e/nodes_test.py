# SPDX-License-Identifier: Apache-2.0
"""Several ranks on each node, which share its network interface."""

from lab import LabRun, location_of
from stalltrace import Case


class SeveralRanks(Case):
    """Two nodes with two ranks each."""

    def explain(self, fault, steps=60, workload="nccl"):
        self.need_root()
        lab = LabRun(self.folder / "lab", fault, steps=steps, more=("--ranks-per-node", 2), workload=workload)
        self.assertTrue(lab.truth["run"]["completed"], lab.truth["run"]["problem"])
        self.assertEqual([node["node"] for node in lab.truth["nodes"]], ["node0", "node0", "node1", "node1"])
        self.assertEqual(len({node["pid"] for node in lab.truth["nodes"] if node["pid"]}), 4, lab.truth["nodes"])
        self.assertEqual(lab.report["recording"]["ranks"], 4)
        return lab

    def test_loss_at_an_interface_is_the_nodes(self):
        lab = self.explain("packet_loss:node=1,percent=2", steps=140)
        reported = [location_of(finding) for finding in lab.findings]
        self.assertEqual(lab.truth["faults"][0]["node"], "node1")
        self.assertEqual([finding["cause"] for finding in lab.findings], ["packet_loss"], reported)
        culprit = lab.findings[0]["culprit"]
        self.assertEqual((culprit["node"], culprit["rank"]), ("node1", None), reported)

    def test_a_late_rank_is_one_of_its_nodes(self):
        lab = self.explain("late_rank:rank=3,ms=80")
        reported = [location_of(finding) for finding in lab.findings]
        self.assertEqual([finding["cause"] for finding in lab.findings], ["late_rank"], reported)
        self.assertEqual(lab.findings[0]["culprit"]["rank"], 3, reported)

    def test_a_healthy_job_has_no_findings(self):
        lab = self.explain("none")
        self.assertEqual([location_of(finding) for finding in lab.findings], [])

    def test_ranks_of_torch(self):
        self.explain("none", steps=20, workload="torch")
