# SPDX-License-Identifier: Apache-2.0
"""Debian's own kernels, booted under emulation: the programs load, calls are recorded, the link that lost packets is
named, and `check` matches docs/kernels.md. The full set: scripts/kernel_matrix.sh without --short.
"""

import subprocess

from stalltrace import ROOT, Case

KEPT = ROOT / "docs" / "evidence" / "kernel-matrix.json"


class Boot(Case):
    def holds(self, kernel):
        ran = subprocess.run([ROOT / "scripts" / "kernel_matrix.sh", "--short", "--kept", KEPT, kernel],
                             capture_output=True, text=True, timeout=600)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr[-4000:])

    def test_debian_12(self):
        self.holds("6.1")

    def test_debian_11(self):
        self.holds("5.10")
