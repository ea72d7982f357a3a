# SPDX-License-Identifier: Apache-2.0
"""The folders where `stalltrace run` puts profiler files and the plugin, and its output when there are none."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import recordings
from job import LIBRARIES, PLUGIN, wait_until
from launcher import Launcher
from stalltrace import BUILD, DONE, PROGRAM, Case, run, sentence

SHARED = pathlib.Path("/dev/shm")


class Evidence(Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "run"
        self.errors = self.folder / "errors"
        self.process = None
        before = set(SHARED.iterdir())
        self.addCleanup(lambda: [shutil.rmtree(path, ignore_errors=True) for path in set(SHARED.iterdir()) - before
                                 if path.name.startswith("stalltrace-run-")])

    def start(self, *words, environment=None):
        with open(self.errors, "w") as stream:
            self.process = subprocess.Popen([PROGRAM, "run", "--out", self.out, *map(str, words)], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=stream, env={**os.environ, **(environment or {})},
                                            start_new_session=True)
        self.addCleanup(self.end)

    def end(self):
        for stop in (self.process.kill, lambda: os.killpg(self.process.pid, signal.SIGKILL)):
            try:
                stop()
            except ProcessLookupError:
                pass
        self.process.wait(timeout=20)

    def memory(self):
        """Returns the folder that was reported."""
        return pathlib.Path(re.search(sentence("profiler files go to"), self.errors.read_text())[1])

    @staticmethod
    def profiler_files(folder):
        return sorted(path.name for path in folder.iterdir() if path.suffix == ".profiler") if folder.exists() else []

    def collectives(self, recording, condition="1"):
        sql = f"SELECT COUNT(*) FROM nccl_events WHERE op = 'ALL_REDUCE' AND {condition}"
        return recordings.rows(self.out / recording, sql)[0][0]

    def run_job(self, *words, steps=20, environment=None, prefix=(), wrap=()):
        job = Launcher(self.folder, "--steps", steps)
        result = run("run", "--out", self.out, *words, "--", *wrap, *job.words, environment=environment, prefix=prefix)
        self.assertEqual(result.returncode, DONE, result.stderr)
        return result.stderr


class Memory(Evidence):
    def test_profiler_files_are_in_memory_while_the_job_runs_and_in_the_folder_after(self):
        ways = [("--no-trace",)] + ([()] if os.geteuid() == 0 else [])
        for words in ways:
            with self.subTest(words=words):
                self.out = self.folder / f"run{len(words)}"
                job = Launcher(self.folder, "--steps", 100, "--step-ms", 20)
                self.start(*words, "--", *job.words)
                wait_until(lambda: re.search(sentence("profiler files go to"), self.errors.read_text()), "the folder")
                memory = self.memory()
                self.assertEqual((memory.parent, memory.stat().st_mode & 0o777), (SHARED, 0o700))
                wait_until(lambda: len(self.profiler_files(memory)) == 2, "the profiler files")
                names = self.profiler_files(memory)
                self.assertEqual(self.profiler_files(self.out / "profiler"), [])
                self.assertEqual(self.process.wait(timeout=60), DONE, self.errors.read_text())
                self.assertEqual(self.profiler_files(self.out / "profiler"), names)
                self.assertFalse(memory.exists())
                self.assertEqual(self.collectives("trace.db", "completion = 'profiler'"), self.collectives("trace.db"))
                self.assertFalse((self.out / "profiler.db").exists())

    def test_profiler_files_of_a_job_that_is_killed_are_moved_too(self):
        job = Launcher(self.folder, "--steps", 100000)
        self.start("--no-trace", "--", *job.words)
        wait_until(job.pids, "the ranks")
        wait_until(lambda: len(self.profiler_files(self.memory())) == 2, "the profiler files")
        time.sleep(1)
        for pid in job.pids():
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.process.wait(timeout=60), 128 + signal.SIGKILL)
        self.assertEqual(len(self.profiler_files(self.out / "profiler")), 2)
        self.assertFalse(self.memory().exists())
        self.assertGreater(self.collectives("trace.db"), 0)

    def test_asked_to_end_the_profiler_files_are_saved_before_the_job_is_done(self):
        """The files are complete and in the reported folder even if the launcher is killed at that moment."""
        job = Launcher(self.folder, "--steps", 100000)
        self.start("--no-trace", "--", "bash", "-c", "trap 'echo reported' TERM; \"$@\" & wait; wait", "-", *job.words)
        wait_until(job.pids, "the ranks")
        wait_until(lambda: len(self.profiler_files(self.memory())) == 2, "the profiler files")
        self.process.terminate()
        wait_until(lambda: len(self.profiler_files(self.out / "profiler")) == 2, "the copies", 10)
        self.assertIsNone(self.process.poll(), "the job goes on")
        self.process.kill()
        self.process.wait(timeout=10)
        for folder in (self.memory(), self.out / "profiler"):
            recording = self.folder / f"{folder.name}.db"
            self.done(run("import", *(folder / name for name in self.profiler_files(folder)), "--out", recording))
            self.assertIn("2 ranks", self.done(run("explain", recording)))
        result = run("run", "--no-trace", "--out", self.folder / "next", "--", "true")
        self.assertNotIn(str(self.memory()), result.stderr, "its job lives")
        for pid in job.pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in job.pids()), "the ranks' end")
        result = run("run", "--no-trace", "--out", self.folder / "next", "--", "true")
        self.assert_says("profiler files of earlier runs", result.stderr, memory=self.memory())

    def test_a_ctrl_c_still_has_the_run_explained(self):
        job = Launcher(self.folder, "--steps", 100000)
        self.start("--no-trace", "--", *job.words)
        wait_until(job.pids, "the ranks")
        wait_until(lambda: len(self.profiler_files(self.memory())) == 2, "the profiler files")
        time.sleep(1)
        os.killpg(self.process.pid, signal.SIGINT)
        self.assertEqual(self.process.wait(timeout=60), 128 + signal.SIGINT, self.errors.read_text())
        self.assertTrue((self.out / "findings.json").exists(), self.errors.read_text())

    def in_a_small_memory(self, size):
        return ("unshare", "-m", "bash", "-c", f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"', "-")

    def test_without_room_in_memory_they_are_in_the_folder_from_the_start(self):
        self.need_root()
        words = self.run_job("--no-trace", prefix=self.in_a_small_memory("64m"))
        self.assert_says("memory is short", words)
        self.assertEqual(len(self.profiler_files(self.out / "profiler")), 2)
        self.assertEqual(self.collectives("trace.db"), 160)

    def test_what_killed_launchers_leave_in_memory_is_bounded(self):
        """The oldest file exceeds an eighth of the file system."""
        self.need_root()
        script = ("cd /dev/shm; for n in 1 2 3; do mkdir stalltrace-run-00000$n; head -c 60M /dev/zero >stalltrace-run-00000$n/stalltrace-$n-$n.profiler; "
                  "touch -d 2026-01-0$n stalltrace-run-00000$n/*; done; mkdir stalltrace-run-lives; "
                  "head -c 60M /dev/zero >stalltrace-run-lives/stalltrace-4-4.profiler; touch -d 2025-01-01 stalltrace-run-lives/*; "
                  "flock stalltrace-run-lives \"$@\"; ls -d stalltrace-run-*")
        result = run("run", "--no-trace", "--out", self.out, "--", "true",
                     prefix=(*self.in_a_small_memory("1g"), "bash", "-c", script, "-"))
        self.assertEqual(result.stdout.split(), ["stalltrace-run-000002", "stalltrace-run-000003", "stalltrace-run-lives"], result.stderr)


class Chosen(Evidence):
    def test_our_plugin_that_is_chosen_already_is_known_and_watched(self):
        for name, environment in (("path", {"NCCL_PROFILER_PLUGIN": str(PLUGIN)}),
                                  ("name", {"NCCL_PROFILER_PLUGIN": "stalltrace", "LD_LIBRARY_PATH": str(PLUGIN.parent)})):
            with self.subTest(name):
                self.out = self.folder / name
                wrap = ("bash", "-c", f'"${{@/#LD_LIBRARY_PATH=*/LD_LIBRARY_PATH={LIBRARIES}:{PLUGIN.parent}}}"', "-")
                words = self.run_job("--no-trace", environment=environment, wrap=wrap)
                self.assert_not_says("no profiler file", words)
                self.assertEqual(len(self.profiler_files(self.out / "profiler")), 2)
                self.assertEqual(self.collectives("trace.db"), 160)

    def test_a_folder_that_is_chosen_already_stays_and_only_this_jobs_profiler_files_count(self):
        chosen = self.folder / "chosen"
        chosen.mkdir()
        environment = {"NCCL_PROFILER_PLUGIN": str(PLUGIN), "STALLTRACE_DIR": str(chosen)}
        self.run_job("--no-trace", environment=environment)
        earlier = self.profiler_files(chosen)
        self.out = self.folder / "again"
        words = self.run_job("--no-trace", environment=environment, steps=30)
        self.assertEqual(len(self.profiler_files(chosen)), 4)
        self.assertEqual(len(earlier), 2)
        self.assertEqual(self.profiler_files(self.out / "profiler"), [])
        self.assert_says("the profiler files of this run", words, chosen=chosen)
        self.assertEqual(self.collectives("trace.db"), 240)

    def test_a_hang_is_seen_in_a_folder_that_is_chosen_already(self):
        chosen = self.folder / "chosen"
        chosen.mkdir()
        steps = self.folder / "steps"
        job = Launcher(self.folder, "--steps", 100000, "--watchdog-seconds", 30, "--log", steps)
        self.start("--no-trace", "--", *job.words,
                   environment={"NCCL_PROFILER_PLUGIN": str(PLUGIN), "STALLTRACE_DIR": str(chosen)})
        wait_until(job.pids, "the ranks")
        wait_until(lambda: steps.exists() and steps.read_bytes().count(b"\n") > 50, "some steps")
        os.kill(job.pids()[1], signal.SIGSTOP)
        wait_until(lambda: re.search(sentence("a finding is reported"), self.errors.read_text()), "the finding")
        self.assertRegex(self.errors.read_text(), r"\[1\] process_stopped .*\n +what .*Rank 1\b")
        self.assertIsNone(self.process.poll())

    def test_profiler_files_that_the_tracer_does_not_read_are_not_thrown_away(self):
        """The tracer uses the environment's folder; here it leads nowhere."""
        self.need_root()
        words = self.run_job(wrap=("bash", "-c", 'cd "$STALLTRACE_DIR"; export STALLTRACE_DIR=.; exec "$@"', "-"))
        self.assertEqual(self.collectives("trace.db", "completion = 'profiler'"), 0)
        self.assertEqual(self.collectives("profiler.db", "completion = 'profiler'"), 160)
        self.assert_says("where the profiler recording is", words, out=self.out)


class Loading(Evidence):
    def mounted(self, *mounts):
        return ("unshare", "-m", "bash", "-c", " && ".join([*mounts, 'exec "$@"']), "-")

    def test_a_folder_that_no_code_is_loaded_from(self):
        self.need_root()
        disk = self.folder / "disk"
        disk.mkdir()
        self.out = disk / "run"
        kept = self.folder / "kept"
        words = self.run_job("--no-trace", prefix=(*self.mounted(f"mount -t tmpfs -o noexec none {disk}"), "bash", "-c",
                                                   f'"$@"; code=$?; cp -r {disk}/run {kept}; exit $code', "-"))
        self.assert_not_says("no profiler file", words)
        self.assertEqual(len(self.profiler_files(kept / "profiler")), 2)

    def test_nowhere_to_load_code_from_is_reported_and_the_job_runs(self):
        self.need_root()
        disk = self.folder / "disk"
        disk.mkdir()
        self.out = disk / "run"
        prefix = self.mounted(f"mount -t tmpfs -o noexec none {disk}", f"mount --bind {BUILD} {BUILD}",
                              *(f"mount --rbind {folder} {folder} && mount -o remount,bind,noexec {folder}"
                                for folder in ("/tmp", "/var/tmp", "/dev/shm")), f"export TMPDIR={disk}")
        words = self.run_job("--no-trace", prefix=prefix)
        self.assert_says("no plugin can be loaded", words)
        self.assert_not_says("no profiler file appeared", words)

    def test_a_path_that_nccl_would_cut(self):
        deep = self.folder / ("d" * 200)
        deep.mkdir()
        self.out = deep / "run-in-a-folder-far-down"
        words = self.run_job("--no-trace", wrap=("bash", "-c", 'echo "plugin=$NCCL_PROFILER_PLUGIN" >&2; exec "$@"', "-"))
        self.assert_not_says("no profiler file", words)
        self.assertEqual(len(self.profiler_files(self.out / "profiler")), 2)
        plugin = pathlib.Path(re.search(r"plugin=(.*)", words)[1])
        self.assertLessEqual(len(str(plugin)), 254)
        self.assertFalse(plugin.parent.exists(), "it goes with the run")

    def test_an_nccl_that_loads_no_plugin_is_reported(self):
        words = self.run_job("--no-trace", wrap=("env", "NCCL_PROFILER_PLUGIN=none"))
        self.assert_says("no profiler file appeared", words)
        self.assert_says("NCCL logs show which", words, out=self.out)
        self.assert_not_says("profiler files of this run", words)
        self.assertTrue(list(self.out.glob("nccl.*.log")))
