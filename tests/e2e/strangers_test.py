# SPDX-License-Identifier: Apache-2.0
"""Hostile users beside a tracer run by root: their files have no effect on it, and are counted."""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

from job import LIBRARIES, WORKLOAD, Job, Tracer, wait_until
from stalltrace import DONE, PROGRAM, ROOT, Case, run, sentence

PYTHON = "/usr/bin/python3"  # one that any user may run
NOBODY, OWNER, ANOTHER = 65534, 61001, 61002
FLOOD_SECONDS = 1.2  # of a processor: enough to fill a ring
MOST_BYTES = 300 << 20  # memory limit of a tracer that examines bombs
MOST_MEMORY = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def cpu_seconds(pid):
    """Of the process and its children that have ended (proc(5), /proc/PID/stat)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class UsersJob(Job):
    """A job of another user; its program is copied to a folder where that user may run it."""

    def __init__(self, case, user, program, *arguments, **options):
        self.user, self.program = user, program
        super().__init__(case, *arguments, **options)

    def start(self, rank, environment):
        with open(self.case.folder / f"rank{rank}.log", "w") as log:
            return subprocess.Popen([self.program, "--log", self.logs[rank], *self.arguments], stdout=log, stderr=log,
                                    env=environment, user=self.user, group=self.user, extra_groups=[])


class Strangers(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.script = self.folder / "stranger.py"
        shutil.copy(ROOT / "tests" / "support" / "stranger.py", self.script)
        self.theirs = self.folder_of(NOBODY, "theirs")

    def folder_of(self, user, name):
        folder = self.folder / name
        folder.mkdir()
        os.chown(folder, user, user)
        return folder

    def stranger(self, what, *words, stdin=subprocess.DEVNULL):
        """Runs as the user nobody; returns the process once its mapping is there."""
        process = subprocess.Popen([PYTHON, self.script, what, self.theirs, *words], user=NOBODY, group=NOBODY, extra_groups=[],
                                   stdin=stdin, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), f"{process.pid}\n")
        return process

    def library_of(self, user, name, mode=0o755):
        """The practice NCCL as a library owned by this user."""
        folder = self.folder_of(user, name)
        for file in LIBRARIES.iterdir():
            shutil.copy(file, folder / file.name)
            os.chown(folder / file.name, user, user)
            (folder / file.name).chmod(mode)
        return folder

    def job_of(self, user, libraries, steps=20):
        program = self.folder / "nccl-train"
        if not program.exists():
            shutil.copy(WORKLOAD, program)
        logs = self.folder_of(user, f"logs{user}{libraries.name}")
        return UsersJob(self, user, program, "--steps", steps, environment={"LD_LIBRARY_PATH": f"{libraries}:{LIBRARIES}"},
                        log=f"{logs.name}/")

    def calls(self, tracer, job):
        pids = ", ".join(str(process.pid) for process in job.ranks)
        return tracer.rows(f"SELECT count(*) FROM nccl_events WHERE pid IN ({pids})")[0][0]

    def losses(self, tracer):
        return dict(tracer.rows("SELECT source, count FROM loss WHERE source LIKE 'library:%'"))

    def printed(self):
        return (self.folder / "tracer.log").read_text()

    def test_a_mapping_that_becomes_another_file_after_it_was_read(self):
        """C1: the probe would be inside an instruction of the victim's program."""
        victim = self.folder / "victim"
        shutil.copy("/bin/true", victim)
        self.stranger("race", str(victim), "0x23e7")
        tracer = Tracer(self)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.assertEqual(subprocess.run([victim], check=False).returncode, 0)
            time.sleep(0.05)
        self.assertEqual(tracer.stop(), DONE)

    def test_a_fifo_at_the_path_of_a_deleted_library(self):
        """H1"""
        stranger = self.stranger("fifo")
        self.done(run("check", timeout=20))
        tracer = Tracer(self, "--pid", stranger.pid)
        tracer.process.terminate()
        self.assertEqual(tracer.process.wait(timeout=5), DONE)

    def test_a_library_that_is_cut_while_it_is_read(self):
        """H2"""
        self.stranger("truncate")
        for _ in range(3):
            self.done(run("check", timeout=20))
        tracer = Tracer(self)
        time.sleep(1)
        self.assertEqual(tracer.stop(), DONE)

    def test_kilobytes_that_claim_to_be_gigabytes(self):
        """H3"""
        self.stranger("bombs")
        begun = time.monotonic()
        # In a separate process: this one's largest child so far may have been another test's.
        measured = subprocess.run([sys.executable, "-c", MOST_MEMORY, PROGRAM, "check"], capture_output=True, text=True, timeout=20,
                                  check=True)
        self.assertLess(time.monotonic() - begun, 6)
        self.assertLess(int(measured.stdout.splitlines()[-1]) << 10, MOST_BYTES)

    def test_a_users_own_library_is_probed(self):
        tracer = Tracer(self)
        job = self.job_of(OWNER, self.library_of(OWNER, "owners"))
        job.wait()
        self.assertEqual(tracer.stop(), DONE)
        self.assertGreater(self.calls(tracer, job), 2 * 20)
        self.assertEqual(self.losses(tracer), {})

    def test_another_users_library_is_left_out_until_its_owner_is_trusted(self):
        libraries = self.library_of(ANOTHER, "anothers")
        tracer = Tracer(self)
        job = self.job_of(OWNER, libraries, steps=1000000)
        job.wait_for_steps(20)
        wait_until(lambda: "--trust-owner" in self.printed(), "the note")
        checked = self.done(run("check", timeout=20))
        self.assert_says("a library of another user is left out", checked, another=ANOTHER)
        self.assertEqual(tracer.stop(), DONE)
        self.assertEqual(self.calls(tracer, job), 0)
        self.assertEqual(self.losses(tracer), {"library:not_trusted": 2})  # one per process
        self.assert_says("how to trust a library", self.printed(), another=ANOTHER)
        tracer.path.unlink()
        tracer = Tracer(self, "--trust-owner", ANOTHER)
        before = job.steps()
        job.wait_for_steps(before + 50)
        self.assertEqual(tracer.stop(), DONE)
        self.assertGreater(self.calls(tracer, job), 0)

    def test_a_library_that_others_may_write_is_left_out(self):
        tracer = Tracer(self)
        job = self.job_of(OWNER, self.library_of(OWNER, "open", mode=0o777))
        job.wait()
        self.assertEqual(tracer.stop(), DONE)
        self.assertEqual(self.calls(tracer, job), 0)
        self.assert_says("others may write the library", self.printed(), owner=OWNER)

    def test_a_file_system_that_falls_silent(self):
        """H11: a library on a file system that answers is probed as usual. One on a file system that does not answer
        costs only itself.
        """
        if not pathlib.Path("/dev/fuse").exists():
            self.skipTest("the kernel has no FUSE")
        remote = self.folder / "remote"
        remote.mkdir()
        server = subprocess.Popen([PYTHON, ROOT / "tests" / "support" / "silent_files.py", LIBRARIES / "libnccl.so.2", remote],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(server.stdin.close)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, 10)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "mounted\n")
        self.addCleanup(subprocess.run, ["umount", "-l", remote], check=False)
        tracer = Tracer(self)
        far = self.job_of(0, remote, steps=1000000)
        self.addCleanup(server.kill)  # first of all: a thread of the job may wait for it, and can't be killed then
        far.wait_for_steps(100)
        near = Job(self, "--steps", 30)
        near.wait()
        self.assert_says("processes with a collective library", self.done(run("check", timeout=20)), remote=remote)
        self.assertEqual(tracer.stop(), DONE)
        self.assertGreater(self.calls(tracer, far), 0, self.printed())
        self.assertGreater(self.calls(tracer, near), 2 * 30)
        self.assertEqual(self.losses(tracer), {})

        tracer.path.unlink()
        server.stdin.write("now\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), "silent\n")
        tracer = Tracer(self)
        near = Job(self, "--steps", 30, log="again")
        near.wait()
        wait_until(lambda: re.search(sentence("a file system does not answer"), self.printed()), "the note", seconds=8)
        self.assertEqual(tracer.stop(), DONE)
        self.assertGreater(self.calls(tracer, near), 2 * 30)
        self.assertEqual(self.losses(tracer), {"library:not_read": 1})
        self.assert_says("files not read yet", self.done(run("check", timeout=20)))

    def explained_beside(self, *words, tracer_stops=True, steps=400, shared=()):
        """A stranger at a processor's full rate beside another user's job of which a rank is stopped: the sources of losses.
        The job has to last longer than the first wait below, also on a quick machine. `shared`: losses that have no user."""
        if platform.machine() != "x86_64":
            self.skipTest("the stranger's machine code is for x86-64")
        stranger = self.stranger(*words, stdin=subprocess.PIPE)
        self.addCleanup(stranger.stdin.close)
        tracer = Tracer(self, "--library", LIBRARIES / "libnccl.so.2")  # beside a flood it would be found too late for the first step
        stranger.stdin.write("go\n")
        stranger.stdin.flush()
        job = self.job_of(OWNER, LIBRARIES, steps=steps)
        job.wait_for_steps(20)
        flooded = cpu_seconds(stranger.pid) + FLOOD_SECONDS
        if tracer_stops:
            tracer.process.send_signal(signal.SIGSTOP)  # as one that does not get the CPU: the rings fill
            time.sleep(0.4)
        job.ranks[1].send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        wait_until(lambda: cpu_seconds(stranger.pid) >= flooded, "the stranger's share of the CPU")
        job.ranks[1].send_signal(signal.SIGCONT)
        tracer.process.send_signal(signal.SIGCONT)
        job.wait()
        stranger.kill()
        self.assertEqual(tracer.stop(), DONE)
        lost = dict(tracer.rows("SELECT source, count FROM loss"))
        # The kernel may refuse a thread's state for a moment; nothing shows whose thread it was. A later reading finds the thread.
        self.assertLessEqual(lost.pop("state:thread", 0), 2)
        lost.pop("library:not_trusted", None)  # the stranger's, looked at while it was killed: such a process has no user
        self.assertEqual([source for source in lost if not source.endswith(f":{NOBODY}") and source not in shared], [], lost)
        per_rank = {calls for (calls,) in tracer.rows(
            f"SELECT count(*) FROM collective WHERE pid IN ({job.ranks[0].pid}, {job.ranks[1].pid}) AND duration_ns IS NOT NULL "
            "AND op = 'ALL_REDUCE' GROUP BY pid")}
        self.assertEqual(len(per_rank), 1, per_rank)
        self.assertGreaterEqual(per_rank.pop(), steps)
        found = json.loads(self.done(run("explain", tracer.path, "--json", timeout=60)))["findings"]
        stopped = [finding for finding in found if finding["cause"] == "process_stopped"]
        self.assertEqual([finding["culprit"]["rank"] for finding in stopped], [1], found)
        self.assertIsNotNone(stopped[0]["comm_id_hash"], found)
        # The stranger takes a processor, so that contention may be true as well; nothing else is of the job. The stranger's own
        # calls, which never end, are a hang.
        of_job = {finding["cause"] for finding in found if finding["comm_id_hash"] == stopped[0]["comm_id_hash"]}
        self.assertLessEqual(of_job, {"process_stopped", "cpu_contention"}, found)
        return lost

    def test_calls_without_end(self):
        """H4: what the stranger loses is counted under its number, no other user loses anything."""
        lost = self.explained_beside("calls", "calls")
        self.assertGreater(lost.get(f"share:collective:{NOBODY}", 0), 0, lost)

    def test_communicators_without_end(self):
        """H4, H5"""
        lost = self.explained_beside("calls", "communicators")
        self.assertGreater(lost.get(f"share:communicator:{NOBODY}", 0) + lost.get(f"share:sequence:{NOBODY}", 0), 0, lost)

    def test_a_group_that_never_ends(self):
        """H4"""
        lost = self.explained_beside("calls", "group")
        self.assertGreater(lost.get(f"share:call:{NOBODY}", 0), 0, lost)

    def test_processes_without_end(self):
        """H4, M12: each forked, with one call."""
        lost = self.explained_beside("forks", steps=150, shared=("perf:mappings",))  # the kernel's buffer has no shares (docs/security.md)
        self.assertGreater(sum(count for source, count in lost.items() if source.endswith(f":{NOBODY}")), 0, lost)

    def test_libraries_without_end(self):
        self.explained_beside("flood", tracer_stops=False)

    def test_profiler_files_without_end(self):
        """H7"""
        def remove_files():
            for path in pathlib.Path("/dev/shm").glob("stalltrace-*.profiler"):
                if path.stat().st_uid == NOBODY:
                    path.unlink()
        self.addCleanup(remove_files)
        lost = self.explained_beside("profiler_files")
        self.assertGreater(lost.get(f"profiler:overwritten:{NOBODY}", 0), 0, lost)
