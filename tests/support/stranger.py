# SPDX-License-Identifier: Apache-2.0
"""A hostile user's treatment of files that a tracer examines. Run as that user: stranger.py WHAT FOLDER [VICTIM
OFFSET]. Prints a line once its mapping is there, and lives until it is ended. Needs only Python, so that any user can
run it.
"""

import collections
import ctypes
import fcntl
import mmap
import os
import pathlib
import select
import struct
import sys
import time

NAMES = b"\0ncclAllReduce\0"
SECTIONS_AT, SYMBOLS_AT, NAMES_AT = 0x1000, 0x2000, 0x10000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def elf(path, order="<", symbols=1, names=len(NAMES), function_at=0x3800, size=0x20000, sections=3):
    """A library that claims to have ncclAllReduce at a chosen offset."""
    header = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1, 0]) + b"\0" * 8
    header += struct.pack(order + "HHIQQQIHHHHHH", 3, 62, 1, 0, 64, SECTIONS_AT, 0, 64, 56, 1, 64, sections, 0)
    header += struct.pack(order + "IIQQQQQQ", 1, 5, 0, 0, 0, 0x100000, 0x100000, 0x1000)
    table = b"\0" * 64 + struct.pack(order + "IIQQQQIIQQ", 0, 11, 0, 0, SYMBOLS_AT, 24 * (1 + symbols), 2, 0, 8, 24)
    table += struct.pack(order + "IIQQQQIIQQ", 0, 3, 0, 0, NAMES_AT, names, 0, 0, 1, 0)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o755)
    os.pwrite(fd, header, 0)
    os.pwrite(fd, table, SECTIONS_AT)
    os.pwrite(fd, b"\0" * 24 + struct.pack(order + "IBBHQQ", 1, 0x12, 0, 1, function_at, 16), SYMBOLS_AT)
    os.pwrite(fd, NAMES, NAMES_AT)
    os.ftruncate(fd, max(size, NAMES_AT + names, SYMBOLS_AT + 24 * (1 + symbols)))
    return fd


def map_code(path):
    return mmap.mmap(os.open(path, os.O_RDONLY), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)


def ready():
    print(os.getpid(), flush=True)


def race(folder, victim, offset):
    """Once the file has been read, its mapping is replaced by the victim's."""
    path = folder / "libnccl.so.2"
    elf(path, function_at=int(offset, 16))
    watch = libc.inotify_init()
    libc.inotify_add_watch(watch, bytes(path), 0x30)  # IN_OPEN | IN_CLOSE_NOWRITE: as early as possible
    mine, its = os.open(path, os.O_RDONLY), os.open(victim, os.O_RDONLY)
    os.read(watch, 4096)
    address = libc.mmap(None, 4096, 5, 2, mine, 0)
    ready()
    while True:
        select.select([watch], [], [])
        os.read(watch, 4096)
        libc.mmap(address, 4096, 5, 2 | 0x10, its, 0)  # MAP_FIXED
        time.sleep(0.02)
        libc.mmap(address, 4096, 5, 2 | 0x10, mine, 0)


def fifo(folder):
    """The kernel's path for the deleted file leads to a FIFO without a writer."""
    path = folder / "libmpi.so.40"
    elf(path)
    kept = map_code(path)
    path.unlink()
    os.mkfifo(f"{path} (deleted)")
    ready()
    time.sleep(60)
    return kept


def truncate(folder):
    """The file's length keeps changing."""
    path = folder / "libnccl.so.2"
    fd = elf(path, names=200 << 20)
    kept = map_code(path)
    ready()
    while True:
        time.sleep(0.01)
        os.ftruncate(fd, 0x3000)
        time.sleep(0.001)
        os.ftruncate(fd, NAMES_AT + (200 << 20))
    return kept


def bombs(folder):
    """Kilobytes on disk that claim to be gigabytes, in each way that a reader may accept."""
    kept = []
    for number, claims in enumerate([{"order": ">", "symbols": 40_000_000}, {"order": ">", "names": 1 << 30}, {"names": 1 << 30},
                                     {"names": 63 << 20}, {"symbols": 100_000_000}, {"sections": 60_000}]):
        path = folder / f"libnccl.so.{number}"
        elf(path, **claims)
        kept.append(map_code(path))
    ready()
    time.sleep(60)
    return kept


def flood(folder):
    """New libraries, mapped as fast as possible."""
    wait_for_start()
    kept = []
    for number in range(100_000):
        path = folder / f"lib{number % 500}.so"
        path.unlink(missing_ok=True)
        os.close(elf(path))
        fd = os.open(path, os.O_RDONLY)
        kept = [*kept[-50:], mmap.mmap(fd, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)]
        os.close(fd)


# flood(calls, function, communicator, step): ncclAllReduce(NULL, NULL, 8, 7, 0, communicator, NULL) at the rate of a processor of
# x86-64; each call's communicator is `step` after the last one's.
FLOOD = bytes.fromhex("53 55 41 54 41 55 48 89 fb 48 89 f5 49 89 d4 49 89 cd 48 83 ec 18 48 c7 04 24 00 00 00 00"
                      "31 ff 31 f6 ba 08 00 00 00 b9 07 00 00 00 45 31 c0 4d 89 e1 ff d5 4d 01 ec 48 ff cb 75 e2"
                      "48 83 c4 18 41 5d 41 5c 5d 5b c3")
FUNCTIONS = [b"ncclGroupStart", b"ncclAllReduce"]  # at 0x3800, 0x3810
RETURN_0 = b"\x31\xc0\xc3"
KEPT = []  # memory with code


def library(folder):
    """Maps a library whose functions return 0 at once; returns its address."""
    path = folder / "libnccl.so.2"
    names = b"\0" + b"".join(name + b"\0" for name in FUNCTIONS)
    fd = elf(path, names=len(names), symbols=len(FUNCTIONS))
    os.pwrite(fd, names, NAMES_AT)
    for number, name in enumerate(FUNCTIONS):
        at = 0x3800 + 16 * number
        os.pwrite(fd, struct.pack("<IBBHQQ", names.index(name), 0x12, 0, 1, at, 16), SYMBOLS_AT + 24 * (1 + number))
        os.pwrite(fd, RETURN_0, at)
    os.close(fd)
    return libc.mmap(None, 0x4000, 5, 2, os.open(path, os.O_RDONLY), 0)


def flood_of_calls():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(FLOOD)
    KEPT.append(code)
    return ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(
        ctypes.addressof(ctypes.c_char.from_buffer(code)))


def wait_for_start():
    """On one processor from then on."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ready()
    sys.stdin.readline()


def calls(folder, how):
    """Calls without end: "calls" on one communicator, "communicators" on ever new ones, "group" inside a group that never ends."""
    address, flood = library(folder), flood_of_calls()
    wait_for_start()
    if how == "group":
        ctypes.CFUNCTYPE(ctypes.c_int)(address + 0x3800)()
    at, step = 0x1000, 16 if how == "communicators" else 0
    while True:
        flood(100_000, address + 0x3810, at, step)
        at += 100_000 * step


def forks(folder):
    """Processes without end, each of which makes a call."""
    address, flood = library(folder), flood_of_calls()
    wait_for_start()
    while True:
        child = os.fork()
        if child == 0:
            flood(1, address + 0x3810, 0x1000, 0)
            os._exit(0)
        os.waitpid(child, 0)


# struct st_box_header (plugin/wire/blackbox.h): where its parts are, and how large a header, a communicator and an event are.
HEADER, COMMUNICATOR, EVENT = 4096, 256, 128
BOOT_ID_AT, ANCHORED_AT, HEAD_AT = 1360, 3960, 3968
SLOTS, RING = 65536, 512


def profiler_file(path, pid, start_ticks):
    """A file as the profiler plugin writes it, with one communicator and no event. Returns its descriptor."""
    slots_at = HEADER + COMMUNICATOR
    ring_at = slots_at + SLOTS * EVENT
    header = b"STBLKBOX" + struct.pack("<6I7Q", 1, 0x01020304, HEADER, COMMUNICATOR, EVENT, 0, ring_at + RING * EVENT, HEADER, 1,
                                       slots_at, SLOTS, ring_at, RING)
    header += struct.pack("<2I4Q", pid, 1, start_ticks, os.sysconf("SC_CLK_TCK"), os.stat("/proc/self/ns/pid").st_ino,
                          os.stat("/proc/self/ns/net").st_ino)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(fd, ring_at + RING * EVENT)
    os.pwrite(fd, header, 0)
    os.pwrite(fd, struct.pack("<2Q3iIQ", 1, pid, 0, 2, 1, 0, time.monotonic_ns()), HEADER)
    os.pwrite(fd, pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip(), BOOT_ID_AT)
    os.pwrite(fd, struct.pack("<Q", time.monotonic_ns()), ANCHORED_AT)
    return fd


def records(first):
    """A ring full of ended collectives."""
    now = time.monotonic_ns()
    return b"".join(struct.pack("<5Q2I2BHi3Q", (number << 1) + 2, 1 << 48 | number << 16, 0, now - 2000, now - 1000, 1, 1, 2, 0, 1, 0,
                                number, number, 1).ljust(EVENT, b"\0") for number in range(first, first + RING))


def profiler_files(folder):
    """Profiler files of this process and, without end, of others that have ended; all get events without end."""
    address, flood = library(folder), flood_of_calls()
    start_ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    own = profiler_file(f"/dev/shm/stalltrace-{os.getpid()}-{start_ticks}.profiler", os.getpid(), start_ticks)
    fcntl.lockf(own, fcntl.LOCK_EX, 1)  # it has a writer
    wait_for_start()
    flood(1, address + 0x3810, 0x1000, 0)
    others = collections.deque()
    for lap in range(1 << 30):
        path = pathlib.Path(f"/dev/shm/stalltrace-{3_000_000 + lap}-1.profiler")
        others.append((path, profiler_file(path, 3_000_000 + lap, 1)))
        if len(others) > 200:
            path, fd = others.popleft()
            path.unlink()
            os.close(fd)
        ring = records(lap * RING)
        for fd in [own, *(fd for _, fd in others)]:
            os.pwrite(fd, ring, HEADER + COMMUNICATOR + SLOTS * EVENT)
            os.pwrite(fd, struct.pack("<Q", (lap + 1) * RING), HEAD_AT)


if __name__ == "__main__":
    globals()[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])
