# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight` on virtual nodes: the healthy ones pass and are alike; a lower MTU and a wrong interface are named."""

import json
import subprocess

from stalltrace import PROGRAM, Case, run

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
