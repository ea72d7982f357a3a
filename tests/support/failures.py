# SPDX-License-Identifier: Apache-2.0
"""System calls of the program that fail: each subcommand is played with the n-th call of a kind failing (failing_calls.cpp), for many n.

The kind `allocations` are those of the C library's memory, by a program that fails them itself (failing_allocations.cpp).

A subcommand then says in one line what failed, and ends with 1; or it does without, says so, or gives what it gives otherwise. A command
under `run` or `trace` ends as it would have. An interrupted call (EINTR) changes nothing at all.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import recordings
from stalltrace import BUILD, PROGRAM

INJECTOR = BUILD / "tests" / "failing_calls"
WITHOUT_MEMORY = BUILD / "tests" / "stalltrace_without_memory"
ALLOCATIONS = "allocations"
# kind -> the errors that it is played with
KINDS = {"descriptors": ("EMFILE",), "memory": ("ENOMEM",), "reads": ("EIO", "EINTR"), "writes": ("ENOSPC", "EINTR"),
         "syncs": ("EIO",), "processes": ("EAGAIN",), "waits": ("EINTR",), ALLOCATIONS: ("ENOMEM",)}
JOB_CODE = 7
NOT_STARTED = 126
JOB = ("sh", "-c", f"echo ran; exit {JOB_CODE}")
LIMIT_S = 30


@dataclasses.dataclass
class Outcome:
    code: int  # -1: it did not end
    out: str
    err: str
    calls: int  # of the kind
    failed: tuple  # the numbers of the system calls that failed
    left: frozenset  # names in its folder


@dataclasses.dataclass
class Scenario:
    """`words` are formatted with `folder`, where it may write, and `given`, which holds the recordings a.db and b.db."""

    name: str
    words: tuple
    job: bool = False
    varies: bool = False  # what it prints is another thing each time
    root: bool = False
    kinds: tuple = tuple(KINDS)

    def play(self, given, kind, which="0", error="EIO"):
        with tempfile.TemporaryDirectory(prefix="stalltrace-failing-") as name:
            folder = pathlib.Path(name)
            work = folder / "work"
            work.mkdir()
            words = [str(word).format(folder=work, given=given) for word in self.words]
            counts = folder / "calls"
            if kind == ALLOCATIONS:
                counts.write_bytes(bytes(16))
                words = ["env", f"STALLTRACE_ALLOCATIONS={counts}", f"STALLTRACE_FAILING_ALLOCATION={which}", str(WITHOUT_MEMORY), *words]
            else:
                words = [str(INJECTOR), kind, which, error, str(counts), str(PROGRAM), *words]
            code, out, err = self.outcome(words, work)
            if kind == ALLOCATIONS:
                made, failed = struct.unpack("=QQ", counts.read_bytes())
                code, calls = (128 - code if code < -1 else code), [made, *range(1 if failed else 0)]
            else:
                calls = counts.read_text().split() if counts.exists() else ["0"]
            left = frozenset(re.sub(r"(?<=\.stalltrace-new-)\w+", "*", path.name) for path in work.iterdir())
            return Outcome(code, out, err, int(calls[0]), tuple(map(int, calls[1:])), left)

    def outcome(self, words, work):
        output = work.parent / "output"  # a file: only files can be full
        with open(output, "w") as sink:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.PIPE, text=True, errors="replace",
                                       cwd=work, start_new_session=True)
        try:
            _, err = process.communicate(timeout=LIMIT_S)
            code = process.returncode
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            code = -1
        return code, output.read_text(errors="replace"), err


REQUESTS = (("findings", None), ("query", b"SELECT count(*) AS n FROM collective"))


class Serving(Scenario):
    """Requests that are repeated until they are answered, and the end. Where all later calls fail, they need no answer."""

    def outcome(self, words, work):
        errors = work.parent / "errors"
        with open(errors, "w") as sink:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sink, cwd=work)
        answers, end = [], time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < end and len(answers) < len(REQUESTS):
            found = re.search(r"http://\S+:(\d+)", errors.read_text())
            if found is None:
                time.sleep(0.01)
                continue
            what, body = REQUESTS[len(answers)]
            url = f"http://127.0.0.1:{found[1]}/v1/{what}"
            try:
                answers.append(urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=5).read().decode())
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    answers.append(f"{error.code} {error.read().decode()}")
                time.sleep(0.01)
            except OSError:
                time.sleep(0.01)
        served = process.poll() is None
        injected = words[0] == str(INJECTOR)  # it is the parent of the server
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for server in (children.read_text().split() if injected else [process.pid]) if served else []:
            os.kill(int(server), signal.SIGTERM)
        try:
            code = process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = -1
        if served and len(answers) < len(REQUESTS) and not words[2].endswith("+"):  # both kinds of `words` have it there
            code = -1
        return code, "\n".join(answers), errors.read_text()


def scenarios():
    pid = str(os.getpid())
    log = "{given}/rank0.log"
    return [
        Scenario("explain", ("explain", "{given}/a.db")),
        Scenario("explain of two", ("explain", "{given}/a.db", "{given}/b.db", "--json")),
        Scenario("explain of a log", ("explain", log)),
        Scenario("query", ("query", "{given}/a.db", "SELECT op, rank, duration_ns FROM collective ORDER BY 1, 2, 3 LIMIT 50")),
        Scenario("merge", ("merge", "{given}/a.db", "{given}/b.db", "--out", "{folder}/out.db")),
        Scenario("import", ("import", log, "--out", "{folder}/out.db")),
        Scenario("export", ("export", "{given}/a.db", "--format", "perfetto", "--out", "{folder}/out")),
        Scenario("export of tables", ("export", "{given}/a.db", "--format", "csv", "--out", "{folder}/out")),
        # Without allocations: it copies std::variant while it makes its tools, and where such a copy throws, the unwinding out of
        # libstdc++ 12's copy constructor crashes (SIGSEGV).
        Scenario("mcp", ("mcp", "{given}/a.db"), kinds=tuple(kind for kind in KINDS if kind != ALLOCATIONS)),
        Serving("serve", ("serve", "{given}/a.db", "--listen", "127.0.0.1:0"), kinds=("descriptors", "reads", "waits", "processes", "memory", ALLOCATIONS)),
        Scenario("stacks", ("stacks", "--pid", pid, "--json"), varies=True),
        Scenario("autopsy", ("autopsy", "--pid", pid, "--no-trace", "--seconds", "0.1"), varies=True),
        Scenario("preflight", ("preflight", "--json"), varies=True),
        Scenario("check", ("check",), varies=True),
        Scenario("run", ("run", "--no-trace", "--out", "{folder}/run", "--", *JOB), job=True, varies=True),
        Scenario("traced run", ("run", "--out", "{folder}/run", "--", *JOB), job=True, varies=True, root=True),
        Scenario("trace", ("trace", "--out", "{folder}/out.db", "--", *JOB), job=True, varies=True, root=True),
        Scenario("trace alone", ("trace", "--out", "{folder}/out.db", "--duration", "300ms"), varies=True, root=True),
    ]


LOG = """\
host:100:100 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
host:100:100 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5eed - Init START
host:100:100 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5eed - Init COMPLETE
host:100:100 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x55 [nranks=2] stream 0x3
"""


def prepare(folder):
    recordings.make(folder / "a.db", 2000, 100)
    recordings.make(folder / "b.db", 100)
    (folder / "rank0.log").write_text(LOG)
    return folder


def problem(scenario, plain, outcome, error):
    """What is wrong with an outcome, or None."""
    lines = [line for line in outcome.err.splitlines() if line.startswith("stalltrace: ")]
    if outcome.code < 0:
        return "it does not end"
    if "unexpected:" in outcome.err or "terminate called" in outcome.err:
        return "an exception reached the end"
    if scenario.job and (outcome.code == JOB_CODE) != ("ran" in outcome.out):
        return "the command's exit code is lost" if "ran" in outcome.out else "the command did not run"
    if scenario.job and outcome.code == JOB_CODE:
        return None
    if scenario.job and outcome.code == NOT_STARTED and error != "EINTR":
        return None if lines else "no line says why"
    if outcome.code not in (plain.code, 1):
        return f"exit code {outcome.code}"
    if error == "EINTR" and (outcome.code != plain.code or (outcome.out != plain.out and not scenario.varies)):
        return "an interruption changed something"
    if outcome.code == 1 and plain.code != 1 and len(lines) < 1:
        return "no line says why"
    explained = outcome.err.strip() or re.search(r'\n  note |"notes": \[\n', outcome.out)
    if outcome.code == plain.code and not scenario.varies and outcome.out != plain.out and not explained:
        return "it printed something else, and no line says why"
    beside = {name + suffix for name in plain.left for suffix in ("-wal", "-shm", "-journal")} if outcome.code == 1 else set()
    extra = outcome.left - plain.left - beside - ({"run"} if scenario.job else set())
    return f"it left {sorted(extra)}" if extra else None


def persistent(kind, number):
    """Whether all calls from that number on can fail: the C library's start says nothing for want of memory."""
    return kind != "memory" or number > 1


def chosen(calls, most):
    """At most that many numbers from 1 to `calls`, the first and the last among them."""
    if calls <= most:
        return list(range(1, calls + 1))
    return sorted({1 + round(step * (calls - 1) / (most - 1)) for step in range(most)})
