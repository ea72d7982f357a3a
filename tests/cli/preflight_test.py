# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight`: settings of this process or another one, and reports of several nodes compared."""

import json
import os
import subprocess

from processes import free_port
from stalltrace import FAILED, PROGRAM, USAGE, Case, run

PREFLIGHT_FAILED = 4


class Preflight(Case):
    def check(self, *words, **settings):
        return run("preflight", *words, environment=settings)

    def setting_checks(self, result):
        return {check["subject"]: check["outcome"] for check in json.loads(result.stdout)["checks"] if check["check"] == "nccl_setting"}

    def test_a_wrong_setting_fails(self):
        result = self.check("--json", NCCL_IB_TIMEOUT="never", NCCL_SOCKET_IFNAME="lo")
        self.assertEqual(result.returncode, PREFLIGHT_FAILED, result.stderr)
        self.assertEqual(self.setting_checks(result), {"NCCL_IB_TIMEOUT": "failed"})
        chosen, = [check for check in json.loads(result.stdout)["checks"] if check["check"] == "interface"]
        self.assertEqual((chosen["subject"], chosen["outcome"]), ("lo", "warning"))

    def test_the_settings_of_a_running_process(self):
        process = subprocess.Popen(["sleep", "60"], env={"NCCL_CROS_NIC": "1"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(self.setting_checks(self.check("--json", "--pid", str(process.pid))), {"NCCL_CROS_NIC": "failed"})

    def test_reports_of_nodes_are_compared(self):
        reports = []
        for node, settings in enumerate([{}, {"NCCL_ALGO": "Ring"}]):
            report = json.loads(self.check("--json", **settings).stdout)
            report["host"] = f"gpu{node}"
            reports.append(self.folder / f"{node}.json")
            reports[-1].write_text(json.dumps(report))
        compared = json.loads(self.done(run("preflight", "--json", *reports)))
        self.assertEqual([(one["subject"], one["outcome"]) for one in compared["checks"]], [("setting NCCL_ALGO", "warning")])
        other = json.loads(reports[1].read_text())
        other["facts"]["address family"] = "IPv9"
        reports[1].write_text(json.dumps(other))
        self.assertEqual(run("preflight", *reports).returncode, PREFLIGHT_FAILED)

    def test_the_ranks_of_a_launch_test_each_other(self):
        port = free_port()
        launch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        words = ["preflight", "--network", "--port", str(port), "--json"]
        other = subprocess.Popen([PROGRAM, *words], env={**os.environ, **launch, "RANK": "1"}, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.addCleanup(other.communicate)
        result = run(*words, environment={**launch, "RANK": "0"})
        report = json.loads(result.stdout)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1])
        self.assertIn(report["ranks"][1]["barrier_rounds"], range(1, 201))  # as many as 1.5 s have room for
        self.assertEqual((len(report["nodes"]), report["pairs"]), (1, []))  # both ranks are on this host
        self.assertEqual(other.wait(10), result.returncode)
        self.assert_says("preflight_announces", result.stderr)

    def test_a_rank_that_does_not_come_fails(self):
        result = self.check("--network", "--port", free_port(), "--wait", "3s", RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1")
        self.assertEqual(result.returncode, PREFLIGHT_FAILED, result.stderr)
        self.assert_says("preflight_missing_ranks", result.stdout)

    def test_what_is_no_launch_is_refused(self):
        network = ["--network", "--port", free_port(), "--wait", "200ms"]
        launch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        self.refused(self.check(*network), USAGE, "launch")
        self.refused(self.check(*network, RANK="1", WORLD_SIZE="2"), USAGE, "rank 0")
        self.refused(self.check(*network, **launch), FAILED, "could not reach rank 0")
        self.refused(self.check(*network, **{**launch, "RANK": "0", "MASTER_ADDR": "192.0.2.1"}), FAILED, "192.0.2.1")
        self.refused(self.check(*network, "--pid", "1", **launch), USAGE, "--network")
        self.refused(self.check(*network, "--test-size", "none", **launch), USAGE, "--test-size")
        self.refused(self.check(*network, "--test-time", "2m", **launch), USAGE, "--test-time")

    def test_what_is_no_report_is_refused(self):
        odd = self.folder / "odd.json"
        odd.write_text("{")
        self.refused(run("preflight", odd, odd), FAILED, "odd.json")
        self.refused(run("preflight", odd), FAILED, "odd.json")
        report = self.folder / "one.json"
        report.write_text(self.check("--json").stdout)
        self.refused(run("preflight", report), USAGE, "compared")
        self.refused(run("preflight", self.folder / "none.json"), FAILED, "none.json")
        self.refused(run("preflight", "--pid", "1", report), USAGE, "--pid")
        self.refused(run("preflight", "--pid", "999999999"), FAILED, "999999999")
