# SPDX-License-Identifier: Apache-2.0
"""`run` and `trace -- COMMAND` start the command from a process that does nothing else. Whatever happens to the processes that
trace and explain, the command ends as it would have: with its own exit code, and one line says what was lost.
"""

import contextlib
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import recordings
from job import wait_until
from job_test import Fares
from stalltrace import PROGRAM, ROOT, sentence

PATIENCE = ("--patience", "2s")  # a launcher waits for a minute before it kills what does not end
SHORT = ("--patience", "200ms")
# Roots of cgroup hierarchies with the memory controller, and their limit: version 1, version 2.
MEMORY_LIMITS = ((pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (pathlib.Path("/sys/fs/cgroup"), "memory.max"))
ENDINGS = {"exit 7": 7, "kill -USR1 $$": 128 + signal.SIGUSR1}


def workers_of(launcher, job):
    """{name: pid} of all processes below the launcher but the job's."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = re.fullmatch(r"\d+ \((.*)\) (.*)", (folder / "stat").read_text(), re.S).groups()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(folder.name)] = (name, int(rest.split()[1]))
    found, frontier = {}, {launcher}
    while frontier:
        frontier = {child for child, (_, parent) in parents.items() if parent in frontier and child != job}
        found.update((parents[child][0], child) for child in frontier)
    return found


class Workers(Fares):
    def setUp(self):
        super().setUp()
        self.go = self.folder / "go"

    def subcommands(self):
        for name, subcommand in super().subcommands():
            yield name, (*subcommand, *PATIENCE)

    def traced_run(self):
        return "run", "--out", self.folder / "traced", *PATIENCE

    def begin(self, subcommand, ending, **options):
        """A job that ends in that way once it may; the launcher's other processes."""
        self.go.unlink(missing_ok=True)
        process = self.start(subcommand, "bash", "-c", f"echo ready $$; until [ -e {self.go} ]; do sleep 0.05; done; {ending}", **options)
        wait_until(lambda: re.search(r"ready \d+\n", self.output.read_text()), "the job")
        self.job = int(self.output.read_text().split()[1])
        processes = workers_of(process.pid, self.job)
        for pid in (self.job, *processes.values()):
            self.addCleanup(self.kill, pid)
        return process, processes

    def errors_printed(self):
        return [line for line in self.errors.read_text().splitlines() if line.startswith("stalltrace: ")]

    def none_is_left(self, processes):
        wait_until(lambda: not any(self.runs(pid) for pid in processes.values()), f"the end of {processes}", 5)

    def remove_profiler_folders(self):
        """What a killed launcher leaves; another one that starts in the meantime may have removed them already."""
        for folder in re.findall(sentence("profiler files go to"), self.errors.read_text()):
            with contextlib.suppress(FileNotFoundError):
                pathlib.Path(folder).rmdir()

    def without_memory(self, pid):
        """The kernel ends that process at its next use of new memory: its cgroup may have none."""
        group = next((root / f"stalltrace-test-{os.getpid()}" for root, _ in MEMORY_LIMITS if (root / "cgroup.procs").exists()), None)
        if group is None:
            self.skipTest("no cgroup here can limit memory")

        def remove():
            wait_until(lambda: not (group / "cgroup.procs").read_text(), "the end of its processes")
            group.rmdir()

        if not group.exists():
            try:
                group.mkdir()
            except OSError as error:
                self.skipTest(f"no cgroup can be made here: {error}")
            self.addCleanup(remove)
        if not (group / dict(MEMORY_LIMITS)[group.parent]).exists():
            self.skipTest("no cgroup here can limit memory")
        (group / dict(MEMORY_LIMITS)[group.parent]).write_text("4096")
        (group / "cgroup.procs").write_text(str(pid))

    def fares(self, subcommand, victim, number, name):
        """`number`: of a signal, or what to do to the victim. The one line printed has the sentence `name`."""
        for ending, code in ENDINGS.items():
            with self.subTest(ending=ending):
                process, processes = self.begin(subcommand, ending)
                if callable(number):
                    number(processes[victim])
                else:
                    os.kill(processes[victim], number)
                if number != signal.SIGSTOP:
                    wait_until(self.errors_printed, "the line", 5)
                    self.assertIsNone(process.poll())
                self.go.touch()
                self.assertEqual(process.wait(timeout=30), code, self.errors.read_text())
                self.assertEqual(len(self.errors_printed()), 1, self.errors.read_text())
                self.assert_says(name, self.errors_printed()[0])
                self.none_is_left(processes)
                for recording in self.folder.glob("t.db*"):
                    recording.unlink()


class Tracer(Workers):
    """Of `trace -- COMMAND`."""

    def setUp(self):
        super().setUp()
        self.need_root()
        self.subcommand = ("trace", "--out", self.folder / "t.db", *PATIENCE)

    def test_killed(self):
        self.fares(self.subcommand, "st-tracer", signal.SIGKILL, "the tracer was killed")

    def test_a_bus_error(self):
        self.fares(self.subcommand, "st-tracer", signal.SIGBUS, "the tracer had a bus error")

    def test_killed_by_the_kernel_for_want_of_memory(self):
        self.fares(self.subcommand, "st-tracer", self.without_memory, "the tracer was killed for memory")

    def test_hangs(self):
        self.fares(self.subcommand, "st-tracer", signal.SIGSTOP, "the tracer hung")

    def test_what_it_flushed_is_readable(self):
        process, processes = self.begin(self.subcommand, "exit 7")
        time.sleep(1)
        os.kill(processes["st-tracer"], signal.SIGKILL)
        self.go.touch()
        self.assertEqual(process.wait(timeout=30), 7)
        self.assertEqual(recordings.rows(self.folder / "t.db", "SELECT count(*) FROM node"), [(1,)])


class TracerOfARun(Workers):
    def setUp(self):
        super().setUp()
        self.need_root()

    def test_killed(self):
        self.fares(self.traced_run(), "st-tracer", signal.SIGKILL, "the tracer of a run was killed")

    def test_a_bus_error(self):
        self.fares(self.traced_run(), "st-tracer", signal.SIGBUS, "the tracer had a bus error")

    def test_hangs(self):
        self.fares(self.traced_run(), "st-tracer", signal.SIGSTOP, "the tracer of a run hung")


class Evidence(Workers):
    """The process of `run` that keeps the evidence."""

    def subcommand(self):
        return self.traced_run() if os.geteuid() == 0 else ("run", "--no-trace", "--out", self.folder / "run", *PATIENCE)

    def end(self, process):
        super().end(process)
        self.remove_profiler_folders()

    def test_killed(self):
        self.fares(self.subcommand(), "st-evidence", signal.SIGKILL, "the evidence process was killed")

    def test_a_bus_error(self):
        self.fares(self.subcommand(), "st-evidence", signal.SIGBUS, "the evidence process had a bus error")

    def test_killed_by_the_kernel_for_want_of_memory(self):
        """It needs more when the command has ended: what it knows is explained."""
        self.need_root()
        for ending, code in ENDINGS.items():
            with self.subTest(ending=ending):
                process, processes = self.begin(self.subcommand(), ending)
                self.without_memory(processes["st-evidence"])
                self.go.touch()
                self.assertEqual(process.wait(timeout=30), code, self.errors.read_text())
                self.assert_says("a worker was killed", "\n".join(self.errors_printed()))
                self.none_is_left(processes)

    def test_hangs(self):
        self.fares(("run", "--no-trace", "--out", self.folder / "run", *SHORT), "st-evidence", signal.SIGSTOP,
                   "the evidence process hung")

    def test_hangs_on_a_file_system_that_falls_silent(self):
        """Its server is gone: what waits for it can't even be killed."""
        self.need_root()
        if not pathlib.Path("/dev/fuse").exists():
            self.skipTest("the kernel has no FUSE")
        remote = self.folder / "remote"
        remote.mkdir()
        server = subprocess.Popen([sys.executable, ROOT / "tests" / "support" / "silent_files.py", __file__, remote],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for step in (server.stdin.close, server.stdout.close, lambda: server.wait(10), server.kill):
            self.addCleanup(step)
        self.assertEqual(server.stdout.readline(), "mounted\n")
        self.addCleanup(subprocess.run, ["umount", "-l", remote], check=False)
        server.stdin.write("now\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), "silent\n")
        for subcommand in (("run", "--out", remote / "run"), ("trace", "--out", remote / "t.db")):
            with self.subTest(subcommand=subcommand[0]):
                process = self.start((*subcommand, *SHORT), "bash", "-c", "exit 7")
                self.assertEqual(process.wait(timeout=30), 7, self.errors.read_text())
                self.assert_says("a worker was not ready", self.errors.read_text())


class Launcher(Workers):
    def test_its_workers_go_first_when_memory_runs_out_and_the_job_does_not(self):
        own = pathlib.Path("/proc/self/oom_score_adj").read_text()
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process, processes = self.begin(subcommand, "exit 7")
                score = {name: pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text() for name, pid in processes.items()}
                workers = set(score) - {"signal-watch"}
                self.assertTrue(workers & {"st-tracer", "st-evidence"})
                self.assertEqual({name for name, text in score.items() if text == "1000\n"}, workers)
                for pid in (process.pid, self.job):
                    self.assertEqual(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text(), own)
                self.go.touch()
                self.assertEqual(process.wait(timeout=30), 7)

    def test_killed_it_leaves_the_job_and_no_other(self):
        subcommands = [*self.subcommands()] + ([("traced run", self.traced_run())] if os.geteuid() == 0 else [])
        for name, subcommand in subcommands:
            with self.subTest(subcommand=name):
                process, processes = self.begin(subcommand, "exit 7")
                process.kill()
                process.wait(timeout=10)
                self.none_is_left(processes)
                self.assertTrue(self.runs(self.job))
                self.go.touch()
                wait_until(lambda: not self.runs(self.job), "the job's end", 5)
                self.remove_profiler_folders()

    def test_a_limit_of_file_sizes(self):
        """H12: SIGXFSZ ended the launcher, before the job or in the middle of it."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 10, 200 << 10))  # room for an empty recording

        for name, subcommand in [*self.subcommands()] + ([("traced run", self.traced_run())] if os.geteuid() == 0 else []):
            with self.subTest(subcommand=name):
                process = self.start(subcommand, "bash", "-c", "sleep 1; exit 7", preexec_fn=limit)
                self.assertEqual(process.wait(timeout=30), 7, self.errors.read_text())

    def test_what_it_prints_is_not_read(self):
        """A pipe whose reader is gone, and one that is full."""
        for full in (False, True):
            read_end, write_end = os.pipe()
            if full:
                os.set_blocking(write_end, False)
                with self.assertRaises(BlockingIOError):
                    while True:
                        os.write(write_end, b"." * 4096)
                os.set_blocking(write_end, True)
            else:
                os.close(read_end)
            for name, subcommand in Fares.subcommands(self):
                with self.subTest(subcommand=name, full=full):
                    (self.folder / "t.db").unlink(missing_ok=True)
                    process = subprocess.Popen([PROGRAM, *map(str, subcommand), *SHORT, "--", "bash", "-c", "exit 7"], stderr=write_end,
                                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=self.folder)
                    self.addCleanup(self.end, process)
                    self.assertEqual(process.wait(timeout=40), 7)
            os.close(write_end)
            if full:
                os.close(read_end)
