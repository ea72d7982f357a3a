# SPDX-License-Identifier: Apache-2.0
"""docs/walkthrough.md: its commands run as they stand there, and the fleet's findings are those of the merged file."""

import json
import os
import signal
import subprocess

from stalltrace import BUILD, ROOT, Case

PAGE = ROOT / "docs" / "walkthrough.md"


class Walkthrough(Case):
    def test_every_command_of_the_page(self):
        self.need_root()
        commands = [line.strip()[2:] for line in PAGE.read_text().splitlines() if line.startswith("    $ ")]
        self.assertGreaterEqual(len(commands), 12)
        # A server needs a moment until it listens.
        script = "set -e\n" + "\n".join(command + (" sleep 0.5" if command.endswith("&") else "") for command in commands)
        shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}, start_new_session=True)
        try:
            shell.wait(timeout=120)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)  # the servers
        output, errors = shell.communicate(timeout=20)
        self.assertEqual(shell.returncode, 0, output + errors)
        last, *_ = (self.folder / "times_last.txt").read_text().splitlines()[2:]
        self.assertEqual(last.split()[0], "2")
        fleet, merged = (json.loads((self.folder / name).read_text()) for name in ("fleet.json", "merged.json"))
        self.assertEqual(fleet["findings"], merged["findings"])
        costliest = max(fleet["findings"], key=lambda finding: finding["stall_ms"])
        self.assertEqual((costliest["cause"], costliest["culprit"]["rank"]), ("late_rank", 2))
        self.assertGreater((self.folder / "job.pftrace").stat().st_size, 10_000)
