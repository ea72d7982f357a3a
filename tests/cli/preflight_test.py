# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight`: settings of this process or another one, reports of several nodes compared, tests by servers."""

import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import recordings
from job import wait_until
from processes import free_port
from servers import Served
from stalltrace import BUILD, FAILED, PROGRAM, USAGE, Case, run

PREFLIGHT_FAILED = 4
TOKEN = "0123456789abcdef"
SECRET = "a" * 32 + "b" * 32


def child_of(pid):
    """The first one that it started: of a server with --allow-preflight its helper, of that the tests' process."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


class OlderServer(http.server.BaseHTTPRequestHandler):
    """Answers as a version does that knows no tests of the network."""

    def do_POST(self):
        body = json.dumps({"error": "there is nothing at this path", "remedy": "unknown"}).encode()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


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

    def collectives(self, *words, ranks=2):
        """Plays a launch on the loopback with the lab's NCCL. Rank 0's result, which is JSON, and what the others returned."""
        launch = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "NCCL_SOCKET_IFNAME": "lo"}
        words = ["preflight", "--network", "--collectives", "--port", str(free_port()), "--json", "--test-time", "100ms", *words]
        others = [subprocess.Popen([PROGRAM, *words], env={**os.environ, **launch, "RANK": str(rank)}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE) for rank in range(1, ranks)]
        for other in others:
            self.addCleanup(other.communicate)
        result = run(*words, environment={**launch, "RANK": "0"})
        self.assertEqual({other.wait(10) for other in others}, {result.returncode}, result.stderr)
        return result, json.loads(result.stdout)

    def test_the_jobs_library_makes_collectives(self):
        library = BUILD / "lab/lib/libnccl.so.2"
        result, report = self.collectives("--library", library, "--max-size", "16k", ranks=3)
        found = report["collectives"]
        checks = [check for check in report["checks"] if check["check"] == "collectives"]
        self.assertEqual([check["outcome"] for check in checks], ["ok"], checks)
        self.assertEqual((found["ranks"], found["library"], found["versions"]), (3, str(library), {"2.28.9": [0, 1, 2]}))
        self.assertEqual((found["complete"], found["wrong"], found["max_bytes"]), (True, [], 16384))
        self.assertEqual({time["operation"] for time in found["times"]},
                         {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv"})
        largest, = [time for time in found["times"] if time["operation"] == "AllReduce" and time["bytes"] == 16384]
        self.assertGreater(largest["algbw_gb_per_s"], 0)
        self.assertAlmostEqual(largest["busbw_gb_per_s"] / largest["algbw_gb_per_s"], 4 / 3)
        self.assert_says("preflight_announces_collectives", result.stderr)

    def test_a_missing_library_is_one_line(self):
        result, report = self.collectives("--library", "/nowhere/libnccl.so.2")
        check, = [check for check in report["checks"] if check["check"] == "collectives"]
        self.assertEqual((check["outcome"], check["subject"]), ("unknown", ""))
        self.assertIn("/nowhere/libnccl.so.2", check["detail"])
        self.assertIn("--library", check["remedy"])
        self.assertEqual(report["collectives"]["times"], [])
        self.assertNotIn("/nowhere", result.stderr)

    def test_collectives_need_a_launch_and_limits(self):
        launch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        self.refused(self.check("--collectives", **launch), USAGE, "--network")
        self.refused(self.check("--network", "--collectives", "--max-size", "none", **launch), USAGE, "--max-size")
        self.refused(self.check("--network", "--collectives", "--max-size", "5g", **launch), USAGE, "--max-size")
        self.refused(self.check("--network", "--library", "libnccl.so.2", **launch), USAGE, "--collectives")

    def test_a_rank_that_does_not_come_fails(self):
        result = self.check("--network", "--port", free_port(), "--wait", "3s", RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1")
        self.assertEqual(result.returncode, PREFLIGHT_FAILED, result.stderr)
        self.assert_says("preflight_missing_ranks", result.stdout)

    def test_what_is_no_launch_is_refused(self):
        network = ["--network", "--port", free_port(), "--wait", "200ms"]
        launch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        self.refused(self.check(*network), USAGE, "launch")
        self.refused(self.check(*network, RANK="1", WORLD_SIZE="2"), USAGE, "rank 0")
        self.refused(self.check(*network, **launch), FAILED, "rank 0 is not reached")
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


class ByServers(Case):
    """`preflight --nodes`. Two servers on this host are two ranks of one node: no pair is tested (tests/jobs has virtual nodes)."""

    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db")
        self.token = self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    def serve(self, number, *words, **settings):
        """Its address. The last one's process is self.server."""
        served = Served(self.recording, "--listen", f"127.0.0.{number}:0", "--token-file", self.token, *words,
                        environment={**os.environ, **settings})
        self.addCleanup(served.close)
        self.server = served.process
        return f"127.0.0.{number}:{served.port}"

    @contextlib.contextmanager
    def begun_tests(self, address):
        """A rank's tests, for as long as this is rank 0: its answer, and its connection."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener, \
                self.post(address, self.rank_1(listener.getsockname()[1], limit_ms=60000)) as answer:
            listener.settimeout(10)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                self.assertTrue(connection.recv(1))
                yield answer, connection

    def preflight(self, nodes, *words):
        return run("preflight", "--nodes", ",".join(nodes), "--token-file", self.token, "--port", free_port(), "--test-time", "100ms",
                   *words)

    def post(self, address, body, token=TOKEN):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://{address}/v1/preflight", json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=10)

    def status(self, *request, **options):
        try:
            with self.post(*request, **options) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def rank_1(self, port, **changes):
        return {"ask": "tests", "rank": 1, "ranks": 2, "secret": SECRET, "masters": ["127.0.0.1"], "port": port, "wait_ms": 8000,
                "limit_ms": 20000, "rounds": 1, "test_ms": 100, "test_bytes": 1000000, "max_mbit": 0, **changes}

    def test_servers_make_the_tests_and_a_node_that_is_down_fails(self):
        # The servers' environment is not that of a job.
        nodes = [self.serve(number, "--allow-preflight", NCCL_IB_TIMEOUT="never") for number in (2, 3)]
        down = f"127.0.0.4:{free_port()}"
        result = self.preflight([nodes[0], down, nodes[1]], "--json")
        self.assertEqual(result.returncode, PREFLIGHT_FAILED, result.stderr)
        self.assert_says("preflight_announces", result.stderr)
        report = json.loads(result.stdout)
        self.assertTrue(report["failed"])
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1])
        self.assertIn(report["ranks"][1]["barrier_rounds"], range(1, 201))
        self.assertEqual((len(report["nodes"]), report["pairs"]), (1, []))
        self.assertFalse({"nccl_setting", "cpu_affinity", "locked_memory", "cpu_quota"} & {check["check"] for check in report["checks"]})
        missing, = [check for check in report["checks"] if check["check"] == "launch"]
        self.assertEqual(missing["outcome"], "failed")
        self.assertIn(down, missing["detail"])
        self.assertIn("refused", missing["detail"])
        strict = self.preflight([*nodes, down], "--require-all")
        self.assertEqual((strict.returncode, strict.stdout), (FAILED, ""))
        self.assertIn(down, strict.stderr)
        again = self.preflight(nodes)  # they are free again
        self.assertNotIn("launch", again.stdout)
        self.assertIn("barrier", again.stdout)

    def test_each_node_that_takes_no_part_has_the_remedy_of_its_reason(self):
        takes_part = [self.serve(number, "--allow-preflight") for number in (2, 3)]
        lost = self.serve(4, "--allow-preflight")
        os.kill(child_of(self.server.pid), signal.SIGKILL)
        wait_until(lambda: self.status(lost, {"ask": "ready"}) == 500, "the end of its helper", 20)
        silent = socket.create_server(("127.0.0.5", 0))  # it accepts nothing
        self.addCleanup(silent.close)
        older = http.server.HTTPServer(("127.0.0.6", 0), OlderServer)
        thread = threading.Thread(target=older.serve_forever)
        thread.start()
        self.addCleanup(older.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(older.shutdown)
        sentence_of = {self.serve(7): "preflight_remedy_not_allowed",
                       lost: "preflight_remedy_helper_died",
                       f"127.0.0.8:{free_port()}": "preflight_remedy_refused",
                       f"127.0.0.5:{silent.getsockname()[1]}": "preflight_remedy_silent",
                       f"127.0.0.6:{older.server_port}": "preflight_remedy_other_version"}
        result = self.preflight([*takes_part, *sentence_of], "--json", "--node-timeout", "2s")
        self.assertEqual(result.returncode, PREFLIGHT_FAILED, result.stderr)
        remedies = {check["detail"].split()[0]: check["remedy"] for check in json.loads(result.stdout)["checks"] if check["check"] == "launch"}
        self.assertEqual(remedies.keys(), sentence_of.keys())
        self.assertEqual(len(set(remedies.values())), len(sentence_of))
        for node, name in sentence_of.items():
            self.assert_says(name, remedies[node])

    def test_what_is_needed_on_both_sides(self):
        self.refused(run("serve", self.recording, "--listen", "127.0.0.2:0", "--allow-preflight", environment={"STALLTRACE_TOKEN": ""}),
                     USAGE, "--token-file")
        reads_only = self.serve(2)
        self.assertEqual(self.status(reads_only, {"ask": "ready"}), 403)
        self.refused(self.preflight([reads_only]), FAILED, reads_only)
        allows = self.serve(3, "--allow-preflight")
        self.assertEqual(self.status(allows, {"ask": "ready"}), 200)
        self.assertEqual(self.status(allows, {"ask": "ready"}, token=None), 401)
        self.assertEqual(self.status(allows, {"ask": "ready"}, token="x" * 16), 401)
        self.assertEqual(self.status(allows, self.rank_1(0)), 400)
        self.assertEqual(self.status(allows, self.rank_1(7702, masters=["localhost"])), 400)
        self.refused(run("preflight", "--nodes", allows, "--network"), USAGE, "--network")
        self.refused(run("preflight", "--nodes", allows, "--pid", "1"), USAGE, "--pid")
        self.refused(run("trace", "--allow-preflight", "--out", self.folder / "none.db"), USAGE, "--serve")

    def test_one_at_a_time_and_a_client_that_leaves_ends_the_tests(self):
        address = self.serve(2, "--allow-preflight")
        with self.post(address, self.rank_1(free_port(), wait_ms=60000, limit_ms=60000)):  # nothing listens there: it goes on trying
            self.assertEqual(self.status(address, {"ask": "ready"}), 409)
            self.assertEqual(self.status(address, self.rank_1(free_port())), 409)
        wait_until(lambda: self.status(address, {"ask": "ready"}) == 200, "the end of the tests", 20)

    def test_the_tests_end_with_the_server(self):
        address = self.serve(2, "--allow-preflight")
        with self.begun_tests(address) as (_, connection), contextlib.suppress(ConnectionResetError):
            self.server.kill()
            while connection.recv(65536):
                pass

    def test_tests_that_are_killed_have_a_reason_and_the_next_ones_begin(self):
        address = self.serve(2, "--allow-preflight")
        with self.begun_tests(address) as (answer, _):
            os.kill(child_of(child_of(self.server.pid)), signal.SIGKILL)
            last = json.loads(answer.read().splitlines()[-1])
        self.assertIn("signal 9", last["error"])
        self.assertEqual(self.status(address, {"ask": "ready"}), 200)
        with self.begun_tests(address):
            pass

    def test_the_time_for_all_ends_the_tests(self):
        address = self.serve(2, "--allow-preflight")
        with self.post(address, self.rank_1(free_port(), limit_ms=300)) as answer:
            last = json.loads(answer.read().splitlines()[-1])
        self.assertIn("300 ms", last["error"])
        self.assertEqual(self.status(address, {"ask": "ready"}), 200)

    def test_another_program_at_rank_0s_port_has_no_order_followed(self):
        address = self.serve(2, "--allow-preflight")
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener, \
                self.post(address, self.rank_1(listener.getsockname()[1])) as answer:
            listener.settimeout(10)
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as lines:
                hello = json.loads(lines.readline())
                self.assertEqual(hello["admission"], SECRET[:32])
                self.assertNotIn(SECRET[32:], json.dumps(hello))
                lines.write(json.dumps({"order": "respond"}) + "\n")
                lines.flush()
                self.assertEqual(lines.readline(), "")
            last = json.loads(answer.read().splitlines()[-1])
        self.assertIn("secret", last["error"])
