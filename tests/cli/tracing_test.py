# SPDX-License-Identifier: Apache-2.0
"""trace, check and lab with invalid input and on incomplete hosts: one clear line, the right exit code."""

import pathlib
import signal
import subprocess

import recordings
from processes import start_tracer
from stalltrace import BUILD, DONE, FAILED, PROGRAM, USAGE, Case, run
from unprivileged import run_as_nobody

NOBODYS_PID = 4194303  # above the default maximum pid


class Trace(Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "t.db"

    def test_an_existing_recording_is_kept(self):
        self.need_root()
        recordings.make(self.out)
        before = self.out.read_bytes()
        self.refused(run("trace", "--duration", "1s", "--out", self.out), FAILED, "t.db", "exists")
        self.assertEqual(self.out.read_bytes(), before)

    def test_an_unknown_pid(self):
        self.need_root()
        self.refused(run("trace", "--duration", "1s", "--out", self.out, "--pid", NOBODYS_PID), FAILED,
                     str(NOBODYS_PID))
        self.assertFalse(self.out.exists())

    def test_no_privilege(self):
        self.need_root()
        self.folder.chmod(0o777)
        result = run_as_nobody(self.folder, "trace", "--duration", "1s", "--out", self.out)
        self.refused(result, FAILED, "CAP_BPF")
        self.assertFalse(self.out.exists())

    def test_no_btf(self):
        self.need_root()
        result = run("trace", "--duration", "1s", "--out", self.out,
                     environment={"STALLTRACE_BTF": str(self.folder / "none")})
        self.refused(result, FAILED, "BTF")
        self.assertFalse(self.out.exists())

    def test_a_folder_that_does_not_exist(self):
        self.need_root()
        self.refused(run("trace", "--duration", "1s", "--out", self.folder / "no" / "t.db"), FAILED, "t.db")

    def test_a_folder_that_is_no_folder(self):
        self.need_root()
        (self.folder / "file").touch()
        self.refused(run("trace", "--duration", "1s", "--out", self.folder / "file" / "t.db"), FAILED, "t.db")

    def test_a_command_that_does_not_exist(self):
        self.need_root()
        for command, code in ((self.folder / "nowhere", 127), ("nosuchcommand", 127), ("/etc/passwd", 126)):
            with self.subTest(command=command):
                self.refused(run("trace", "--out", self.out, "--", command), code, pathlib.Path(command).name)
                self.assertFalse(self.out.exists())

    def test_a_configured_library_may_be_missing_here(self):
        self.need_root()
        config = self.folder / "site.toml"
        config.write_text('libraries = ["/nowhere/libnccl.so.2"]\n')
        result = run("trace", "--duration", "1s", "--config", config, "--out", self.out)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assert_says("a configured library is not probed", result.stderr)

    def test_the_commands_exit_code_is_returned(self):
        self.need_root()
        self.assertEqual(run("trace", "--out", self.out, "--", "sh", "-c", "exit 7").returncode, 7)

    def test_a_host_without_a_job_is_traced_in_peace(self):
        self.need_root()
        result = run("trace", "--duration", "1s", "--out", self.out)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.done(run("query", self.out, "SELECT * FROM node"))

    def test_the_recording_is_pushed_when_the_trace_ends(self):
        """What was pushed has the rows of the recording, which stays."""
        self.need_root()
        collected = self.folder / "collected"
        collected.mkdir()
        trace = ("trace", "--duration", "1s", "--node", "node7", "--out", self.out, "--push")
        result = run(*trace, collected)
        self.assertEqual(result.returncode, DONE, result.stderr)
        pushed, = collected.iterdir()
        self.assertRegex(pushed.name, r"^node7-\d{8}T\d{6}Z\.db$")
        self.assertIn(str(pushed), result.stderr)
        rows = "SELECT name, started_ns, ended_ns FROM node"
        (name, _, ended_ns), = recordings.rows(pushed, rows)
        self.assertEqual(name, "node7")
        self.assertIsNotNone(ended_ns)  # it was copied once it was complete
        self.assertEqual(recordings.rows(self.out, rows), recordings.rows(pushed, rows))

    def test_where_it_can_not_be_pushed_the_folder_is_named_and_the_recording_stays(self):
        self.need_root()
        self.need_namespaces("unshare", "--mount")
        read_only = self.folder / "read-only"
        read_only.mkdir()
        mounted = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', read_only)
        for folder, prefix in ((self.folder / "missing", ()), (read_only, mounted)):
            with self.subTest(folder=folder.name):
                out = self.folder / f"{folder.name}.db"
                result = run("trace", "--duration", "1s", "--out", out, "--push", folder, prefix=prefix)
                self.assertEqual(result.returncode, DONE, result.stderr)
                last = result.stderr.splitlines()[-1]
                self.assertTrue(last.startswith("stalltrace: "), last)
                self.assertIn(f"{folder}:", last)
                self.done(run("query", out, "SELECT * FROM node"))
                self.assertEqual([path.name for path in self.folder.glob(f"{out.name}*")], [out.name])

    def test_ctrl_c_ends_cleanly(self):
        self.need_root()
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                out = self.folder / f"{number}.db"
                with subprocess.Popen([PROGRAM, "trace", "--out", out], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) as process:
                    # Limited in time: the recording appears once the trace has begun.
                    for _ in range(200):
                        if out.exists():
                            break
                        try:
                            process.wait(timeout=0.1)
                        except subprocess.TimeoutExpired:
                            pass
                    process.send_signal(number)
                    _, errors = process.communicate(timeout=30)
                self.assertEqual(process.returncode, DONE, errors)
                self.done(run("query", out, "SELECT * FROM node"))
                self.assertEqual([path.name for path in self.folder.glob(f"{number}.db*")], [f"{number}.db"])


def threads_of(pid):
    """The fields of /proc/PID/status for each thread."""
    threads = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        threads.append({name: value.strip() for name, _, value in (line.partition(":") for line in lines)})
    return threads


class Rights(Case):
    """What a trace does not need while it runs, all its threads give up: the kernel takes it from one at a time."""

    # In linux/capability.h: NET_ADMIN, NET_RAW, SYS_MODULE, SYS_RAWIO, SYS_BOOT, SYS_TIME, MKNOD.
    NOT_NEEDED = sum(1 << number for number in (12, 13, 16, 17, 22, 25, 27))

    def check_threads(self, *words, least, program=PROGRAM):
        """Of a trace with the flags `words`, which has `least` threads or more."""
        self.need_root()
        log = self.folder / "tracer.log"
        trace = start_tracer(program, "--out", self.folder / "t.db", *words, log=log)
        self.addCleanup(trace.wait, 10)
        self.addCleanup(trace.terminate)
        threads = threads_of(trace.pid)
        self.assertGreaterEqual(len(threads), least)
        for thread in threads:
            self.assertEqual(thread["NoNewPrivs"], "1", thread["Name"])
            for held in ("CapEff", "CapPrm", "CapInh", "CapBnd"):
                self.assertEqual(int(thread[held], 16) & self.NOT_NEEDED, 0, (thread["Name"], held))
        self.assert_not_says("a thread keeps its capabilities", log.read_text())

    def test_of_a_trace(self):
        self.check_threads(least=1)

    def test_of_a_live_trace(self):
        self.check_threads("--live", least=2)

    def test_without_pidfds_where_threads_wait_for_children(self):
        """Such as in a container whose seccomp profile refuses them: one for the server, one for the findings' child."""
        collected = self.folder / "collected"
        collected.mkdir()
        program = self.folder / "without-pidfds"
        program.write_text(f'#!/bin/sh\nexec {BUILD}/tests/without_syscalls linux-4.18 {PROGRAM} "$@"\n')
        program.chmod(0o755)
        self.check_threads("--live", "--serve", "127.0.0.1:0", "--push", collected, least=4, program=program)


class Check(Case):
    def test_this_host(self):
        self.need_root()
        self.assertIn("ok", self.done(run("check")))

    def test_no_privilege(self):
        self.need_root()
        result = run_as_nobody(self.folder, "check")
        self.assertEqual(result.returncode, FAILED)
        self.assertRegex(result.stdout, r"(?m)^REFUSED ")
        self.assertIn("CAP_BPF", result.stdout)

    def test_processes_with_numbers_of_their_own(self):
        self.need_root()
        result = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", PROGRAM, "check"], capture_output=True, text=True,
                                timeout=30, check=False)
        self.assertEqual(result.returncode, FAILED, result.stderr)
        self.assert_says("a pid namespace is refused", result.stdout)

    def test_no_btf(self):
        result = run("check", environment={"STALLTRACE_BTF": str(self.folder / "none")})
        self.assertEqual(result.returncode, FAILED)
        self.assertRegex(result.stdout, r"(?m)^REFUSED .*BTF")


class Lab(Case):
    def test_no_privilege(self):
        self.need_root()
        self.folder.chmod(0o777)
        self.refused(run_as_nobody(self.folder, "lab", "run", "--out", self.folder / "lab"), FAILED, "root")

    def test_a_folder_that_holds_an_earlier_run(self):
        self.need_root()
        (self.folder / "truth.json").write_text("{}")
        result = run("lab", "run", "--out", self.folder)
        self.assertEqual(result.returncode, FAILED)
        self.assert_says("earlier run", result.stderr.splitlines()[-1])
        self.assertEqual((self.folder / "truth.json").read_text(), "{}")

    def test_bad_faults(self):
        self.need_root()
        for fault, word in [("packet_loss", "rank"), ("packet_loss:rank=2,percent=lots", "percent"),
                            ("late_rank:rank=0,colour=red", "colour"), ("late_rank:rank=x", "rank"),
                            ("late_rank:rank=9", "rank 9"), ("process_stopped:rank=0,start=soon", "start")]:
            with self.subTest(fault=fault):
                self.refused(run("lab", "run", "--fault", fault, "--out", self.folder / "lab"), USAGE, word)
                self.assertFalse((self.folder / "lab").exists())

    def test_unknown_workload(self):
        self.refused(run("lab", "run", "--workload", "chess", "--out", self.folder / "lab"), USAGE, "chess")

    def test_a_group_without_a_subcommand_lists_its_subcommands(self):
        result = run("lab")
        self.assertEqual(result.returncode, USAGE)
        self.assert_says("the lab is mentioned", result.stderr + result.stdout)
