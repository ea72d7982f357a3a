# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: the unit file's user has no other right than the unit's capabilities."""

import os
import re
import shutil
import signal
import stat

import recordings
from job import Job
from processes import start_tracer
from stalltrace import DONE, PROGRAM, ROOT, Case

UNIT = (ROOT / "packaging" / "stalltrace.service").read_text()
USER = 65534


def values(name):
    """Of one setting of the unit."""
    return re.search(rf"^{name}=(.*)$", UNIT, re.MULTILINE)[1].split()


class Service(Case):
    def setUp(self):
        super().setUp()
        self.need_root()

    def as_the_unit(self):
        """A command that runs stalltrace with the unit's capabilities, as a user who has no other."""
        own = self.folder / "own"
        own.mkdir()
        program = own / "stalltrace"
        shutil.copy(PROGRAM, program)
        for path in (own, program):
            os.chown(path, USER, USER)
        wanted = ",".join("+" + name.removeprefix("CAP_").lower() for name in values("AmbientCapabilities"))
        wrapper = self.folder / "service"
        wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs'
                           f' --inh-caps={wanted} --ambient-caps={wanted} --bounding-set=-all,{wanted} -- {program} "$@"\n')
        wrapper.chmod(0o755)
        return wrapper, own

    def test_its_capabilities_suffice_for_the_jobs_of_all_users(self):
        self.assertEqual(values("AmbientCapabilities"), values("CapabilityBoundingSet"))
        service, own = self.as_the_unit()
        words = re.search(r"stalltrace trace (.*?) --out", UNIT)[1].split()
        recording = own / "node.db"
        tracer = start_tracer(service, *words, "--out", recording, log=self.folder / "tracer.log")
        self.addCleanup(tracer.wait, 30)
        self.addCleanup(tracer.kill)
        job = Job(self, "--steps", 60)
        job.wait()
        tracer.send_signal(signal.SIGTERM)
        self.assertEqual(tracer.wait(timeout=30), DONE, (self.folder / "tracer.log").read_text())
        info = recording.stat()
        self.assertEqual((stat.S_IMODE(info.st_mode), info.st_uid), (0o640, USER))
        ranks = recordings.rows(recording, "SELECT rank, count(*) FROM collective WHERE duration_ns > 0 GROUP BY rank ORDER BY rank")
        self.assertEqual([rank for rank, _ in ranks], [0, 1])
        self.assertTrue(all(calls > 60 for _, calls in ranks), ranks)
        self.assertGreater(recordings.rows(recording, "SELECT count(*) FROM wait_span")[0][0], 0)
        self.assertEqual(recordings.rows(recording, "SELECT * FROM loss"), [])
