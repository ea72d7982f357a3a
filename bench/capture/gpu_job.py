#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job of PyTorch's DistributedDataParallel on NCCL, all of its ranks on one GPU: gpu_job.py RANKS STEPS BLOCKS_FILE

Thirteen small layers in seven buckets: launching is what a step costs, so that the call's own time counts most. Each 20 steps rank 0
reads the loss, as a line of a log needs it, and appends to BLOCKS_FILE one line: the monotonic clock and its process' CPU time, both
in ns, and the steps so far. It ends after STEPS steps; with 0, once the file `BLOCKS_FILE.stop` exists.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check"))

import one_gpu  # noqa: E402

LAYERS, WIDTH, BATCH = 13, 512, 64
BUCKET_MB = 2  # two layers
BLOCK = 20  # steps
WARM = 40  # steps that are not counted
PR_SET_PDEATHSIG = 1


def train(steps, path):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a benchmark that failed leaves no job
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl")
    torch.cuda.set_device(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=BUCKET_MB)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    stop = torch.zeros(1, device="cuda")
    number = 0
    with open(path if dist.get_rank() == 0 else os.devnull, "a", encoding="utf-8") as blocks:
        while steps == 0 or number < steps + WARM:
            optimizer.zero_grad()
            loss = model(torch.randn(BATCH, WIDTH, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            number += 1
            if number % BLOCK == 0:
                loss.item()
                if number >= WARM:
                    blocks.write(f"{time.monotonic_ns()} {time.process_time_ns()} {number}\n")
                    blocks.flush()
            if steps == 0 and number % (5 * BLOCK) == 0:  # all ranks end behind the same step
                stop.fill_(dist.get_rank() == 0 and os.path.exists(path + ".stop"))
                dist.all_reduce(stop)
                if stop.item():
                    break
    dist.destroy_process_group()


def main():
    if len(sys.argv) == 4:
        ranks, steps, path = sys.argv[1:]
        port = str(20000 + os.getpid() % 10000)
        started = [subprocess.Popen([sys.executable, __file__, steps, path],
                                    env={**os.environ, **one_gpu.settings_of(rank), "RANK": str(rank), "LOCAL_RANK": "0",
                                         "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                   for rank in range(int(ranks))]
        sys.exit(max(abs(process.wait()) for process in started))
    train(int(sys.argv[1]), str(pathlib.Path(sys.argv[2])))


if __name__ == "__main__":
    main()
