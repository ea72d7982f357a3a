# SPDX-License-Identifier: Apache-2.0
"""`stalltrace autopsy` without a job that hangs, without root, and on a framework's frames; of several hosts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

from evidence_formats_test import ras
from processes import rank_environment
from stalltrace import DONE, FAILED, FINDINGS, PROGRAM, USAGE, Case, run

# A package whose frames look like PyTorch's: what counts is the path of the file.
DISTRIBUTED = "import time\n\n\ndef all_reduce():\n    time.sleep(100)\n"
RANK = """
import os, socket, sys, threading, time
sys.path.insert(0, sys.argv[1] + "/site-packages")
import torch.distributed.distributed_c10d as dist


def load_batch():
    time.sleep(100)


def train():
    open(sys.argv[1] + "/ready" + os.environ["RANK"], "w").close()
    if os.environ["RANK"] in sys.argv[2]:
        load_batch()
    dist.all_reduce()


def answer_as_ras(listener, text):
    while True:
        connection = listener.accept()[0]
        asked = b""
        while not asked.endswith(b"STATUS\\n") and (more := connection.recv(1024)):
            asked += more
        connection.sendall(text)
        connection.close()


if os.environ["RANK"] == "0" and len(sys.argv) > 3:
    listener = socket.create_server(("127.0.0.1", int(os.environ["NCCL_RAS_ADDR"].split(":")[1])))
    threading.Thread(target=answer_as_ras, args=(listener, open(sys.argv[3], "rb").read()), daemon=True).start()
train()
"""


class Autopsy(Case):
    def start(self, absent, ras_answer=None):
        """Three ranks; those in `absent` are elsewhere. Rank 0 listens as NCCL's RAS, if that is to answer."""
        package = self.folder / "site-packages" / "torch" / "distributed"
        package.mkdir(parents=True)
        for folder in (package, package.parent):
            (folder / "__init__.py").touch()
        (package / "distributed_c10d.py").write_text(DISTRIBUTED)
        script = self.folder / "train.py"
        script.write_text(RANK)
        more = {"TORCHELASTIC_RUN_ID": self.id()}
        words = []
        if ras_answer is not None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                more["NCCL_RAS_ADDR"] = f"localhost:{free.getsockname()[1]}"
            words = [self.folder / "ras.answer"]
            words[0].write_text(ras_answer)
        pids = []
        for rank in range(3):
            process = subprocess.Popen([sys.executable, script, self.folder, absent, *words], start_new_session=True,
                                       env=rank_environment(rank, 3, 1, more))
            self.addCleanup(process.wait)
            self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
            pids.append(process.pid)
        deadline = time.monotonic() + 30
        while not all((self.folder / f"ready{rank}").exists() for rank in range(3)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        time.sleep(0.1)
        return pids

    def autopsy(self, pids, *words):
        return run("autopsy", "--no-trace", "--seconds", 1, "--pid", ",".join(map(str, pids)), *words)

    def test_a_rank_that_is_elsewhere(self):
        pids = self.start(absent="2")
        file = self.folder / "autopsy.json"
        result = self.autopsy(pids, "--out", file, "--exit-code")
        self.assertEqual(result.returncode, FINDINGS, result.stderr)
        self.assert_says("rank 2 is elsewhere", " ".join(result.stdout.split()))
        report = json.loads(file.read_text())
        verdict, = report["jobs"]
        finding, = verdict["findings"]
        self.assertEqual((verdict["job"], finding["cause"], finding["op"]), (self.id(), "missing_collective", "ALL_REDUCE"))
        self.assertEqual(finding["culprit"]["pid"], pids[2])
        self.assertEqual([rank["call"] and rank["call"]["name"] for rank in report["ranks"]], ["all_reduce", "all_reduce", None])
        self.refused(self.autopsy(pids, "--out", file), FAILED, "exists")

    def test_its_file_goes_to_who_called_through_sudo(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        sudo = {"SUDO_UID": "65534", "SUDO_GID": "65534"}
        pids = self.start(absent="2", ras_answer="SERVER PROTOCOL 2\nOK\nOK\n" + ras(0, behind=2, ranks=3))
        file, again = self.folder / "autopsy.json", self.folder / "again.json"
        words = ("autopsy", "--no-trace", "--seconds", 1, "--pid", ",".join(map(str, pids)))
        self.done(run(*words, "--out", file, environment=sudo))
        self.done(run("autopsy", file, "--out", again, environment=sudo))
        for one in (file, again):
            self.assertEqual((one.stat().st_uid, one.stat().st_mode & 0o777), (65534, 0o600))

    def test_no_rank_waits(self):
        pids = self.start(absent="012")
        verdict, = json.loads(self.done(self.autopsy(pids, "--json", "--exit-code")))["jobs"]
        self.assertEqual((verdict["state"], verdict["findings"]), ("nobody_waits", []))

    def test_a_job_that_ends_while_it_is_watched(self):
        pids = self.start(absent="")
        words = ("autopsy", "--no-trace", "--seconds", "4", "--json", "--exit-code", "--pid", ",".join(map(str, pids)))
        with subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watching:
            time.sleep(2)  # the first snapshot is taken
            for pid in pids:
                os.killpg(pid, signal.SIGKILL)
            verdict, = json.loads(watching.communicate(timeout=60)[0])["jobs"]
        self.assertEqual((verdict["state"], verdict["findings"], verdict["ranks"]), ("ended", [], 0))
        self.assertEqual(watching.returncode, DONE)

    def test_what_is_not_there(self):
        self.refused(self.autopsy([0x3ffffffe]), FAILED, "no such process", "ps -e")
        self.refused(run("autopsy", "--seconds", 0), USAGE, "--seconds")

    def test_nccl_s_ras_is_asked(self):
        pids = self.start(absent="", ras_answer="SERVER PROTOCOL 2\nOK\nOK\n" + ras(0, behind=2, ranks=3))
        verdict, = json.loads(self.done(self.autopsy(pids, "--json", "--no-ras")))["jobs"]
        self.assertEqual([finding["cause"] for finding in verdict["findings"]], ["unknown"])
        file = self.folder / "autopsy.json"
        verdict, = json.loads(self.done(self.autopsy(pids, "--json", "--out", file)))["jobs"]
        finding, = verdict["findings"]
        self.assertEqual((finding["cause"], finding["culprit"]["rank"], finding["culprit"]["pid"]), ("missing_collective", 2, pids[2]))
        again, = json.loads(self.done(run("autopsy", file, "--json")))["jobs"]
        self.assertEqual([(one["cause"], one["culprit"]["pid"]) for one in again["findings"]], [("missing_collective", pids[2])])

    def test_a_ras_that_answers_something_else(self):
        pids = self.start(absent="2", ras_answer="HTTP/1.1 400 Bad Request\r\n\r\n")
        verdict, = json.loads(self.done(self.autopsy(pids, "--json")))["jobs"]
        self.assertEqual([finding["culprit"]["pid"] for finding in verdict["findings"]], [pids[2]])
        self.assertIn("RAS", "\n".join(verdict["notes"]))

    def files_of_two_hosts(self):
        """Results of ranks 0 and 1, and of rank 2, which is elsewhere, as if they were two hosts'."""
        pids = self.start(absent="2")
        files = [self.folder / "here.json", self.folder / "there.json"]
        self.done(self.autopsy(pids[:2], "--out", files[0]))
        self.done(self.autopsy(pids[2:], "--out", files[1]))
        self.change(files[1], node="there")
        return pids, files

    def change(self, file, **members):
        file.write_text(json.dumps(json.loads(file.read_text()) | members))

    def test_results_of_several_hosts(self):
        pids, files = self.files_of_two_hosts()
        both = self.folder / "both.json"
        result = run("autopsy", *files, "--json", "--out", both, "--exit-code")
        self.assertEqual(result.returncode, FINDINGS, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report, json.loads(both.read_text()))
        verdict, = report["jobs"]
        finding, = verdict["findings"]
        self.assertEqual((verdict["ranks"], finding["cause"]), (3, "missing_collective"))
        self.assertEqual(finding["culprit"], {"node": "there", "rank": 2, "pid": pids[2]})
        self.assertEqual(len(report["nodes"]), 2)
        self.assertEqual([rank["node"] == "there" for rank in report["ranks"]], [False, False, True])
        self.assertIn("there", self.done(run("autopsy", *files)))
        self.refused(run("autopsy", files[0], both), FAILED, "both.json", "joined")

    def test_results_that_cannot_be_joined(self):
        _, (here, there) = self.files_of_two_hosts()
        cut = self.folder / "cut.json"
        cut.write_text(here.read_text()[:3000])
        self.refused(run("autopsy", here, cut), FAILED, "cut.json", "a file is cut off")
        newer = self.folder / "newer.json"
        newer.write_text(there.read_text())
        self.change(newer, schema=2)
        self.refused(run("autopsy", here, newer), FAILED, "newer.json", "version")
        other = self.folder / "other.json"
        other.write_text('{"schema": 1, "host": "a", "facts": {}, "checks": []}')
        self.refused(run("autopsy", here, other), FAILED, "other.json", "--out FILE")
        self.refused(run("autopsy", here, here), USAGE, "here.json")
        late = json.loads(there.read_text())["evidence"]
        for snapshot in late["snapshots"]:
            snapshot["taken_ns"] += 5 * 3600 * 10**9
        self.change(there, evidence=late)
        self.refused(run("autopsy", here, there), USAGE, "there.json", "300 min")
        self.refused(run("autopsy", here, self.folder / "none.json"), FAILED, "none.json")
        self.refused(run("autopsy", here, "--no-trace"), USAGE, "--no-trace")
        self.refused(run("autopsy", *[here] * 4097), USAGE, "4096")

    def test_other_subcommands_say_what_the_file_is(self):
        _, (here, _) = self.files_of_two_hosts()
        for words in (("explain", here), ("import", here, "--out", self.folder / "x.db"), ("explain", here, "--json")):
            self.refused(run(*words), USAGE, "here.json", "a command line to use", words="autopsy")
        folder = self.folder / "evidence"
        folder.mkdir()
        here.rename(folder / "here.json")
        self.refused(run("explain", folder), USAGE, "here.json", "a command line to use", words="autopsy")
        (folder / "job.db").write_bytes(b"SQLite format 3\0" + b"x" * 4096)  # of which a user has to know first
        self.refused(run("explain", folder), FAILED, "job.db")
        (folder / "job.db").unlink()
        (folder / "health.txt").write_text("Health Monitor Report\n+----+----+\n| Overall Health:   Healthy |\n+====+====+\n")  # of DCGM 1
        for text in ((folder / "health.txt").read_text(), "#Entity   GPUTL  MCUTL\nID\nGPU 0     95     40\n"):
            (folder / "health.txt").write_text(text)
            self.refused(run("explain", folder / "health.txt"), USAGE, "dcgmi")
