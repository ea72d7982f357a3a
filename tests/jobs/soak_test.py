# SPDX-License-Identifier: Apache-2.0
"""A short run of scripts/soak.py: what grows within seconds. A long one is started by hand."""

import subprocess
import sys

from stalltrace import BUILD, ROOT, Case

SECONDS = 12


class Soak(Case):
    def test_jobs_that_come_and_go_leave_nothing_behind(self):
        self.need_root()
        words = [sys.executable, ROOT / "scripts" / "soak.py", BUILD, "--seconds", SECONDS, "--max-size", "1m"]
        result = subprocess.run(["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "_", *map(str, words)],
                                capture_output=True, text=True, check=False, timeout=90)
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr)
