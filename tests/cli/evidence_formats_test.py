# SPDX-License-Identifier: Apache-2.0
"""explain and import of nccl-tests output, kernel logs and py-spy dumps. The inputs are written here in the formats of nccl-tests (src/util.cu), of NVIDIA's
driver, of Linux and of py-spy (src/dump.rs); none is a copy of anybody's."""

import json

import evidence_test
from stalltrace import DONE, FAILED, FINDINGS, run

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
