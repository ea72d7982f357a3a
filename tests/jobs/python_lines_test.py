# SPDX-License-Identifier: Apache-2.0
"""Findings on PyTorch jobs name the line of Python: the late rank's code while the others waited for it."""

import json
import os
import signal
import subprocess
import time

from job import LIBRARIES, Tracer
from processes import free_port, rank_environment
from stalltrace import DONE, PROGRAM, ROOT, Case, run

PYTHON = "/usr/bin/python3"  # Debian's, which has torch
DATA = """\
import gc, os, time, torch

heap = []
remote = None


def fill_heap():
    gc.disable()
    heap.extend([] for _ in range(3000000))


def open_remote(folder):
    global remote
    remote = os.open(folder + "/remote/libnccl.so.2", os.O_RDONLY)
    open(folder + "/opened", "w").close()
    while not os.path.exists(folder + "/silent"):
        time.sleep(0.01)


def load_batch(how, folder):
    if how == "sleeps":
        time.sleep(2)  # the rank
    elif how == "fifo":
        open(folder + "/ready", "w").close()
        fd = os.open(folder + "/in", os.O_RDWR)
        os.read(fd, 1)
    elif how == "file":
        open(folder + "/ready", "w").close()
        os.read(remote, 2)
    elif how == "computes":
        end = time.monotonic() + 2
        while time.monotonic() < end: sum(range(1000))
    elif how == "collects":
        for _ in range(8):
            gc.collect()


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index == 200:
            time.sleep(2)  # the worker
        return torch.ones(4)
"""
TRAIN = """\
import os, sys, time, torch, torch.distributed as dist
from data import Data, fill_heap, load_batch, open_remote

HOW, FOLDER = sys.argv[1:]
if HOW == "collects":
    fill_heap()
if HOW == "file" and os.environ["RANK"] == "1":
    open_remote(FOLDER)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()


def train():
    if HOW == "loader" and rank == 1:
        batches = iter(torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1))
    for step in range(80):
        if HOW == "loader" and rank == 1:
            next(batches)
        if step == 50 and rank == 1:
            load_batch(HOW, FOLDER)
        time.sleep(0.005)
        dist.all_reduce(torch.ones(1000))


train()
"""


def location(program, code):
    """The location of the line that contains `code`: "data.py:12"."""
    line, = [number for number, text in enumerate({"data.py": DATA, "train.py": TRAIN}[program].splitlines(), 1) if code in text]
    return f"{program}:{line}"


SLEEPS = location("data.py", 'time.sleep(2)  # the rank')
READS = location("data.py", "os.read(fd")
READS_FILE = location("data.py", "os.read(remote")
COMPUTES = location("data.py", "sum(range(1000))")
COLLECTS = location("data.py", "gc.collect")
WORKER = location("data.py", "time.sleep(2)  # the worker")
NEXT = location("train.py", "next(batches)")
REDUCES = location("train.py", "all_reduce")


class PythonLines(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("python3-torch is not installed")
        (self.folder / "data.py").write_text(DATA)
        (self.folder / "train.py").write_text(TRAIN)
        os.mkfifo(self.folder / "in")

    def start(self, how):
        """Starts two ranks, each in its own process group."""
        port = free_port()
        ranks = []
        for rank in range(2):
            environment = rank_environment(rank, 2, port, {"OMP_NUM_THREADS": "1"})
            ranks.append(subprocess.Popen([PYTHON, self.folder / "train.py", how, self.folder], env=environment,
                                          start_new_session=True, stderr=subprocess.DEVNULL))
            self.addCleanup(ranks[-1].wait)
            self.addCleanup(self.kill, ranks[-1].pid)
        return ranks

    @staticmethod
    def kill(group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def traced(self, how, *words):
        """Traces a job until it ends by itself; returns the tracer."""
        tracer = Tracer(self, "--pid", str(os.getpid()), *words)
        for rank in self.start(how):
            self.assertEqual(rank.wait(timeout=60), 0)
        time.sleep(0.3)
        self.assertEqual(tracer.stop(), DONE)
        return tracer

    def explained(self, tracer):
        return json.loads(self.done(run("explain", tracer.path, "--json")))["findings"]

    def late_at(self, how, *, summary):
        """The finding on a job whose rank 1 was late once. A busy host can make ranks wait for a CPU, too."""
        self.expect_late(self.traced(how), summary)

    def expect_late(self, tracer, summary):
        finding, = [finding for finding in self.explained(tracer) if finding["cause"] != "cpu_contention"]
        self.assertEqual((finding["cause"], finding["culprit"]["rank"]), ("late_rank", 1), finding["summary"])
        self.assertRegex(finding["summary"], summary)
        line, = [evidence["text"] for evidence in finding["evidence"] if evidence["kind"] == "python_stack"]
        self.assert_says("rank 0 in all_reduce", line, reduces=REDUCES)

    def test_a_job_that_gets_on_is_never_looked_at(self):
        tracer = self.traced("healthy")
        self.assertEqual(self.explained(tracer), [])
        self.assertEqual(tracer.rows("SELECT count(*) FROM python_stack"), [(0,)])

    def test_a_rank_that_sleeps(self):
        self.late_at("sleeps", summary=rf" Rank 1 was in load_batch \({SLEEPS}\), sleeping \(\w+\)\.$")

    def test_a_data_loader_that_sleeps(self):
        self.late_at("loader", summary=rf" Rank 1 was in train \({NEXT}\), which called [\w.]+ \(\w+\.py:\d+\), waiting "
                                       rf"for its worker pid \d+ in Data\.__getitem__ \({WORKER}\), sleeping \(\w+\)\.$")

    def test_a_rank_that_collects_garbage(self):
        self.late_at("collects", summary=rf" Rank 1 was in load_batch \({COLLECTS}\), collecting garbage")

    def test_a_rank_that_computes(self):
        self.late_at("computes", summary=rf" computing while .* Rank 1 was in load_batch \({COMPUTES}\)\.$")

    def test_a_rank_that_reads_a_slow_file(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("the kernel has no FUSE")
        remote = self.folder / "remote"
        remote.mkdir()
        server = subprocess.Popen([PYTHON, ROOT / "tests" / "support" / "silent_files.py", LIBRARIES / "libnccl.so.2", remote],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for clean_up in (server.stdin.close, server.stdout.close, server.wait, server.kill):
            self.addCleanup(clean_up)
        self.assertEqual(server.stdout.readline(), "mounted\n")
        self.addCleanup(subprocess.run, ["umount", "-l", remote], check=False)
        tracer = Tracer(self, "--pid", str(os.getpid()))
        ranks = self.start("file")
        self.wait_for(self.folder / "opened")
        self.switch(server, "silent")
        self.wait_for(self.folder / "ready")
        time.sleep(2)
        self.switch(server, "answers")
        for rank in ranks:
            self.assertEqual(rank.wait(timeout=60), 0)
        time.sleep(0.3)
        self.assertEqual(tracer.stop(), DONE)
        self.expect_late(tracer, rf" Rank 1 was in load_batch \({READS_FILE}\), reading {remote}/libnccl\.so\.2")

    def switch(self, server, state):
        server.stdin.write("now\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), f"{state}\n")
        (self.folder / state).touch()

    def test_a_rank_that_reads_a_fifo_while_the_job_runs(self):
        tracer = Tracer(self, "--pid", str(os.getpid()), "--live")
        ranks = self.start("fifo")
        self.wait_for(self.folder / "ready")
        time.sleep(4)
        printed = " ".join((self.folder / "tracer.log").read_text().split())
        reading = f"load_batch ({READS}), reading FIFO {self.folder}/in"
        self.assert_says("where rank 1 is", printed, reading=reading)
        with open(self.folder / "in", "w", encoding="ascii") as fifo:
            fifo.write("x")
        for rank in ranks:
            self.assertEqual(rank.wait(timeout=60), 0)
        self.assertEqual(tracer.stop(), DONE)
        finding, = self.explained(tracer)
        self.assertEqual((finding["cause"], finding["culprit"]["pid"]), ("late_rank", ranks[1].pid), finding["summary"])
        self.assert_says("where rank 1 was", finding["summary"], reading=reading)
        text, = tracer.rows("SELECT frames FROM python_stack JOIN stack USING(stack_id) "
                            f"WHERE pid = {ranks[1].pid} ORDER BY timestamp_ns LIMIT 1")[0]
        self.assertEqual(text.splitlines()[0], f"load_batch ({self.folder}/{READS})")

    def test_a_rank_that_reads_a_fifo_under_run(self):
        port = free_port()
        script = "".join(f"RANK={rank} LOCAL_RANK={rank} {PYTHON} {self.folder}/train.py fifo {self.folder} & " for rank in range(2))
        log = self.folder / "run.log"
        environment = rank_environment(0, 2, port, {"OMP_NUM_THREADS": "1"})
        with open(log, "wb") as sink:
            command = subprocess.Popen([PROGRAM, "run", "--out", self.folder / "run", "--hang-after", "2s", "--", "sh", "-c",
                                        script + "wait"], env=environment, stdout=sink, stderr=sink, start_new_session=True)
        self.addCleanup(command.wait)
        self.addCleanup(self.kill, command.pid)
        self.wait_for(self.folder / "ready")
        time.sleep(4)
        self.assert_says("rank 1 reads a FIFO", " ".join(log.read_text().split()), reads=READS, folder=self.folder)

    def wait_for(self, path):
        deadline = time.monotonic() + 60
        while not path.exists():
            self.assertLess(time.monotonic(), deadline, f"no {path}")
            time.sleep(0.1)
