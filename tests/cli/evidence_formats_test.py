# SPDX-License-Identifier: Apache-2.0
"""explain and import of nccl-tests output, kernel logs, py-spy dumps, traces of torch.profiler, packet captures, reports of NCCL's RAS, lines of its
Inspector and nvidia-smi -q. The inputs are written here in the formats of nccl-tests (src/util.cu), of NVIDIA's
driver, of Linux and of py-spy (src/dump.rs); none is a copy of another project's file."""

import gzip
import json
import re
import socket
import threading

import evidence_test
from stalltrace import DONE, FAILED, FINDINGS, USAGE, run

COLUMNS = "     time   algbw   busbw  #wrong"


def benchmark(slower=1.0, hosts=("node0", "node1"), wrong=0, last=27, prefix=""):
    lines = ["# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809", "# Collective test starting: all_reduce_perf",
             "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20", "#", "# Using devices"]
    lines += [f"#  Rank {rank:2} Group  0 Pid {6899 + rank:6} on {hosts[rank // 4]:>10} device {rank:2} [0000:04:00] NVIDIA H100" for rank in range(8)]
    lines += ["#", "#       size         count      type   redop    root" + 2 * COLUMNS]
    for power in range(3, last + 1):
        size = 1 << power
        time = (12 + size / 200e3) * slower
        group = f"  {time:7.2f}  {size / time / 1000:6.2f}  {1.75 * size / time / 1000:6.2f}  {wrong if power == 20 else 0:6}"
        lines.append(f"{size:12}  {size // 4:12}     float     sum      -1{group}{group}")
    if last == 27:
        lines += [f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}", "# Avg bus bandwidth    : 48.3 ", "#"]
    return "".join(f"{prefix}{line}\n" for line in lines)


class Benchmarks(evidence_test.Evidence):
    def test_runs_are_compared_and_failures_are_findings_for_a_script(self):
        good = self.write("good.log", benchmark())
        slow = self.write("slow.log", benchmark(slower=1.6, hosts=("node0", "node7"), prefix="[1,0]<stdout>:"))
        report = self.report(good, slow, self.write("a_good.log", benchmark(slower=1.02)))
        self.assertEqual([(one["name"], one["ranks"], one["results"], one["failed"]) for one in report["benchmarks"]],
                         [("all_reduce_perf", 8, 50, False)] * 3)
        self.assertIsNone(report["healthy"])
        self.assertEqual([len(one["remarks"]) for one in report["benchmarks"]], [1, 0, 1])
        self.assertIn("node7", "\n".join(report["notes"]))
        self.assertEqual(run("explain", good, "--exit-code").returncode, FAILED)
        wrong = self.write("wrong.log", benchmark(wrong=4096))
        self.assertEqual(run("explain", wrong, "--exit-code").returncode, FINDINGS)
        self.assertEqual(run("explain", wrong).returncode, DONE)

    def test_a_recording_of_them_explains_alike(self):
        path = self.write("hung.log", evidence_test.set_up(0, 8) + evidence_test.call(0, 1) + benchmark(last=20) + benchmark()[:-300])
        out = self.folder / "job.db"
        self.done(run("import", path, "--out", out))
        self.assertEqual(self.report(out)["benchmarks"], self.report(path)["benchmarks"])
        sql = "SELECT run, COUNT(*) AS n, MAX(bytes) AS most FROM benchmark_result GROUP BY run"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))),
                         [{"run": 1, "n": 36, "most": 1 << 20}, {"run": 2, "n": 46, "most": 1 << 25}])


class KernelLogs(evidence_test.Evidence):
    def test_an_xid_of_the_rank_that_is_behind(self):
        folder = self.logs(lambda rank: 30 - (rank == 5), more=lambda rank: "" if rank == 5 else evidence_test.timeout(rank))
        self.write("logs/kern.log", "May  5 10:00:00 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=105, name=python3, GPU has fallen off the bus.\n"
                   "May  5 10:00:01 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 45, pid=105, name=python3, Ch 00000001\n")
        report = self.report(folder)
        self.assertEqual(self.culprits(report), [("device_error", "critical", 5), ("missing_collective", "critical", 5)])
        out = self.folder / "job.db"
        self.done(run("import", folder, "--out", out))
        self.assertEqual(self.culprits(self.report(out)), self.culprits(report))
        sql = "SELECT kind, code, device, pid, process, line FROM kernel_message ORDER BY line LIMIT 1"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))),
                         [{"kind": "xid", "code": 79, "device": "0000:3b:00", "pid": 105, "process": "python3", "line": 1}])

    def test_a_kernel_log_alone(self):
        path = self.write("dmesg", "[   12.000001] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, Ch 00000008, MMU Fault\n")
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("device_error", "medium", None)])
        self.assertEqual(report["findings"][0]["culprit"]["pid"], 7)
        quiet = self.write("quiet", "".join(f"[   {second}.000001] usb 1-1: new device\n" for second in range(10)))
        self.assertEqual(self.report(quiet)["findings"], [])
        self.assertEqual(run("explain", quiet, "--exit-code").returncode, FAILED)


def ras(seconds, behind=None, gone=None, dead=False, comma=",", ranks=8):
    """A report of NCCL's RAS in JSON (src/ras/client_support.cc of NCCL 2.28.7 to 2.30); without `comma` with the defect of 2.28.9."""
    def who(rank):
        return {"rank": rank, "host": f"10.0.0.{rank // 4}", "pid": 100 + rank, "cuda_dev": rank % 4, "nvml_dev": rank % 4}
    running = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    comm = {"hash": "0xabc", "secondary_hash": "0x1:0x2", "size": ranks, "ranks_count": ranks - (gone is not None),
            "missing_ranks_count": int(gone is not None),
            "ranks": [who(rank) | {"status": running, "collective_counts": {"Broadcast": 2, "AllReduce": 31 - (rank == behind)}}
                      for rank in range(ranks) if rank != gone],
            "missing_ranks": [who(gone) | {"status": {"unresponsive": True, "considered_dead": dead}}] if gone is not None else []}
    report = {"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": f"2026-05-05 10:00:{seconds:02}",
              "communicators_count": 1, "communicators": [comm], "ras": {"collection_time_sec": 0.002, "timeouts_count": 0}}
    return re.sub(r'("nvml_dev": \d),(\s+"status": {\s+"unr)', rf"\1{comma}\2", json.dumps(report, indent=2)) + "\n"


RAS_TEXT = """NCCL version 2.26.2 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  {errors}

Errors
======

Warnings
========

{warnings}"""


class NcclRas(evidence_test.Evidence):
    def test_a_rank_that_stands_still_between_two_reports(self):
        path = self.write("ras.json", ras(0, behind=5) + ras(40, behind=5))
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("missing_collective", "critical", 5)])
        self.assertEqual((report["findings"][0]["culprit"]["pid"], report["findings"][0]["stall_ms"]), (105, 40000))
        out = self.folder / "job.db"
        self.done(run("import", path, "--out", out))
        self.assertEqual(self.report(out)["findings"], report["findings"])
        sql = "SELECT rank, pid, kind, text FROM log_line WHERE rank = 5 LIMIT 1"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))),
                         [{"rank": 5, "pid": 105, "kind": "end",
                           "text": "comm 0xabc nranks 8 job rank 5 host 10.0.0.1 pid 105 gpu 1 state running launched Broadcast 2 AllReduce 30"}])
        self.assertEqual(run("explain", path, "--exit-code").returncode, FINDINGS)

    def test_one_report_is_a_hint_and_joins_what_logs_show(self):
        report = self.report(self.write("ras.json", ras(0, behind=5)))
        self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 5)])
        folder = self.logs(lambda rank: 30 - (rank == 5), more=lambda rank: "" if rank == 5 else evidence_test.timeout(rank))
        self.write("logs/ras.json", ras(0, behind=5))
        report = self.report(folder)
        self.assertEqual(self.culprits(report), [("missing_collective", "critical", 5)])
        self.assertIn("30 AllReduce", json.dumps(report["findings"][0]["evidence"]))

    def test_healthy_reports_are_silent(self):
        self.blames_none(self.report(self.write("ras.json", ras(0) + ras(40))), "RAS counts launches")
        self.blames_none(self.report(self.write("ras.txt", RAS_TEXT.format(errors="      OK", warnings=""))), "one communicator in order")

    def test_a_dead_process_and_the_json_of_2_28_9(self):
        report = self.report(self.write("ras.json", "OK\n" + ras(0, gone=6, dead=True, comma="")))
        self.assertEqual(self.culprits(report), [("dead_rank", "critical", 6)])
        self.assertEqual(report["recording"]["lost_events"], 0)

    def test_text(self):
        mismatch = ("#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
                    "  31 ranks have launched up to operation 6650\n"
                    "  Rank 7 has launched up to operation 6649 -- GPU 7 managed by process 483079 on node 172.16.64.210\n\n")
        path = self.write("ras.txt", RAS_TEXT.format(errors="MISMATCH", warnings=mismatch))
        report = self.report(path)
        self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 7)])
        self.assertEqual(report["findings"][0]["culprit"]["node"], "172.16.64.210")

    def ask(self, *answers):
        """import --ras of a service that gives these answers, one a connection; the process, and what it was asked."""
        asked = []

        def serve():
            for answer in answers:
                connection = listener.accept()[0]
                with connection:
                    text = b""
                    while not text.lower().endswith(b"status\n") and (more := connection.recv(1024)):
                        text += more
                    asked.append(text.decode())
                    connection.sendall(answer.encode())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            service = threading.Thread(target=serve, daemon=True)
            service.start()
            result = run("import", "--ras", f"localhost:{listener.getsockname()[1]}", "--ras-pause", "1ms", "--out", self.folder / "asked.db")
            return result, asked

    def test_a_running_job_is_asked_twice(self):
        result, asked = self.ask("SERVER PROTOCOL 2\nOK\nOK\n" + ras(0, behind=5), "SERVER PROTOCOL 2\nOK\nOK\n" + ras(1, behind=5))
        self.done(result)
        self.assertEqual(asked, ["CLIENT PROTOCOL 2\nTIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n"] * 2)
        report = self.report(self.folder / "asked.db")
        self.assertEqual(self.culprits(report), [("missing_collective", "waiting", 5)])
        self.assertEqual(len(report["findings"][0]["evidence"]), 3)  # the numbers, the same before, and what they do not show

    def test_what_does_not_answer_as_ras_does(self):
        result, _ = self.ask("HTTP/1.1 400 Bad Request\r\n\r\n")
        self.assertEqual(result.returncode, FAILED, result.stderr)
        self.assertFalse((self.folder / "asked.db").exists())
        for address in ("localhost:1", "localhost", "node1:28028", "[::1]:0"):
            result = run("import", "--ras", address, "--out", self.folder / "x.db")
            self.assertEqual(result.returncode, FAILED if address == "localhost:1" else USAGE, result.stderr)
        self.assertEqual(run("import", "--out", self.folder / "x.db").returncode, USAGE)

    def test_a_recording_that_exists_is_kept_whatever_is_imported(self):
        there = self.write("there.db", "kept")
        for evidence in (("--ras", "localhost:1"), (self.write("ras.json", ras(0)),)):
            self.refused(run("import", *evidence, "--out", there), FAILED, "the output exists")
        self.assertEqual(there.read_text(), "kept")

    def test_what_cannot_be_read_is_reported(self):
        path = self.write("ras.json", ras(0)[:120])
        result = run("explain", path)
        self.assertEqual(result.returncode, FAILED)
        self.assertIn("ras.json", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


def inspected(rank, number, duration_us):
    """A line of NCCL's Inspector (plugins/profiler/inspector/inspector_json.cc of NCCL)."""
    return json.dumps({"header": {"id": "0xabc", "comm_name": "unknown", "rank": rank, "n_ranks": 4, "nnodes": 2},
                       "metadata": {"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1777975203000000 + number,
                                    "hostname": f"node{rank // 2}", "pid": 100 + rank},
                       "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": duration_us,
                                     "coll_timing_source": "kernel_gpu"}}, separators=(",", ":")) + "\n"


class NcclInspector(evidence_test.Evidence):
    def files(self, duration_us):
        for rank in range(4):
            self.write(f"inspector/node{rank // 2}-pid{100 + rank}.log", "".join(inspected(rank, number, duration_us(rank)) for number in range(20)))
        return self.folder / "inspector"

    def test_the_rank_that_comes_last(self):
        folder = self.files(lambda rank: 2000 if rank == 2 else 14000)
        report = self.report(folder)
        self.assertEqual(self.culprits(report), [("late_rank", "medium", 2)])
        out = self.folder / "job.db"
        self.done(run("import", folder, "--out", out))
        self.assertEqual(self.report(out)["findings"], report["findings"])
        sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT rank) AS ranks, MAX(duration_ns) AS longest, completion FROM nccl_events"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))),
                         [{"n": 80, "ranks": 4, "longest": 14_000_000, "completion": "profiler"}])

    def test_a_job_in_step(self):
        self.blames_none(self.report(self.files(lambda rank: 14000 + rank)), "instances were compared")


SMI = """==============NVSMI LOG==============

Timestamp                                 : Tue May  5 10:00:03 2026
Driver Version                            : 565.57.01

GPU 00000000:18:00.0
    Clocks Event Reasons
        HW Slowdown                       : {0}
            HW Thermal Slowdown           : {0}
    Clocks
        SM                                : 345 MHz
    Max Clocks
        SM                                : 1980 MHz
    Processes
        Process ID                        : 105
"""


class NvidiaSmi(evidence_test.Evidence):
    def test_a_throttled_gpu_of_the_rank_that_is_behind(self):
        folder = self.logs(lambda rank: 30 - (rank == 5), more=lambda rank: "" if rank == 5 else evidence_test.timeout(rank))
        self.write("logs/smi.txt", SMI.format("Active"))
        report = self.report(folder)
        self.assertEqual(self.culprits(report), [("missing_collective", "critical", 5), ("slow_device", "high", 5)])
        self.assertIn("345 of 1980 MHz", json.dumps(report["findings"][0]["evidence"]))
        out = self.folder / "job.db"
        self.done(run("import", folder, "--out", out))
        self.assertEqual(self.culprits(self.report(out)), self.culprits(report))

    def test_a_gpu_in_order(self):
        self.blames_none(self.report(self.write("smi.txt", SMI.format("Not Active"))), "a GPU has no errors")


class PySpy(evidence_test.Evidence):
    def test_where_the_culprit_was(self):
        folder = self.logs(lambda rank: 30 - (rank == 5), more=lambda rank: "" if rank == 5 else evidence_test.timeout(rank))
        self.write("logs/dump.txt", 'Process 105: python3 train.py --token=secret\nPython v3.11.2 (/usr/bin/python3.11)\n\n'
                   'Thread 105 (idle): "MainThread"\n    wait (threading.py:320)\n    load_batch (/home/u/data.py:212)\n')
        finding = self.report(folder)["findings"][0]
        self.assertEqual(finding["culprit"]["rank"], 5)
        self.assertIn("load_batch (data.py:212)", json.dumps([one for one in finding["evidence"] if one["kind"] == "python_stack"]))
        out = self.folder / "job.db"
        self.done(run("import", folder, "--out", out))
        self.assertEqual(self.report(out)["findings"][0]["evidence"], finding["evidence"])
        self.assertNotIn(b"secret", out.read_bytes())


def kineto(rank, compute=60, steps=4, world=4):
    """A trace of a GPU in Kineto's format: in each step of 100 ms computation, then a bucket that ends with the step."""
    events = []
    for step in range(steps):
        at = 100e3 * step
        events += [{"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 100e3, "tid": 7},
                   {"ph": "X", "cat": "kernel", "name": "sm90_gemm", "ts": at, "dur": compute * 1e3, "tid": 7},
                   {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ts": at + compute * 1e3 - 10e3,
                    "dur": 110e3 - compute * 1e3, "tid": 20, "args": {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"}}]
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
                       "baseTimeNanoseconds": 1777975200000000000, "traceEvents": events})


class ProfilerTraces(evidence_test.Evidence):
    def test_ranks_are_compared(self):
        folder = self.folder / "traces"
        for rank in range(4):
            text = kineto(rank, compute=85 if rank == 2 else 60).encode()
            self.write(f"traces/worker{rank}.pt.trace.json.gz", gzip.compress(text)) if rank == 1 else self.write(f"traces/worker{rank}.pt.trace.json", text)
        report = self.report(folder)
        self.assertIsNone(report["healthy"])
        self.assertEqual([(one["rank"], one["steps"], one["exposed_ns"], len(one["remarks"])) for one in report["profiles"]],
                         [(0, 4, 160_000_000, 0), (1, 4, 160_000_000, 0), (2, 4, 60_000_000, 1), (3, 4, 160_000_000, 0)])
        out = self.folder / "job.db"
        self.done(run("import", folder, "--out", out))
        self.assertEqual(self.report(out)["profiles"], report["profiles"])

    def test_a_trace_of_something_else_is_refused(self):
        path = self.write("trace.json", '{"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 2}]}')
        self.assertEqual(run("explain", path).returncode, FAILED)


class PacketCaptures(evidence_test.Evidence):
    def capture(self, lost):
        return self.write(f"net{lost}.pcap", evidence_test.packets(lost))

    def test_loss(self):
        path = self.capture(10)
        capture = self.report(path)["captures"][0]
        flow = capture["troubled_flows"][0]
        self.assertEqual((flow["src"], flow["dst"], flow["retransmits"], flow["lost_before"]), ("10.0.0.1:5001", "10.0.0.2:5002", 10, 0))
        self.assertEqual((capture["packets"], len(capture["troubled_flows"])), (210, 1))
        out = self.folder / "job.db"
        self.done(run("import", path, "--out", out))
        self.assertEqual(self.report(out)["captures"], [capture])
        sql = "SELECT kind, COUNT(*) AS n FROM packet_event GROUP BY kind"
        self.assertEqual(json.loads(self.done(run("query", out, sql, "--format", "json"))), [{"kind": "retransmit", "n": 10}])
        self.assertEqual(self.report(self.capture(0))["captures"][0]["troubled_flows"], [])
