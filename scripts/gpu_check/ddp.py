# SPDX-License-Identifier: Apache-2.0
"""One rank of PyTorch's DistributedDataParallel on NCCL: a small model, a few steps. RANK and WORLD_SIZE select it."""

import os

STEPS = 20


def main():
    import torch
    import torch.distributed as distributed
    distributed.init_process_group("nccl")
    torch.cuda.set_device(0)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    print(f"rank {os.environ['RANK']}: {STEPS} steps", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
