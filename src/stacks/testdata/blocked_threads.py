# SPDX-License-Identifier: Apache-2.0
"""blocked_threads.py REPORT: threads that are blocked at known lines. REPORT gets, as Python itself has it, for each thread's
kernel number its frames, innermost first, as [function, file, line]; then the main thread sleeps."""

import json
import os
import sys
import threading
import time

PIPE, _ = os.pipe()
LOCK = threading.Lock()
LOCK.acquire()


def in_lock():
    LOCK.acquire()


class Loader:
    def load_batch(self, index):
        return os.read(
            PIPE,
            index)

    def __iter__(self):
        try:
            yield self.load_batch(1)
        finally:
            time.sleep(600)


def in_generator():
    for _ in Loader():
        pass


def deep(depth):
    if depth == 0:
        time.sleep(600)
    return deep(depth - 1) + 1


def in_comprehension():
    return [sorted([1, 2], key=lambda number: time.sleep(600)) for _ in range(2)]


def long_function(flag):
    if flag:
        x = 1
    # The table of lines has large steps, forth and back.









































































































































    for y in range(3):
        try:
            with open(os.devnull) as null: null.read(); x = sorted([y], key=lambda _: time.sleep(600))
        except ValueError:
            x = 2
    return x


def in_named(name, file):
    code = compile("import time\n\n\ndef %s():\n    time.sleep(600)\n\n\n%s()\n" % (name, name), file, "exec")
    return lambda: exec(code, {})


TARGETS = [in_lock, in_generator, lambda: deep(5), in_comprehension, lambda: long_function(True),
           in_named("caf\u00e9", "/tmp/caf\u00e9.py"), in_named("\u4e2d\u6587", "/tmp/\u4e2d.py"),
           in_named("plain", "/tmp/\U0001f40d.py"), in_named("long_" * 30, "/tmp/x\x1b[31m\n.py")]


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def frames_from(frame):
    frames = []
    while frame:
        frames.append([name_of(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


def all_blocked(threads):
    return all(open("/proc/self/task/%d/stat" % thread.native_id).read().rpartition(")")[2].split()[0] == "S" for thread in threads)


def report(path, threads):
    while not all_blocked(threads):
        time.sleep(0.01)
    frames = sys._current_frames()
    found = {thread.native_id: frames_from(frames[thread.ident]) for thread in threads}
    found[threading.main_thread().native_id] = frames_from(sys._getframe(1))
    with open(path + ".new", "w") as file:
        json.dump(found, file)
    os.rename(path + ".new", path)


class Trainer:
    def step(self, path):
        threads = [threading.Thread(target=target, daemon=True) for target in TARGETS]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        report(path, threads); time.sleep(600)


Trainer().step(sys.argv[1])
