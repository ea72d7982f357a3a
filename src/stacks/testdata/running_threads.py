# SPDX-License-Identifier: Apache-2.0
"""running_threads.py CASE READY: a process that doesn't stand still. The file READY appears when it has begun."""

import gc
import os
import sys
import threading
import time


def leaf(x):
    return x + 1


def calling(_):
    while True:
        x = 0
        for i in range(100):
            x = leaf(x)


def recursion(depth):
    if depth:
        recursion(depth - 1)
    else:
        time.sleep(0.0002)


def up_and_down(_):
    while True:
        recursion(60)


def ready():
    open(sys.argv[2], "w").close()


def gil():
    for _ in range(2):
        threading.Thread(target=calling, args=(0,), daemon=True).start()
    ready()
    calling(0)


def busy():
    ready()
    x = 0
    while True:
        x += 1


def changing():
    threading.Thread(target=up_and_down, args=(0,), daemon=True).start()
    ready()
    up_and_down(0)


def collect():
    heap = [[i] for i in range(200000)]
    ready()
    while heap:
        gc.collect()


def starting():
    ready()
    while True:
        thread = threading.Thread(target=time.sleep, args=(0.001,))
        thread.start()
        thread.join()


def forked():
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    ready()
    time.sleep(60)


def fifo():
    path = sys.argv[2] + ".fifo"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    ready()
    os.read(descriptor, 1)


def too_deep():
    sys.setrecursionlimit(100000)
    threading.stack_size(512 << 20)

    def deep(depth):
        if depth == 0:
            ready()
            time.sleep(60)
        deep(depth - 1)

    thread = threading.Thread(target=deep, args=(30000,), daemon=True)
    thread.start()
    thread.join()


{name: value for name, value in globals().items() if callable(value)}[sys.argv[1]]()
