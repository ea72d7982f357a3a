# SPDX-License-Identifier: Apache-2.0
"""What healthy jobs do besides stepping, each a function of the job: nothing here is a fault. Functions that use job.collectives.torch
or .dist are for PyTorch."""

import os
import random
import time

EVALUATION_SECONDS = 4


def steps_alone(job):
    job.train()


def accumulates(job):
    """Gradients of four batches a step."""
    ddp = job.collectives
    for _ in range(job.steps):
        ddp.optimizer.zero_grad()
        with ddp.ddp.no_sync():
            for _ in range(3):
                ddp.backward()
        ddp.backward()
        ddp.optimizer.step()


def evaluate(job):
    """Computing, as it is seen from outside."""
    end = time.monotonic() + EVALUATION_SECONDS
    while time.monotonic() < end:
        sum(range(1000))


def evaluates_on_rank_0(job):
    """The others wait in the next step."""
    def before(step):
        if step % 70 == 69 and job.rank == 0:
            job.mark("fault")  # which it is not: from here on the others wait
            evaluate(job)
    job.train(before)


def saves_on_rank_0(job):
    def before(step):
        if step % 50 == 49:
            if job.rank == 0:
                torch, ddp = job.collectives.torch, job.collectives
                torch.save({"model": ddp.model.state_dict(), "big": torch.zeros(50_000_000)}, os.path.join(job.folder, "checkpoint"))
            job.collectives.barrier()
    job.train(before)


def pauses_everywhere(job):
    job.train(lambda step: time.sleep(3) if step % 60 == 59 else None)


def random_batches(job):
    """Of any size, on average the same on all ranks."""
    chance = random.Random(job.rank + 7)
    for _ in range(job.steps):
        end = time.thread_time() + chance.uniform(0.010, 0.020)
        while time.thread_time() < end:
            pass
        if job.is_pytorch:
            job.collectives.step(chance.randint(64, 128))
        else:
            job.collectives.all_reduce()


def pipeline(job):
    """A naive one: four micro batches forward and backward by send and recv, and an all_reduce of the loss."""
    torch, dist = job.collectives.torch, job.collectives.dist
    before, after = job.rank - 1, job.rank + 1
    data = torch.zeros(64, 256)
    for _ in range(job.steps):
        for source, target in ((before, after), (after, before)):
            for _ in range(4):
                if 0 <= source < job.ranks:
                    dist.recv(data, source)
                time.sleep(0.002)
                if 0 <= target < job.ranks:
                    dist.send(data, target)
        job.collectives.all_reduce(1)


def exchanges_objects(job):
    """Pickled, of any size."""
    dist, chance = job.collectives.dist, random.Random(job.rank)

    def before(step):
        if step % 20 == 0:
            dist.broadcast_object_list([{"step": step, "pad": "x" * chance.randint(10, 20000)}], 0)
            dist.all_gather_object([None] * job.ranks, {"rank": job.rank, "pad": "y" * chance.randint(10, 5000)})
    job.train(before)


def raises_in_the_first_attempt(job):
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

    def flaky():
        raise RuntimeError("a flaky shard of the data set")
    job.train(job.at(60, flaky) if attempt == 0 else None)


def warms_up(job):
    """Kernels are compiled, caches are filled: each rank takes its own time in the first steps."""
    job.train(lambda step: time.sleep(0.3 * ((step + job.rank) % job.ranks)) if step < 3 else None)


def groups_in_turns(job):
    """Groups of two ranks beside the world, as with tensor parallelism."""
    torch, dist = job.collectives.torch, job.collectives.dist
    pairs = [dist.new_group([first, first + 1]) for first in range(0, job.ranks, 2)]
    mine = pairs[job.rank // 2]

    def before(step):
        for _ in range(3):
            dist.all_reduce(torch.ones(5000, device=job.collectives.device), group=mine)
    job.train(before)


def logs_on_rank_0(job):
    """Every tenth step, for a moment."""
    def before(step):
        if step % 10 == 0 and job.rank == 0:
            with open(os.path.join(job.folder, "log"), "a", encoding="ascii") as log:
                log.write(f"{step}\n")
            time.sleep(0.008)
    job.train(before)


def validates_unevenly(job):
    """All ranks validate, each on its own part of the data, and meet afterwards."""
    chance = random.Random(job.rank * 31)

    def before(step):
        if step % 50 == 49:
            time.sleep(chance.uniform(0.3, 0.4))
            job.collectives.barrier()
    job.train(before)


def slows_down(job):
    """All ranks alike, as with longer and longer sequences."""
    job.train(lambda step: time.sleep(step * 0.0003))


def loads_with_workers(job):
    """A data loader of its own for each epoch; no batch is late."""
    torch = job.collectives.torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 16 * 40

        def __getitem__(self, index):
            time.sleep(0.0003)
            return torch.randn(256), index % 10
    for _ in range(3):
        for batch in torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=1):
            job.step(iter([batch]))


def saves_at_the_end(job):
    """Rank 0 goes on when the others have left."""
    job.train()
    job.collectives.barrier()
    if job.rank == 0:
        time.sleep(3)
        os._exit(0)
    os._exit(0)


# --- devices (library gpu) -------------------------------------------------------------------------------------------------------


def runs_ahead(job):
    """Nothing waits for the device but the end."""
    gpu = job.collectives
    for _ in range(job.steps):
        gpu.optimizer.zero_grad()
        gpu.compute(0.01)
        gpu.backward()
        gpu.optimizer.step()
    gpu.synchronize()


def replays_a_graph(job):
    """AllReduces captured in a CUDA graph, as fast inference and some trainers do."""
    gpu = job.collectives
    torch, dist = gpu.torch, gpu.dist
    data = torch.ones(1 << 20, device=gpu.device)
    dist.all_reduce(data)
    gpu.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            dist.all_reduce(data)
            data.mul_(0.5)
    for step in range(job.steps):
        graph.replay()
        if step % 10 == 9:
            gpu.synchronize()
    gpu.synchronize()


def evaluates_on_the_device(job):
    """Rank 0, some seconds, all of it on the device; the others run into the next step."""
    def before(step):
        if step % 70 == 69 and job.rank == 0:
            job.mark("fault")  # which it is not
            for _ in range(20):
                job.collectives.compute(EVALUATION_SECONDS / 20)
            job.collectives.synchronize()
    job.train(before)


def other_sizes(job):
    """AllReduces of many sizes, each some few times, as a check before a run makes them."""
    gpu = job.collectives
    for power in range(8, 29):
        data = gpu.torch.ones((1 << power) // 4, device=gpu.device)
        for _ in range(3):
            gpu.dist.all_reduce(data)
        gpu.synchronize()
