# SPDX-License-Identifier: Apache-2.0
"""Jobs that load the profiler plugin: started by `stalltrace run`, and in the practice cluster."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import recordings
from job import LIBRARIES, WORKLOAD, wait_until
from launcher import Launcher
from stalltrace import DONE, PROGRAM, ROOT, Case, run, sentence
from unprivileged import AS_NOBODY, copy_for_nobody, run_as_nobody


class Run(Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "run"

    def profiler_files(self):
        return sorted(path for path in (self.out / "profiler").iterdir() if path.suffix == ".profiler")

    def rows(self, sql):
        return recordings.rows(self.out / "trace.db", sql)

    def test_the_job_gets_the_plugin_and_a_log_and_is_recorded(self):
        self.need_root()
        job = Launcher(self.folder, "--steps", 30)
        result = run("run", "--out", self.out, "--", *job.words)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertIn("rank 0: 30 steps", result.stdout)
        self.assertNotIn("Healthy", result.stdout, "standard output is the job's")
        self.assertIn("Healthy", result.stderr)
        self.assertEqual([len(self.profiler_files()), len(job.pids())], [2, 2])
        for pid in job.pids():
            logs = list(self.out.glob(f"nccl.*.{pid}.log"))
            self.assertEqual(len(logs), 1)
            self.assert_says("NCCL loaded the plugin", logs[0].read_text())
            self.assertEqual(self.rows(f"SELECT COUNT(*) FROM nccl_events WHERE op = 'ALL_REDUCE' AND pid = {pid}"), [(120,)])
        self.assertTrue(json.loads((self.out / "findings.json").read_text())["healthy"])

    def test_the_jobs_exit_code_comes_back(self):
        result = run("run", "--out", self.out, "--no-trace", "--", "bash", "-c", "echo words; exit 7")
        self.assertEqual((result.returncode, result.stdout), (7, "words\n"))

    def test_a_hang_is_explained_while_it_lasts(self):
        self.need_root()
        job = Launcher(self.folder, "--steps", 200, "--device-ms", 15)
        errors = self.folder / "errors"
        with open(errors, "w") as stream:
            process = subprocess.Popen([PROGRAM, "run", "--out", self.out, "--hang-after", "2s", "--", *map(str, job.words)],
                                       stdout=subprocess.DEVNULL, stderr=stream)
            self.addCleanup(process.wait, timeout=30)
            self.addCleanup(process.terminate)
            wait_until(job.pids, "the ranks")
            time.sleep(2)
            victim = job.pids()[1]
            os.kill(victim, signal.SIGSTOP)
            self.addCleanup(self.wake, victim)
            wait_until(lambda: re.search(sentence("no collective completes after two seconds"), errors.read_text()), "the explanation")
            wait_until(lambda: re.search(sentence("a finding is reported"), errors.read_text()), "the finding")
            self.assertIsNone(process.poll(), "the job goes on")
            os.kill(victim, signal.SIGCONT)
            self.assertEqual(process.wait(timeout=60), DONE)
        report = json.loads((self.out / "findings.json").read_text())
        self.assertEqual([finding["cause"] for finding in report["findings"]], ["process_stopped"], report["findings"])
        self.assertEqual(report["findings"][0]["culprit"]["rank"], 1)

    @staticmethod
    def wake(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def test_without_privilege_the_job_runs_and_keeps_profiler_files(self):
        self.need_root()
        folder = self.folder / "unprivileged"
        folder.mkdir()
        folder.chmod(0o1777)
        self.out = folder / "run"
        tree = folder / "lab"
        shutil.copytree(LIBRARIES.parent, tree, symlinks=True)
        job = Launcher(folder, "--steps", 10)
        words = [str(word).replace(str(LIBRARIES.parent), str(tree)) for word in job.words]
        result = run_as_nobody(folder, "run", "--out", self.out, "--", *words)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assert_says("the kernel is not traced", result.stderr)
        self.assertEqual(len(self.profiler_files()), 2)

    def test_without_privilege_a_hang_is_explained_while_it_lasts(self):
        self.need_root()
        folder = self.folder / "unprivileged"
        folder.mkdir()
        folder.chmod(0o1777)
        self.out = folder / "run"
        tree = folder / "lab"
        shutil.copytree(LIBRARIES.parent, tree, symlinks=True)
        job = Launcher(folder, "--steps", 100000, "--watchdog-seconds", 30, ranks=3)
        words = [str(word).replace(str(LIBRARIES.parent), str(tree)) for word in job.words]
        errors = self.folder / "errors"
        with open(errors, "w") as stream:
            process = subprocess.Popen([*AS_NOBODY, copy_for_nobody(folder), "run", "--out", self.out, "--", *words],
                                       stdout=subprocess.DEVNULL, stderr=stream)
            self.addCleanup(process.wait, timeout=30)
            self.addCleanup(process.terminate)
            wait_until(job.pids, "the ranks")
            self.addCleanup(self.kill_all, job.pids())
            time.sleep(2)
            os.kill(job.pids()[1], signal.SIGKILL)
            dead = time.monotonic()
            wait_until(lambda: re.search(sentence("a finding is reported"), errors.read_text()), "the finding")
            self.assertLess(time.monotonic() - dead, 5)
            self.assertIsNone(process.poll(), "the job goes on")
            self.assert_says("no collective completes", errors.read_text())
            self.assertRegex(errors.read_text(), r"\[1\] dead_rank .*\n +what .*Rank 1\b")
        self.assertTrue((self.out / "hang.db").exists())

    @staticmethod
    def kill_all(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_nccl_names_its_threads_unless_set_otherwise(self):
        for chosen, reported in ((None, "1"), ("0", "0")):
            result = run("run", "--out", self.folder / f"names{reported}", "--no-trace", "--", "bash", "-c", "echo $NCCL_SET_THREAD_NAME",
                         environment={"NCCL_SET_THREAD_NAME": chosen} if chosen else None)
            self.assertEqual(result.stdout, f"{reported}\n", result.stderr)

    def test_a_profiler_and_a_log_that_are_chosen_already_stay(self):
        words = ("run", "--out", self.out, "--no-trace", "--", "bash", "-c", "echo $NCCL_PROFILER_PLUGIN $NCCL_DEBUG $NCCL_DEBUG_FILE")
        result = run(*words, environment={"NCCL_PROFILER_PLUGIN": "inspector", "NCCL_DEBUG": "WARN"})
        self.assertEqual(result.stdout, "inspector WARN\n")
        self.assert_says("another profiler plugin is set", result.stderr)


class Lab(Case):
    def test_every_rank_of_the_practice_cluster_writes_a_profiler_file(self):
        self.need_root()
        out = self.folder / "lab"
        self.done(run("lab", "run", "--ranks", 3, "--steps", 20, "--plugin", "--no-trace", "--out", out, timeout=120))
        truth = json.loads((out / "truth.json").read_text())
        self.assertTrue(truth["run"]["plugin"])
        names = [path.name for path in (out / "profiler").iterdir() if path.suffix == ".profiler"]
        for node in truth["nodes"]:
            self.assertEqual(sum(f"-{node['pid']}-" in name for name in names), 1, names)


class GpuCheck(Case):
    def test_the_check_for_real_cards_passes_on_the_practice_nccl(self):
        self.need_root()
        out = self.folder / "check"
        result = subprocess.run([ROOT / "scripts" / "gpu_check.sh", "--lab", "--out", out, "--max-bytes", str(4 << 20)],
                                capture_output=True, text=True, timeout=200, check=False,
                                env={**os.environ, "STALLTRACE": str(PROGRAM)})
        verdicts = {what: verdict for what, verdict, _ in json.loads((out / "results.json").read_text())}
        self.assertEqual(verdicts.get("nccl: profiler files"), "ok", result.stdout)
        for what in ("every call once", "ranks", "communicator hash", "sequence numbers"):
            for evidence in ("plugin", "tracer"):
                self.assertEqual(verdicts.get(f"{evidence}: {what}"), "ok", result.stdout + result.stderr)
        for what in ("tracer: the late rank is found", "attached late: communicators", "autopsy: communicators"):
            self.assertEqual(verdicts.get(what), "ok", result.stdout + result.stderr)
        if verdicts.get("virtual nodes") == "ok":
            for what in ("tracer: the loss is found", "tracer: peers of connections"):
                self.assertEqual(verdicts.get(what), "ok", result.stdout + result.stderr)
        failed = {what for what, verdict in verdicts.items() if verdict == "FAILED"}
        self.assertEqual(result.returncode, 1 if failed else 0, result.stdout + result.stderr)
        # A busy machine wakes the ranks late, and their own clocks with them; profiler files do not show the activity
        # of a late rank: docs/accuracy.md, "Where tests are milder".
        busy = {"plugin: true durations", "tracer: true durations", "plugin: the late rank is found"}
        self.assertLessEqual(failed, busy, result.stdout)

    def test_a_machine_without_a_card_is_recognised(self):
        package = self.folder / "package.tar.gz"
        subprocess.run([ROOT / "scripts" / "gpu_check.sh", "--pack", package], check=True, timeout=60, capture_output=True,
                       env={**os.environ, "STALLTRACE": str(PROGRAM)})
        subprocess.run(["tar", "-C", self.folder, "-xzf", package], check=True, timeout=60)
        result = subprocess.run([self.folder / "gpu-check" / "gpu_check.sh", "--out", self.folder / "out"], capture_output=True,
                                text=True, timeout=60, check=False)
        verdicts = {what: verdict for what, verdict, _ in json.loads((self.folder / "out" / "results.json").read_text())}
        if verdicts["device"] == "ok":
            self.skipTest("there is a card here")
        self.assert_says("the rest was not run", result.stdout)
        self.assertEqual(result.returncode, 1, "nothing was checked")

    def test_an_earlier_result_and_odd_words_are_refused(self):
        for words, name in ((("--out", self.folder), "the output exists"),
                            (("--out", self.folder / "new", "--ranks", "1"), "two ranks are needed"),
                            (("--out",), "the usage of gpu_check"), (("--odd", "x"), "the usage of gpu_check")):
            result = subprocess.run([ROOT / "scripts" / "gpu_check.sh", *words], capture_output=True, text=True, timeout=60,
                                    check=False, env={**os.environ, "STALLTRACE": str(PROGRAM)})
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assert_says(name, result.stderr)


class Workload(Case):
    def test_nothing_is_loaded_that_was_not_asked_for(self):
        """The practice NCCL without a plugin: the process has none, and no file is written."""
        result = subprocess.run([WORKLOAD, "--steps", "3"], capture_output=True, text=True, timeout=30, check=False,
                                env={**os.environ, "NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "lo",
                                     "STALLTRACE_DIR": str(self.folder)})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_says("NCCL found no plugin", result.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
