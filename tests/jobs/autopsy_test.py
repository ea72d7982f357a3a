# SPDX-License-Identifier: Apache-2.0
"""`stalltrace autopsy` on jobs that hang and that nothing traced: the culprit and the cause; and the job goes on unharmed when the
fault is lifted."""

import json
import shutil
import subprocess
import time

from network_job import PYTHON, NetworkJob
from stalltrace import BUILD, Case, run


class Autopsy(Case):
    def setUp(self):
        super().setUp()
        self.need_root()

    def look(self, job, *words):
        """The verdict on the job, of two snapshots a second apart."""
        pids = ",".join(str(job.pid(rank)) for rank in range(job.ranks))
        verdict, = json.loads(self.done(run("autopsy", "--json", "--seconds", 1, "--pid", pids, *words)))["jobs"]
        self.assertEqual(verdict["ranks"], job.ranks)
        return verdict

    def hangs(self, job, fault, cause, culprit):
        """Breaks the job, and repairs it; returns the finding."""
        job.wait_for_steps()
        lift = fault()
        time.sleep(1)  # the others reach their wait
        verdict = self.look(job, "--no-trace")
        lift()
        self.assertEqual((verdict["state"], [finding["cause"] for finding in verdict["findings"]]), ("hangs", [cause]), verdict["text"])
        finding, = verdict["findings"]
        if culprit is not None:
            self.assertEqual((finding["culprit"]["rank"], finding["culprit"]["pid"]), (culprit, job.pid(culprit)), verdict["text"])
        job.wait_for_steps()  # it goes on
        return finding

    def need_mpi(self):
        if shutil.which("mpirun") is None or not (BUILD / "lab" / "bin" / "mpi-train").exists():
            self.skipTest("OpenMPI is not installed")

    def need_torch(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("python3-torch is not installed")

    def test_nccl_an_absent_rank(self):
        job = NetworkJob(self, "nccl")
        finding = self.hangs(job, lambda: job.absent(1), "missing_collective", 1)
        self.assertEqual(finding["severity"], "waiting")  # it may still come
        self.assertIn("nccl_memory", [one["kind"] for one in finding["evidence"]])  # it launched fewer calls
        verdict = self.look(job)
        self.assertEqual((verdict["state"], verdict["findings"]), ("progresses", []))

    def test_nccl_a_stopped_rank(self):
        job = NetworkJob(self, "nccl")
        self.hangs(job, lambda: job.stopped(2), "process_stopped", 2)

    def test_nccl_a_network_that_is_cut(self):
        job = NetworkJob(self, "nccl")
        finding = self.hangs(job, lambda: job.cut(1), "partition", None)
        self.assertIn(1, (finding["link"]["src_rank"], finding["link"]["dst_rank"]))
        # Which rank is cut off is known only if both its neighbours had data on the way at that moment.
        self.assertIn(finding["culprit"] and finding["culprit"]["rank"], (None, 1))

    def test_mpi_an_absent_rank(self):
        self.need_mpi()
        job = NetworkJob(self, "mpi")
        finding = self.hangs(job, lambda: job.absent(1), "missing_collective", 1)
        self.assertEqual(finding["severity"], "waiting")

    def test_mpi_a_stopped_rank(self):
        self.need_mpi()
        job = NetworkJob(self, "mpi")
        self.hangs(job, lambda: job.stopped(2), "process_stopped", 2)

    def test_mpi_a_rank_that_computes(self):
        self.need_mpi()
        job = NetworkJob(self, "mpi")
        self.hangs(job, lambda: job.absent(1, "compute"), "missing_collective", 1)

    def test_mpi_a_network_that_is_cut(self):
        self.need_mpi()
        job = NetworkJob(self, "mpi")
        finding = self.hangs(job, lambda: job.cut(1), "partition", None)
        self.assertIn(1, (finding["link"]["src_rank"], finding["link"]["dst_rank"]))
        self.assertIsNone(finding["culprit"])  # it exchanged data with one other rank alone

    def test_torch_an_absent_rank(self):
        self.need_torch()
        job = NetworkJob(self, "torch", ranks=2)
        finding = self.hangs(job, lambda: job.absent(1), "missing_collective", 1)
        self.assert_says("where an absent rank is", finding["summary"])

    def test_torch_a_stopped_rank(self):
        self.need_torch()
        job = NetworkJob(self, "torch", ranks=2)
        self.hangs(job, lambda: job.stopped(1), "process_stopped", 1)

    def test_torch_a_network_that_is_cut(self):
        self.need_torch()
        job = NetworkJob(self, "torch")
        finding = self.hangs(job, lambda: job.cut(1), "partition", 1)
        self.assertIn(1, (finding["link"]["src_rank"], finding["link"]["dst_rank"]))
