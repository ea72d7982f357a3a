#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a training job of PyTorch's DistributedDataParallel on Gloo: torch_job.py STEPS DEVICE_MS

Eight small layers in several buckets, so that a step has a handful of AllReduces; then a sleep of DEVICE_MS, in which a
GPU would compute. Rank 0 prints "started" behind the first step, and at the end a line of JSON: wall and CPU time of a
step in ms, from the first step on.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

STEPS, DEVICE_SECONDS = int(sys.argv[1]), float(sys.argv[2]) / 1e3
LAYERS, WIDTH, BATCH = 8, 256, 16
BUCKET_MB = 0.6  # two layers

dist.init_process_group("gloo")
torch.set_num_threads(1)
layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=BUCKET_MB)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dist.barrier()
wall, cpu = time.monotonic(), time.process_time()
for number in range(STEPS):
    loss = model(torch.randn(BATCH, WIDTH)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(DEVICE_SECONDS)
    if number == 0 and dist.get_rank() == 0:
        print("started", flush=True)
dist.barrier()
if dist.get_rank() == 0:
    print(json.dumps({"wall_ms": (time.monotonic() - wall) / STEPS * 1e3,
                      "cpu_ms": (time.process_time() - cpu) / STEPS * 1e3}))
