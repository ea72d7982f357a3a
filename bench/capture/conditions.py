# SPDX-License-Identifier: Apache-2.0
"""The conditions under which a program is measured: untraced, empty probes, stalltrace, bpftrace. Each is a context
manager that yields once calls are seen.
"""

import contextlib
import pathlib
import select
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tests" / "support"))

import recordings  # noqa: E402
from processes import start_tracer  # noqa: E402

START_SECONDS = 60
STOP_SECONDS = 60


def wait_readable(descriptor, what):
    ready, _, _ = select.select([descriptor], [], [], START_SECONDS)
    if not ready:
        raise SystemExit(f"bench: {what} is not ready after {START_SECONDS} s")


@contextlib.contextmanager
def ending(process):
    """Ends the process, unless the caller already did."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=STOP_SECONDS)


def running(*words, **options):
    return ending(subprocess.Popen(list(map(str, words)), **options))


@contextlib.contextmanager
def untraced():
    yield None


@contextlib.contextmanager
def empty_probes(build, libraries):
    """An entry and a return probe that do nothing, on every function that stalltrace probes."""
    with running(build / "bench/capture/bench_empty_probes", *libraries, stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE) as process:
        wait_readable(process.stdout, "bench_empty_probes")
        if not process.stdout.readline():
            raise SystemExit("bench: bench_empty_probes did not attach; see the line above")
        yield process
        process.stdin.close()
        process.wait(timeout=STOP_SECONDS)


class Agent:
    """A running `stalltrace trace`, with its cost from the kernel's accounts."""

    def __init__(self, pid, recording):
        self.pid = pid
        self.recording = recording

    def cpu_seconds(self):
        """CPU time of all threads so far, exact to the nanosecond (field 1 of schedstat)."""
        threads = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) * 1e-9

    def peak_mib(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("bench: /proc has no VmHWM")

    def count(self, sql):
        """The single number that a query on the finished recording returns; 0 for NULL."""
        return recordings.rows(self.recording, sql)[0][0] or 0

    def lost(self):
        return self.count("SELECT sum(count) FROM loss")


@contextlib.contextmanager
def stalltrace(build, libraries, folder, *flags):
    """Everything on: collectives, network, scheduler. The recording stays for queries until `folder` is removed."""
    recording = folder / f"{time.monotonic_ns()}.db"
    words = ["--own-netns", "--out", recording, *flags]
    for library in libraries:
        words += ["--library", library]
    try:
        agent = start_tracer(build / "stalltrace", *words, log=folder / "agent.log", seconds=START_SECONDS)
    except RuntimeError as error:
        raise SystemExit(f"bench: {error}") from error
    with ending(agent) as process:
        yield Agent(process.pid, recording)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=STOP_SECONDS)


class Script:
    """A running bpftrace script, with its output."""

    def __init__(self, output):
        self.output = output

    def lines(self):
        """Number of its output lines about calls, once it has ended."""
        return sum(b" enter " in line or b" return " in line for line in self.output.read_bytes().splitlines())


@contextlib.contextmanager
def bpftrace(library, folder):
    """Runs allreduce.bt, with its output in a file."""
    script = folder / "allreduce.bt"
    script.write_text((HERE / "allreduce.bt").read_text().replace("LIBRARY", str(library)))
    output = folder / "bpftrace.out"
    with open(output, "wb") as sink, running("bpftrace", "-B", "line", script, stdout=sink, stderr=sink) as process:
        end = time.monotonic() + START_SECONDS
        while b"ready\n" not in output.read_bytes():
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit("bench: bpftrace did not start: " + output.read_text())
            time.sleep(0.05)
        yield Script(output)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=STOP_SECONDS)
