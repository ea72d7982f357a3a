# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight`: settings of this process or another one, and reports of several nodes compared."""

import json
import subprocess

from stalltrace import FAILED, USAGE, Case, run

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
