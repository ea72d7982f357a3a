#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `stalltrace stacks` and `py-spy dump` show of the same sleeping processes.

    scripts/stacks_beside_py_spy.py PROGRAM PY_SPY PYTHON...    (PYTHON: interpreters; py-spy is in no Debian package)

Each interpreter runs a small program whose threads all wait: in nested functions, a method, a comprehension, a generator, a recursion
and calls of several lines. Function, file and line of every frame of every thread have to be equal. Prints a line for each interpreter
and each frame that differs; exit code 1 if any does. Function names are compared without the class or function around them, which
py-spy and CPython up to 3.10 do not have.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

JOB = """\
import sys, threading, time

READY = threading.Semaphore(0)
NEVER = threading.Lock()
NEVER.acquire()


class Loader:
    def fetch(self):
        READY.release()
        NEVER.acquire(
            True,
            1000)


def comprehension():
    return [wait(
        number)
        for number in range(2)]


def wait(number):
    READY.release()
    time.sleep(1000)


def batches():
    for number in range(2):
        wait(number)
        yield number


def generator():
    for batch in batches(): pass


def recursion(depth=20):
    if depth: recursion(depth - 1)
    else: wait(depth)


def decorated(function):
    def outer(*words):
        return function(*words)
    return outer


@decorated
def step(ready):
    open(ready, "w").close(); time.sleep(1000)


WAITING = [Loader().fetch, comprehension, generator, recursion, lambda: wait(0)]
for function in WAITING:
    threading.Thread(target=function, daemon=True).start()
for _ in WAITING:
    READY.acquire()
time.sleep(0.2)
step(sys.argv[1])
"""
THREADS = 6


def last_name(function):
    """Without what is around it: outer.<locals>.step is step."""
    return function.rpartition(".")[2]


def by_stalltrace(program, pid):
    """The frames of each thread, and the interpreter."""
    output = subprocess.run([program, "stacks", "--json", "--pid", str(pid)], check=True, capture_output=True, timeout=60).stdout
    process, = json.loads(output)["processes"]
    return {thread["tid"]: [(last_name(frame["function"]), frame["file"], frame["line"]) for frame in thread["python"]["frames"]]
            for thread in process["threads"] if thread["python"]}


def by_py_spy(program, pid):
    output = subprocess.run([program, "dump", "--json", "--pid", str(pid)], check=True, capture_output=True, timeout=60).stdout
    return {thread["os_thread_id"]: [(last_name(frame["name"]), frame["filename"], frame["line"]) for frame in thread["frames"]]
            for thread in json.loads(output)}


def both(stalltrace, py_spy, python, folder):
    script, ready = folder / "job.py", folder / "ready"
    script.write_text(JOB)
    ready.unlink(missing_ok=True)
    process = subprocess.Popen([python, script, ready])
    try:
        end = time.monotonic() + 30
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{python}: its threads do not begin to wait")
            time.sleep(0.01)
        time.sleep(0.2)
        return by_stalltrace(stalltrace, process.pid), by_py_spy(py_spy, process.pid)
    finally:
        process.kill()
        process.wait()


def differences(ours, theirs):
    """As lines: (function, file, line) of stalltrace, then of py-spy."""
    found = [f"thread {tid}: shown by {'stalltrace' if tid in ours else 'py-spy'} alone" for tid in sorted(set(ours) ^ set(theirs))]
    for tid in sorted(set(ours) & set(theirs)):
        if len(ours[tid]) != len(theirs[tid]):
            found.append(f"thread {tid}: {len(ours[tid])} frames, by py-spy {len(theirs[tid])}")
        found += [f"thread {tid}, frame {number}: {mine}, by py-spy {other}"
                  for number, (mine, other) in enumerate(zip(ours[tid], theirs[tid])) if mine != other]
    return found


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    stalltrace, py_spy, *pythons = sys.argv[1:]
    for program in (stalltrace, py_spy):
        print(subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0])
    failed = False
    for python in pythons:
        version = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], check=True, capture_output=True,
                                 text=True).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = both(stalltrace, py_spy, python, pathlib.Path(folder))
        found = differences(ours, theirs)
        if len(ours) != THREADS:
            found.append(f"{len(ours)} threads, of {THREADS}")
        failed = failed or bool(found)
        print(f"CPython {version}: {len(ours)} threads, {sum(map(len, ours.values()))} frames: {'DIFFERENT' if found else 'equal'}")
        for line in found:
            print(f"    {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
