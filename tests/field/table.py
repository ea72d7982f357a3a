# SPDX-License-Identifier: Apache-2.0
"""The cases: what is started, what is done to it, what must be found. A row each; many rows of ends of ranks are made by a loop."""

import collections.abc
import dataclasses
import os
import re
import signal
import subprocess
import time

from judging import Finds, Silent
from playing import JOBS, PYTHON

HANG_SECONDS = 6  # after the fault, until a job that hangs is ended
STUCK = "missing_collective"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    expects: Finds | Silent | None = None
    library: str = "ddp"  # of jobs/collectives.py
    behaviour: str = "steps_alone"  # of jobs/phases.py or jobs/faults.py
    ranks: int = 3
    victim: int | None = None  # the rank with the fault
    marks: bool | None = None  # whether the job reports when its fault begins: by default where there is a victim
    start: str = "ranks"  # or torchrun, mpirun
    torchrun: tuple = ()  # further options of it
    under: str = "trace"  # or run
    steps: int = 150
    device_ms: float = 5  # slept in each step
    act: collections.abc.Callable | None = None  # what is done to the process that reported the fault: act(job, pid)
    ends_after: float | None = None  # seconds after the fault (or the job's begin), when all ranks get `ends_with`
    ends_with: int = signal.SIGTERM
    others: tuple = ()  # rows of further jobs, at the same time
    one_after_the_other: bool = False  # they are not
    other_port: bool = False  # than the first job's
    attaches_after: float | None = None  # seconds after the job's begin, when the trace begins; else it is there before
    detaches_after: float | None = None  # seconds after a fault that begins while it is traced, when the trace ends
    needs_cgroup: bool = False
    test: str = ""  # a test of tests/e2e or tests/jobs instead of all this: module.Class.test

    @property
    def marks_fault(self):
        return self.marks if self.marks is not None else self.victim is not None


def line_of(program, code):
    """A pattern of the location of the one line of jobs/`program` with `code`, or of the next, where a loop's body is."""
    lines = (JOBS / program).read_text().splitlines()
    number, = [number for number, text in enumerate(lines, 1) if code in text]
    return rf"{re.escape(program)}:({number}|{number + 1})\b"


# --- what is done to a rank from outside ----------------------------------------------------------------------------------------------


def stop_for(seconds):
    def act(job, pid):
        time.sleep(1)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    return act


def take_its_core(job, pid):
    """A competitor on one core, to which the rank is bound."""
    core = max(os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})
    competitor = subprocess.Popen(["nice", "-n", "-10", "taskset", "-c", str(core), "timeout", "6", "sh", "-c", "while :; do :; done"])
    competitor.wait()


def interrupt_all(job, pid):
    job.end(signal.SIGINT)


# --- rows ---------------------------------------------------------------------------------------------------------------------------

QUIET = Silent()
WAITS_FOR_0 = Silent(waits_for=0)
TWO_ATTEMPTS = Silent(attempts=(2, 2))


def healthy():
    """Of the field test, then our own."""
    return [
        Row("plain4", QUIET, ranks=4),
        Row("plain2", QUIET, ranks=2, steps=400),
        Row("plain_run", QUIET, ranks=2, start="torchrun", under="run"),
        Row("accumulation", QUIET, behaviour="accumulates", ranks=2),
        Row("evaluation", Silent(waits_for=0, waits_in=rf"evaluate \({line_of('phases.py', 'while time.monotonic() < end:')}\)",
                                 note="rank 0 "), behaviour="evaluates_on_rank_0"),
        Row("evaluation_run", Silent(waits_for=0, note="rank 0 "), behaviour="evaluates_on_rank_0", ranks=2, start="torchrun", under="run"),
        Row("evaluation_at_the_end", Silent(waits_for=0, waits_at_end=True), behaviour="evaluates_on_rank_0", marks=True, steps=200,
            device_ms=20, attaches_after=6, detaches_after=3),
        Row("checkpoint", WAITS_FOR_0, behaviour="saves_on_rank_0"),
        Row("pause", QUIET, behaviour="pauses_everywhere", ranks=4),
        Row("random_batches", QUIET, behaviour="random_batches", ranks=2, steps=300),
        Row("pipeline", QUIET, behaviour="pipeline", steps=60),
        Row("objects", QUIET, behaviour="exchanges_objects"),
        Row("attached_late", QUIET, steps=500, attaches_after=2),
        Row("two_jobs_same_port", TWO_ATTEMPTS, ranks=2, others=(Row("", ranks=2),), one_after_the_other=True),
        Row("two_jobs_other_port", QUIET, ranks=2, others=(Row("", ranks=2, other_port=True),), one_after_the_other=True),
        Row("two_jobs_at_once", QUIET, ranks=2, others=(Row("", ranks=2, other_port=True),), steps=200),

        Row("torchrun", QUIET, ranks=2, start="torchrun"),
        Row("one_rank", QUIET, ranks=1),
        Row("gloo", QUIET, library="gloo"),
        Row("mpi", QUIET, library="mpi", start="mpirun", ranks=2, steps=400),
        Row("mpi_run", QUIET, library="mpi", start="mpirun", under="run", ranks=2, steps=400),
        Row("nccl", QUIET, library="nccl", steps=400),
        Row("nccl_run", QUIET, library="nccl", steps=400, under="run"),
        Row("mpi_evaluation", WAITS_FOR_0, library="mpi", start="mpirun", behaviour="evaluates_on_rank_0", ranks=2),
        Row("nccl_evaluation", WAITS_FOR_0, library="nccl", behaviour="evaluates_on_rank_0"),
        Row("nccl_evaluation_run", WAITS_FOR_0, library="nccl", behaviour="evaluates_on_rank_0", under="run"),
        Row("mpi_random_batches", QUIET, library="mpi", start="mpirun", behaviour="random_batches", ranks=2, steps=300),
        Row("nccl_random_batches", QUIET, library="nccl", behaviour="random_batches", ranks=2, steps=300),
        Row("warm_up", QUIET, behaviour="warms_up"),
        Row("groups", QUIET, behaviour="groups_in_turns", ranks=4, steps=80),
        Row("logging", QUIET, behaviour="logs_on_rank_0"),
        Row("uneven_validation", QUIET, behaviour="validates_unevenly"),
        Row("slower_and_slower", QUIET, behaviour="slows_down"),
        Row("loader_workers", QUIET, behaviour="loads_with_workers", ranks=2),
        Row("saved_at_the_end", WAITS_FOR_0, behaviour="saves_at_the_end"),
        Row("mpi_attached_late", QUIET, library="mpi", start="mpirun", ranks=2, steps=800, attaches_after=1),
        Row("nccl_attached_late", QUIET, library="nccl", steps=800, attaches_after=1),
        Row("two_jobs_same_port_mpi", TWO_ATTEMPTS, library="mpi", start="mpirun", ranks=2, steps=400,
            others=(Row("", library="mpi", start="mpirun", ranks=2, steps=400),), one_after_the_other=True),
        Row("two_jobs_same_port_nccl", TWO_ATTEMPTS, library="nccl", ranks=2, steps=400,
            others=(Row("", library="nccl", ranks=2, steps=400),), one_after_the_other=True),
        Row("torch_and_mpi_at_once", QUIET, ranks=2, others=(Row("", library="mpi", start="mpirun", ranks=2, other_port=True),)),
        Row("interrupted", QUIET, steps=10000, ends_after=3, ends_with=signal.SIGINT),
        Row("cancelled", QUIET, steps=10000, ends_after=3),
        Row("comes_late", test="set_up_test.SetUp.test_a_rank_that_comes_late_is_no_failure"),
        Row("two_jobs_attached_late", test="attempts_test.Attempts.test_two_jobs_at_once_attached_late"),
    ]


def hang(name, expects, behaviour, victim, **more):
    """A rank that stays away, in a job that is ended after a while."""
    return Row(name, expects, behaviour=behaviour, victim=victim, steps=10000, ends_after=HANG_SECONDS, **more)


def restarted(name, **more):
    """The whole job is started again, at the same port, once an exception of rank 1 has ended it."""
    return Row(name, Finds("dead_rank", 1, words="exit code 1", attempts=(3, 3)), behaviour="leaves_by_exception", victim=1,
               others=(Row("", **more),), one_after_the_other=True, **more)


def stuck_in(rank, location, **more):
    return Finds(STUCK, rank, words=location, live=True, **more)


def faults():
    """Of the field test, then our own. Lines are of jobs/faults.py."""
    loop = rf"busy_loop \({line_of('faults.py', 'while True:  # busy')}\)"
    fifo = rf"read_fifo \({line_of('faults.py', 'os.read(os.open')}\), reading FIFO /\S*/fifo"
    lock = rf"take_lock_twice \({line_of('faults.py', 'lock.acquire()  # again')}\)"
    worker = rf"waiting for its worker pid \d+ in \S*Samples\.__getitem__ \({line_of('faults.py', 'time.sleep(1000)')}\), sleeping"
    late_worker = rf"waiting for its worker pid \d+ in \S*Samples\.__getitem__ \({line_of('faults.py', 'time.sleep(0.3)')}\), sleeping"
    collecting = rf"\bbefore \({line_of('faults.py', 'gc.collect()')}\), collecting garbage"
    return [
        Row("elastic_restart", Finds("dead_rank", 1, words="exit code 1", attempts=(3, 3)), behaviour="raises_in_the_first_attempt",
            victim=1, start="torchrun", torchrun=("--max_restarts=1",)),
        Row("elastic_restart_run", Finds("dead_rank", 1, words="exit code 1", attempts=(2, 2)), behaviour="raises_in_the_first_attempt",
            victim=1, ranks=2, start="torchrun", torchrun=("--max_restarts=1",), under="run"),
        Row("late_loader", Finds("late_rank", 2, words="sleeping|waiting", evidence=late_worker), behaviour="loader_is_late", victim=2,
            steps=300),
        Row("garbage", Finds("late_rank", 1, evidence=collecting), behaviour="collects_garbage", victim=1, steps=200),
        Row("slow_rank", Finds("late_rank", 3, words="sleeping", live=True), behaviour="sleeps_each_step", victim=3, ranks=4),
        Row("barrier_on_one_rank", Finds("mismatched_collective", 0, words="Barrier", live=True), behaviour="barrier_on_one_rank",
            victim=0, steps=10000, ends_after=HANG_SECONDS),
        hang("small_size", Finds("mismatched_collective", 1, words="4064 bytes.*4000 bytes", live=True), "small_size_differs", 1,
             library="gloo"),
        hang("large_size", Finds("mismatched_collective", 1, words="4000064 bytes.*4000000 bytes", live=True), "large_size_differs", 1,
             library="gloo"),
        hang("busy_loop", stuck_in(1, loop, evidence="computing"), "computes_for_ever", 1),
        hang("busy_loop_run", stuck_in(1, loop), "computes_for_ever", 1, start="torchrun", under="run"),
        hang("busy_loop_beside_a_healthy_job", stuck_in(1, loop), "computes_for_ever", 1, ranks=2,
             others=(Row("", ranks=2, other_port=True, steps=300),)),
        hang("fifo", stuck_in(2, fifo), "reads_a_fifo", 2),
        Row("stopped_4s", Finds("process_stopped", 1), behaviour="is_chosen", victim=1, steps=400, act=stop_for(4)),
        Row("stopped_10s", Finds("process_stopped", 1, live=True), behaviour="is_chosen", victim=1, steps=400, act=stop_for(10)),
        Row("competitor", Finds("cpu_contention", 1, words="had its core"), behaviour="is_chosen", victim=1, ranks=2, steps=600,
            act=take_its_core),
        Row("wrong_port", test="set_up_test.SetUp.test_another_port_on_one_rank"),
        Row("wrong_address", test="set_up_test.SetUp.test_another_address_on_one_rank"),
        Row("store_behind_a_firewall", test="set_up_test.SetUp.test_a_store_behind_a_firewall"),

        restarted("restart_mpi", library="mpi", start="mpirun"),
        restarted("restart_nccl", library="nccl"),
        hang("lock", stuck_in(1, lock), "takes_a_lock_twice", 1),
        hang("loader_worker", stuck_in(0, worker), "loader_worker_hangs", 0),
        hang("groups_in_another_order", Finds(f"{STUCK}|mismatched_collective", 2, live=True), "groups_in_another_order", 2,
             library="gloo"),
        hang("mpi_busy_loop", stuck_in(1, loop), "computes_for_ever", 1, library="mpi", start="mpirun", ranks=2),
        hang("nccl_busy_loop", stuck_in(2, loop), "computes_for_ever", 2, library="nccl"),
        hang("nccl_busy_loop_run", stuck_in(2, loop), "computes_for_ever", 2, library="nccl", under="run"),
        hang("mpi_fifo", stuck_in(0, fifo), "reads_a_fifo", 0, library="mpi", start="mpirun", ranks=2),
        hang("nccl_fifo", stuck_in(0, fifo), "reads_a_fifo", 0, library="nccl"),
        Row("raised_after_a_wait", Finds("dead_rank", 1, words="exit code 1.* It raised RuntimeError in load_late",
                                         evidence=r"load_late \(faults\.py"), behaviour="raises_after_a_wait", victim=1),
        Row("fewer_steps", Finds("dead_rank", 2, words="exit code 0"), behaviour="fewer_steps", victim=2),
        Row("mpi_slow_rank", Finds("late_rank", 1), library="mpi", start="mpirun", behaviour="sleeps_each_step", victim=1, ranks=2),
        Row("nccl_slow_rank", Finds("late_rank", 1, words="sleeping", live=True), library="nccl", behaviour="sleeps_each_step", victim=1),
        Row("nccl_stopped", Finds("process_stopped", 0), library="nccl", behaviour="is_chosen", victim=0, steps=600, act=stop_for(4)),
        Row("mpi_stopped", Finds("process_stopped", 1), library="mpi", start="mpirun", behaviour="is_chosen", victim=1, ranks=2, steps=600,
            act=stop_for(4)),
    ]


def raised(exit_code, exception, function, code):
    """What the sentence on a rank says that left by an exception at the line of jobs/faults.py with `code`."""
    return rf"exit code {exit_code}\b.* It raised {exception} in {function} \({line_of('faults.py', code)}\)"


MEMORY_ERROR = raised(1, "MemoryError", "memory_error", "bytearray(1 << 50)")
ENDS = {"exception": raised(1, "RuntimeError", "exception", "a shard of the data set is broken"), "memory_error": MEMORY_ERROR,
        "assertion": raised(1, "AssertionError", "assertion", "the loss is not a number"),
        "sys_exit": raised(3, "SystemExit", "sys_exit", "sys.exit(3)"),
        "os_exit": "exit code 4", "segfault": "signal 11", "out_of_memory": "out of memory"}
WAYS = [("gloo", "ranks", "trace"), ("gloo", "torchrun", "trace"), ("gloo", "torchrun", "run"), ("mpi", "mpirun", "trace"),
        ("mpi", "mpirun", "run"), ("nccl", "ranks", "trace"), ("nccl", "torchrun", "trace"), ("nccl", "ranks", "run")]
MORE_ENDS = {"recursion": raised(1, "RecursionError", "recursion", "    recursion()"), "abort": "signal 6", "killed": "signal 9"}


def ends():
    """Each way in which a rank can leave a job, on each library, however it was started; on any rank."""
    rows = []
    for how, words in ENDS.items():
        for library, start, under in WAYS:
            rows.append(Row(f"{how}_{library}_{start}_{under}", Finds("dead_rank", len(rows) % 3, words=words), library=library,
                            behaviour=f"leaves_by_{how}", victim=len(rows) % 3, start=start, under=under,
                            needs_cgroup=how == "out_of_memory"))
    for how, words in MORE_ENDS.items():
        rows.append(Row(f"{how}_ddp", Finds("dead_rank", 1, words=words), behaviour=f"leaves_by_{how}", victim=1))
    rows.append(Row("killed_ddp_run", Finds("dead_rank", 1, words="signal 9"), behaviour="leaves_by_killed", victim=1, start="torchrun",
                    under="run"))
    rows.append(Row("memory_error_ddp_run", Finds("dead_rank", 2, words=MEMORY_ERROR), behaviour="leaves_by_memory_error", victim=2,
                    start="torchrun", under="run"))
    return rows


def lines_of_python():
    """Tests of tests/jobs: file, line and function of a rank that the others wait for."""
    tests = ("a_rank_that_sleeps", "a_data_loader_that_sleeps", "a_rank_that_collects_garbage", "a_rank_that_reads_a_slow_file",
             "a_rank_that_computes", "a_rank_that_reads_a_fifo_while_the_job_runs", "a_rank_that_reads_a_fifo_under_run")
    return [Row(f"line_{name}", test=f"python_lines_test.PythonLines.test_{name}") for name in tests]


def of_gpu():
    """For a machine with a GPU, PyTorch and NCCL (--gpu): two ranks share the GPU, over loopback."""
    def row(name, expects, behaviour, **more):
        return Row(f"gpu_{name}", expects, library="gpu", behaviour=behaviour, **{"ranks": 2, "device_ms": 0, "steps": 200, **more})

    def stays_away(name, expects, behaviour, victim, **more):
        return row(name, expects, behaviour, victim=victim, **{"steps": 10000, "ends_after": HANG_SECONDS, **more})

    loop = rf"busy_loop \({line_of('faults.py', 'while True:  # busy')}\)"
    late_worker = rf"waiting for its worker pid \d+ in \S*Samples\.__getitem__ \({line_of('faults.py', 'time.sleep(0.3)')}\), sleeping"
    return [
        row("plain", QUIET, "steps_alone", steps=400),
        row("plain_run", QUIET, "steps_alone", start="torchrun", under="run"),
        row("runs_ahead", QUIET, "runs_ahead"),
        row("runs_ahead_run", QUIET, "runs_ahead", start="torchrun", under="run"),
        row("accumulation", QUIET, "accumulates"),
        row("other_sizes", QUIET, "other_sizes"),
        row("graph", QUIET, "replays_a_graph", steps=300),
        row("graph_run", QUIET, "replays_a_graph", steps=300, start="torchrun", under="run"),
        row("groups", QUIET, "groups_in_turns", ranks=4, steps=80),
        row("evaluation", WAITS_FOR_0, "evaluates_on_rank_0"),
        row("evaluation_on_device", WAITS_FOR_0, "evaluates_on_the_device"),
        row("evaluation_on_device_run", WAITS_FOR_0, "evaluates_on_the_device", start="torchrun", under="run"),
        row("checkpoint", WAITS_FOR_0, "saves_on_rank_0"),
        row("loader_workers", QUIET, "loads_with_workers"),
        row("attached_late", QUIET, "steps_alone", steps=3000, attaches_after=2),
        row("exception", Finds("dead_rank", 1, words=raised(1, "RuntimeError", "exception", "a shard of the data set is broken")),
            "leaves_by_exception", victim=1, start="torchrun", under="run"),
        row("killed", Finds("dead_rank", 1, words="signal 9"), "leaves_by_killed", victim=1, ends_after=HANG_SECONDS),
        row("late_rank", Finds("late_rank", 1, words="sleeping", live=True), "sleeps_each_step", victim=1),
        row("late_rank_synchronized", Finds("late_rank", 1, words="sleeping", live=True), "copies_wait", victim=1),
        row("late_loader", Finds("late_rank", 1, words="sleeping|waiting", evidence=late_worker), "loader_is_late", victim=1, steps=300),
        row("late_loader_run", Finds("late_rank", 1, words="sleeping|waiting", evidence=late_worker), "loader_is_late", victim=1, steps=300,
            start="torchrun", under="run"),
        row("slow_device", Finds("slow_device|late_rank", 1), "device_is_slow", victim=1),
        row("slow_device_run", Finds("slow_device|late_rank", 1), "device_is_slow", victim=1, start="torchrun", under="run"),
        row("stopped", Finds("process_stopped", 1), "is_chosen", victim=1, steps=600, act=stop_for(4)),
        stays_away("busy_loop", stuck_in(1, loop, evidence="computing"), "computes_for_ever", 1),
        stays_away("busy_loop_run", Finds(STUCK, 1, words=loop), "computes_for_ever", 1, start="torchrun", under="run"),
        stays_away("groups_in_another_order", Finds(f"{STUCK}|mismatched_collective", None, live=True), "groups_in_another_order", 1),
        stays_away("barrier_on_one_rank", Finds(f"mismatched_collective|{STUCK}", None, live=True), "barrier_on_one_rank", 0),
        stays_away("device_never_ends", Finds(f"slow_device|{STUCK}", 1, live=True), "device_never_ends", 1, ends_after=12),
    ]


GPU_ROWS = of_gpu()
ROWS = [*healthy(), *faults(), *ends(), *lines_of_python()]
assert len({row.name for row in ROWS}) == len(ROWS)
