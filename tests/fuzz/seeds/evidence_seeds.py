#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evidence_seeds.py FOLDER: writes seeds for the targets of others' evidence into FOLDER/seeds-TARGET, in the documented formats."""

import gzip
import json
import pathlib
import pickle
import struct
import sys

TRACEBACKS = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/u/train.py", line 88, in <module>
[default0]:[rank0]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:6] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective \
timeout from  rank 2 and we will try our best to dump the debug info. Last enqueued NCCL work: 31, last completed NCCL work: 31.
[rank1]:     main()
[rank1]: ValueError: bad

[rank1]: During handling of the above exception, another exception occurred:

[rank1]: Traceback (most recent call last):
[rank1]: torch.distributed.DistBackendError: NCCL error
[default1]:Traceback (most recent call last):
[default1]:  File "a.py", line 3, in f
[default1]:KeyError: 'x'
[rank2]:   + Exception Group Traceback (most recent call last):
[rank2]:   |   File "a.py", line 5, in g
[rank2]:   | ExceptionGroup: several (2 sub-exceptions)
[rank2]:   +-+---------------- 1 ----------------
[rank2]:     | ValueError: 1
2026-05-05T10:00:01.5Z stdout F [rank3]: Traceback (most recent call last):
2026-05-05T10:00:02.5Z stdout F [rank3]: RuntimeError: NCCL communicator was aborted on rank 3.  Original reason for failure was: [Rank 3] \
Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31, OpType=ALLREDUCE)
Exception in thread Thread-1 (pull):
Traceback (most recent call last):
OSError
"""


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


def trace(backend):
    events = []
    for step in range(2):
        at = 1000 * step
        events += [{"ph": "X", "cat": cat, "name": f"ProfilerStep#{step}", "ts": at, "dur": 1000, "tid": 1} for cat in ("user_annotation", "gpu_user_annotation")]
        events += [{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": at + 0.5, "dur": 300, "tid": 1},
                   {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "ts": at + 200, "dur": 300.25, "tid": 2}]
        if backend == "nccl":
            events += [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + 10, "dur": 500, "tid": 7},
                       {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "ts": at, "dur": 9, "tid": 7},
                       {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ts": at + 400, "dur": 300, "tid": 9,
                        "args": {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Process Group Name": "0"}}]
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": backend, "rank": 1, "world_size": 4},
                       "baseTimeNanoseconds": 1777975200000000000, "traceEvents": events})


def packets():
    """Segments of a connection with a retransmission, a hole, a closed window and a reset; and a router's message."""
    def ip(source, destination, protocol, payload):
        return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, 0x0a000000 + source, 0x0a000000 + destination) + payload

    def tcp(source, destination, seq, ack, flags, size=0, window=500):
        head = struct.pack(">HHIIBBHHH", 5000 + source, 5000 + destination, seq, ack, 0x50, flags, window, 0, 0)
        return ip(source, destination, 6, head + bytes(size))
    return [tcp(1, 2, 99, 0, 2), tcp(2, 1, 499, 100, 18), tcp(1, 2, 100, 500, 16, 40), tcp(1, 2, 100, 500, 16, 40), tcp(1, 2, 180, 500, 16, 40),
            tcp(2, 1, 500, 140, 16), tcp(2, 1, 500, 140, 16, window=0), tcp(1, 2, 140, 500, 16, 40), tcp(2, 1, 500, 220, 16),
            ip(9, 1, 1, struct.pack(">BBHHH", 3, 4, 0, 0, 1400) + ip(1, 2, 6, bytes(8))), tcp(2, 1, 500, 220, 20)]


def capture(order, magic):
    head = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65535, 1)
    frames = [bytes(12) + b"\x08\x00" + packet for packet in packets()]
    return head + b"".join(struct.pack(order + "IIII", 1777975200, 1000 * i, len(frame), len(frame)) + frame for i, frame in enumerate(frames))


def capture_ng():
    def block(kind, body):
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size
    text = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHIHHB3xHH", 101, 0, 0, 9, 1, 9, 0, 0))
    for i, packet in enumerate(packets()):
        text += block(6, struct.pack("<IIIII", 0, 413963, 1000 * i, len(packet), len(packet)) + packet)
    return text + block(5, struct.pack("<IIIHHQHH", 0, 0, 0, 5, 8, 3, 0, 0)) + block(3, struct.pack("<I", 40) + packets()[0])


def ras_text(groups, errors, warnings):
    return ("NCCL version 2.29.1 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\nJob summary\n===========\n\n"
            "  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
            "      4          8            1         32       32\n\nCommunicators... (0.00s)\n=============\n\n"
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n"
            f"    0         1         4       7-8        32        32  {groups}\n\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}")


RAS_MISMATCH = ras_text("RUNNING  MISMATCH", "", """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  30 ranks have launched up to operation 6650
  Rank 5 has launched up to operation 6649 -- GPU 5 (NVML 3) managed by process 483077 on node 172.16.64.210
  Rank 6 has not launched any operations -- [process information not found]

""")
RAS_DEAD = ras_text("FINALIZE  INCOMPLETE,ERROR,MISMATCH", """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213
  The missing ranks: 3,4

#0-0 (cf264af53edbe986) ERROR
  Asynchronous errors on 3 ranks
  3 ranks reported Remote process error

""", """TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  28 ranks have status NOCOMM
  Rank 0 has status RUNNING -- GPU 0 managed by process 10 on node fe80::1
""")


def ras_json(count, comma):
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    ranks = [{"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank, "status": status,
              "collective_counts": {"Broadcast": 2, "AllReduce": count - (rank == 1)}} for rank in range(3)]
    missing = [{"rank": 3, "host": "10.0.0.2", "pid": 103, "cuda_dev": 0, "nvml_dev": 0, "status": {"unresponsive": True, "considered_dead": count > 5}}]
    comm = {"hash": "0xabc", "secondary_hash": "0x1:0x2", "size": 4, "ranks_count": 3, "missing_ranks_count": 1, "ranks": ranks, "missing_ranks": missing}
    text = json.dumps({"nccl_version": "2.28.9", "timestamp": "2026-05-05 10:00:03", "communicators_count": 2,
                       "communicators": [comm, dict(comm, hash="0xdef", size=6)], "ras": {"collection_time_sec": 0.0, "timeouts_count": 0}}, indent=2)
    return text if comma else text.replace('"nvml_dev": 0,\n          "status": {\n            "unr', '"nvml_dev": 0\n          "status": {\n            "unr')


NVIDIA_SMI = """
==============NVSMI LOG==============

Timestamp                                 : Tue May  5 10:00:03 2026
Driver Version                            : 565.57.01

Attached GPUs                             : 2
GPU 00000000:18:00.0
    GPU Reset Status
        Reset Required                    : Yes
    GPU Recovery Action                   : Reset
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 3
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : Yes
    Temperature
        GPU Current Temp                  : 91 C
    Clocks
        SM                                : 345 MHz
    Max Clocks
        SM                                : 1980 MHz
    Processes
        Process ID                        : 4711

GPU 00000000:2A:00.0
    Clocks Throttle Reasons
        SW Thermal Slowdown               : Active
"""


def inspector(rank, number, more, kind="coll"):
    return json.dumps({"header": {"id": "0xabc", "comm_name": "unknown", "rank": rank, "n_ranks": 3, "nnodes": 1},
                       "metadata": {"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1777975203000000, "hostname": "node0", "pid": 100 + rank},
                       f"{kind}_perf": {kind: "AllReduce" if kind == "coll" else "Send", f"{kind}_sn": number, "p2p_peer": 1,
                                        f"{kind}_msg_size_bytes": 4096, f"{kind}_exec_time_us": 500 + rank, f"{kind}_timing_source": "kernel_gpu"} | more},
                      separators=(",", ":")) + "\n"


def health_report():
    """As dcgmi health -c of DCGM 2 to 4."""
    rows = [("Overall Health", "Failure"), ("GPU", ""), ("-> 0", "Failure"), ("   -> Errors", ""), ("      -> Memory system", "Failure"),
            ("", "Detected 3 volatile double-bit ECC error(s) in GPU 0."), ("      -> NVLINK system", "Failure"),
            ("", "GPU 0's NvLink link 3 is currently down"), ("-> 1", "Warning"), ("   -> Errors", ""), ("      -> Thermal system", "Warning"),
            ("", "Detected clocks event due to thermal violation in"), ("", "GPU 1.")]
    border = f"+{'-' * 27}+{'-' * 58}+\n"
    return border + f"| {'Health Monitor Report':85}|\n" + border.replace("-", "=") + "".join(f"| {left:25} | {right:56} |\n" for left, right in rows) + border


def main():
    (pathlib.Path(sys.argv[1]) / "seeds-nvidia_smi" / "two").write_text(NVIDIA_SMI)
    (pathlib.Path(sys.argv[1]) / "seeds-dcgm_health" / "two").write_text(health_report())
    measured = pathlib.Path(sys.argv[1]) / "seeds-inspector"
    (measured / "brief").write_text("".join(inspector(rank, number, {}) for rank in range(3) for number in range(3)))
    (measured / "verbose").write_text(inspector(1, 2, {"event_trace_ts": {"coll_start_ts": 5, "kernel_events": [
        {"channel_id": 0, "kernel_start_ts": 1777975202000200, "kernel_stop_ts": 1777975202041000}]}}) + inspector(2, 2, {}, "p2p") + inspector(0, 3, {})[:200])
    reports = pathlib.Path(sys.argv[1]) / "seeds-ras"
    (reports / "mismatch").write_text(RAS_MISMATCH)
    (reports / "dead").write_text("SERVER PROTOCOL 2\nOK\n" + RAS_DEAD)
    (reports / "json").write_text(ras_json(9, True))
    (reports / "series").write_text(ras_json(5, False) + "\n" + ras_json(5, True) + RAS_MISMATCH)
    (reports / "cut").write_text(ras_json(9, False)[:1800])
    logs, dumps, benchmarks, kernel_logs, stacks, traces, captures = (
        pathlib.Path(sys.argv[1]) / f"seeds-{target}"
        for target in ("log", "dump", "benchmark", "kernel_log", "py_spy", "chrome_trace", "capture"))
    (traces / "device").write_text(trace("nccl"))
    (traces / "cpu").write_text(trace("gloo"))
    (traces / "packed").write_bytes(gzip.compress(trace("nccl").encode(), mtime=0))
    (captures / "us").write_bytes(capture("<", 0xa1b2c3d4))
    (captures / "ns").write_bytes(capture(">", 0xa1b23c4d))
    (captures / "ng").write_bytes(capture_ng())
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
    (stacks / "text").write_text("Process 4711: python\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread 4711 (idle): \"MainThread\"\n"
                                "    wait (threading.py:320)\n    step (train.py:88)\n        Locals:\n            x: 5\n"
                                "Thread 0x7F3C (active+gil)\n    copy (libcuda.so.1)\n0: Process 5: x\n0: Thread 5 (idle)\n")
    (stacks / "json").write_text(json.dumps([{"pid": 4711, "thread_id": 139, "thread_name": "MainThread", "os_thread_id": 4711, "active": False,
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
    (logs / "checks").write_text(
        "[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7, "
        "OpType=ALLREDUCE, TensorShape=[20, 10], TensorDtypes=Float, TensorDeviceTypes=x), but Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=8OpType=BARRIER).\n[rank1]: Parameters which did not receive grad for rank 1: fc2.weight, fc2.bias\n"
        "RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms\n")
    (logs / "tracebacks").write_text(TRACEBACKS)
    for protocol in (2, 4):
        (dumps / f"pickle{protocol}").write_bytes(pickle.dumps(dump(), protocol=protocol))
    (dumps / "json").write_text(json.dumps(dump()))
    (dumps / "typed").write_bytes(b"\x80\x02}X\x07\x00\x00\x00entriesctorch.jit._pickle\nbuild_intlist\n]\x85Rs.")


main()
