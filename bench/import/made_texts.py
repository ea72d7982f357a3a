# SPDX-License-Identifier: Apache-2.0
"""Evidence for size_bench.py that consists of lines: NCCL's log, a job's output, tables of nccl-tests, kernel logs, RAS reports in text, lines of
NCCL's Inspector, nvidia-smi -q and py-spy dumps. Written after the formats' documentation, as the inputs of the tests are."""

import json
import random

from making import BEGIN_S, Made, clock, count, documents, fill, shares

VARIANTS = 16

# NCCL's log

BUCKETS = (("AllReduce", 26_214_400), ("AllReduce", 4_194_304), ("ReduceScatter", 1_048_576), ("AllGather", 1_048_576))
CHANNELS = 24
COMM_ID = "0x8f3c1d2e4b5a6978"


def speaker(rank):
    return f"node{rank // 8}:{4100 + rank}:{4300 + rank} [{rank % 8}] NCCL INFO "


def nccl_begin(rank, ranks, prefix=""):
    """(text, lines of it that are kept as rows)"""
    device = rank % 8
    line = (f"comm 0x55d5f{rank:03x}a000 rank {rank} nranks {ranks} cudaDev {device} nvmlDev {device} busId {device:x}8000 "
            f"commId {COMM_ID} - Init ")
    kept = ["Bootstrap : Using eth0:10.0.0.1<0>", "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"]
    kept += [f"Channel {channel:02}/0 : {rank}[{rank % 8}] -> {(rank + 1) % ranks}[{(rank + 1) % 8}] via P2P/CUMEM" for channel in range(CHANNELS)]
    lines = [*kept[:2], f"ncclCommInitRank {line}START", *kept[2:], "Connected all rings", f"ncclCommInitRank {line}COMPLETE"]
    return "".join(f"{prefix}{speaker(rank)}{text}\n" for text in lines), len(kept)


def nccl_call(rank, ranks, index):
    """`@0`, `@1` and so on stand for the numbers of a step's calls."""
    operation, elements = BUCKETS[index % len(BUCKETS)]
    address = 0x7F2C40000000 + index * 0x4000000
    return (f"{speaker(rank)}{operation}: opCount @{index} sendbuff 0x{address:x} recvbuff 0x{address:x} count {elements} datatype 9 op 0 root 0 "
            f"comm 0x55d5f{rank:03x}a000 [nranks={ranks}] stream 0x55d5ffb73110\n")


def nccl_steps(template, calls, prefix=None):
    def block(number):
        text = template
        for index in range(calls):
            text = text.replace(b"@%d" % index, b"%x" % (number * calls + index))
        return text.replace(b"@T", prefix(number)) if prefix else text.replace(b"@n", b"%d" % number)

    return block


def nccl_log(folder, size):
    """8 ranks of a host in one file, amid other output, without times."""
    ranks = 8
    begins = [nccl_begin(rank, ranks) for rank in range(ranks)]
    head = "NCCL version 2.21.5+cuda12.4\n" + "".join(text for text, _ in begins)
    step = "".join(nccl_call(rank, ranks, index) for index in range(len(BUCKETS)) for rank in range(ranks))
    step = "epoch 3 step @n: loss 2.3041, 8192 tokens/s\n" + step
    blocks, _ = fill(folder / "job.log", size, nccl_steps(step.encode(), len(BUCKETS)), head.encode())
    return Made({count("collective", "op <> 'COMM_INIT_RANK' AND seq >= 0"): blocks * len(BUCKETS) * ranks,
                 count("collective", "op = 'COMM_INIT_RANK'"): ranks,
                 count("log_line"): 1 + sum(kept for _, kept in begins) + ranks})


def nccl_logs(folder, size):
    """64 ranks on 8 hosts, a file each, with NCCL's times (NCCL_DEBUG_TIMESTAMP_LEVELS)."""
    ranks, calls = 64, 8
    rows = lines = 0
    for rank, (path, share) in enumerate(shares(folder, size, size / ranks, "rank{}.log".format)):
        begin, kept = nccl_begin(rank, ranks, "[2026-05-05 10:00:00] ")
        step = "".join(f"[2026-05-05 @T] {nccl_call(rank, ranks, index)}" for index in range(calls))
        blocks, _ = fill(path, share, nccl_steps(step.encode(), calls, lambda number: clock(number // 20)), begin.encode())
        rows += blocks * calls
        lines += kept + 1
    return Made({count("collective", f"op <> 'COMM_INIT_RANK' AND seq >= 0 AND timestamp_ns >= {BEGIN_S}000000000"): rows, count("log_line"): lines})


# A job's output with PyTorch's watchdog, checks and a traceback

REPORT_EVERY = 100  # blocks


def torch_log(folder, size):
    """PyTorch's logger and checks (TORCH_DISTRIBUTED_DEBUG=DETAIL) amid the output of 8 ranks; at its end a watchdog on 7 ranks and a traceback."""
    ranks = 8
    lines = ["Epoch 3:  41%|####1     | @n/250000 [1:12:41<1:43:01,  8.42it/s, loss=2.3041, lr=0.00029, grad_norm=0.417]"]
    for rank in range(ranks):
        lines += [f"[rank{rank}]:[I505 @T.40827{rank} reducer.cpp:620] [Rank {rank}] Reducer buckets have been rebuilt; iteration @n, bucket sizes "
                  "26214400, 26214400, 13107200",
                  f"[rank{rank}]:[I505 @T.40828{rank} logger.cpp:331] [Rank {rank} / {ranks}] [iteration @n] Training "
                  "DistributedDataParallel unused_parameter_size=0 Avg forward compute time: 14193012 Avg backward compute time: 31029911 Avg backward comm. time: 19288331",
                  f"[default{rank}]:2026-05-05 @T,408 - trainer.loop - INFO - step @n: loss 2.3041, 8192 tokens/s, {rank} samples skipped",
                  f"[default{rank}]:DataLoader worker {rank}: shard 00{rank}17 of 04096, @n records, cache hit rate 0.9831"]
    template = ("\n".join(lines) + "\n").encode()

    def block(number):
        text = template.replace(b"@n", b"%d" % number).replace(b"@T", clock(number // 8))
        if number % REPORT_EVERY == 0:
            rank = number // REPORT_EVERY % ranks
            text += b"[rank%d]: Parameters which did not receive grad for rank %d: layers.%d.fc2.weight, fc2.bias\n" % (rank, rank, number % 40)
        return text

    end = "".join(f"[rank{rank}]:[E505 23:10:03.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
                  "WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600060 milliseconds\n"
                  for rank in range(ranks - 1))
    end += "".join(f"[rank{ranks - 1}]: {line}\n" for line in (
        "Traceback (most recent call last):", '  File "/home/u/train.py", line 88, in <module>', "    main()",
        '  File "/home/u/train.py", line 42, in step',
        "    raise ValueError(batch)", "ValueError: shapes differ"))
    blocks, _ = fill(folder / "job.out", size, block, b"NCCL version 2.21.5+cuda12.4\n", end.encode())
    reports = (blocks + REPORT_EVERY - 1) // REPORT_EVERY
    return Made({count("log_line", "kind = 'warning'"): reports, count("log_line", "kind = 'timeout'"): ranks - 1, count("python_exception"): 1})


# nccl-tests

TESTS_OF_FILE = 2000
SIZES = range(3, 29)  # as powers of 2


def tests_run(variant):
    columns = "     time   algbw   busbw  #wrong"
    lines = ["# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809", "# Collective test starting: all_reduce_perf",
             "# nThread 1 nGpus 1 minBytes 8 maxBytes 268435456 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0", "#",
             "# Using devices"]
    lines += [f"#  Rank {rank:2} Group  0 Pid {6899 + rank:6} on {f'node{rank // 8}':>10} device {rank % 8:2} [0000:{rank % 8}8:00] NVIDIA H100"
              for rank in range(16)]
    lines += ["#", "#       size         count      type   redop    root" + 2 * columns]
    for power in SIZES:
        size = 1 << power
        time = 12 + variant / 10 + size / (200e3 + variant * 1000)
        group = f"  {time:7.2f}  {size / time / 1000:6.2f}  {1.75 * size / time / 1000:6.2f}       0"
        lines.append(f"{size:12}  {size // 4:12}     float     sum      -1{group}{group}")
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {48.3 - variant / 10:.4f} ", "#"]
    return ("\n".join(lines) + "\n").encode()


def tests_text(folder, size):
    """Runs in a loop; 200,000 results of a file are kept."""
    runs = [tests_run(variant) for variant in range(VARIANTS)]
    total = sum(fill(path, share, lambda number: runs[number % VARIANTS])[0]
                for path, share in shares(folder, size, TESTS_OF_FILE * len(runs[0]), "sweep{}.out".format))
    return Made({count("benchmark_run", "ended AND NOT failed"): total, count("benchmark_result"): total * 2 * len(SIZES)})


# Kernel logs

HOSTS = 16
MESSAGE_EVERY = 20  # blocks
KERNEL_LINES = ("usb 1-1.@d: new high-speed USB device number @d using xhci_hcd", "docker0: port @d(veth4f1c0@d) entered forwarding state",
                'audit: type=1400 audit(1777975200.123:@d): apparmor="STATUS" operation="profile_load" profile="unconfined" name="docker" pid=31@d',
                "mlx5_core 0000:1@d:00.0 eth@d: Link up", "IPv6: ADDRCONF(NETDEV_CHANGE): veth4f1c0@d: link becomes ready",
                "[UFW BLOCK] IN=eth0 OUT= MAC=52:54:00:12:34:5@d SRC=10.0.0.@d DST=10.0.1.@d LEN=60 TOS=0x00 PREC=0x00 TTL=64 PROTO=TCP SPT=3@d DPT=22",
                "nvidia-uvm: Loaded the UVM driver, major device number 51@d.",
                "EXT4-fs (nvme@dn1p1): mounted filesystem with ordered data mode. Quota mode: none.",
                "perf: interrupt took too long (25@d > 2500), lowering kernel.perf_event_max_sample_rate to 79000", "eth@d: renamed from veth4f1c0@d")


def kernel_message(number, host):
    """One of each kind in turns, on one of 8 devices: of each kind and device 1,000 of a file are kept."""
    device = f"0000:{number // 4 % 8}b:00"
    xid = (31, 79, 94, 119)[number // 32 % 4]
    return (f"NVRM: Xid (PCI:{device}): {xid}, pid={4100 + number % 8}, name=python3, Ch 00000008, intr 00000000. MMU Fault",
            f"nvidia {device}.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            f"nvidia-nvswitch{host % 4}: SXid (PCI:{device}.0): 28006, Non-fatal, Link {number % 64} MC TS crumbstore MCTO",
            f"Memory cgroup out of memory: Killed process {5000 + number} (python3) total-vm:81234kB, anon-rss:71234kB, file-rss:12kB")[number % 4]


def kernel_logs(folder, size):
    """Of 16 hosts, as syslog writes them. One line of 2,000 is a message that counts."""
    messages = 0
    for host, (path, share) in enumerate(shares(folder, size, size / HOSTS, "kern{}.log".format)):
        others = [KERNEL_LINES[index % len(KERNEL_LINES)].replace("@d", str(index % 8 + 1)) for index in range(100)]
        template = "".join(f"May  5 @T node{host} kernel: [@U.{index * 9871:06}] {text}\n" for index, text in enumerate(others)).encode()

        def block(number, template=template, host=host):
            text = template.replace(b"@T", clock(number)).replace(b"@U", b"%7d" % (90_000 + number))
            if number % MESSAGE_EVERY == 0:
                line = kernel_message(number // MESSAGE_EVERY, host).encode()
                text += b"May  5 %s node%d kernel: [%7d.999999] %s\n" % (clock(number), host, 90_000 + number, line)
            return text

        blocks, _ = fill(path, share, block)
        messages += (blocks + MESSAGE_EVERY - 1) // MESSAGE_EVERY
    return Made({count("kernel_message", "kind IS NOT NULL"): messages, count("node"): HOSTS})


# NCCL's RAS as text

RAS_HEAD = """NCCL version 2.26.2 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
     32          8            1        256      256

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1        32         8       256       256   RUNNING  MISMATCH
    1        32         1         8         8       256   RUNNING  MISMATCH

Errors
======

Warnings
========

"""
RAS_COMMS = 8  # of a report
RAS_BEHIND = 4  # ranks of a communicator
RAS_REPORTS = 4000  # of a file
MOST_RAS_REPORTS = 10_000  # that are kept of a file, and 1 million statements on ranks
COMMS_OF_LARGEST = 19


def ras_text(comms):
    """A report with communicators of which ranks are behind; @1 and @0 stand for numbers of calls."""
    text = RAS_HEAD
    for comm in range(comms):
        ranks = 256 if comm == 0 else 8
        text += (f"#{min(comm, 1)}-{comm} ({0x27A079B828FF1A75 + comm:016x}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
                 f"  {ranks - RAS_BEHIND} ranks have launched up to operation @1\n  {RAS_BEHIND} ranks have launched up to operation @0\n")
        text += "".join(f"  Rank {rank} -- GPU {rank} managed by process {483_000 + comm * 8 + rank} on node 172.16.{comm}.210\n"
                        for rank in range(RAS_BEHIND))
        text += "\n"
    return text.encode()


def ras_texts(comms, reports_of_file):
    """Reports one after the other, as a loop writes them."""
    def make(folder, size):
        template = ras_text(comms)

        def block(number):
            return template.replace(b"@1", b"%d" % (20_000 + number)).replace(b"@0", b"%d" % (19_999 + number))

        reports = sum(fill(path, share, block)[0] for path, share in shares(folder, size, reports_of_file * len(block(0)), "ras{}.txt".format))
        return Made({count("log_line", "kind = 'version'"): reports, count("log_line"): reports * (1 + comms * (1 + RAS_BEHIND))})

    return make


def largest_ras_text(folder, size):
    return ras_texts(COMMS_OF_LARGEST, MOST_RAS_REPORTS)(folder, min(size, MOST_RAS_REPORTS * len(ras_text(COMMS_OF_LARGEST))))


# NCCL's Inspector


def inspector_line(rank, ranks, operation, size, verbose):
    """`@n` stands for the call's number, `@t` for the second."""
    call = {"coll": operation, "coll_sn": "@n", "coll_msg_size_bytes": size, "coll_exec_time_us": 61974 + rank, "coll_timing_source": "kernel_gpu",
            "coll_algobw_gbs": 277.2, "coll_busbw_gbs": 485.1}
    if verbose:
        call["event_trace_sn"] = {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": [
            {"channel_id": channel, "kernel_start_sn": 3 + channel, "kernel_stop_sn": 40, "kernel_record_sn": 50} for channel in range(8)]}
        call["event_trace_ts"] = {"coll_start_ts": f"@t{rank:06}", "coll_stop_ts": f"@t{rank + 5:06}", "kernel_events": [
            {"channel_id": channel, "kernel_start_ts": f"@t{200 + channel:06}", "kernel_stop_ts": f"@t{62_174 + channel:06}",
             "kernel_record_ts": f"@t{62_999:06}"} for channel in range(8)]}
    line = {"header": {"id": COMM_ID, "comm_name": "unknown", "rank": rank, "n_ranks": ranks, "nnodes": ranks // 8},
            "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                         "dump_timestamp_us": "@t999999", "hostname": f"node{rank // 8}", "pid": 4100 + rank}, "coll_perf": call}
    text = json.dumps(line, separators=(",", ":"))
    for begin in ("@n", "@t"):  # numbers stand in quotes until here
        pieces = text.split(f'"{begin}')
        text = pieces[0] + "".join(begin + piece.replace('"', "", 1) for piece in pieces[1:])
    return text + "\n"


def inspector(verbose):
    def make(folder, size):
        ranks, rows = 64, 0
        for rank, (path, share) in enumerate(shares(folder, size, size / ranks, lambda rank: f"node{rank // 8}-pid{4100 + rank}.log")):
            template = "".join(inspector_line(rank, ranks, operation, elements * 2, verbose)
                               for operation, elements in (BUCKETS[0], *BUCKETS[2:])).encode()
            blocks, _ = fill(path, share, lambda number, template=template: template.replace(b"@n", b"%d" % number)
                             .replace(b"@t", b"%d" % (BEGIN_S + number // 8)))
            rows += blocks * 3
        times = " AND kernel_start_ns > 0" if verbose else ""
        return Made({count("collective", f"completion = 'profiler' AND duration_ns > 0{times}"): rows, count("communicator"): ranks * 3})

    return make


# nvidia-smi -q

SMI_HEAD = """
==============NVSMI LOG==============

Timestamp                                 : Tue May  5 @T 2026
Driver Version                            : 565.57.01
CUDA Version                              : 12.7

Attached GPUs                             : 8
"""
SMI_GPU = """GPU 00000000:{bus:02X}:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Brand                         : NVIDIA
    Product Architecture                  : Hopper
    Display Mode                          : Enabled
    Display Active                        : Disabled
    Persistence Mode                      : Enabled
    Addressing Mode                       : None
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Accounting Mode                       : Disabled
    Accounting Mode Buffer Size           : 4000
    Serial Number                         : 16530230{bus:05}
    GPU UUID                              : GPU-4c1e9a7e-0e3c-5f19-9d4b-{bus:012x}
    Minor Number                          : 0
    VBIOS Version                         : 96.00.89.00.01
    GPU Reset Status
        Reset Required                    : No
        Drain and Reset Recommended       : No
    GPU Recovery Action                   : None
    GSP Firmware Version                  : 565.57.01
    PCI
        Bus                               : 0x{bus:02X}
        Device                            : 0x00
        Domain                            : 0x0000
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
                Device Current            : 5
                Device Max                : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
        Replays Since Reset               : 0
        Tx Throughput                     : 120400 KB/s
        Rx Throughput                     : 98100 KB/s
    Fan Speed                             : N/A
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : {cap}
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 71311 MiB
        Free                              : 9697 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 5 MiB
        Free                              : 131067 MiB
    Compute Mode                          : Default
    Utilization
        Gpu                               : 99 %
        Memory                            : 61 %
        Encoder                           : 0 %
        Decoder                           : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            DRAM Correctable              : 2
            DRAM Uncorrectable            : 0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2560 bank(s)
            High                          : 0 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : {temperature} C
        GPU T.Limit Temp                  : 41 C
        GPU Shutdown T.Limit Temp         : -8 C
        Memory Current Temp               : 52 C
    GPU Power Readings
        Average Power Draw                : 612.41 W
        Instantaneous Power Draw          : 640.12 W
        Current Power Limit               : 700.00 W
        Default Power Limit               : 700.00 W
    Clocks
        Graphics                          : @M MHz
        SM                                : @M MHz
        Memory                            : 2619 MHz
        Video                             : 1545 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
        Memory                            : 2619 MHz
    Processes
        GPU instance ID                   : N/A
        Process ID                        : {pid}
            Type                          : C
            Name                          : /usr/bin/python3
            Used GPU Memory               : 71298 MiB

"""


def smi_reports(folder, size):
    """`nvidia-smi -q -l 5` on 16 hosts of 8 GPUs; 100,000 GPUs of a file are kept."""
    gpus = "".join(SMI_GPU.format(bus=0x18 + 8 * gpu, cap="Active" if gpu == 3 else "Not Active", temperature=55 + gpu, pid=4100 + gpu)
                   for gpu in range(8))
    template = (SMI_HEAD + gpus).encode()
    reports = sum(fill(path, share, lambda number: template.replace(b"@T", clock(5 * number)).replace(b"@M", b"%d" % (1500 + number % 480)))[0]
                  for path, share in shares(folder, size, size / HOSTS, "node{}.smi".format))
    return Made({count("log_line", "kind = 'version'"): reports, count("log_line", "kind = 'end'"): reports * 7,
                 count("log_line", "kind = 'warning'"): reports})


# py-spy dump --locals

SPIED_THREADS = 24
SPIED_DEPTH = 30
SPIED_LOCALS = 8


def spied_process(variant):
    """`@` stands for the process number."""
    chance = random.Random(variant)
    lines = ["Process @: python train.py --config large.yaml", "Python v3.11.2 (/usr/bin/python3.11)", ""]
    functions = ("forward", "backward", "_call_impl", "all_reduce", "step", "wait", "_worker_loop", "get")
    for thread in range(SPIED_THREADS):
        state = ("idle", "active", "active+gil")[0 if thread > 2 else thread]
        lines.append(f'Thread @{f"{thread:02}" if thread else ""} ({state}): "{"MainThread" if thread == 0 else f"Thread-{thread}"}"')
        for depth in range(SPIED_DEPTH):
            lines.append(f"    {chance.choice(functions)} (torch/nn/modules/module.py:{chance.randrange(20, 3000)})")
            lines.append("        Arguments:" if depth % 2 else "        Locals:")
            lines += [f"            local_{i}: <Tensor(shape=[8192, {chance.randrange(4096)}]) at 0x7f{chance.randrange(1 << 40):010x}>"
                      for i in range(SPIED_LOCALS)]
    return ("\n".join(lines) + "\n").encode()


def py_spy_texts(folder, size):
    """A file per process; 100,000 threads of all files are kept."""
    processes = [spied_process(variant) for variant in range(VARIANTS)]
    files = documents(folder, size, "dump_{}.txt".format, lambda number: processes[number % VARIANTS].replace(b"@", b"%d" % (4000 + number)))
    return Made({count("python_stack", "stack_id > 0"): SPIED_THREADS * files, count("node"): files})
