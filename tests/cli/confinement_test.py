# SPDX-License-Identifier: Apache-2.0
"""Subcommands that read what any user may have made give up what they do not need."""

import pathlib
import subprocess
import time

import recordings
from stalltrace import BUILD, PROGRAM, Case

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
STATUS = {"NoNewPrivs": "1", "Seccomp": "2"}


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name in STATUS}


class Confinement(Case):
    def test_a_query_has_no_more_rights_than_it_needs(self):
        if "STALLTRACE_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("sanitizers need what is given up")
        recording = recordings.make(self.folder / "a.db")
        query = subprocess.Popen([PROGRAM, "query", recording, ENDLESS, "--timeout", "30s"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(query.wait, 10)
        self.addCleanup(query.kill)
        end = time.monotonic() + 10
        while status_of(query.pid) != STATUS and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(status_of(query.pid), STATUS)
