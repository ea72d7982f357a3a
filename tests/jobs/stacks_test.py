# SPDX-License-Identifier: Apache-2.0
"""`stalltrace stacks` on PyTorch jobs: the line of every rank, and that of the data loader's worker which one rank
waits for.
"""

import json
import os
import signal
import subprocess
import time

from processes import free_port, rank_environment
from stalltrace import Case, run

PYTHON = "/usr/bin/python3"  # Debian's, which has torch
JOB = """
import os, sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if rank == 2 and index == 20:
            open(sys.argv[1], "w").close(); time.sleep(100)
        return torch.ones(4)


def train():
    for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1):
        dist.all_reduce(batch.sum())


train()
"""


class PyTorch(Case):
    def test_a_data_loader_that_sleeps(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("python3-torch is not installed")
        script, ready = self.folder / "train.py", self.folder / "ready"
        script.write_text(JOB)
        port = free_port()
        ranks = []
        for rank in range(3):
            environment = rank_environment(rank, 3, port, {"TORCHELASTIC_RUN_ID": self.id(), "OMP_NUM_THREADS": "1"})
            ranks.append(subprocess.Popen([PYTHON, script, ready], env=environment, start_new_session=True, stderr=subprocess.DEVNULL))
            self.addCleanup(ranks[-1].wait)
            self.addCleanup(os.killpg, ranks[-1].pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not ready.exists():
            self.assertLess(time.monotonic(), deadline, "the job did not begin")
            time.sleep(0.1)
        time.sleep(1)
        report = json.loads(self.done(run("stacks", "--json")))
        job, = [job for job in report["jobs"] if job["job"] == self.id()]
        self.assert_says("where three ranks are", job["line"])
        shown = [process for process in report["processes"] if process["job"] == self.id()]
        self.assertEqual([process["pid"] for process in shown], [rank.pid for rank in ranks])
        workers = [child for child in shown[2]["children"] if child["location"] == "in Data.__getitem__ at train.py:14"]
        self.assertEqual(len(workers), 1, [child["location"] for child in shown[2]["children"]])
