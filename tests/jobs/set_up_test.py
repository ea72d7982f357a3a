# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs whose ranks do not meet: the finding names the rank and the variable."""

import ctypes
import json
import os
import subprocess
import time

from job import Tracer, wait_until
from network_job import ip
from processes import free_port, rank_environment
from stalltrace import DONE, Case, run

RANKS = 3
PYTHON = "/usr/bin/python3"  # which has PyTorch
PROGRAM = """
import datetime, sys, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
for step in range(20):
    dist.all_reduce(torch.ones(1000))
"""
NETWORK = "10.78.0"
STORE, OTHER = f"{NETWORK}.1", f"{NETWORK}.2"  # addresses of two hosts: of rank 0's, and of the others'
CLONE_NEWNET = 0x40000000


def enter(namespace):
    """In a child process, before its program: no other program has the rank's environment, as `ip netns exec` would."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class SetUp(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.port = free_port()
        self.tracer = Tracer(self, "--live", "--pid", str(os.getpid()))  # and this test's processes

    def start(self, rank, host=None, gives_up_after=60, **environment):
        self.errors = self.folder / "errors"
        with open(self.errors, "a") as errors:
            process = subprocess.Popen([PYTHON, "-c", PROGRAM, str(gives_up_after)], stderr=errors,
                                       preexec_fn=None if host is None else lambda: enter(host),
                                       env={**rank_environment(rank, RANKS, self.port, {"OMP_NUM_THREADS": "1"}), **environment})
        self.addCleanup(process.wait, timeout=10)
        self.addCleanup(process.kill)
        return process

    def two_hosts(self):
        """Two network namespaces with the addresses STORE and OTHER. This test's clean-up removes them."""
        hosts = [f"st-set-up-{os.getpid()}-{number}" for number in range(2)]
        for host in hosts:
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", host], check=False, capture_output=True)
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
        ip("-n", hosts[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", hosts[1])
        for host, address in zip(hosts, (STORE, OTHER), strict=True):
            ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
        return hosts

    def findings(self):
        self.assertEqual(self.tracer.stop(), DONE)
        return json.loads(self.done(run("explain", self.tracer.path, "--json")))["findings"]

    def finding(self, rank):
        """The only finding, once it is reported while the job is still being set up."""
        wait_until(lambda: "init_failure" in (self.folder / "tracer.log").read_text(), "the live finding")
        findings = self.findings()
        self.assertEqual([finding["cause"] for finding in findings], ["init_failure"], findings)
        self.assertEqual(findings[0]["culprit"]["rank"], rank, findings)
        return findings[0]

    def test_another_port_on_one_rank(self):
        self.start(0)
        culprit = self.start(1, MASTER_PORT=str(free_port()))
        self.start(2)
        finding = self.finding(1)
        self.assertEqual(finding["culprit"]["pid"], culprit.pid)
        self.assert_says("MASTER_PORT differs", finding["summary"])

    def test_another_address_on_one_rank(self):
        """That rank's own host, where nothing listens."""
        first, second = self.two_hosts()
        self.start(0, first, MASTER_ADDR=STORE)
        self.start(1, second, MASTER_ADDR=STORE)
        culprit = self.start(2, second, MASTER_ADDR="127.0.0.9")
        finding = self.finding(2)
        self.assertEqual(finding["culprit"]["pid"], culprit.pid)
        self.assert_says("MASTER_ADDR differs", finding["summary"], value="127.0.0.9", rank=2)

    def test_a_store_behind_a_firewall(self):
        """Packets to it are dropped. That the ranks give up makes it a failure at once."""
        self.need_program("nft")
        first, second = self.two_hosts()
        rules = ("add table inet f; add chain inet f in { type filter hook input priority 0; }; "
                 f"add rule inet f in ip saddr {OTHER} tcp dport {self.port} drop")
        ip("netns", "exec", first, "nft", rules)
        self.start(0, first, MASTER_ADDR=STORE)
        kept_out = [self.start(rank, second, gives_up_after=4, MASTER_ADDR=STORE) for rank in (1, 2)]
        self.assertEqual([process.wait(timeout=30) for process in kept_out], [1, 1], self.errors.read_text())
        finding = self.finding(1)
        self.assert_says("the store does not answer", finding["summary"], address=f"{STORE}:{self.port}")

    def test_a_rank_that_raises_before_it_meets_the_others(self):
        self.start(0)
        culprit = self.start(1, GLOO_SOCKET_IFNAME="nonesuch0")
        self.start(2)
        self.assertEqual(culprit.wait(timeout=30), 1)
        finding = self.finding(1)
        self.assert_says("a rank ended with exit code 1", finding["summary"])
        self.assertTrue(any("GLOO_SOCKET_IFNAME" in evidence["text"] for evidence in finding["evidence"]), finding)

    def test_rank_0_that_was_never_started(self):
        self.start(1)
        self.start(2)
        finding = self.finding(0)
        self.assertIsNone(finding["culprit"]["pid"])
        self.assertIn(f"127.0.0.1:{self.port}", finding["summary"])

    def test_a_rank_that_comes_late_is_no_failure(self):
        for late in (0, 2):
            with self.subTest(late=late):
                self.come_late(late)
        self.assertEqual(self.findings(), [])
        self.assertNotIn("init_failure", (self.folder / "tracer.log").read_text())

    def come_late(self, late):
        self.port = free_port()
        ranks = [self.start(rank) for rank in range(RANKS) if rank != late]
        time.sleep(4)
        ranks.append(self.start(late))
        self.assertEqual([process.wait(timeout=30) for process in ranks], [0] * RANKS, self.errors.read_text())
