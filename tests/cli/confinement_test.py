# SPDX-License-Identifier: Apache-2.0
"""Subcommands that read what any user may have made give up what they do not need."""

import ctypes
import pathlib
import subprocess
import time

import recordings
from stalltrace import BUILD, FAILED, PROGRAM, Case, run

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
STATUS = {"NoNewPrivs": "1", "Seccomp": "2"}


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name in STATUS}


def has_landlock():
    """landlock_create_ruleset with LANDLOCK_CREATE_RULESET_VERSION, whose number is the same on all architectures."""
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1


class Confinement(Case):
    def need_confinement(self):
        if "STALLTRACE_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("sanitizers need what is given up")

    def test_a_query_has_no_more_rights_than_it_needs(self):
        self.need_confinement()
        recording = recordings.make(self.folder / "a.db")
        query = subprocess.Popen([PROGRAM, "query", recording, ENDLESS, "--timeout", "30s"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(query.wait, 10)
        self.addCleanup(query.kill)
        end = time.monotonic() + 10
        while status_of(query.pid) != STATUS and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(status_of(query.pid), STATUS)

    def test_what_the_kernel_refuses_is_reported_and_reading_goes_on(self):
        self.need_confinement()
        recording = recordings.make(self.folder / "a.db")
        prefix = (BUILD / "tests" / "without_syscalls", "confinement")
        for words in (("query", recording, "SELECT 7"), ("explain", recording), ("merge", recording, "--out", self.folder / "b.db")):
            with self.subTest(words[0]):
                free = run(*words)
                (self.folder / "b.db").unlink(missing_ok=True)
                refused = run(*words, prefix=prefix)
                self.assertEqual((refused.returncode, refused.stdout), (free.returncode, free.stdout), refused.stderr)
                self.assert_says("rights are not given up", refused.stderr.splitlines()[0],
                                 landlock=", Landlock: Operation not permitted" if has_landlock() else "")
                self.assertEqual(free.stderr.splitlines(), refused.stderr.splitlines()[1:])

    def test_a_folder_that_does_not_exist_is_no_refusal(self):
        self.need_confinement()
        recording = recordings.make(self.folder / "a.db")
        self.refused(run("merge", recording, "--out", self.folder / "none" / "b.db"), FAILED, "b.db")
