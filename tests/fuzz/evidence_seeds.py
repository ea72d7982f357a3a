#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evidence_seeds.py FOLDER: writes seeds for the targets of others' evidence into FOLDER/seeds-TARGET, in the documented formats."""

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


def benchmark(end):
    group = "    12.50    0.08    0.15       0"
    rows = "".join(f"{size:12}  {size // 4:12}     float     sum      -1{group}{group}\n" for size in (8, 1024, 1 << 20))
    return ("# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n# Collective test starting: all_reduce_perf\n"
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1\n#\n# Using devices\n"
            "#  Rank  0 Group  0 Pid   6899 on      node0 device  0 [0000:04:00] NVIDIA H100\n#\n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n" + rows + end)


KERNEL_LOG = """[    0.000000] Linux version 6.5.0
[ 3600.000002] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[Mon Nov 23 15:57:09 2026] NVRM: Xid (PCI:0000:86:00): 45, pid=4711, name=python3, Ch 00000001
May  5 10:01:00 node1 kernel: [ 3600.000002] NVRM: Xid (PCI:0000:3b:00): 31, pid=105, name=python3, Ch 00000008
2026-05-05T10:01:03.123456+00:00 node1 kernel: nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer
kern  :err   : 2025-01-25T10:34:54,859532+00:00 nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Fatal, Link 15
node1 kernel: Memory cgroup out of memory: Killed process 9999 (python3) total-vm:1kB, anon-rss:1kB
"""


def main():
    logs, dumps, benchmarks, kernel_logs, looks = (pathlib.Path(sys.argv[1]) / f"seeds-{target}"
                                                   for target in ("log", "dump", "benchmark", "kernel_log", "py_spy"))
    (benchmarks / "whole").write_text(benchmark("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 4.7 \n#\n"))
    (benchmarks / "failed").write_text(benchmark("node1: Test NCCL failure common.cu:958 'remote process exited'\n"))
    (benchmarks / "old").write_text("#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
                                    "  8  2  float  sum  28.08  0.00  0.00  1e-07  27.73  0.00  0.00  1e-07\n")
    (benchmarks / "json").write_text(json.dumps(
        {"version": 1, "start_time": "2026-05-05 10:00:00", "args": ["/opt/all_reduce_perf"], "env": [], "nccl_version": 22809,
         "config": {"maximum_bytes": 8, "devices": [{"rank": 0, "hostname": "node0"}]},
         "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "-1", "out_of_place": None,
                      "in_place": {"time": 12.5, "alg_bw": 0.1, "bus_bw": 0.2, "nwrong": 0.0}}],
         "average_bus_bandwidth": {"bandwidth": 0.2, "okay": "unchecked"}, "errors": [""]}))
    (looks / "text").write_text("Process 4711: python\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread 4711 (idle): \"MainThread\"\n"
                                "    wait (threading.py:320)\n    step (train.py:88)\n        Locals:\n            x: 5\n"
                                "Thread 0x7F3C (active+gil)\n    copy (libcuda.so.1)\n0: Process 5: x\n0: Thread 5 (idle)\n")
    (looks / "json").write_text(json.dumps([{"pid": 4711, "thread_id": 139, "thread_name": "MainThread", "os_thread_id": 4711, "active": False,
                                             "owns_gil": True, "frames": [{"name": "step", "filename": "/home/u/train.py", "line": 88}]}]))
    (kernel_logs / "all").write_text(KERNEL_LOG)
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
