# SPDX-License-Identifier: Apache-2.0
"""`run` and `trace -- COMMAND` replace the user's command: it must behave as if they were not there."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from job import wait_until
from stalltrace import FAILED, PROGRAM, Case, run, sentence
from unprivileged import AS_NOBODY

# Reports the numbers of received signals, and exits with 5 when its time is over. "ready" means that it listens.
LISTENER = """
import os, signal, sys, time
for number in map(int, sys.argv[2].split(",")):
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda n, frame: print("got", n, time.monotonic(), flush=True))
print("ready", os.getpid(), flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.02)
sys.exit(5)
"""
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM)


class Fares(Case):
    """The commands that start a job; they differ in what they record."""

    prefix = ()  # the program's command line elsewhere (old_kernel_test.py)

    def setUp(self):
        super().setUp()
        self.output = self.folder / "output"
        self.errors = self.folder / "errors"

    def subcommands(self):
        """Each command with a name; `trace` needs root, and is left out without it."""
        yield "run", ("run", "--no-trace", "--out", self.folder / "run")
        if os.geteuid() == 0:
            yield "trace", ("trace", "--out", self.folder / "t.db")

    def start(self, subcommand, *command, **options):
        with open(self.output, "w") as out, open(self.errors, "w") as errors:
            process = subprocess.Popen([*self.prefix, PROGRAM, *map(str, subcommand), "--", *map(str, command)], stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=errors, cwd=self.folder, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait(timeout=10)

    def listen(self, subcommand, seconds, numbers=PASSED_ON, **options):
        process = self.start(subcommand, sys.executable, "-c", LISTENER, seconds, ",".join(str(int(n)) for n in numbers), **options)
        wait_until(lambda: re.search(r"ready \d+\n", self.output.read_text()), "the job")
        self.job = int(self.output.read_text().split()[1])
        self.addCleanup(self.kill, self.job)
        return process

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def got(self):
        """(number, time) of each signal that the job received."""
        return [(int(number), float(when)) for number, when in re.findall(r"got (\d+) (\S+)", self.output.read_text())]

    def wait_for_signals(self, count):
        wait_until(lambda: len(self.got()) >= count, f"{count} signals", 5)

    @staticmethod
    def runs(pid):
        try:
            return re.search(r"\nState:\t[ZX]", pathlib.Path(f"/proc/{pid}/status").read_text()) is None
        except (FileNotFoundError, ProcessLookupError):
            return False


class Signals(Fares):
    def test_each_reaches_the_job_at_once_and_none_is_killed(self):
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.listen(subcommand, 4)
                sent = []
                for count, number in enumerate(PASSED_ON, 1):
                    sent.append((int(number), time.monotonic()))
                    process.send_signal(number)
                    self.wait_for_signals(count)
                self.assertEqual(process.wait(timeout=20), 5, self.errors.read_text())
                self.assertEqual([number for number, _ in self.got()], [number for number, _ in sent])
                for (number, had), (_, began) in zip(self.got(), sent):
                    self.assertLess(had - began, 0.5, number)

    def test_one_for_the_whole_group_reaches_the_job_once(self):
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.listen(subcommand, 3, start_new_session=True)
                for count, number in enumerate((signal.SIGTERM, signal.SIGUSR1, signal.SIGINT), 1):
                    os.killpg(process.pid, number)
                    self.wait_for_signals(count)
                self.assertEqual(process.wait(timeout=20), 5, self.errors.read_text())
                self.assertEqual([number for number, _ in self.got()], [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])

    def test_one_for_each_process_in_turn_reaches_the_job_once(self):
        """Signals as batch systems send them."""
        process = self.listen(("run", "--no-trace"), 2)
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
        for pid in (process.pid, *map(int, children.split())):
            os.kill(pid, signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=20), 5, self.errors.read_text())
        self.assertEqual([number for number, _ in self.got()], [signal.SIGUSR1])

    def test_one_from_the_job_itself_is_not_sent_back(self):
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.start(subcommand, "bash", "-c", "trap 'echo mine' USR1; kill -USR1 $PPID; sleep 0.3; exit 3")
                self.assertEqual(process.wait(timeout=20), 3, self.errors.read_text())
                self.assertEqual(self.output.read_text(), "")

    def test_those_ignored_at_the_start_are_ignored(self):
        def ignore():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)

        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.listen(subcommand, 2, preexec_fn=ignore)
                state = pathlib.Path(f"/proc/{self.job}/status").read_text()
                ignored = int(re.search(r"SigIgn:\t(\w+)", state)[1], 16)
                for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
                    self.assertTrue(ignored >> (number - 1) & 1, f"signal {number}: {ignored:x}")
                for number in (signal.SIGHUP, signal.SIGINT):
                    process.send_signal(number)
                self.assertEqual(process.wait(timeout=20), 5, self.errors.read_text())
                self.assertEqual(self.got(), [])

    def test_one_ignored_at_the_start_is_for_the_job_to_want(self):
        """Launchers handle SIGINT and SIGTERM, whatever handlers they started with."""
        process = self.start(("run", "--no-trace"), sys.executable, "-c", LISTENER.replace("!= signal.SIG_IGN", "is not None"),
                             1, "2", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        wait_until(lambda: "ready" in self.output.read_text(), "the job")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 5)
        self.assertEqual([number for number, _ in self.got()], [signal.SIGINT])

    def test_by_default_the_job_ignores_nothing(self):
        plain = subprocess.run(["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], capture_output=True, text=True, check=True)
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                result = run(*subcommand, "--", "grep", "-E", "Sig(Ign|Blk)", "/proc/self/status", prefix=self.prefix)
                self.assertEqual(result.stdout, plain.stdout)

    def test_a_job_has_the_time_it_takes_to_end(self):
        """Longer than any launcher's grace period: only the job's own end ends it."""
        process = self.start(("run", "--no-trace"), "bash", "-c",
                             "trap 'sleep 12; echo saved; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        wait_until(lambda: "ready" in self.output.read_text(), "the job")
        process.terminate()
        self.assertEqual(process.wait(timeout=40), 9)
        self.assertEqual(self.output.read_text(), "ready\nsaved\n")

    def test_one_that_came_before_the_job_began_keeps_it_from_beginning(self):
        def have_one():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)

        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.start(subcommand, "touch", self.folder / "began", preexec_fn=have_one)
                self.assertEqual(process.wait(timeout=20), FAILED)
                self.assert_says("a signal came before the command", self.errors.read_text())
                self.assertFalse((self.folder / "began").exists())
                self.assertFalse((self.folder / "run").exists() or (self.folder / "t.db").exists())

    def test_one_that_came_before_and_is_ignored_keeps_nothing_from_beginning(self):
        def have_one():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.kill(os.getpid(), signal.SIGHUP)

        process = self.start(("run", "--no-trace"), "touch", self.folder / "began", preexec_fn=have_one)
        self.assertEqual(process.wait(timeout=20), 0, self.errors.read_text())
        self.assertTrue((self.folder / "began").exists())

    def test_one_that_kills_the_job_is_its_exit_code(self):
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                process = self.start(subcommand, "bash", "-c", "echo ready; exec sleep 60")
                wait_until(lambda: "ready" in self.output.read_text(), "the job")
                process.send_signal(signal.SIGUSR1)
                self.assertEqual(process.wait(timeout=20), 128 + signal.SIGUSR1)

    def test_a_launcher_that_is_killed_leaves_the_job_alone(self):
        process = self.listen(("run", "--no-trace"), 3)
        helpers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(len(helpers), 3, "the witness, the evidence process and the job")
        process.kill()
        process.wait(timeout=10)
        wait_until(lambda: [pid for pid in map(int, helpers) if self.runs(pid)] == [self.job], "the helper's end", 5)
        for folder in re.findall(sentence("profiler files go to"), self.errors.read_text()):
            shutil.rmtree(folder, ignore_errors=True)  # another run may have found it left behind


class Terminal(Fares):
    """With a shell's job control on its own terminal."""

    def setUp(self):
        super().setUp()
        self.seen = ""
        environment = {**os.environ, "PS1": "prompt> ", "TERM": "dumb", "HISTFILE": ""}
        self.shell, self.terminal = pty.fork()
        if self.shell == 0:
            os.chdir(self.folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.addCleanup(self.close)
        self.expect("prompt> ")

    def close(self):
        os.kill(self.shell, signal.SIGHUP)
        self.kill(self.shell)
        os.waitpid(self.shell, 0)
        os.close(self.terminal)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, pattern, seconds=20):
        """Reads until `pattern`; everything up to its end is consumed."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"waited for {pattern!r}, saw {self.seen!r}")
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before

    def listener(self, seconds):
        script = self.folder / "listener.py"
        script.write_text(LISTENER)
        return f"{PROGRAM} run --no-trace --out run -- {sys.executable} {script} {seconds} 2,3,15"

    def test_ctrl_c_reaches_the_job_once(self):
        self.type(self.listener(3) + "; echo code $?\n")
        self.expect(r"ready \d+")
        self.type("\x03")
        self.expect("got 2 ")
        self.assertNotIn("got", self.expect(r"code 5"))

    def test_ctrl_z_stops_and_fg_goes_on(self):
        self.type(self.listener(3) + "\n")
        self.expect(r"ready \d+")
        self.type("\x1a")
        self.expect("Stopped")
        self.expect("prompt> ")
        self.type("jobs; fg; echo code $?\n")
        self.expect("Stopped")
        self.expect("code 5")

    def test_the_job_reads_what_is_typed(self):
        self.type(f"{PROGRAM} run --no-trace --out run -- bash -c 'read -p question? line; echo had $line'\n")
        self.expect(r"question\?(?!.*line; echo)")
        self.type("words\n")
        self.expect("had words")

    def test_a_terminal_that_goes_away_is_the_jobs_to_hear(self):
        """`run` leads the session, as under ssh -t: the kernel sends signals to no other process."""
        log = self.folder / "log"
        self.type(f"exec {PROGRAM} run --no-trace --out run -- bash -c "
                  f"'trap \"echo hup >>{log}; exit\" HUP; echo rea\"\"dy; while :; do sleep 0.05; done'\n")
        self.expect("ready\r?\n")
        os.close(self.terminal)
        self.terminal = os.open("/dev/null", os.O_RDONLY)
        wait_until(log.exists, "the job's hearing of it", 10)
        wait_until(lambda: log.read_text() == "hup\n", "the job's hearing of it", 5)


class Surroundings(Fares):
    def test_descriptors_are_the_jobs(self):
        """The job has the descriptors it was given, as by a shell's <(...) or an MPI launcher, and none of ours."""
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, write_end)
        with open(read_end) as pipe:
            os.set_inheritable(write_end, True)
            for name, subcommand in self.subcommands():
                with self.subTest(subcommand=name):
                    command = f"echo {name} >&{write_end}; cd /proc/self/fd; echo *"
                    plain = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                           check=True, pass_fds=[write_end])
                    process = self.start(subcommand, "bash", "-c", command, pass_fds=[write_end])
                    self.assertEqual(process.wait(timeout=20), 0, self.errors.read_text())
                    self.assertEqual(self.output.read_text(), plain.stdout)
                    self.assertEqual([pipe.readline(), pipe.readline()], [f"{name}\n", f"{name}\n"])

    def test_limits_priority_and_group_are_the_shells(self):
        words = ["bash", "-c", "ulimit -a; nice; umask; cat /proc/self/oom_score_adj; taskset -p $$ | cut -d: -f2; chrt -p $$ | cut -d: -f2"
                 "; ps -o pgid=,sid= -p $$ | tr -s ' '; grep -E 'Sig(Blk|Ign|Cgt)|NoNewPrivs' /proc/self/status"]
        plain = subprocess.run([*self.prefix, *words], capture_output=True, text=True, check=True).stdout
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                self.assertEqual(run(*subcommand, "--", *words, prefix=self.prefix).stdout, plain)

    def test_the_exit_code_is_the_jobs_also_when_the_disk_is_full(self):
        self.need_root()
        self.need_namespaces("unshare", "-m")
        disk = self.folder / "disk"
        disk.mkdir()
        job = f"dd if=/dev/zero of={disk}/fill bs=4k status=none; sleep 1; exit 7"
        for words in (("trace", "--out", disk / "t.db"), ("run", "--out", disk / "run")):
            with self.subTest(subcommand=words[0]):
                mounted = f"mount -t tmpfs -o size=2m none {disk} && exec \"$@\""
                result = run(*words, "--", "bash", "-c", job, prefix=("unshare", "-m", "bash", "-c", mounted, "-"))
                self.assertEqual(result.returncode, 7, result.stderr)
                self.assertIn("full", result.stderr)

    def test_a_job_of_roots_may_run_as_another_user(self):
        """It runs as root unless its command names the user (docs/security_processes.md)."""
        self.need_root()
        for name, subcommand in self.subcommands():
            with self.subTest(subcommand=name):
                result = run(*subcommand, "--", *AS_NOBODY, "sh", "-c", "id -u; exit 7", prefix=self.prefix)
                self.assertEqual((result.returncode, result.stdout), (7, "65534\n"), result.stderr)

    def test_a_script_without_a_first_line_runs(self):
        script = self.folder / "script"
        script.write_text("echo from $0\n")
        script.chmod(0o755)
        result = run("run", "--no-trace", "--out", self.folder / "run", "--", script, prefix=self.prefix)
        self.assertEqual((result.returncode, result.stdout), (0, f"from {script}\n"))

    def test_a_job_that_goes_to_the_background_is_not_waited_for(self):
        began = time.monotonic()
        result = run("run", "--no-trace", "--out", self.folder / "run", "--", "bash", "-c",
                     "sleep 30 </dev/null >/dev/null 2>&1 & echo $!; exit 4", prefix=self.prefix)
        self.addCleanup(self.kill, int(result.stdout))
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertLess(time.monotonic() - began, 10)
        self.assertTrue(pathlib.Path(f"/proc/{int(result.stdout)}").exists())

    def test_the_nodes_name_is_the_jobs_too(self):
        words = ("--", "bash", "-c", "echo $STALLTRACE_NODE")
        out = ("--no-trace", "--out", self.folder / "run")
        self.assertEqual(run("run", *out, "--node", "rack7", *words).stdout, "rack7\n")
        self.assertEqual(run("run", *out, *words, environment={"STALLTRACE_NODE": "other"}).stdout, "other\n")


class Folder(Fares):
    def launch(self, *words, **options):
        result = subprocess.run([PROGRAM, "run", "--no-trace", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=60, check=False, cwd=self.folder, **options)
        return result

    def folders(self):
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    def test_launchers_that_share_a_working_folder_all_start_their_jobs(self):
        """Many processes at a time, two node names."""
        command = ("bash", "-c", "touch $(dirname $NCCL_DEBUG_FILE)/nccl.$$.log; sleep 1; echo started")
        processes = [subprocess.Popen([PROGRAM, "run", "--no-trace", "--node", f"n{i % 2}", "--", *command], cwd=self.folder,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for i in range(6)]
        self.assertEqual([process.communicate(timeout=60)[0] for process in processes], ["started\n"] * 6)
        self.assertEqual(self.folders(), [f"stalltrace-run-n{i}{end}" for i in (0, 1) for end in ("", "-2", "-3")])

    def test_an_earlier_run_is_kept_and_the_next_gets_a_number(self):
        for end in ("", "-2"):
            result = self.launch("--out", "run7", "--", "bash", "-c", "touch run7/nccl.1.log; echo started")
            self.assertEqual((result.returncode, result.stdout), (0, "started\n"), result.stderr)
            self.assert_says("where the evidence goes", result.stderr, folder=self.folder, end=end)

    def test_a_mistyped_command_leaves_nothing(self):
        for word, code in (("no-such-program", 127), (self.folder / "nowhere", 127), ("/etc/passwd", 126)):
            result = self.launch("--out", "run7", "--", word)
            self.refused(result, code, pathlib.Path(word).name)
            self.assertEqual(self.folders(), [])

    def test_a_program_that_cant_be_executed_leaves_nothing(self):
        broken = self.folder / "broken"
        broken.write_text("#!/nowhere/at/all\n")
        broken.chmod(0o755)
        # A /dev/shm of its own: other tests have files in the host's.
        script = 'mount -t tmpfs none /dev/shm || exit 99; "$@"; code=$?; ls -A /dev/shm; exit $code'
        namespaces = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        self.need_namespaces(*namespaces)
        result = subprocess.run([*namespaces, "sh", "-c", script, "sh", PROGRAM, "run", "--no-trace", "--out", "run7", "--", str(broken)],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder)
        self.assertEqual((result.returncode, result.stdout, self.folders()), (126, "", []), result.stderr)

    def test_a_folder_that_cant_be_made_does_not_keep_the_job_from_starting(self):
        (self.folder / "tmp").mkdir()
        (self.folder / "file").touch()
        result = self.launch("--out", "file/run", "--", "bash", "-c", "touch $(dirname $NCCL_DEBUG_FILE)/nccl.1.log; exit 3",
                             env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(len(list((self.folder / "tmp").glob("run-*/nccl.1.log"))), 1, result.stderr)
        result = self.launch("--out", "file/run", "--", "bash", "-c", "exit 3", env={**os.environ, "TMPDIR": "/proc"})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assert_says("without any evidence", result.stderr)

    def test_no_profiler_file_is_reported_with_the_likely_reasons(self):
        result = self.launch("--out", "run7", "--", "true")
        self.assert_says("reasons why no profiler file appeared", result.stderr)
        self.assertEqual(self.folders(), [], "nothing came of it")
        result = self.launch("--out", "run7", "--", "touch", "run7/nccl.host.1.log")
        self.assert_says("reasons why no profiler file appeared with logs", result.stderr)
