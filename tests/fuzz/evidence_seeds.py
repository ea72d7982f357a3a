#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evidence_seeds.py LOGS DUMPS: writes seeds for the targets `log` and `dump` into two folders, in the documented formats."""

import json
import pathlib
import pickle
import sys


def call(rank, number, operation="AllReduce"):
    return (f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO {operation}: opCount {number:x} sendbuff 0x7f00 recvbuff 0x7f01 "
            f"count 1024 datatype 7 op 0 root 0 comm 0x7f{rank}000 [nranks=4] stream 0x55d5\n")


def set_up(rank, what):
    return (f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x7f{rank}000 rank {rank} nranks 4 "
            f"cudaDev {rank} nvmlDev {rank} busId 1000 commId 0xfeed - Init {what}\n")


def dump():
    entry = {"record_id": 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 7, "p2p_seq_id": 0, "op_id": 7,
             "profiling_name": "nccl:all_reduce", "time_created_ns": 1777975200000000000, "duration_ms": 1.5, "input_sizes": [[4, 5]],
             "input_dtypes": ["Float"], "state": "started", "time_discovered_started_ns": 1777975200000001000,
             "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600000, "is_p2p": False,
             "frames": [{"name": "step", "filename": "/home/u/train.py", "line": 88}]}
    return {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
            "entries": [entry, dict(entry, collective_seq_id=8, state="scheduled")]}


def main():
    logs, dumps = map(pathlib.Path, sys.argv[1:])
    together = "".join(set_up(rank, what) for rank in range(4) for what in ("START", "COMPLETE"))
    together += "".join(call(rank, number) for number in range(5) for rank in range(4) if (rank, number) != (3, 4))
    (logs / "together").write_text(together)
    (logs / "prefixes").write_text("".join(f"[1,{rank}]<stdout>:2026-05-05T10:00:0{rank}.5Z " + call(rank, 30) for rank in range(4)))
    (logs / "warnings").write_text(
        "NCCL version 2.28.9+cuda12\n\nnode0:1:2 [0] misc/socket.cc:4 NCCL WARN socketPollConnect: connect to 10.0.0.1<45> returned "
        "Connection refused\nnode0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n[rank1]:[E505 10:10:03.4 x.cpp:6] [Rank 1] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31, OpType=ALLREDUCE)\n" + call(0, 3, "Send") + call(0, 3)[:90])
    for protocol in (2, 4):
        (dumps / f"pickle{protocol}").write_bytes(pickle.dumps(dump(), protocol=protocol))
    (dumps / "json").write_text(json.dumps(dump()))
    (dumps / "typed").write_bytes(b"\x80\x02}X\x07\x00\x00\x00entriesctorch.jit._pickle\nbuild_intlist\n]\x85Rs.")


main()
