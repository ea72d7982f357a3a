# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: the unit file's user has no other right than the unit's capabilities. What root needs more to serve."""

import json
import os
import re
import shutil
import signal
import stat
import urllib.request

import recordings
from job import Job, wait_until
from processes import start_tracer
from servers import Served
from stalltrace import DONE, PROGRAM, ROOT, Case

UNIT = (ROOT / "packaging" / "stalltrace.service").read_text()
USER = 65534
TOKEN = "0123456789abcdef"


def values(name):
    """Of one setting of the unit."""
    return re.search(rf"^{name}=(.*)$", UNIT, re.MULTILINE)[1].split()


def for_setpriv(capabilities):
    """As setpriv names them: these alone."""
    return ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in capabilities)])


def is_ready(address):
    """Whether that server would take part in tests of the network."""
    request = urllib.request.Request(f"{address}/v1/preflight", b'{"ask":"ready"}', {"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read()) == {"ready": True}


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
        wanted = for_setpriv(values("AmbientCapabilities"))
        wrapper = self.folder / "service"
        wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs'
                           f' --inh-caps={wanted} --ambient-caps={wanted} --bounding-set={wanted} -- {program} "$@"\n')
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

    def test_it_may_serve_and_take_part_in_tests_of_the_network(self):
        service, own = self.as_the_unit()
        token = own / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        os.chown(token, USER, USER)
        log = self.folder / "tracer.log"
        tracer = start_tracer(service, "--out", own / "node.db", "--serve", "127.0.0.1:0", "--token-file", token, "--allow-preflight",
                              log=log)
        self.addCleanup(tracer.wait, 30)
        self.addCleanup(tracer.kill)
        wait_until(lambda: re.search(r"http://\S+:\d+\n", log.read_text()), "the server")
        self.assertTrue(is_ready(re.search(r"http://\S+:\d+", log.read_text())[0]))


class ServingAsRoot(Case):
    """`serve --allow-preflight` with the bounding set of the unit's drop-in for root (docs/cluster.md), and that of docs/serve.md."""

    def setUp(self):
        super().setUp()
        self.need_root()
        self.token = self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.recording = recordings.make(self.folder / "a.db")

    def serve(self, *capabilities):
        bounding = [*re.search(r"^    CapabilityBoundingSet=(.*)$", (ROOT / "docs" / "cluster.md").read_text(), re.MULTILINE)[1].split(),
                    *capabilities]
        return Served(self.recording, "--listen", "127.0.0.1:0", "--token-file", self.token, "--allow-preflight",
                      prefix=["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={for_setpriv(bounding)}", "--"])

    def test_a_change_of_user_takes_both_capabilities(self):
        for capabilities in ((), ("CAP_SETUID",), ("CAP_SETGID",)):
            with self.subTest(capabilities), self.assertRaisesRegex(RuntimeError, "CAP_SETUID"):
                self.addCleanup(self.serve(*capabilities).close)
        served = self.serve("CAP_SETUID", "CAP_SETGID")
        self.addCleanup(served.close)
        self.assertTrue(is_ready(f"http://{served.address}"))
