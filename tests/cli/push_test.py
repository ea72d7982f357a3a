# SPDX-License-Identifier: Apache-2.0
"""What agents hand over to a server that takes it in: recordings by `push` and `trace --push`, findings by `trace --live --push`."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import recordings
from confinement_test import STATUS, status_of
from job import Job, Tracer, wait_until
from processes import free_port
from servers import Served
from stalltrace import BUILD, DONE, FAILED, PROGRAM, USAGE, Case, run

TOKEN = "0123456789abcdef"


class Pushing(Case):
    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db", 500)
        self.token = self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.accepted = self.folder / "accepted"

    def serve(self, *words, listen="127.0.0.1:0", lines=2):
        served = Served("--accept", self.accepted, "--token-file", self.token, "--listen", listen, *words, lines=lines)
        self.addCleanup(served.close)
        return served

    def push(self, url, *words, recording=None, token=None):
        return run("push", recording or self.recording, "--to", url, "--token-file", token or self.token, *words)

    def names(self):
        """Hidden ones too."""
        return sorted(os.listdir(self.accepted))

    def test_a_recording_is_taken_in_once(self):
        served = self.serve()
        self.assertIn(str(self.accepted), served.lines[1])
        for shown in ("pushed to a server", "pushed before"):
            pushed = self.push(f"http://{served.address}")
            self.done(pushed)
            self.assert_says(shown, pushed.stderr)
            name, = self.names()
            self.assertRegex(name, r"^node0-\d{8}T\d{6}Z\.db$")
            self.assertIn(name, pushed.stderr)
            self.assertEqual((self.accepted / name).read_bytes(), self.recording.read_bytes())
            self.assertEqual((self.accepted / name).stat().st_mode & 0o777, 0o600)
        other = recordings.make(self.folder / "b.db", 300)
        self.done(self.push(f"http://{served.address}", recording=other))
        self.assertEqual(len(self.names()), 2)
        self.done(run("explain", *(self.accepted / name for name in self.names()[:1])))
        self.assertEqual(served.close(), DONE)

    def test_over_tls_the_certificate_has_to_be_known(self):
        served = self.serve(listen="0.0.0.0:0", lines=3)
        url = f"https://{served.address}"
        fingerprint = served.lines[1].split()[-1]
        self.refused(self.push(url), FAILED, fingerprint)
        self.assertEqual(self.names(), [])
        self.done(self.push(url, "--tls-fingerprint", fingerprint))
        self.assertEqual(len(self.names()), 1)

    def test_a_server_that_is_down_at_first(self):
        port = free_port()
        pushing = subprocess.Popen([PROGRAM, "push", self.recording, "--to", f"http://127.0.0.1:{port}", "--token-file", self.token,
                                    "--timeout", "30s"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(pushing.wait, 10)
        self.addCleanup(pushing.kill)
        time.sleep(1)
        self.assertIsNone(pushing.poll())
        self.serve(listen=f"127.0.0.1:{port}")
        _, errors = pushing.communicate(timeout=40)
        self.assertEqual(pushing.returncode, DONE, errors)
        self.assertEqual(len(self.names()), 1)

    def test_where_nothing_listens_it_ends_in_time_and_the_recording_stays(self):
        begin = time.monotonic()
        self.refused(self.push(f"http://127.0.0.1:{free_port()}", "--timeout", "1s"), FAILED, "a.db", "a recording was not pushed")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertTrue(self.recording.exists())

    def test_what_waiting_does_not_make_right_is_reported_at_once(self):
        served = self.serve()
        wrong = self.folder / "wrong"
        wrong.write_text("f" * 16 + "\n")
        wrong.chmod(0o600)
        reading = Served(self.recording, "--token-file", self.token, "--listen", "127.0.0.1:0")
        self.addCleanup(reading.close)
        begin = time.monotonic()
        self.refused(self.push(f"http://{served.address}", token=wrong), FAILED, "a token is wrong")
        self.refused(run("push", self.recording, "--to", f"http://{served.address}", environment={"STALLTRACE_TOKEN": TOKEN}), FAILED,
                     "a token is missing")  # any user can own a port of loopback
        self.refused(self.push(f"http://{reading.address}"), FAILED, "--accept")
        self.refused(self.push("http://gpu7:7700"), USAGE, "https://")
        self.refused(self.push("https://a,b"), USAGE, "one server is pushed to")
        self.refused(self.push(self.folder), USAGE, "--to")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(self.names(), [])

    def test_what_is_no_recording_or_too_much_is_not_taken(self):
        served = self.serve("--accept-limit", "1m")

        def post(path, body, **headers):
            request = urllib.request.Request(f"http://{served.address}{path}", body, {"Authorization": f"Bearer {TOKEN}", **headers})
            try:
                return urllib.request.urlopen(request, timeout=20).status
            except urllib.error.HTTPError as error:
                self.assertEqual(set(json.load(error)), {"error", "remedy"})
                return error.code

        self.assertEqual(post("/v1/recordings", b"x"), 400)
        self.assertEqual(post("/v1/recordings", b"x" * 10000, **{"Stalltrace-Bytes": "10000"}), 400)
        self.assertEqual(post("/v1/recordings", b"", **{"Stalltrace-Bytes": str(5 << 30)}), 413)
        self.assertEqual(post("/v1/recordings", b"", **{"Stalltrace-Bytes": str(2 << 20)}), 507)
        self.assertEqual(post("/v1/recordings", b"", Authorization="Bearer no"), 401)
        self.assertEqual(post("/v1/findings", b"{}"), 400)
        self.assertEqual(self.names(), [])
        line = {"node": "../x", "started_ns": 1_800_000_000_000_000_000, "cause": "late_rank"}
        for _ in range(2):
            self.assertEqual(post("/v1/findings", json.dumps(line).encode() + b"\n"), 200)
        name, = self.names()
        self.assertEqual([json.loads(text) for text in (self.accepted / name).read_text().splitlines()], [line])
        # A client that leaves in the middle.
        connection = socket.create_connection(("127.0.0.1", served.port))
        connection.sendall(f"POST /v1/recordings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nStalltrace-Bytes: 100000\r\n"
                           "Content-Length: 50000\r\n\r\n".encode() + b"x")
        wait_until(lambda: len(self.names()) == 2, "the file that is being received")
        connection.close()
        wait_until(lambda: self.names() == [name], "its end")

    def test_the_options_of_a_server_that_takes_in(self):
        self.refused(run("serve"), USAGE, "FILE", "--accept")
        self.refused(run("serve", "--accept", self.accepted, environment={"STALLTRACE_TOKEN": ""}), USAGE, "--token-file")
        self.accepted.mkdir()
        self.accepted.chmod(0o777)
        self.refused(run("serve", "--accept", self.accepted, "--token-file", self.token, "--listen", "127.0.0.1:0"), FAILED, "accepted")

    def test_such_a_server_has_no_more_rights_than_it_needs(self):
        if "STALLTRACE_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("sanitizers need what is given up")
        served = self.serve(self.recording)
        self.assertEqual(status_of(served.process.pid), STATUS)
        self.done(self.push(f"http://{served.address}"))

    def test_the_recording_is_sent_when_the_trace_ends(self):
        self.need_root()
        served = self.serve()
        out = self.folder / "t.db"
        result = run("trace", "--duration", "1s", "--node", "node7", "--out", out, "--push", f"http://{served.address}", "--token-file", self.token)
        self.assertEqual(result.returncode, DONE, result.stderr)
        name, = self.names()
        self.assertRegex(name, r"^node7-\d{8}T\d{6}Z\.db$")
        rows = "SELECT name, started_ns, ended_ns FROM node"
        self.assertEqual(recordings.rows(self.accepted / name, rows), recordings.rows(out, rows))

    def test_where_it_can_not_be_sent_the_trace_is_done_all_the_same(self):
        self.need_root()
        out = self.folder / "t.db"
        served = Served(self.recording, "--token-file", self.token, "--listen", "127.0.0.1:0")
        self.addCleanup(served.close)
        result = run("trace", "--duration", "1s", "--out", out, "--push", f"http://{served.address}", "--token-file", self.token)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertIn("--accept", result.stderr.splitlines()[-1])
        self.done(run("query", out, "SELECT * FROM node"))
        missing = run("trace", "--duration", "1s", "--out", self.folder / "u.db", "--push", f"http://{served.address}", "--token-file",
                      self.folder / "none")
        self.assertNotEqual(missing.returncode, DONE)
        self.assertFalse((self.folder / "u.db").exists(), "what is wrong is reported before the trace")

    def test_the_recording_of_a_run_is_sent_at_its_end(self):
        self.need_root()
        served = self.serve()
        folder = self.folder / "r"
        words = ("--push", f"http://{served.address}", "--token-file", self.token, "--", "sh", "-c", "exit 3")
        result = run("run", "--out", folder, "--node", "node7", *words)
        self.assertEqual(result.returncode, 3, result.stderr)
        name, = self.names()
        self.assertIn(name, result.stderr.splitlines()[-1])
        rows = "SELECT name, started_ns FROM node"
        self.assertEqual(recordings.rows(self.accepted / name, rows), recordings.rows(folder / "trace.db", rows))
        self.refused(run("run", "--token-file", self.token, "--", "true"), USAGE, "--push")

    def expect_findings(self, folder, *push):
        """A stopped rank is in `folder` while the trace goes on, and its end once it is over."""
        tracer = Tracer(self, "--live", "--node", "node7", *push)
        job = Job(self)
        job.wait_for_steps(60)
        job.ranks[1].send_signal(signal.SIGSTOP)

        def lines():
            return [json.loads(line) for path in folder.glob("*.findings.jsonl") for line in path.read_text().splitlines()]

        wait_until(lambda: any(line["finding"]["cause"] == "process_stopped" for line in lines()), "a finding")
        self.assertIsNone(tracer.process.poll())
        job.ranks[1].send_signal(signal.SIGCONT)
        wait_until(lambda: any(line["news"] == "ended" for line in lines()), "its end")
        job.kill()
        self.assertEqual(tracer.stop(), DONE)
        found = lines()
        first = found[0]
        self.assertEqual((first["node"], first["number"], first["news"]), ("node7", 1, "began"))
        # Where the machine is busy, an earlier moment may be one, too.
        self.assertIn("process_stopped", {line["finding"]["cause"] for line in found if line["news"] == "began"})
        (started_ns,), = tracer.rows("SELECT started_ns FROM node")
        self.assertEqual(first["started_ns"], started_ns)
        (detected_ns,), = tracer.rows("SELECT min(detected_ns) FROM finding")
        self.assertEqual(first["finding"]["detected_ns"], detected_ns)
        self.assertEqual(len({name.split(".")[0] for name in os.listdir(folder)}), 1)  # the recording has the same name

    def test_findings_are_sent_when_they_are_made(self):
        self.need_root()
        served = self.serve()
        self.expect_findings(self.accepted, "--push", f"http://{served.address}", "--token-file", self.token)

    def test_findings_go_to_a_folder_when_they_are_made(self):
        self.need_root()
        folder = self.folder / "collected"
        folder.mkdir()
        self.expect_findings(folder, "--push", folder)
