# SPDX-License-Identifier: Apache-2.0
"""Faults inside a host: dropped packets, a failing port, a CPU or memory limit, a wrong interface."""

import unittest

from lab import LabRun, location_of
from stalltrace import FAILED, USAGE, Case, run


def has_controller(name):
    """Whether this machine's cgroups can limit it: a version 1 hierarchy, or version 2 with the controller enabled."""
    for path in (f"/sys/fs/cgroup/{name}/cgroup.procs", "/sys/fs/cgroup/cgroup.subtree_control"):
        try:
            with open(path, encoding="ascii") as file:
                if "subtree" not in path or name in file.read().split():
                    return True
        except OSError:
            pass
    return False


class Hosts(Case):
    def explain(self, fault, *more, steps=60):
        self.need_root()
        lab = LabRun(self.folder / "lab", fault, steps=steps, more=more)
        self.assertTrue(lab.truth["faults"][0]["injected"])
        reported = [f"{location_of(finding)} {finding['stall_ms']:.0f} ms" for finding in lab.findings]
        self.assertTrue(reported, "no finding")
        finding = lab.findings[0]
        self.assertEqual(finding["cause"], lab.truth["faults"][0]["cause"], reported)
        self.assertEqual(finding["culprit"]["rank"], lab.truth["faults"][0]["rank"], reported)
        return lab, finding

    def test_a_queue_that_overflows(self):
        lab, finding = self.explain("host_drop:rank=2", "--timeout", "60s")
        self.assert_says("on their way out", finding["summary"])
        reasons = {row[0] for node, row in lab.rows("SELECT reason FROM packet_drop") if node["rank"] == 2}
        self.assertTrue(any(reason.startswith("QDISC_") for reason in reasons), reasons)

    def test_loss_between_the_hosts_is_reported_as_that(self):
        self.need_root()
        lab = LabRun(self.folder / "lab", "packet_loss:rank=2,percent=3,direction=egress", steps=120)
        self.assert_says("on the network between", str(lab.findings[0]["evidence"]))

    def test_a_port_that_counts_errors(self):
        _, finding = self.explain("fabric_errors:rank=1", "--timeout", "60s", steps=33)
        self.assertIn("symbol_error", finding["summary"])

    @unittest.skipUnless(has_controller("cpu"), "no cgroup here can limit CPU time")
    def test_a_throttled_cgroup(self):
        _, finding = self.explain("cpu_contention:rank=1,how=throttle", "--timeout", "60s", steps=51)
        self.assertIn("throttled", finding["summary"])
        self.assertIn("stalltrace-lab-0", finding["summary"])

    @unittest.skipUnless(has_controller("memory"), "no cgroup here can limit memory")
    def test_a_rank_killed_for_want_of_memory(self):
        _, finding = self.explain("dead_rank:rank=2,how=memory", "--", "--watchdog-seconds", 3)
        self.assert_says("out of memory", finding["summary"])

    def test_an_interface_chosen_wrongly(self):
        _, finding = self.explain("init_failure:rank=2,how=interface", "--timeout", "10s", steps=20)
        self.assertIn("interface", str(finding))


class Refusals(Case):
    def test_a_rank_without_a_neighbour(self):
        self.need_root()
        result = run("lab", "run", "--ranks", 3, "--workload", "nccl", "--steps", 20, "--fault",
                     "missing_collective:rank=2,doing=send", "--out", self.folder / "lab", timeout=60)
        self.assertIn(result.returncode, (FAILED, USAGE), result.stderr)
        self.assert_says("has no neighbour", result.stderr.splitlines()[-1])
