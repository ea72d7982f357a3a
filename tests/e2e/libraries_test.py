# SPDX-License-Identifier: Apache-2.0
"""Third-party collective libraries: PyTorch on Gloo, and OpenMPI. Each rank is on a host of its own; their stalls are measured. Jobs
that hang or end are in tests/e2e/libraries_on_one_host_test.py.
"""

from lab import LabRun, location_of
from stalltrace import Case


class EachOnItsHost(Case):
    """One recording per rank: equal numbers mean the same collective."""

    def costliest(self, workload, library, fault, *more):
        self.need_root()
        lab = LabRun(self.folder / "lab", fault, steps=80, more=more, workload=workload)
        self.assertTrue(lab.findings, lab.text)
        finding, fault = lab.findings[0], lab.truth["faults"][0]
        self.assertEqual(finding["cause"], fault["cause"], location_of(finding))
        self.assertEqual(finding["culprit"]["rank"], fault["rank"], location_of(finding))
        self.assertEqual(finding["culprit"]["pid"], lab.truth["nodes"][fault["rank"]]["pid"])
        instances = {}
        for node, (comm, seq, rank) in lab.rows(
                f"SELECT comm_id_hash, seq, rank FROM collective WHERE library = '{library}' AND op = 'ALL_REDUCE' "
                "AND completion <> 'open'"):
            self.assertIsNotNone(comm)
            self.assertEqual(rank, node["rank"])
            instances.setdefault((comm, seq), set()).add(rank)
        self.assertGreater(len(instances), 100)
        partial = [key for key, ranks in instances.items() if len(ranks) != len(lab.truth["nodes"])]
        self.assertEqual(partial, [])

    def test_a_stopped_rank_of_mpi(self):
        self.costliest("mpi", "mpi", "process_stopped:rank=1,ms=1000")

    def test_a_late_rank_of_pytorch(self):
        self.costliest("torch", "gloo", "late_rank:rank=2,ms=80")
