# SPDX-License-Identifier: Apache-2.0
"""`stalltrace stacks`: the lines of running Python processes, and one clear line where they can't be read."""

import json
import os
import signal
import subprocess
import sys
import time

from processes import rank_environment
from stalltrace import FAILED, USAGE, Case, run
from unprivileged import run_as_nobody

RANK = """
import os, sys, time


def load_batch(ready):
    open(ready, "w").close(); time.sleep(100)


def train(ready):
    if os.environ.get("FORKS") and os.fork() == 0:
        time.sleep(100)
    load_batch(ready)


train(sys.argv[1])
"""


class Stacks(Case):
    def start(self, *words, environment=None, ready=None):
        process = subprocess.Popen(words, env=environment, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while ready and not ready.exists():
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        time.sleep(0.1)
        return process.pid

    def start_rank(self, rank, more=None):
        script, ready = self.folder / "train.py", self.folder / f"ready{rank}"
        script.write_text(RANK)
        environment = rank_environment(rank, 2, 1, {"TORCHELASTIC_RUN_ID": self.id(), **(more or {})})
        return self.start(sys.executable, script, ready, environment=environment, ready=ready)

    def test_ranks_are_folded_and_listed_with_their_children(self):
        pids = [self.start_rank(0), self.start_rank(1, {"FORKS": "1"})]
        text = self.done(run("stacks"))
        line = "ranks 0, 1 in load_batch at train.py:6"
        self.assertIn(line, text)  # follows "job NAME: " if other jobs run
        report = json.loads(self.done(run("stacks", "--json")))
        job, = [job for job in report["jobs"] if job["job"] == self.id()]
        self.assertEqual(job["line"], line)
        ranks = [process for process in report["processes"] if process["job"] == self.id()]
        self.assertEqual([rank["pid"] for rank in ranks], pids)
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        self.assertEqual([len(rank["children"]) for rank in ranks], [0, 1])
        frames = ranks[0]["threads"][0]["python"]["frames"]
        self.assertEqual([(frame["function"], frame["line"]) for frame in frames], [("load_batch", 6), ("train", 12), ("<module>", 15)])
        child = ranks[1]["children"][0]["threads"][0]["python"]["frames"]
        self.assertEqual([(frame["function"], frame["line"]) for frame in child], [("train", 11), ("<module>", 15)])

    def test_one_process(self):
        pid = self.start_rank(0)
        text = self.done(run("stacks", "--pid", pid))
        self.assertRegex(text, rf"^rank 0, pid {pid}, CPython 3\.\d+")
        self.assertIn("\n    load_batch (", text)
        self.assertIn("nanosleep", text)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        self.assert_says("stopped by signal", self.done(run("stacks", "--pid", pid)))

    def test_py_spy_shows_the_same_frames(self):
        """py-spy is in no package of Debian 12: this runs where a user has it."""
        self.need_program("py-spy")
        pid = self.start_rank(0)
        process, = json.loads(self.done(run("stacks", "--json", "--pid", pid)))["processes"]
        ours = {thread["tid"]:
                [(frame["function"].rpartition(".")[2], frame["file"], frame["line"]) for frame in thread["python"]["frames"]]
                for thread in process["threads"] if thread["python"]}
        dump = subprocess.run(["py-spy", "dump", "--json", "--pid", str(pid)], capture_output=True, check=True, timeout=30).stdout
        theirs = {thread["os_thread_id"]:
                  [(frame["name"].rpartition(".")[2], frame["filename"], frame["line"]) for frame in thread["frames"]]
                  for thread in json.loads(dump)}
        self.assertEqual(ours, theirs)
        self.assertEqual([frame[0] for frame in ours[pid]], ["load_batch", "train", "<module>"])

    def test_what_can_not_be_read(self):
        self.refused(run("stacks", "--pid", 0x3ffffffe), FAILED, "no such process", "ps -e")
        self.refused(run("stacks", "--pid", "x"), USAGE, "--pid")
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        time.sleep(0.3)
        self.refused(run("stacks", "--pid", ended.pid), FAILED, "a process has ended", pid=ended.pid)

    def test_a_process_that_is_not_python(self):
        sleep = self.start("sleep", "100")
        text = self.done(run("stacks", "--pid", sleep))
        self.assertRegex(text, rf"^pid {sleep}: sleep 100\n  thread {sleep} \"sleep\": in \w*nanosleep\n    \S+ \(/\S+\), native\n")
        process, = json.loads(self.done(run("stacks", "--pid", sleep, "--json")))["processes"]
        thread, = process["threads"]
        self.assertIsNone(thread["python"])
        self.assertEqual(thread["native"]["problem"], "")
        self.assertRegex(thread["native"]["frames"][0]["file"], r"/libc[.-]")
        if os.uname().machine == "x86_64":
            files = [os.path.basename(frame["file"]) for frame in thread["native"]["frames"]]
            self.assertIn(os.path.basename(os.path.realpath("/proc/%d/exe" % sleep)), files, "who called libc")

    def test_another_users_process(self):
        self.need_root()
        pid = self.start_rank(0)
        self.refused(run_as_nobody(self.folder, "stacks", "--pid", pid), FAILED, "a process of another user", "CAP_SYS_PTRACE", pid=pid)

    def test_a_name_that_would_write_to_the_terminal(self):
        script, ready = self.folder / "x.py", self.folder / "ready"
        script.write_text(
            "import ctypes, sys, time\nctypes.CDLL(None).prctl(15, b'\\x1b[2J\\n')\n"
            "code = compile('open(ready, \"w\").close(); sleep(100)', 'evil\\x1b]0;x\\x07.py', 'exec')\n"
            "exec(code, {'ready': sys.argv[1], 'sleep': time.sleep})\n")
        pid = self.start(sys.executable, script, ready, ready=ready)
        text = self.done(run("stacks", "--pid", pid))
        self.assertIn("evil?]0;x?.py:1", text)
        self.assertNotIn("\x1b", text)
        self.assertIn("evil\x1b]0;x\x07.py", [frame["file"] for frame in json.loads(
            self.done(run("stacks", "--pid", pid, "--json")))["processes"][0]["threads"][0]["python"]["frames"]])
