# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight` on virtual nodes: the healthy ones pass and are alike; a lower MTU and a wrong interface are named."""

import json
import operator
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.request

import recordings
from job import Tracer, wait_until
from servers import Served
from stalltrace import BUILD, PROGRAM, Case, run

NODES = 3


class Preflight(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.addCleanup(run, "lab", "down")
        self.done(run("lab", "up", "--ranks", NODES))

    def check(self, node, **settings):
        variables = [f"{name}={value}" for name, value in settings.items()]
        return subprocess.run(["ip", "netns", "exec", f"stalltrace-node{node}", "env", *variables, PROGRAM, "preflight", "--json"],
                              capture_output=True, text=True, check=False, timeout=20)

    def reports(self):
        paths = []
        for node in range(NODES):
            report = json.loads(self.check(node).stdout)
            paths.append(self.folder / f"node{node}.json")
            paths[-1].write_text(json.dumps({**report, "host": f"node{node}"}))  # virtual nodes share the host's name
        return paths

    def interface(self, result):
        return [(check["subject"], check["outcome"]) for check in json.loads(result.stdout)["checks"] if check["check"] == "interface"]

    def test_what_is_wrong_on_one_node(self):
        self.assertEqual(self.interface(self.check(0)), [("eth0", "ok")])
        self.assertEqual(self.done(run("preflight", *self.reports())), "0 checks failed, 0 warnings.\n")
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1400"], check=True)
        result = run("preflight", "--json", *self.reports())
        self.assertEqual(result.returncode, 0)  # TCP adapts to the smaller MTU
        difference, = json.loads(result.stdout)["checks"]
        self.assertEqual((difference["subject"], difference["outcome"]), ("MTU of eth0", "warning"))
        self.assertIn("1400", difference["detail"])
        self.assertEqual(self.interface(self.check(2, NCCL_SOCKET_IFNAME="ens")), [("", "failed")])
        subprocess.run(["ip", "-n", "stalltrace-node2", "link", "set", "eth0", "down"], check=True)
        self.assertIn(("lo", "failed"), self.interface(self.check(2)))

    def launch(self, *words, test_time="300ms"):
        """Plays a launch with a rank on each node. Rank 0's exit code, and its report."""
        ranks = [subprocess.Popen(["ip", "netns", "exec", f"stalltrace-node{rank}", "env", f"RANK={rank}", f"WORLD_SIZE={NODES}",
                                   "MASTER_ADDR=10.77.0.1", f"STALLTRACE_NODE=node{rank}", PROGRAM, "preflight", "--network",
                                   "--json", "--test-time", test_time, *words],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(NODES)]
        outputs = [rank.communicate(timeout=60) for rank in ranks]
        self.assertTrue(outputs[0][0], outputs[0][1])
        return ranks[0].returncode, json.loads(outputs[0][0])

    def launch_checks(self, *words, **options):
        """Rank 0's exit code, and (check, subject, outcome) of all checks."""
        code, report = self.launch(*words, **options)
        return code, {(check["check"], check["subject"], check["outcome"]) for check in report["checks"]}

    def rules(self, *rules):
        """A firewall on node 2, which lasts until the next fault."""
        subprocess.run(["ip", "netns", "exec", "stalltrace-node2", "nft", "flush ruleset; add table inet t; "
                        "add chain inet t c { type filter hook input priority 0; }; " +
                        "; ".join(f"add rule inet t c {rule}" for rule in rules)], check=True)

    def test_each_fault_between_nodes_is_found(self):
        code, report = self.launch()
        self.assertEqual((code, report["failed"]), (0, False), report["checks"])
        self.assertEqual({(pair["reach"], pair["path_mtu"]["largest"]) for pair in report["pairs"]}, {("reached", 1500)})
        self.assertEqual(len(report["pairs"]), NODES * (NODES - 1))
        # Node 2 refuses; node 1 has a smaller MTU, and a limit of what it sends.
        self.rules("tcp dport != 7702 tcp flags syn / syn,ack reject with tcp reset")
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1400"], check=True)
        self.done(run("lab", "fault", "slow_link:rank=1,mbit=80"))
        code, found = self.launch_checks()
        self.assertEqual(code, 4)
        self.assertLessEqual({("reach", "all 2 links to node2", "failed"), ("bandwidth", "node1 -> node0", "failed")}, found)
        self.assertIn(("path_mtu", "all 2 links to node1", "warning"), found)
        self.done(run("lab", "fault", "none"))
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1500"], check=True)
        # Before node 2 all large packets vanish, before node 1 only those of TCP.
        self.rules("meta length > 1300 drop")
        self.done(run("lab", "fault", "mtu_blackhole:rank=1,bytes=1300"))
        code, found = self.launch_checks()
        self.assertEqual({check[:2] for check in found if check[2] == "failed"},
                         {("path_mtu", "all 2 links to node2"), ("path_mtu", "all 2 links to node1")})
        self.rules()
        self.done(run("lab", "fault", "none"))
        self.done(run("lab", "fault", "packet_loss:rank=2,percent=2"))
        code, found = self.launch_checks("--rounds", "1", test_time="2s")  # of nodes 1 and 2; the verdict needs 20 losses
        self.assertTrue([one for one in found if one[0] == "retransmits" and one[2] == "failed" and "node2" in one[1]], found)

    def test_collectives_of_the_jobs_library(self):
        words = ["--collectives", "--library", BUILD / "lab/lib/libnccl.so.2", "--max-size", "1m"]

        def collectives():
            code, report = self.launch(*map(str, words))
            found = report["collectives"]
            self.assertEqual((found["ranks"], found["complete"], found["wrong"]), (NODES, True, []), report["checks"])
            largest = max((time for time in found["times"] if time["operation"] == "AllReduce"), key=operator.itemgetter("bytes"))
            self.assertEqual(largest["bytes"], 2**20)
            return code, [check for check in report["checks"] if check["check"] == "collectives"], largest["busbw_gb_per_s"]

        code, checks, healthy = collectives()
        self.assertEqual((code, [check["outcome"] for check in checks]), (0, ["ok"]), checks)
        self.done(run("lab", "fault", "slow_link:rank=1,mbit=80"))
        code, checks, slow = collectives()
        self.assertEqual(code, 4)  # the link has a failed check of its own
        self.assertLess(slow, 0.02)  # GB/s; the link has 0.01
        self.assertLess(slow, healthy / 2)
        warning, = [check for check in checks if check["outcome"] == "warning"]
        self.assertIn("node1 -> ", warning["detail"])

    def test_servers_find_a_fault_without_a_launch(self):
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        recording = recordings.make(self.folder / "a.db")
        fingerprints = []
        for node in range(NODES):
            served = Served(recording, "--listen", f"10.77.0.{node + 1}:7700", "--token-file", token, "--allow-preflight", lines=2,
                            prefix=["ip", "netns", "exec", f"stalltrace-node{node}", "env", f"STALLTRACE_NODE=node{node}"])
            self.addCleanup(served.close)
            fingerprints += ["--tls-fingerprint", served.lines[1].split()[-1]]

        def preflight():
            result = run("preflight", "--nodes", "10.77.0.1,10.77.0.2,10.77.0.3", "--token-file", token, *fingerprints, "--json",
                         prefix=["ip", "netns", "exec", "stalltrace-node0"])
            self.assertTrue(result.stdout, result.stderr)
            return result.returncode, json.loads(result.stdout)

        code, report = preflight()
        self.assertEqual((code, report["failed"]), (0, False), report["checks"])
        self.assertEqual([node["name"] for node in report["nodes"]], ["node0", "node1", "node2"])
        self.assertEqual({pair["reach"] for pair in report["pairs"]}, {"reached"})
        self.assertEqual(len(report["pairs"]), NODES * (NODES - 1))
        self.rules("meta length > 1300 drop")
        code, report = preflight()
        self.assertEqual(code, 4)
        self.assertIn(("path_mtu", "all 2 links to node2", "failed"),
                      {(check["check"], check["subject"], check["outcome"]) for check in report["checks"]})


class BesideATrace(Case):
    def test_the_tests_end_with_the_server(self):
        self.need_root()
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        tracer = Tracer(self, "--serve", "127.0.0.1:0", "--token-file", token, "--allow-preflight", "--pid", os.getpid())
        log = self.folder / "tracer.log"
        wait_until(lambda: re.search(r"http://\S+:\d+\n", log.read_text()), "the server")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            body = {"ask": "tests", "rank": 1, "ranks": 2, "secret": "a" * 64, "masters": ["127.0.0.1"], "port": listener.getsockname()[1],
                    "wait_ms": 60000, "limit_ms": 60000, "rounds": 1, "test_ms": 100, "test_bytes": 1000000, "max_mbit": 0}
            request = urllib.request.Request(re.search(r"http://\S+:\d+", log.read_text())[0] + "/v1/preflight", json.dumps(body).encode(),
                                             {"Authorization": "Bearer 0123456789abcdef"})
            with urllib.request.urlopen(request, timeout=10):
                listener.settimeout(10)
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    self.assertTrue(connection.recv(1))
                    server, = [int(pid) for pid in
                               pathlib.Path(f"/proc/{tracer.process.pid}/task/{tracer.process.pid}/children").read_text().split()
                               if pathlib.Path(f"/proc/{pid}/comm").read_text() == "st-server\n"]
                    os.kill(server, signal.SIGKILL)
                    while connection.recv(65536):
                        pass
        self.assertEqual(tracer.stop(), 0)
