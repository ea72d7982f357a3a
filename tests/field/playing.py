# SPDX-License-Identifier: Apache-2.0
"""Plays a case: starts its job and stalltrace, does what the case does to the job, and returns what was printed."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from alarms import alarms
from job import LIBRARIES, OPENMPI, Tracer
from lab import cpu_pressure_ms
from launcher import Launcher
from processes import free_port, job_environment
from stalltrace import PROGRAM, Case, run

HERE = pathlib.Path(__file__).resolve().parent
JOBS = HERE / "jobs"
PYTHON = os.environ.get("FIELD_PYTHON", "/usr/bin/python3")  # Debian's has torch
MARKER = "FIELD_JOB"  # in the environment of a job's processes: the folder of its case
ENDS_WITHIN_SECONDS = 90  # of a job, else its case is wrong
SETTLES_SECONDS = 0.7  # until all is seen of a job that has ended


@dataclasses.dataclass
class Observed:
    """What came of a case that was played once."""
    report: dict  # explain --json
    text: str  # explain
    live: list  # rows of the table finding, as dictionaries; under run: what was printed of hangs, in the same form
    printed: str  # all that was printed while the job ran (under run: at its end too), in one line
    fault_ns: int | None  # when the job reported that its fault begins
    job_code: int | None  # the first that is not 0, of several jobs; None: ended by the case
    failures: list  # of the case itself: a job that did not begin, a fault that did not, no report
    seconds: float
    load: float  # of the machine when it began: runnable processes
    pressure: float  # share of the time in which some process had no CPU


def processes_of(folder):
    """Ids of the processes that were started with this folder's marker."""
    wanted = f"{MARKER}={folder}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(entry))
    return found


def ranks_of(folder):
    """Those that run train.py; a data loader's workers among them."""
    found = []
    for pid in processes_of(folder):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = [word for word in file.read().split(b"\0") if word != b"-u"]  # which torchrun adds
            if os.path.basename(words[0]).startswith(b"python") and words[1].endswith(b"/train.py"):
                found.append(pid)
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class FieldJob:
    """A job of jobs/train.py: its command, its processes, and the files by which it says where it is."""

    def __init__(self, case, folder, port):
        self.case, self.folder = case, folder
        folder.mkdir(exist_ok=True)
        self.cgroup = None
        program = [JOBS / "train.py", case.library, case.behaviour, folder, *([] if case.victim is None else [case.victim])]
        environment = {**job_environment(case.ranks, port), "OMP_NUM_THREADS": 1, MARKER: folder, "FIELD_STEPS": case.steps,
                       "FIELD_DEVICE_MS": case.device_ms}
        if case.library == "nccl":
            environment["LD_LIBRARY_PATH"] = LIBRARIES
        if case.needs_cgroup:
            self.cgroup = self.make_cgroup()
            environment["FIELD_CGROUP"] = self.cgroup
        if case.start == "torchrun":
            words = [PYTHON, JOBS / "torchrun.py", "--nproc_per_node", case.ranks, "--master_port", port, *case.torchrun, *program]
        elif case.start == "mpirun":
            words = [*OPENMPI, "-n", case.ranks, PYTHON, *program]
        else:
            words = Launcher(folder, *program, ranks=case.ranks, program=PYTHON, port=port).words
        self.words = ["env", *(f"{name}={value}" for name, value in environment.items()), *map(str, words)]

    @staticmethod
    def make_cgroup():
        """With a limit of memory of its own: cgroup version 1 where it is mounted."""
        parent = next(parent for parent in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.exists(f"{parent}/cgroup.procs"))
        folder = f"{parent}/stalltrace-field-{os.getpid()}"
        os.makedirs(folder, exist_ok=True)
        return folder

    def start(self, *prefix, stderr):
        with open(self.folder / "job.log", "ab") as log:
            self.process = subprocess.Popen([*map(str, prefix), *self.words], stdout=log, stderr=stderr or log)
        return self.process

    def wait_for(self, mark):
        """When it was made, and the process; None where the job ends without."""
        path = self.folder / mark
        end = time.monotonic() + ENDS_WITHIN_SECONDS
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                return None
            time.sleep(0.02)
        return tuple(map(int, path.read_text().split()))

    def end(self, number=signal.SIGTERM):
        """As a batch system does: all ranks at once."""
        signal_all(ranks_of(self.folder), number)

    def clean_up(self):
        for _ in range(50):
            left = processes_of(self.folder)
            signal_all(left, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        if self.cgroup:
            with contextlib.suppress(OSError):
                os.rmdir(self.cgroup)


class Stage(Case):
    """A folder, and what has to be ended and removed afterwards."""

    def runTest(self):
        """Cases are played by play(), not by unittest."""


def one_line(path):
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", path.read_text(errors="replace")).split())


def play(case, keep=None):
    """Plays the case once. `keep` is a folder that gets what it leaves."""
    stage = Stage()
    stage.setUp()
    try:
        return observe(case, stage)
    finally:
        stage.doCleanups() if keep is None else keep_results(stage, keep)


def keep_results(stage, keep):
    shutil.copytree(stage.folder, keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("fifo", "checkpoint", "profiler"))
    stage.doCleanups()


def observe(case, stage):
    load, pressure_ms, began = os.getloadavg()[0], cpu_pressure_ms(), time.monotonic()
    port = free_port()
    jobs = [FieldJob(other, stage.folder / f"job{number}", free_port() if other.other_port else port)
            for number, other in enumerate([case, *case.others])]
    for job in jobs:
        stage.addCleanup(job.clean_up)
    played = under_run(case, stage, jobs[0]) if case.under == "run" else under_trace(case, stage, jobs)
    seconds = time.monotonic() - began
    return Observed(load=load, pressure=(cpu_pressure_ms() - pressure_ms) / 1e3 / seconds, seconds=seconds, **played)


def attend(case, job):
    """Does to the job what the case does, and waits for its end: (when the fault began, exit code, what failed). The code is None
    where the case ends the job."""
    failures = [] if job.wait_for("begun") else [f"{job.folder.name} did not begin"]
    fault = job.wait_for("fault") if case.marks_fault else None
    if case.marks_fault and not fault:
        failures.append(f"the fault of {job.folder.name} did not begin")
    if case.act and fault:
        case.act(job, fault[1])
    if case.ends_after is not None and (fault or not case.marks_fault):
        since = time.time() - fault[0] / 1e9 if fault else 0
        time.sleep(max(0, case.ends_after - since))
        job.end(case.ends_with)
    ended_by_case = case.ends_after is not None or case.detaches_after is not None
    try:
        job.process.wait(timeout=10 if ended_by_case else ENDS_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        job.clean_up()
        failures += [] if ended_by_case else [f"{job.folder.name} did not end"]
    return fault and fault[0], None if ended_by_case else job.process.returncode, failures


NO_REPORT = {"findings": [], "notes": [], "judged": {"collectives": 0}}


def under_run(case, stage, job):
    log = stage.folder / "run.log"
    with open(log, "wb") as sink:
        job.start(PROGRAM, "run", "--out", stage.folder / "run", "--", stderr=sink)
    fault_ns, code, failures = attend(case, job)
    findings = stage.folder / "run" / "findings.json"
    report = json.loads(findings.read_text()) if findings.exists() else NO_REPORT
    if report is NO_REPORT:
        failures.append("no findings.json")
    text = run("explain", stage.folder / "run" / "trace.db").stdout
    printed = one_line(log)
    if case.library not in ("nccl", "gpu") and (advice := re.search(r".{0,40}\bNCCL is older than.{0,20}", printed)):
        failures.append(f"advice on NCCL, which the job does not call: '{advice[0]}'")
    return {"report": report, "text": text, "live": alarms(log.read_text(errors="replace")), "printed": printed, "fault_ns": fault_ns,
            "job_code": code, "failures": failures}


def under_trace(case, stage, jobs):
    tracer = None

    def begin_trace():
        nonlocal tracer
        known = ["--library", str(LIBRARIES / "libnccl.so.2")] if case.library == "nccl" else []  # as one in a usual folder is
        tracer = Tracer(stage, "--live", "--pid", str(os.getpid()), *known)

    first = jobs[0]
    if case.attaches_after is None:
        begin_trace()
    attended = []
    for job in jobs:
        job.start(stderr=None)
        if case.one_after_the_other:
            attended.append(attend(job.case, job))
    if case.attaches_after is not None:
        first.wait_for("begun")
        time.sleep(case.attaches_after)
        begin_trace()
    if case.detaches_after is not None:
        attached_ns = time.time_ns()
        while (fault := first.wait_for("fault")) and fault[0] < attached_ns and first.process.poll() is None:
            time.sleep(0.02)
        time.sleep(case.detaches_after)
        tracer.stop()
        first.end(signal.SIGKILL)
    if not case.one_after_the_other:
        attended = [attend(job.case, job) for job in jobs]
    time.sleep(SETTLES_SECONDS)
    tracer.stop()
    columns = "cause, severity, culprit_rank, culprit_pid, detected_ns, ended_ns, summary, remedy"
    rows = tracer.rows(f"SELECT {columns} FROM finding ORDER BY detected_ns")
    live = [dict(zip(columns.split(", "), row)) for row in rows]
    explained = run("explain", "--json", tracer.path)
    failures = [failure for _, _, of_job in attended for failure in of_job]
    if explained.returncode != 0:
        failures.append(f"explain ended with {explained.returncode}: {explained.stderr.strip()}")
    report = json.loads(explained.stdout) if explained.returncode == 0 else NO_REPORT
    codes = [code for _, code, _ in attended]
    return {"report": report, "text": run("explain", tracer.path).stdout, "live": live,
            "printed": one_line(stage.folder / "tracer.log"), "fault_ns": attended[0][0],
            "job_code": next((code for code in codes if code), codes[0]), "failures": failures}
