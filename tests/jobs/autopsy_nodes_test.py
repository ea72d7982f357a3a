# SPDX-License-Identifier: Apache-2.0
"""`stalltrace autopsy --nodes`: servers look at their hosts' ranks. Each host is a PID namespace with a server and its ranks, which wait
in Python frames such as PyTorch's."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

import recordings
from job import Tracer, wait_until
from processes import free_port, job_environment
from servers import Served
from stalltrace import DONE, FAILED, FINDINGS, PROGRAM, USAGE, Case, run

RANK = """
import os, sys, time
sys.path.insert(0, sys.argv[1] + "/site-packages")
import torch.distributed.distributed_c10d as dist


def load_batch():
    time.sleep(100)


open(sys.argv[1] + "/ready" + os.environ["RANK"], "w").close()
load_batch() if os.environ["RANK"] == sys.argv[2] else dist.all_reduce()
"""
HOST = """#!/bin/sh
for rank in $RANKS; do
    RANK=$rank LOCAL_RANK=0 {python} {folder}/train.py {folder} 2 &
done
exec "$@"
"""
TOKEN = "0123456789abcdef"


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class AutopsyNodes(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        package = self.folder / "site-packages" / "torch" / "distributed"
        package.mkdir(parents=True)
        for folder in (package, package.parent):
            (folder / "__init__.py").touch()
        (package / "distributed_c10d.py").write_text("import time\n\n\ndef all_reduce():\n    time.sleep(100)\n")
        (self.folder / "train.py").write_text(RANK)
        host = self.folder / "host"
        host.write_text(HOST.format(python=sys.executable, folder=self.folder))
        host.chmod(0o755)
        self.token = self.folder / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def host(self, name, ranks, *words, alone=True):
        """A server on a host with these ranks of a job of three, of which rank 2 is elsewhere. alone: other processes of this machine are
        not on that host; calls can't be counted there."""
        environment = {**os.environ, **job_environment(3, 29500), "TORCHELASTIC_RUN_ID": self.id(), "STALLTRACE_NODE": name,
                       "RANKS": " ".join(map(str, ranks))}
        words = words or ("--allow-autopsy", "--token-file", self.token)
        served = Served("--listen", "127.0.0.1:0", *words, environment=environment,
                        prefix=(*(("unshare", "--pid", "--fork", "--mount-proc") if alone else ("setsid", "--wait")), self.folder / "host"))
        self.addCleanup(self.end, served)
        wait_until(lambda: all((self.folder / f"ready{rank}").exists() for rank in ranks), "the ranks", 30)
        return served

    @staticmethod
    def end(served):
        """The first process of a PID namespace takes all others with it; without one the ranks are children of the server."""
        for pid in children_of(served.process.pid):
            for child in (*children_of(pid), pid):
                os.kill(child, signal.SIGKILL)
        served.close()

    def ask(self, *nodes, words=("--json", "--exit-code")):
        return run("autopsy", "--nodes", ",".join(node if isinstance(node, str) else node.address for node in nodes), "--token-file", self.token,
                   "--seconds", 1, *words)

    def test_a_rank_of_another_node_is_elsewhere(self):
        here, there, idle = self.host("gpu01", (0, 1)), self.host("gpu02", (2,)), self.host("gpu03", ())
        out = self.folder / "autopsy.json"
        result = self.ask(here, there, idle, words=("--json", "--exit-code", "--out", out))
        self.assertEqual(result.returncode, FINDINGS, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report, json.loads(out.read_text()))
        verdict, = report["jobs"]
        finding, = verdict["findings"]
        self.assertEqual((verdict["job"], verdict["ranks"], finding["cause"]), (self.id(), 3, "missing_collective"))
        self.assertEqual((finding["culprit"]["node"], finding["culprit"]["rank"]), ("gpu02", 2))
        self.assertEqual(report["nodes"], ["gpu01", "gpu02"])
        self.assertFalse(report["traced"], report)
        self.assertTrue(any(idle.address in note for note in verdict["notes"]), verdict["notes"])

    def test_what_a_node_answers_is_a_file_for_autopsy(self):
        here = self.host("gpu01", (0, 1), alone=False)
        body = json.dumps({"seconds": 1, "trace": True, "ras": False})
        question = urllib.request.Request(f"http://{here.address}/v1/autopsy", body.encode(), {"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(question, timeout=30) as answer:
            answered = answer.read()
        file = self.folder / "gpu01.json"
        file.write_bytes(answered)
        report = json.loads(self.done(run("autopsy", file, "--json")))
        self.assertTrue(report["traced"], report)
        ranks = [rank for rank in report["ranks"] if rank["job"] == self.id()]
        self.assertEqual([rank["call"] and rank["call"]["name"] for rank in ranks], ["all_reduce", "all_reduce"])

    def test_nodes_that_do_not_answer(self):
        here = self.host("gpu01", (0, 1))
        namesakes = self.host("gpu02", (2,)), self.host("gpu02", (2,))
        refuses = self.host("gpu04", (), recordings.make(self.folder / "node.db"))
        down = f"127.0.0.1:{free_port()}"
        result = self.ask(here, *namesakes, refuses, down)
        self.assertIn(result.returncode, (DONE, FINDINGS), result.stderr)
        verdict, = json.loads(result.stdout)["jobs"]
        self.assertEqual(verdict["ranks"], 2)
        for node in (*(one.address for one in namesakes), refuses.address, down):
            self.assertIn(node, result.stderr)
            self.assertTrue(any(node in note for note in verdict["notes"]), verdict["notes"])
        self.refused_by_all(self.ask(here, down, words=("--require-all",)))

    def refused_by_all(self, result):
        self.assertEqual((result.returncode, result.stdout), (FAILED, ""), result.stderr)

    def test_no_job_runs(self):
        idle = self.host("gpu03", ())
        self.refused(self.ask(idle), FAILED, idle.address)

    def test_one_client_at_a_time_and_one_that_leaves(self):
        here = self.host("gpu01", (0, 1))
        words = [PROGRAM, "autopsy", "--nodes", here.address, "--token-file", self.token, "--seconds", "60"]
        with subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            helper, = [pid for pid in children_of(children_of(here.process.pid)[0]) if self.is_helper(pid)]
            wait_until(lambda: children_of(helper), "the autopsy", 10)
            self.refused(self.ask(here), FAILED, here.address)
            first.kill()
        wait_until(lambda: not children_of(helper), "its end", 10)
        self.assertIn(self.ask(here).returncode, (DONE, FINDINGS))

    @staticmethod
    def is_helper(pid):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "st-autopsy"

    def test_the_server_of_a_trace_looks_at_the_whole_host(self):
        tracer = Tracer(self, "--serve", "127.0.0.1:0", "--token-file", self.token, "--allow-autopsy", "--pid", os.getpid())
        log = self.folder / "tracer.log"
        wait_until(lambda: re.search(r"http://\S+:\d+\n", log.read_text()), "the server")
        beside = self.host("gpu02", (0, 1), alone=False)
        result = self.ask(re.search(r"http://(\S+:\d+)", log.read_text())[1])
        self.assertIn(result.returncode, (DONE, FINDINGS), result.stderr)
        ranks = [rank["rank"] for rank in json.loads(result.stdout)["ranks"] if rank["job"] == self.id()]
        self.assertEqual(ranks, [0, 1], beside.lines)
        self.assertEqual(tracer.stop(), 0)

    def test_the_token_is_needed(self):
        self.refused(run("serve", "--allow-autopsy", "--listen", "127.0.0.1:0", environment={"STALLTRACE_TOKEN": ""}), USAGE, "--token-file")
        self.refused(run("trace", "--allow-autopsy", "--out", self.folder / "none.db"), USAGE, "--serve")
        self.refused(self.ask("127.0.0.1:1", words=("--pid", os.getpid())), USAGE, "--nodes")
        self.refused(self.ask("127.0.0.1:1", words=("--whole-commands",)), USAGE, "--nodes")
