# SPDX-License-Identifier: Apache-2.0
"""Our own folders and files where another user of the host is hostile: root is the victim, the user nobody the attacker
(docs/security_files.md).
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import recordings
from job import LIBRARIES, PLUGIN, Job
from launcher import Launcher
from processes import start_tracer
from stalltrace import BUILD, DONE, FAILED, PROGRAM, Case, run
from unprivileged import AS_NOBODY, run_as_nobody

NOBODY = 65534
WITHOUT = BUILD / "tests" / "without_syscalls"
SECRET = "hunter2hunter2"
# As root's run had it before: PATH.tmpPID, for the thousand next processes.
PLANT_LINKS = """
import os, sys
folder, victim = sys.argv[1:]
os.mkdir(folder)
for name in ("libnccl-profiler-stalltrace.so", "findings.json", "trace.db", "trace.db-wal", "nccl.log"):
    os.symlink(victim, f"{folder}/{name}")
for pid in range(os.getpid(), os.getpid() + 1000):
    os.symlink(victim, f"{folder}/libnccl-profiler-stalltrace.so.tmp{pid}")
"""


def as_nobody(*words, **options):
    return subprocess.run([*AS_NOBODY, *map(str, words)], check=True, capture_output=True, text=True, **options)


def mode(path):
    return path.stat().st_mode & 0o777


class Hostile(Case):
    """`shared` is a folder like /tmp, `victim` a file of root's that the user nobody may not read."""

    def setUp(self):
        super().setUp()
        self.need_root()
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        secret = self.folder / "secret"
        secret.mkdir(mode=0o700)
        self.victim = secret / "victim.conf"
        self.victim.write_text("precious")
        self.victim.chmod(0o600)

    def untouched(self):
        self.assertEqual((self.victim.read_text(), mode(self.victim)), ("precious", 0o600))
        self.assertEqual(os.listdir(self.victim.parent), ["victim.conf"])

    def run_in(self, folder, *words, environment=None):
        return subprocess.run([PROGRAM, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})


class RunFolder(Hostile):
    def used_elsewhere(self, result, *names):
        """The job ran, and its evidence is in a folder that the user nobody could not touch; the first line says so."""
        self.assertEqual(result.returncode, 7, result.stderr)
        first = result.stderr.splitlines()[0]
        for name in ("a folder is not used", *names):
            self.assert_says(name, first)
        folder = pathlib.Path(result.stdout.split()[0])
        self.assertTrue(folder.name.startswith("stalltrace-plugin-"), folder)
        self.untouched()

    JOB = ("sh", "-c", 'dirname "$NCCL_PROFILER_PLUGIN"; exit 7')

    def test_one_that_a_stranger_prepared_is_refused(self):
        name = "stalltrace-run-here"
        as_nobody(sys.executable, "-c", PLANT_LINKS, self.shared / name, self.victim)
        result = self.run_in(self.shared, "run", "--no-trace", "--node", "here", "--", *self.JOB)
        self.used_elsewhere(result, "belongs to the user nobody", "choose another folder")

    def test_a_link_is_refused(self):
        as_nobody("ln", "-s", self.victim.parent, self.shared / "link")
        self.used_elsewhere(self.run_in(self.shared, "run", "--no-trace", "--out", "link", "--", *self.JOB), "it is a link")
        self.used_elsewhere(self.run_in(self.shared, "run", "--no-trace", "--out", "link/x", "--", *self.JOB), "a link of the user nobody")

    def test_one_inside_a_strangers_is_refused(self):
        as_nobody("mkdir", self.shared / "theirs")
        self.used_elsewhere(self.run_in(self.shared / "theirs", "run", "--no-trace", "--", *self.JOB),
                            "others can replace the folder")
        self.assertEqual(list((self.shared / "theirs").iterdir()), [])

    def test_a_plain_user_is_protected_from_another_too(self):
        mine = self.shared / "mine"
        mine.mkdir()
        os.chown(mine, 1, 1)
        result = run_as_nobody(self.folder, "run", "--no-trace", "--out", mine, "--", "true")
        self.assertEqual(result.returncode, DONE)
        self.assert_says("belongs to uid", result.stderr.splitlines()[0])

    def test_only_its_owner_reads_what_a_run_leaves_unless_asked_for(self):
        for flag, folder, file in ((), 0o700, 0o600), (("--group-readable",), 0o750, 0o640), (("--world-readable",), 0o755, 0o644):
            with self.subTest(flag=flag):
                out = self.folder / f"run{folder:o}"
                result = run("run", "--out", out, *flag, "--", "true")
                self.assertEqual(result.returncode, DONE, result.stderr)
                self.assertEqual((mode(out), mode(out / "trace.db")), (folder, file))

    def test_it_goes_to_who_called_through_sudo(self):
        out = self.folder / "run"
        self.assertEqual(run("run", "--out", out, "--", "true", environment={"SUDO_UID": "65534", "SUDO_GID": "65534"}).returncode, DONE)
        self.assertEqual({path.stat().st_uid for path in (out, out / "trace.db")}, {NOBODY})


class Plugin(Hostile):
    def start(self):
        process = subprocess.Popen([PROGRAM, "run", "--no-trace", "--out", self.folder / "run", "--", "sh", "-c",
                                    'echo "$NCCL_PROFILER_PLUGIN"; exec sleep 60'], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.addCleanup(process.wait, timeout=10)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: os.killpg(process.pid, signal.SIGKILL))
        return process, pathlib.Path(process.stdout.readline().strip())

    def test_every_user_can_load_it_and_no_other_change_it(self):
        process, plugin = self.start()
        self.assertEqual(as_nobody("head", "-c", "4", plugin).stdout, "\x7fELF")
        for attack in (["rm", plugin], ["mv", plugin, f"{plugin}.x"], ["mv", plugin.parent, f"{plugin.parent}.x"],
                       ["sh", "-c", f"echo x >>{plugin}"], ["ln", "-sf", "/bin/true", plugin], ["ls", plugin.parent]):
            with self.subTest(attack=attack), self.assertRaises(subprocess.CalledProcessError):
                as_nobody(*attack)
        self.assertIsNone(process.poll())

    def test_a_killed_launchers_copy_goes_with_the_next_run(self):
        process, plugin = self.start()
        _, living = self.start()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        self.assertTrue(plugin.exists())
        self.assertEqual(run("run", "--no-trace", "--out", self.folder / "next", "--", "true").returncode, DONE)
        self.assertFalse(plugin.parent.exists())
        self.assertTrue(living.exists())


class Recordings(Hostile):
    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db")

    def test_only_its_owner_reads_one_unless_asked_for(self):
        self.assertEqual(mode(self.recording), 0o600)
        for flag, wanted in ((), 0o600), (("--group-readable",), 0o640), (("--world-readable",), 0o644):
            with self.subTest(flag=flag):
                merged, traced = self.folder / f"m{wanted}.db", self.folder / f"t{wanted}.db"
                self.done(run("merge", self.recording, "--out", merged, *flag))
                self.done(run("trace", "--duration", "300ms", "--pid", os.getpid(), "--out", traced, *flag))
                self.assertEqual((mode(merged), mode(traced)), (wanted, wanted))

    def test_no_other_user_can_lock_one_that_is_written(self):
        """Who can open the log can hold the lock by which readers know that it is written, and writers that it is not."""
        out = self.folder / "t.db"
        trace = start_tracer(PROGRAM, "--pid", os.getpid(), "--out", out, log=self.folder / "tracer.log")
        self.addCleanup(trace.wait, 10)
        self.addCleanup(trace.terminate)
        self.assertEqual({path.name: mode(path) for path in self.folder.glob("t.db*")},
                         {"t.db": 0o600, "t.db-wal": 0o600, "t.db-shm": 0o600})
        locked = subprocess.run([*AS_NOBODY, "flock", "--shared", "--nonblock", f"{out}-wal", "echo", "locked"], capture_output=True,
                                text=True, check=False)
        self.assertEqual(locked.stdout, "", locked.stderr)

    def test_one_goes_to_who_called_through_sudo(self):
        environment = {"SUDO_UID": "65534", "SUDO_GID": "65534"}
        for subcommand in (("merge", self.recording), ("trace", "--duration", "300ms", "--pid", os.getpid())):
            with self.subTest(subcommand=subcommand[0]):
                out = self.folder / f"{subcommand[0]}.db"
                self.done(run(*subcommand, "--out", out, environment=environment))
                self.assertEqual((out.stat().st_uid, mode(out)), (NOBODY, 0o600))
                self.done(run_as_nobody(self.folder, "query", out, "SELECT count(*) FROM node"))

    def test_a_name_is_a_name(self):
        """A name is neither a URI nor a database in memory."""
        for name in ("file:x.db", ":memory:", "a?mode=memory", "a b%20c"):
            with self.subTest(name=name):
                result = self.run_in(self.shared, "merge", self.recording, "--out", name)
                self.assertEqual(result.returncode, DONE, result.stderr)
                self.assertEqual([path.name for path in self.shared.iterdir()], [name])
                self.assertEqual(recordings.rows(str(self.shared / name).replace("%", "%25").replace("?", "%3f"),
                                                 "SELECT count(*) FROM collective"), [(400,)])
                (self.shared / name).unlink()
                traced = self.run_in(self.shared, "trace", "--duration", "300ms", "--pid", os.getpid(), "--out", name)
                self.assertEqual(traced.returncode, DONE, traced.stderr)
                self.assertEqual([path.name for path in self.shared.iterdir()], [name])
                (self.shared / name).unlink()

    def test_a_strangers_log_or_link_is_not_used(self):
        for suffix in ("-wal", "-shm", "-journal"):
            with self.subTest(suffix=suffix):
                out = self.shared / f"t{suffix}.db"
                as_nobody("touch", f"{out}{suffix}")
                self.refused(run("trace", "--duration", "300ms", "--out", out), FAILED, suffix, "a file is there already")
                self.assertFalse(out.exists())
        as_nobody("ln", "-s", self.folder / "secret" / "new.db", self.shared / "link.db")
        self.assertEqual(run("trace", "--duration", "300ms", "--out", self.shared / "link.db").returncode, FAILED)
        self.assertEqual(run("merge", self.recording, "--out", self.shared / "link.db").returncode, FAILED)
        self.untouched()

    def test_a_killed_merge_leaves_nothing(self):
        big = recordings.make(self.folder / "big.db", 150000)
        for what in (), (WITHOUT, "nameless-files"):
            for number in (signal.SIGKILL, signal.SIGTERM):
                with self.subTest(what=what, signal=number):
                    out = self.shared / "m.db"
                    process = subprocess.Popen([*map(str, what), PROGRAM, "merge", big, "--out", out], stderr=subprocess.DEVNULL)
                    time.sleep(0.1)
                    running = process.poll() is None
                    process.send_signal(number)
                    process.wait(timeout=10)
                    self.assertTrue(running, "too quick to be killed")
                    if what:  # there, every file has a name: the next process removes it
                        self.done(run("merge", self.recording, "--out", self.shared / "next.db", prefix=map(str, what)))
                        (self.shared / "next.db").unlink()
                    self.assertEqual(list(self.shared.iterdir()), [])

    def test_what_can_not_be_stored_is_not_called_done(self):
        broken = (WITHOUT, "stored-files", PROGRAM)
        for subcommand in (("merge", self.recording), ("trace", "--duration", "300ms", "--pid", os.getpid())):
            with self.subTest(subcommand=subcommand[0]):
                result = subprocess.run([*map(str, broken), *map(str, subcommand), "--out", self.shared / "x.db"], capture_output=True,
                                        text=True, check=False)
                self.assertEqual(result.returncode, FAILED, result.stderr)
                self.assert_says("input/output error", result.stderr)
        self.assertFalse((self.shared / "merge.db").exists())


class LabFolder(Hostile):
    def test_root_executes_nothing_from_a_strangers(self):
        as_nobody("mkdir", self.shared / "stalltrace-lab")
        for subcommand in ("run",), ("matrix", "--runs", "1"):
            with self.subTest(subcommand=subcommand):
                result = self.run_in(self.shared, "lab", *subcommand, "--out", "stalltrace-lab")
                self.assertEqual(result.returncode, FAILED)
                self.assert_says("belongs to the user nobody", result.stderr.splitlines()[-1])
        self.assertEqual(list((self.shared / "stalltrace-lab").iterdir()), [])


class Secrets(Case):
    """What a recording, a profiler file or `stacks` contains of a command line."""

    COMMAND = ("--api-key", SECRET, f"--url=postgres://me:{SECRET}@db/runs", "--lr", "1")

    def sleeper(self):
        process = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)", *self.COMMAND],
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.wait, timeout=10)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process.pid

    def test_stacks_shows_none_unless_asked_for(self):
        pid = self.sleeper()
        for words in (), ("--json",):
            with self.subTest(words=words):
                text = self.done(run("stacks", "--pid", pid, *words))
                self.assertNotIn(SECRET, text)
                self.assertIn("--api-key ***", text if words else text.replace("...", "--api-key ***"))
        whole = json.loads(self.done(run("stacks", "--pid", pid, "--json", "--whole-commands")))
        self.assertIn(f"--api-key {SECRET}", json.dumps(whole))

    def commands(self, path):
        return [row[0] for row in recordings.rows(path, "SELECT cmdline FROM process")]

    def test_profiler_files_and_what_is_imported_hold_none_unless_asked_for(self):
        for whole, flags in (False, ()), (True, ("--whole-commands",)):
            with self.subTest(whole=whole):
                files = self.folder / f"files{whole}"
                files.mkdir()
                environment = {"NCCL_PROFILER_PLUGIN": PLUGIN, "STALLTRACE_DIR": files}
                Job(self, "--steps", 2, log=f"{whole}-token={SECRET}-",
                    environment={**environment, "STALLTRACE_COMMANDS": "whole"} if whole else environment).wait()
                paths = list(files.glob("*.profiler"))
                self.assertEqual([SECRET.encode() in path.read_bytes() for path in paths], [whole] * 2)
                self.done(run("import", *paths, "--out", files / "i.db", *flags))
                self.assertEqual([SECRET in command for command in self.commands(files / "i.db")], [whole] * 2)

    def test_a_trace_holds_none_unless_asked_for(self):
        self.need_root()
        for whole, flags in (False, ()), (True, ("--whole-commands",)):
            with self.subTest(whole=whole):
                job = Launcher(self.folder, "--steps", 2, "--log", self.folder / f"{whole}-token={SECRET}")
                out = self.folder / f"{whole}.db"
                self.done(run("trace", "--out", out, *flags, "--", "env", f"NCCL_TEST_TOKEN={SECRET}", *job.words))
                self.assertEqual([SECRET in command for command in self.commands(out)], [whole] * 2)
                settings = [row[0] for row in recordings.rows(out, "SELECT settings FROM process")]
                self.assertEqual([f"NCCL_TEST_TOKEN={SECRET if whole else '***'}" in text.split("\n") for text in settings], [True] * 2)


class ChosenFolder(Hostile):
    """STALLTRACE_DIR names a world-writable folder."""

    def run_job(self, script, *words):
        return self.run_in(self.folder, "run", "--no-trace", "--out", "run", "--", "sh", "-c", script, "job", *words,
                           environment={"STALLTRACE_DIR": str(self.shared)})

    def test_root_takes_no_strangers_profiler_file_for_its_jobs(self):
        """A copy of a job's file, valid in every respect."""
        files = self.folder / "files"
        files.mkdir()
        job = Launcher(self.folder, "--steps", 2)
        result = self.run_job(f'STALLTRACE_DIR={files} "$@" && chmod 644 {files}/*.profiler && '
                              f'{" ".join(AS_NOBODY)} cp {files}/*.profiler {self.shared}/ && sleep 1', *job.words)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertEqual(len(list(self.shared.glob("*.profiler"))), 2)
        self.assert_says("no profiler file appeared", result.stderr)
        self.assertFalse((self.folder / "run" / "trace.db").exists())

    def test_but_those_of_its_own_job_that_runs_as_another_user(self):
        tree = self.folder / "lab"
        shutil.copytree(LIBRARIES.parent, tree, symlinks=True)
        logs = self.shared / "logs"
        logs.mkdir()
        logs.chmod(0o1777)
        job = Launcher(logs, "--steps", 120, "--device-ms", 20)  # seen while it lives
        words = [str(word).replace(str(LIBRARIES.parent), str(tree)) for word in job.words]
        result = self.run_job(f'exec {" ".join(AS_NOBODY)} "$@"', *words)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertEqual({path.stat().st_uid for path in self.shared.glob("*.profiler")}, {NOBODY}, result.stderr)
        self.assertEqual(recordings.rows(self.folder / "run" / "trace.db", "SELECT count(*) FROM process"), [(2,)])
