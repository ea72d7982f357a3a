# SPDX-License-Identifier: Apache-2.0
"""libraries_seeds.py FOLDER: small libraries as the libraries target reads them: one function of the call table, the plugin's
marker, OpenMPI's world; for either kind of processor."""

import pathlib
import struct
import sys

KINDS = {"nccl": [("ncclAllReduce", 2), ("ncclSend", 2)], "mpi": [("MPI_Allreduce", 2), ("MPIR_Dup_fn", 2), ("ompi_mpi_comm_world", 1)],
         "marker": [("stalltrace_step_moved", 2), ("stalltrace_step_moved_semaphore", 1)]}


def library(machine, symbols, table_type):
    """Headers, symbols, names and 64 bytes of code, in one segment that may be executed and written."""
    names, table = b"\0", b"\0" * 24
    symbols_at = 64 + 56 + 3 * 64
    code_at = symbols_at + 24 * (1 + len(symbols)) + 128
    for number, (name, kind) in enumerate(symbols):
        table += struct.pack("<IBBHQQ", len(names), 0x10 | kind, 0, 1, 0x4000 + code_at + 16 * number, 16)
        names += name.encode() + b"\0"
    size = code_at + 64
    header = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 120, 0, 64, 56, 1, 64, 3, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, 0x4000, 0, size, size, 4096)
    sections = b"\0" * 64 + struct.pack("<IIQQQQIIQQ", 0, table_type, 0, 0, symbols_at, len(table), 2, 0, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, symbols_at + len(table), 128, 0, 0, 1, 0)
    return header + segment + sections + table + names.ljust(128, b"\0") + (b"\x48\x8b\x05\0\0\0\0\x55" * 8)[:64]


folder = pathlib.Path(sys.argv[1])
for kind, symbols in KINDS.items():
    for machine in (62, 183):
        for table_type in (11, 2):
            (folder / f"{kind}{machine}_{table_type}").write_bytes(library(machine, symbols, table_type))
(folder / "mount").write_bytes(b"44 43 254:0 / /a\\040b rw,relatime shared:1 - ext4 /dev/vda rw\n")
