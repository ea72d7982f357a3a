# SPDX-License-Identifier: Apache-2.0
"""docs/runbook.md and docs/hung_job.md: their commands run as they stand there, on recordings of a simulated job, NCCL's logs and an
answer of NCCL's RAS. Those that look at running jobs, take root or several hosts are run by other tests, which COVERED names."""

import ast
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading

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
# An authority, and a certificate of it for nodes at 127.0.0.1.
CERTIFICATES = """
set -e
key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${key[@]}" -days 2 -subj /CN=fleet -keyout ca.key -out ca.pem
openssl req "${key[@]}" -subj /CN=node -keyout node.key -out node.csr
openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) -out node.pem
"""

# What is run: the exit code, and a word that only a right answer has.
RUN = {
    "stalltrace explain node0.db node1.db": (DONE, "packet_loss"),
    "stalltrace explain *.db": (DONE, "packet_loss"),
    "stalltrace explain --nodes gpu[001-128] --token-file token --tls-ca ca.pem": (DONE, "packet_loss"),
    "stalltrace explain --nodes LIST": (DONE, "packet_loss"),
    "stalltrace explain node0.db --instance 0:17": (DONE, "AllReduce"),
    "stalltrace explain *.db --instance NODE:NUMBER": (DONE, "AllReduce"),
    "stalltrace nodes --nodes gpu[001-128] --token-file token --tls-ca ca.pem": (DONE, "node1.db"),
    'stalltrace query --nodes slurm "SELECT rank, avg(launch_ns) AS ns FROM collective GROUP BY rank" --outliers ns': (DONE, "node1"),
    'stalltrace query slow.db "$(cat docs/queries/slowest.sql)"': (DONE, "ALL_REDUCE"),
    'stalltrace query node1.db "$(cat docs/queries/retransmits_by_link.sql)"': (DONE, "10.0.0.2"),
    'stalltrace query node1.db "$(cat docs/queries/counters.sql)"': (DONE, "counter"),
    "stalltrace explain slow.db": (DONE, "unknown"),  # the other node is missing
    "stalltrace explain evidence/": (DONE, "0x1e"),
    "stalltrace explain FOLDER": (DONE, "0x1e"),
    "stalltrace import evidence/ --out job.db": (DONE, "job.db"),
    "stalltrace explain job.db": (DONE, "missing_collective"),
    "stalltrace import --ras localhost:28028 --out ras.db": (DONE, "ras.db"),
    "stalltrace explain ras.db": (DONE, "missing_collective"),
    "stalltrace export *.db --out job.pftrace": (DONE, "job.pftrace"),
    "stalltrace preflight": (PREFLIGHT_FAILED, "NCCL_IB_DISABLE"),
    "stalltrace preflight --json": (PREFLIGHT_FAILED, "NCCL_IB_DISABLE"),
    "stalltrace preflight node0.json node1.json": (DONE, "NCCL_ALGO"),
}

# What is not, and the test that runs the subcommand in this way. A command without arguments names a subcommand.
COVERED = {
    "stalltrace explain": "tests/cli/simulate_test.py:Simulate.test_a_fault",
    "stalltrace mcp": "tests/cli/mcp_test.py:Mcp.test_every_answer_matches_its_schema_and_leads_on",
    "stalltrace serve": "tests/cli/serve_test.py:Serving.test_nodes_give_what_their_files_would",
    "stalltrace trace --serve": "tests/cli/serve_test.py:Serving.test_a_recording_is_served_while_it_is_written",
    "stalltrace check": "tests/cli/tracing_test.py:Check.test_this_host",
    "sudo stalltrace trace --duration 2m": "tests/cli/tracing_test.py:Trace.test_a_host_without_a_job_is_traced_in_peace",
    "sudo stalltrace trace --duration 2m --out $(hostname).db":
        "tests/cli/tracing_test.py:Trace.test_a_host_without_a_job_is_traced_in_peace",
    "sudo stalltrace stacks": "tests/jobs/stacks_test.py:PyTorch.test_a_data_loader_that_sleeps",
    "sudo stalltrace autopsy": "tests/jobs/autopsy_test.py:Autopsy.test_nccl_an_absent_rank",
    "sudo stalltrace autopsy --out $(hostname).json": "tests/cli/autopsy_test.py:Autopsy.test_a_rank_that_is_elsewhere",
    "stalltrace autopsy *.json": "tests/cli/autopsy_test.py:Autopsy.test_results_of_several_hosts",
    "srun --ntasks-per-node=1 stalltrace preflight --network":
        "tests/jobs/preflight_test.py:Preflight.test_each_fault_between_nodes_is_found",
    "stalltrace serve --allow-preflight": "tests/jobs/preflight_test.py:Preflight.test_servers_find_a_fault_without_a_launch",
    "stalltrace preflight --nodes gpu[001-016] --token-file token":
        "tests/jobs/preflight_test.py:Preflight.test_servers_find_a_fault_without_a_launch",
}


class Runbook(Case):
    def setUp(self):
        super().setUp()
        self.need_program("openssl")
        nodes = SimulatedNodes(self.folder / "job", *JOB, faults={})
        self.addCleanup(nodes.close)
        for node in (0, 1):
            shutil.copy(nodes.file(node), self.folder)
        shutil.copy(nodes.file(0), self.folder / "slow.db")
        (self.folder / "docs").symlink_to(ROOT / "docs")
        self.make_evidence()
        self.make_preflight_reports()
        query = "SELECT node_id, event_id & 0xffffffffff FROM collective WHERE op = 'ALL_REDUCE'"
        instance = "{}:{}".format(*recordings.rows(nodes.file(0), query)[-1])
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
            code, word = RUN[command]
            words = command
            for example, value in self.replaced.items():
                words = words.replace(example, value)
            with self.subTest(command):
                result = subprocess.run(["bash", "-c", words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        capture_output=True, text=True, timeout=60, check=False)
                output = result.stdout + result.stderr
                self.assertEqual(result.returncode, code, f"{words}\n{output}")
                self.assertIn(word, output, words)

    def test_the_runbook(self):
        self.run_page("runbook.md")

    def test_the_page_on_hung_jobs(self):
        self.run_page("hung_job.md")
        self.assertGreater((self.folder / "job.pftrace").stat().st_size, 10_000)


class EachCommand(Case):
    def test_each_command_of_the_pages_is_run_or_another_test_is_named(self):
        shown = {command for page in PAGES for command in commands_of(page)}
        self.assertGreater(len(shown), 25)
        self.assertEqual(sorted(shown ^ (RUN.keys() | COVERED.keys())), [])
        self.assertEqual(RUN.keys() & COVERED.keys(), set())

    def test_the_tests_that_are_named_exist(self):
        for command, test in COVERED.items():
            path, name = test.split(":")
            names = [f"{part.name}.{method.name}" for part in ast.parse((ROOT / path).read_text()).body if isinstance(part, ast.ClassDef)
                     for method in part.body if isinstance(method, ast.FunctionDef)]
            self.assertIn(name, names, command)
