# SPDX-License-Identifier: Apache-2.0
"""NCCL and the CUDA runtime through ctypes: only the calls that a rank of the check needs."""

import ctypes
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_void_p

FLOAT32, SUM = 7, 0
MASK = (1 << 64) - 1


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_ubyte * 128)]


class Failed(Exception):
    pass


def nccl_hash(unique_id):
    """The communicator's id in NCCL's logs and plugin: NCCL's own hash of the 128 bytes."""
    words = [int.from_bytes(unique_id[i:i + 8], "little") for i in range(0, 128, 8)]
    first, second = 1 ^ 128, 1
    for word in words:
        first = (first + second) & MASK
        second ^= first
        first ^= first >> 31
        first = first * 0x9de62bbc8cef3ce3 & MASK
        second ^= second >> 32
        second = second * 0x485cd6311b599e79 & MASK
        first = (first + word) & MASK
    value = first
    value ^= value >> 31
    value = value * 0xbac3bd562846de6b & MASK
    value = (value + second) & MASK
    value ^= value >> 32
    return value * 0x995a187a14e7b445 & MASK


class Library:
    """Calls functions by name; any result but 0 is an error."""

    def __init__(self, path, error_text):
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.text = getattr(self.library, error_text)
        self.text.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise Failed(f"{name}: {self.text(result).decode()}")


class Device:
    """One stream, one pair of buffers, and events that time the work between them."""

    def __init__(self, path, bytes_):
        self.cuda = Library(path, "cudaGetErrorString")
        self.cuda.call("cudaSetDevice", c_int(0))
        self.stream = c_void_p()
        self.cuda.call("cudaStreamCreateWithFlags", byref(self.stream), c_int(1))
        self.send, self.recv = c_void_p(), c_void_p()
        for buffer in (self.send, self.recv):
            self.cuda.call("cudaMalloc", byref(buffer), c_size_t(bytes_))
            self.cuda.call("cudaMemset", buffer, c_int(0), c_size_t(bytes_))
        self.events = [c_void_p(), c_void_p()]
        for event in self.events:
            self.cuda.call("cudaEventCreate", byref(event))

    def mark(self, which):
        self.cuda.call("cudaEventRecord", self.events[which], self.stream)

    def synchronize(self):
        self.cuda.call("cudaStreamSynchronize", self.stream)

    def elapsed_ns(self):
        milliseconds = c_float()
        self.cuda.call("cudaEventElapsedTime", byref(milliseconds), *self.events)
        return int(milliseconds.value * 1e6)


class Nccl:
    def __init__(self, path):
        self.nccl = Library(path, "ncclGetErrorString")
        self.nccl.library.ncclCommInitRank.argtypes = [POINTER(c_void_p), c_int, UniqueId, c_int]

    def unique_id(self):
        one = UniqueId()
        self.nccl.call("ncclGetUniqueId", byref(one))
        return bytes(one.internal)

    def init(self, unique_id, ranks, rank):
        comm = c_void_p()
        self.nccl.call("ncclCommInitRank", byref(comm), ranks, UniqueId.from_buffer_copy(unique_id), rank)
        return comm

    def split(self, comm, color, key):
        child = c_void_p()
        self.nccl.call("ncclCommSplit", comm, c_int(color), c_int(key), byref(child), c_void_p())
        return child

    def destroy(self, comm):
        self.nccl.call("ncclCommDestroy", comm)

    def group(self, start):
        self.nccl.call("ncclGroupStart" if start else "ncclGroupEnd")

    def collective(self, op, comm, device, count, root=0):
        """`count` floats, counted as the call of that name does."""
        send, recv, stream, n, kind = device.send, device.recv, device.stream, c_size_t(count), c_int(FLOAT32)
        arguments = {
            "ALL_REDUCE": ("ncclAllReduce", send, recv, n, kind, c_int(SUM), comm, stream),
            "REDUCE_SCATTER": ("ncclReduceScatter", send, recv, n, kind, c_int(SUM), comm, stream),
            "ALL_GATHER": ("ncclAllGather", send, recv, n, kind, comm, stream),
            "BROADCAST": ("ncclBroadcast", send, recv, n, kind, c_int(root), comm, stream),
            "REDUCE": ("ncclReduce", send, recv, n, kind, c_int(SUM), c_int(root), comm, stream),
            "SEND": ("ncclSend", send, n, kind, c_int(root), comm, stream),
            "RECV": ("ncclRecv", recv, n, kind, c_int(root), comm, stream),
        }[op]
        self.nccl.call(*arguments)
