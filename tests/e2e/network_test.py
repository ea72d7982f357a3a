# SPDX-License-Identifier: Apache-2.0
"""Network faults other than random loss, and disk faults: the finding names the link or the rank."""

import pathlib
import tempfile

from lab import LabRun, location_of
from stalltrace import BUILD, FAILED, Case, run


class Network(Case):
    def explain(self, fault, steps=60, timeout="5s", folder=None):
        self.need_root()
        lab = LabRun((folder or self.folder) / "lab", fault, steps=steps, more=("--timeout", timeout))
        self.assertTrue(lab.truth["faults"][0]["injected"])
        said = [f"{location_of(finding)} {finding['stall_ms']:.0f} ms" for finding in lab.findings]
        self.assertTrue(said, "no finding")
        first, *others = lab.findings
        self.assertEqual(first["cause"], lab.truth["faults"][0]["cause"], said)
        # Stall time that stays unknown is small compared with the fault. Four ranks share the test machine's few cores,
        # whose cost is smaller still, and within the kernel's own account.
        for finding in others:
            if finding["cause"] == "cpu_contention":
                self.assertLess(finding["stall_ms"], 0.1 * first["stall_ms"], said)
                self.assertLess(finding["stall_ms"], lab.cpu_pressure_ms, said)
            else:
                self.assertEqual(finding["cause"], "unknown", said)
                self.assertLess(finding["stall_ms"], 0.5 * first["stall_ms"], said)
        return first, said

    def assert_link(self, finding, said, source, target):
        self.assertIsNone(finding["culprit"], said)
        self.assertEqual((finding["link"]["src_rank"], finding["link"]["dst_rank"]), (source, target), said)

    def test_a_node_that_is_cut_off(self):
        finding, said = self.explain("partition:rank=2,direction=both")
        self.assertEqual(finding["culprit"]["rank"], 2, said)
        self.assertIn(finding["severity"], ("critical", "high"))  # it may heal when the fault is undone at the end

    def test_a_link_that_is_cut(self):
        self.assert_link(*self.explain("partition:rank=2,peer=1,direction=link"), 1, 2)

    def test_an_mtu_black_hole(self):
        finding, said = self.explain("mtu_blackhole:rank=2")
        self.assertEqual((finding["link"]["src_rank"], finding["link"]["dst_rank"]), (1, 2), said)

    def test_a_reset(self):
        self.assert_link(*self.explain("connection_reset:rank=3,peer=2"), 2, 3)

    def test_a_slow_link(self):
        self.assert_link(*self.explain("slow_link:rank=1,mbit=100", steps=33, timeout="60s"), 1, 2)

    def test_a_firewall_before_the_rendezvous(self):
        finding, said = self.explain("init_failure:rank=2", timeout="8s")  # a set-up counts as hanging after 5 s
        self.assertEqual(finding["culprit"]["rank"], 2, said)
        self.assertIn("29500", finding["summary"])

    def test_a_slow_reader(self):
        finding, said = self.explain("slow_receiver:rank=2,mbytes=8", steps=27, timeout="60s")
        self.assertEqual(finding["culprit"]["rank"], 2, said)

    def test_a_slow_disk(self):
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:  # on a disk, which the default folder may not be
            finding, said = self.explain("disk_io:rank=1", timeout="60s", folder=pathlib.Path(folder))
        self.assertEqual(finding["culprit"]["rank"], 1, said)

    def test_a_disk_that_is_memory(self):
        self.need_root()
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            result = run("lab", "run", "--ranks", 2, "--workload", "nccl", "--steps", 20, "--fault", "disk_io:rank=1",
                         "--out", folder + "/lab", timeout=60)
        self.assertEqual(result.returncode, FAILED, result.stderr)
        self.assert_says("is in memory", result.stderr.splitlines()[-1])
