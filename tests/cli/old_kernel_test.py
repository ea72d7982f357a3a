# SPDX-License-Identifier: Apache-2.0
"""Everything that needs no eBPF works on kernels that lack newer system calls, such as RHEL 8's 4.18 and Debian 11's
5.10. A seccomp filter answers as they do (tests/support/without_syscalls.cpp); STALLTRACE_BTF hides the type
information (BTF).
"""

import json
import os
import re
import subprocess

import job_test
import recordings
from launcher import Launcher
from mcp_client import McpClient
from servers import Served
from stalltrace import BUILD, DONE, FAILED, FINDINGS, Case, run, sentence

WITHOUT = BUILD / "tests" / "without_syscalls"
LINUX_4_18, LINUX_5_10, RENAME_FLAGS = [(str(WITHOUT), what) for what in ("linux-4.18", "linux-5.10", "rename-flags")]


class Filter(Case):
    """The tests below would prove nothing if the filter let everything pass."""

    SCRIPT = """
import ctypes, errno, os
library = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    return "ok" if library.syscall(number, *words) >= 0 else errno.errorcode[ctypes.get_errno()]
with open("from", "w"): pass
print(call(434, os.getpid(), 0), call(436, 1000, 2000, 0), call(436, 1000, 2000, 4), call(435, None, 0))
print("ok" if library.renameat2(-100, b"from", -100, b"to", 1) == 0 else errno.errorcode[ctypes.get_errno()])
"""

    def answers(self, *prefix):
        """The answers to pidfd_open, close_range without flags and with CLOSE_RANGE_CLOEXEC, an invalid clone3, a
        rename with flags.
        """
        result = subprocess.run([*prefix, "python3", "-c", self.SCRIPT], cwd=self.folder, capture_output=True, text=True,
                                check=False)
        (self.folder / "to").unlink(missing_ok=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.split()

    def test_it_answers_as_the_older_kernel(self):
        self.assertEqual(self.answers(*LINUX_4_18), ["ENOSYS", "ENOSYS", "ENOSYS", "ENOSYS", "ok"])
        self.assertEqual(self.answers(*LINUX_5_10), ["ok", "ok", "EINVAL", "EINVAL", "ok"])
        self.assertEqual(self.answers(*RENAME_FLAGS)[-1], "EINVAL")


class OnLinux418:
    """Cases of job_test that use `run --no-trace` only."""

    prefix = LINUX_4_18

    def subcommands(self):
        yield "run", ("run", "--no-trace", "--out", self.folder / "run")


class Signals(OnLinux418, job_test.Signals):
    test_a_job_has_the_time_it_takes_to_end = None  # it takes 12 s, and uses no newer system call


class Surroundings(OnLinux418, job_test.Surroundings):
    test_the_exit_code_is_the_jobs_also_when_the_disk_is_full = None  # it traces


class UnitTests(Case):
    def test_child_processes_descriptors_and_signals(self):
        for prefix in (LINUX_4_18, LINUX_5_10):
            for program, cases in ((BUILD / "src" / "base" / "test_base", "Subprocess.*:Descriptors.*:EndWatch.*:HelperProcess.*"),
                                   (BUILD / "src" / "launch" / "test_launch", "GroupSignalProbe.*")):
                with self.subTest(prefix=prefix, program=program.name):
                    result = run(f"--gtest_filter={cases}", program=program, prefix=prefix, environment={"GTEST_OUTPUT": ""})
                    self.assertEqual(result.returncode, 0, result.stdout[-3000:])
                    self.assertRegex(result.stdout, r"\[  PASSED  \] [1-9]")


class Run(Case):
    def test_the_exit_code_is_the_jobs(self):
        for prefix in (LINUX_4_18, LINUX_5_10):
            for script, code in (("exit 3", 3), ("kill -TERM $$", 143), ("true", 0)):
                with self.subTest(prefix=prefix, script=script):
                    result = run("run", "--no-trace", "--out", self.folder / "run", "--", "sh", "-c", script, prefix=prefix)
                    self.assertEqual(result.returncode, code, result.stderr)

    def test_a_job_with_the_profiler_plugin_is_recorded_and_explained(self):
        """Without --no-trace, `run` falls back to the plugin if there is no type information."""
        for name, words in (("plugin", ["--no-trace"]), ("refused", [])):
            with self.subTest(words=words):
                folder = self.folder / name
                folder.mkdir()
                result = run("run", *words, "--out", folder / "run", "--", *Launcher(folder, "--steps", 30).words,
                             prefix=LINUX_4_18, environment={"STALLTRACE_BTF": str(self.folder / "none")})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("rank 1: 30 steps", result.stdout)
                self.assertIn("Healthy", result.stderr)
                self.assertEqual(len(re.findall(sentence("the kernel is not traced"), result.stderr)), 0 if words else 1, result.stderr)
                self.assertEqual(len(list((folder / "run" / "profiler").glob("*.profiler"))), 2)

    def test_a_job_without_any_evidence_runs(self):
        """No folder can be made."""
        (self.folder / "file").touch()
        result = run("run", "--no-trace", "--out", self.folder / "file" / "run", "--", "sh", "-c", "exit 3", prefix=LINUX_4_18,
                     environment={"TMPDIR": "/proc"})
        self.assertEqual(result.returncode, 3, result.stderr)


class Reading(Case):
    """The same command gives the same answer with and without the filter."""

    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db", stalled=100)

    def same(self, *words, code=0):
        plain = run(*words)
        filtered = run(*words, prefix=LINUX_4_18, environment={"STALLTRACE_BTF": str(self.folder / "none")})
        self.assertEqual((filtered.returncode, filtered.stdout, filtered.stderr), (plain.returncode, plain.stdout, plain.stderr))
        self.assertEqual(plain.returncode, code, plain.stderr)

    def test_explain(self):
        for words in ([], ["--json"], ["--instance", "node0:200"]):
            with self.subTest(words=words):
                self.same("explain", self.recording, *words)
        self.same("explain", self.recording, "--exit-code", code=FINDINGS)
        self.same("explain", self.folder / "nowhere.db", code=FAILED)

    def test_query(self):
        for form in ("table", "json", "csv"):
            self.same("query", self.recording, "SELECT * FROM nccl_events", "--format", form)

    def test_merge(self):
        """Works even if renaming without replacing is refused, as on NFS."""
        for name, prefix in (("plain", ()), ("old", LINUX_4_18), ("nfs", RENAME_FLAGS)):
            with self.subTest(name):
                out = self.folder / f"{name}.db"
                self.done(run("merge", self.recording, "--out", out, prefix=prefix))
                rows = self.done(run("query", out, "SELECT * FROM nccl_events", "--format", "csv"))
                self.assertEqual(rows, self.done(run("query", self.recording, "SELECT * FROM nccl_events", "--format", "csv")))
                again = run("merge", self.recording, "--out", out, prefix=prefix)
                self.refused(again, FAILED, out.name, "exists")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.db", "nfs.db", "old.db", "plain.db"])

    def test_import(self):
        """Profiler files left by `run`; a recording holds its creation time, so only its content is compared."""
        self.done(run("run", "--no-trace", "--out", self.folder / "run", "--", *Launcher(self.folder, "--steps", 30).words))
        profiler_files = sorted((self.folder / "run" / "profiler").glob("*.profiler"))
        self.assertEqual(len(profiler_files), 2)
        for name, prefix in (("plain", ()), ("old", LINUX_4_18)):
            self.done(run("import", *profiler_files, "--out", self.folder / f"{name}.db", prefix=prefix))
        reports = [self.done(run("query", self.folder / f"{name}.db", "SELECT op, rank, seq, duration_ns, launch_ns, bytes FROM "
                                 "nccl_events ORDER BY rank, seq, op", "--format", "csv")) for name in ("plain", "old")]
        self.assertEqual(*reports)
        self.assertGreater(len(reports[0].splitlines()), 200)


    def test_export(self):
        for form in ("perfetto", "chrome"):
            traces = []
            for name, prefix in (("plain", ()), ("old", LINUX_4_18)):
                out = self.folder / f"{name}.{form}"
                self.done(run("export", self.recording, "--format", form, "--out", out, prefix=prefix))
                traces.append(out.read_bytes())
            self.assertEqual(*traces)

    def test_push(self):
        """The file has its name in the folder, and the same rows."""
        folder = self.folder / "collected"
        folder.mkdir()
        self.done(run("push", self.recording, "--to", folder, prefix=LINUX_4_18))
        pushed, = folder.glob("*.db")
        rows = "SELECT * FROM nccl_events"
        self.assertEqual(recordings.rows(pushed, rows), recordings.rows(self.recording, rows))

    def test_preflight(self):
        self.same("preflight", "--json")

    def test_mcp(self):
        answers = []
        for prefix in ((), LINUX_4_18):
            client = McpClient(self.recording, prefix=prefix)
            self.addCleanup(client.close)
            answers.append([client.call(tool)["structuredContent"] for tool in ("health", "findings")])
            self.assertEqual(client.end(), (DONE, ""))
        self.assertEqual(*answers)

    def test_serve_and_its_clients(self):
        served = Served(self.recording, "--listen", "127.0.0.1:0", prefix=LINUX_4_18)
        self.addCleanup(served.close)
        nodes = ("--nodes", served.address)
        self.same("query", *nodes, "SELECT rank, seq FROM nccl_events ORDER BY rank, seq")
        report = json.loads(self.done(run("explain", *nodes, "--json", prefix=LINUX_4_18)))
        self.assertEqual(report["findings"], json.loads(self.done(run("explain", self.recording, "--json")))["findings"])
        self.done(run("nodes", *nodes, prefix=LINUX_4_18))


class Tracing(Case):
    """`trace` needs BTF, so it is refused in one line, and nothing is left behind."""

    def setUp(self):
        super().setUp()
        self.without_btf = {"STALLTRACE_BTF": str(self.folder / "none")}

    def test_trace(self):
        self.need_root()
        result = run("trace", "--duration", "1s", "--out", self.folder / "t.db", prefix=LINUX_4_18, environment=self.without_btf)
        self.refused(result, FAILED, "BTF", "CONFIG_DEBUG_INFO_BTF")
        result = run("trace", "--out", self.folder / "t.db", "--", "touch", self.folder / "began", prefix=LINUX_4_18,
                     environment=self.without_btf)
        self.refused(result, FAILED, "BTF", "CONFIG_DEBUG_INFO_BTF")
        self.assertEqual(os.listdir(self.folder), [])

    def test_check(self):
        result = run("check", prefix=LINUX_4_18, environment=self.without_btf)
        self.assertEqual((result.returncode, result.stderr), (FAILED, ""))
        lines = result.stdout.splitlines()
        refusals = [at for at, line in enumerate(lines) if re.match(sentence("type information is refused"), line)]
        self.assertEqual(len(refusals), 1, result.stdout)
        self.assert_says("use a kernel with BTF", lines[refusals[0] + 1])
