# SPDX-License-Identifier: Apache-2.0
"""docs/runbook.md and docs/hung_job.md: their commands run as they stand there, on recordings of a simulated job, NCCL's logs and an
answer of NCCL's RAS. Those that look at running jobs, take root or several hosts are run by other tests, which COVERED names."""

import ast
import contextlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading

import perfetto
import recordings
from evidence_formats_test import ras
from evidence_test import call
from help_pages import commands_of
from servers import Served, SimulatedNodes
from stalltrace import BUILD, DONE, ROOT, Case, run

PAGES = ("runbook.md", "hung_job.md")
PREFLIGHT_FAILED = 4
JOB = ("--nodes", 2, "--ranks-per-node", 2, "--steps", 40, "--plugin", "--fault", "packet_loss:node=1,per_step=3,from=10")
SETTINGS = {"NCCL_IB_DISABLE": "true", "NCCL_SOCKET_IFNAME": "lo"}  # the mistake of docs/hung_job.md, which preflight finds on any host
RAS_ANSWERS = 2  # that `import --ras` asks for
# Added to the recording of node1, as a model has neither: launches of one rank that take longer than the others', and counters that rose.
OUTLIER = "UPDATE collective SET launch_ns = 3 * launch_ns WHERE rank = 3;"
COUNTERS = """
INSERT INTO host_sample(node_id, timestamp_ns, name, detail, value)
  SELECT node_id, started_ns, 'softnet_drops', '1', rise FROM node, (SELECT 1 AS rise UNION ALL SELECT 400);
INSERT INTO port_counter(node_id, timestamp_ns, device, port, name, value)
  SELECT node_id, started_ns, 'mlx5_0', 1, 'symbol_error', rise FROM node, (SELECT 7 AS rise UNION ALL SELECT 19);
"""
# An authority, and a certificate of it for nodes at 127.0.0.1.
CERTIFICATES = """
set -e
key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${key[@]}" -days 2 -subj /CN=fleet -keyout ca.key -out ca.pem
openssl req "${key[@]}" -subj /CN=node -keyout node.key -out node.csr
openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) -out node.pem
"""

LINK = r"10\.0\.0\.2:\d+\) -> rank 0 \(10\.0\.0\.1:\d+"  # of JOB's fault
LOSS = (r"^\[1\] packet_loss \(high", rf"^  where +link rank 3 \({LINK}\)$", r"^  cost +\d+\.\d s of waiting in \d+ collectives",
        r"^  evidence ", r"^  do +.*10\.0\.0\.2 -> 10\.0\.0\.1")
BEHIND = (r"^\[1\] missing_collective \(waiting", r"^  where +rank 7 on node1, pid 107$", r" AllReduce 0x1e: rank 0 \(collective\)$",
          r" AllReduce 0x1d: rank 7 \(collective\)$", r"^  note +.*\branks 1 to 6: ")
# The transfer's part of one instance, which lists the causes without evidence in their order.
WEIGHED = (r"^transfer \+.*: a stall\n  why +.* \d+ ms; .*", r"^  missing +process_stopped: ", r"^ +congestion: ")

# What is run: the exit code, and what the page promises of the answer, as patterns that lines of it match.
RUN = {
    "stalltrace explain node0.db node1.db": (DONE, LOSS),
    "stalltrace explain *.db": (DONE, LOSS),
    "stalltrace explain --nodes gpu[001-128] --token-file token --tls-ca ca.pem": (DONE, LOSS),
    "stalltrace explain --nodes LIST": (DONE, LOSS),
    "stalltrace explain node0.db --instance 0:17": (DONE, (*WEIGHED, r"^  had +unknown: ")),
    "stalltrace explain *.db --instance NODE:NUMBER": (DONE, (*WEIGHED, r"^  had +packet_loss: 10\.0\.0\.2:\d+ to 10\.0\.0\.1:\d+ ")),
    "stalltrace nodes --nodes gpu[001-128] --token-file token --tls-ca ca.pem":
        (DONE, [rf"^127\.0\.0\.1:\d+ +\d+\.\d+\.\d+ +-?[\d.]+ +[\d.]+ +\S+ +{node}\.db +{node} +complete .* [1-9]\d+ +0$"
                for node in ("node0", "node1")]),
    'stalltrace query --nodes slurm "SELECT rank, avg(launch_ns) AS ns FROM collective GROUP BY rank" --outliers ns':
        (DONE, (r"\Anode +rank +ns +z\n[ -]+\nnode1 +3 +\d+\.\d+ +[1-9]\d*\.\d+\n",  # OUTLIER comes first
                r"^node0 +0 +\d+\.\d+ +-?\d\.\d+$", r"^node0 +1 ", r"^node1 +2 ")),
    'stalltrace query slow.db "$(cat docs/queries/slowest.sql)"': (DONE, (r"^ALL_REDUCE +[01] +4 +\d{3,}\.\d+$",)),
    'stalltrace query node1.db "$(cat docs/queries/retransmits_by_link.sql)"':
        (DONE, (r"^ +3 +NULL +10\.0\.0\.2 +10\.0\.0\.1 +[1-9]\d+ +[1-9]\d+$",)),
    'stalltrace query node1.db "$(cat docs/queries/counters.sql)"':
        (DONE, (r"^node1 +softnet_drops +1 +399\.0$", r"^node1 +symbol_error +mlx5_0/1 +12\.0$")),  # COUNTERS
    "stalltrace explain slow.db": (DONE, (r"^\[1\] unknown \(", r" ranks 2 and 3 \(missing\)$")),  # the other node is missing
    "stalltrace explain evidence/": (DONE, BEHIND),
    "stalltrace explain FOLDER": (DONE, BEHIND),
    "stalltrace import evidence/ --out job.db": (DONE, (r"^job\.db: 2 NCCL logs of 2 processes: 61 calls$",)),
    "stalltrace explain job.db": (DONE, BEHIND),
    "stalltrace import --ras localhost:28028 --out ras.db": (DONE, (r"^ras\.db: .*:\d+: 2 reports$",)),
    "stalltrace explain ras.db": (DONE, (r"^\[1\] missing_collective \(waiting", r"^  where +rank 5 on 10\.0\.0\.1, pid 105$",
                                         r": 30 AllReduce .* rank 5 \(10\.0\.0\.1, pid 105\), 31 AllReduce ")),
    "stalltrace export *.db --out job.pftrace": (DONE, (r"^job\.pftrace: [1-9]\d+ slices .* [1-9]\d+ flows$",)),
    "stalltrace preflight": (PREFLIGHT_FAILED, (r"^FAILED +nccl_setting +NCCL_IB_DISABLE=true .*\n +-> .*\b0 to 1$",
                                                r"^\w+ +interface +lo ", r"^\w+ +shared_memory /dev/shm ", r"^\w+ +clock ")),
    "stalltrace preflight --json": (PREFLIGHT_FAILED, (r'"subject": "NCCL_IB_DISABLE",\s+"outcome": "failed"',)),
    "stalltrace preflight node0.json node1.json": (DONE, (r"^warning +differs +setting NCCL_ALGO +Ring on node1; .* node0$",)),
}

# What a command leaves: the rows that a statement finds in the recording that it made.
MADE = {
    # The calls of each rank's log, whose ends no log has.
    "stalltrace import evidence/ --out job.db":
        ("job.db", "SELECT rank, pid, COUNT(*), COUNT(duration_ns) FROM nccl_events WHERE op = 'ALL_REDUCE' GROUP BY 1, 2 ORDER BY 1",
         [(0, 100, 31, 0), (7, 107, 30, 0)]),
    # How many calls each rank has launched, by both answers.
    "stalltrace import --ras localhost:28028 --out ras.db":
        ("ras.db", "SELECT rank, substr(text, instr(text, 'AllReduce ')), COUNT(*) FROM log_line WHERE kind = 'end' GROUP BY 1, 2",
         [(rank, "AllReduce 30" if rank == 5 else "AllReduce 31", RAS_ANSWERS) for rank in range(8)]),
}

# What is not, and the test that runs the subcommand in this way. A command without arguments names a subcommand.
COVERED = {
    "stalltrace explain": "tests/cli/simulate_test.py:Simulate.test_a_fault",
    "stalltrace mcp": "tests/cli/mcp_test.py:Mcp.test_every_answer_matches_its_schema_and_leads_on",
    "stalltrace serve": "tests/cli/serve_test.py:Serving.test_nodes_give_what_their_files_would",
    "stalltrace trace --serve": "tests/cli/serve_test.py:Serving.test_a_recording_is_served_while_it_is_written",
    "srun --ntasks-per-node=8 stalltrace preflight --network --collectives":
        "tests/jobs/preflight_test.py:Preflight.test_collectives_of_the_jobs_library",
    "stalltrace check": "tests/cli/tracing_test.py:Check.test_this_host",
    "sudo stalltrace trace --duration 2m": "tests/cli/tracing_test.py:Trace.test_a_host_without_a_job_is_traced_in_peace",
    "sudo stalltrace trace --duration 2m --out $(hostname).db":
        "tests/cli/tracing_test.py:Trace.test_a_host_without_a_job_is_traced_in_peace",
    "sudo stalltrace stacks": "tests/jobs/stacks_test.py:PyTorch.test_a_data_loader_that_sleeps",
    "sudo stalltrace autopsy": "tests/jobs/autopsy_test.py:Autopsy.test_nccl_an_absent_rank",
    "sudo stalltrace autopsy --out $(hostname).json": "tests/cli/autopsy_test.py:Autopsy.test_a_rank_that_is_elsewhere",
    "stalltrace autopsy --nodes gpu[001-008]":
        "tests/jobs/autopsy_nodes_test.py:AutopsyNodes.test_a_rank_of_another_node_is_elsewhere",
    "stalltrace serve --allow-autopsy": "tests/jobs/autopsy_nodes_test.py:AutopsyNodes.test_a_rank_of_another_node_is_elsewhere",
    "stalltrace autopsy *.json": "tests/cli/autopsy_test.py:Autopsy.test_results_of_several_hosts",
    "srun --ntasks-per-node=1 stalltrace preflight --network":
        "tests/jobs/preflight_test.py:Preflight.test_each_fault_between_nodes_is_found",
    "stalltrace serve --allow-preflight": "tests/jobs/preflight_test.py:Preflight.test_servers_find_a_fault_without_a_launch",
    "stalltrace preflight --nodes gpu[001-016] --token-file token --tls-ca ca.pem":
        "tests/jobs/preflight_test.py:Preflight.test_servers_find_a_fault_without_a_launch",
}


class Runbook(Case):
    def setUp(self):
        super().setUp()
        self.need_program("openssl")
        nodes = SimulatedNodes(self.folder / "job", *JOB, faults={})
        self.addCleanup(nodes.close)
        with contextlib.closing(sqlite3.connect(nodes.file(1))) as database:
            database.executescript(OUTLIER + COUNTERS)
        for node in (0, 1):
            shutil.copy(nodes.file(node), self.folder)
        shutil.copy(nodes.file(0), self.folder / "slow.db")
        (self.folder / "docs").symlink_to(ROOT / "docs")
        self.make_evidence()
        self.make_preflight_reports()
        query = "SELECT node_id, event_id & 0xffffffffff FROM collective WHERE op = 'ALL_REDUCE' ORDER BY duration_ns DESC LIMIT 1"
        instance = "{}:{}".format(*recordings.rows(nodes.file(0), query)[0])
        self.environment = {**os.environ, **SETTINGS, "PATH": f"{BUILD}:{os.environ['PATH']}",
                            "SLURM_JOB_NODELIST": ",".join(nodes.addresses)}  # of --nodes slurm
        # What a reader puts in place of a page's examples.
        self.replaced = {"gpu[001-128]": ",".join(self.serve_over_tls()), "LIST": nodes.list, "FOLDER": "evidence", "*.db": "node*.db",
                         "0:17": instance, "NODE:NUMBER": instance, "localhost:28028": f"localhost:{self.serve_ras()} --ras-pause 1ms"}

    def make_evidence(self):
        """Two ranks' logs: rank 7 is one call behind."""
        evidence = self.folder / "evidence"
        evidence.mkdir()
        for rank, last in ((0, 0x1e), (7, 0x1d)):
            (evidence / f"rank{rank}.log").write_text("".join(call(rank, number) for number in range(last + 1)))

    def serve_over_tls(self):
        """The addresses of the two nodes, which want the token in the file `token`, and whose certificate ca.pem signed."""
        made = subprocess.run(["bash", "-c", CERTIFICATES], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, DONE, made.stderr)
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        for secret in (token, self.folder / "node.key"):
            secret.chmod(0o600)
        addresses = []
        for node in (0, 1):
            served = Served(self.folder / f"node{node}.db", "--listen", "127.0.0.1:0", "--token-file", token, "--tls-cert",
                            self.folder / "node.pem", "--tls-key", self.folder / "node.key")
            self.addCleanup(served.close)
            addresses.append(served.address)
        return addresses

    def make_preflight_reports(self):
        for node, settings in enumerate(({}, {"NCCL_ALGO": "Ring"})):
            report = json.loads(run("preflight", "--json", environment=settings).stdout)
            (self.folder / f"node{node}.json").write_text(json.dumps({**report, "host": f"node{node}"}))

    def serve_ras(self):
        """The port of a service that answers as NCCL's RAS does: rank 5 is one call behind, both times."""
        listener = socket.create_server(("127.0.0.1", 0))

        def answer():
            with listener, contextlib.suppress(OSError):  # the listener is shut down where a page does not ask
                for second in range(RAS_ANSWERS):
                    connection, _ = listener.accept()
                    with connection:
                        asked = b""
                        while not asked.lower().endswith(b"status\n") and (more := connection.recv(1024)):
                            asked += more
                        connection.sendall(("SERVER PROTOCOL 2\nOK\nOK\n" + ras(second, behind=5)).encode())
        service = threading.Thread(target=answer)
        service.start()
        self.addCleanup(service.join, 10)
        self.addCleanup(self.shut_down, listener)
        return listener.getsockname()[1]

    @staticmethod
    def shut_down(listener):
        with contextlib.suppress(OSError):  # it is closed: all answers were given
            listener.shutdown(socket.SHUT_RDWR)

    def run_page(self, page):
        for command in commands_of(page):
            if command not in RUN:
                continue
            code, patterns = RUN[command]
            words = command
            for example, value in self.replaced.items():
                words = words.replace(example, value)
            with self.subTest(command):
                result = subprocess.run(["bash", "-c", words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        capture_output=True, text=True, timeout=60, check=False)
                output = result.stdout + result.stderr
                self.assertEqual(result.returncode, code, f"{words}\n{output}")
                for pattern in patterns:
                    self.assertRegex(output, re.compile(pattern, re.MULTILINE), words)
                if command in MADE:
                    file, statement, expected = MADE[command]
                    self.assertEqual(recordings.rows(self.folder / file, statement), expected)

    def test_the_runbook(self):
        self.run_page("runbook.md")

    def test_the_page_on_hung_jobs(self):
        self.run_page("hung_job.md")
        trace = perfetto.unpacked((self.folder / "job.pftrace").read_bytes())
        for what in (rb"packet_loss", rb"ALL_REDUCE|AllReduce", rb"10\.0\.0\.2:\d+ -> 10\.0\.0\.1:\d+"):
            self.assertRegex(trace, what)


class EachCommand(Case):
    def test_each_command_of_the_pages_is_run_or_another_test_is_named(self):
        shown = {command for page in PAGES for command in commands_of(page)}
        self.assertGreater(len(shown), 25)
        self.assertEqual(sorted(shown ^ (RUN.keys() | COVERED.keys())), [])
        self.assertEqual(RUN.keys() & COVERED.keys(), set())
        self.assertEqual(MADE.keys() - RUN.keys(), set())

    def test_a_token_goes_only_to_nodes_whose_certificate_is_known(self):
        asking = [(page.name, command) for page in sorted((ROOT / "docs").glob("*.md")) for command in commands_of(page.name)
                  if "--token-file" in command and re.search(r"--nodes |--push |--to ", command)]
        self.assertGreater(len(asking), 5)
        self.assertEqual([one for one in asking if not re.search(r" --tls-(ca|fingerprint) \S", one[1])], [], "the program refuses these")

    def test_the_tests_that_are_named_exist(self):
        for command, test in COVERED.items():
            path, name = test.split(":")
            names = [f"{part.name}.{method.name}" for part in ast.parse((ROOT / path).read_text()).body if isinstance(part, ast.ClassDef)
                     for method in part.body if isinstance(method, ast.FunctionDef)]
            self.assertIn(name, names, command)
