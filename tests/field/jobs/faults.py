# SPDX-License-Identifier: Apache-2.0
"""What breaks jobs, each a function of the job; the rank that it happens to is job.is_victim."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time

FAULT_STEP = 80
OOM_BYTES = 64 << 20  # above what the process has

# --- a rank leaves ---------------------------------------------------------------------------------------------------------------


def exception():
    raise RuntimeError("a shard of the data set is broken")


def memory_error():
    bytearray(1 << 50)


def assertion():
    assert time.time() < 0, "the loss is not a number"


def recursion():
    recursion()


def sys_exit():
    sys.exit(3)


def os_exit():
    os._exit(4)


def segfault():
    ctypes.string_at(0)


def abort():
    os.abort()


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory():
    """In a cgroup of its own with a limit, which the caller removes: FIELD_CGROUP."""
    folder = os.environ["FIELD_CGROUP"]
    first = os.path.exists(os.path.join(folder, "memory.limit_in_bytes"))
    limit = "memory.limit_in_bytes" if first else "memory.max"  # cgroup version 1 or 2
    with open(os.path.join(folder, limit), "w", encoding="ascii") as file:
        file.write(str(OOM_BYTES))
    with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    hoard = []
    while True:
        hoard.append(b"x" * (1 << 20))


def leaves(how):
    """A behaviour: the victim leaves the job in this way."""
    return lambda job: job.train(job.at(FAULT_STEP, how))


def raises_after_a_wait(job):
    """The others wait for it for a while."""
    def load_late():
        time.sleep(4)
        raise RuntimeError("the file server does not answer")
    job.train(job.at(FAULT_STEP, load_late))


def fewer_steps(job):
    """Its part of the data set is smaller, and nothing waits for the others at the end."""
    job.train(job.at(FAULT_STEP, lambda: os._exit(0)))


# --- a rank stays away or is late ------------------------------------------------------------------------------------------------


def busy_loop():
    while True:  # busy
        pass


def read_fifo(folder):
    path = os.path.join(folder, "fifo")
    os.mkfifo(path)
    os.read(os.open(path, os.O_RDWR), 1)


def take_lock_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # again


def computes_for_ever(job):
    job.train(job.at(FAULT_STEP, busy_loop))


def reads_a_fifo(job):
    job.train(job.at(FAULT_STEP, lambda: read_fifo(job.folder)))


def takes_a_lock_twice(job):
    job.train(job.at(FAULT_STEP, take_lock_twice))


def loader_worker_hangs(job):
    """Its data loader's worker never delivers the batch."""
    torch = job.collectives.torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            if job.is_victim and index == 16 * FAULT_STEP:
                job.mark("fault")
                time.sleep(1000)
            return torch.randn(256), index % 10
    job.train(data=iter(torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=1)))


def loader_is_late(job):
    """Every tenth batch."""
    torch = job.collectives.torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            if job.is_victim and index % 160 == 80:
                if index == 80:
                    job.mark("fault")
                time.sleep(0.3)
            return torch.randn(256), index % 10
    job.train(data=iter(torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=1)))


def collects_garbage(job):
    """The victim has a big heap, and looks through all of it every tenth step."""
    gc.disable()
    heap = [[number] for number in range(2_000_000)] if job.is_victim else None

    def before(step):
        if step % 10 == 9:
            if job.is_victim and step == 9:
                job.mark("fault")
            gc.collect()
    job.train(before)
    del heap


def sleeps_each_step(job):
    def before(step):
        if step >= FAULT_STEP and job.is_victim:
            if step == FAULT_STEP:
                job.mark("fault")
            time.sleep(0.08)
    job.train(before)


def is_chosen(job):
    """The fault comes from outside."""
    job.train(job.at(FAULT_STEP, lambda: None))


# --- ranks call different things -------------------------------------------------------------------------------------------------


def barrier_on_one_rank(job):
    job.train(job.at(FAULT_STEP, job.collectives.barrier))


def other_size(job, usual, odd):
    for step in range(job.steps):
        is_odd = job.is_victim and step == FAULT_STEP
        if is_odd:
            job.mark("fault")
        time.sleep(0.005)
        job.collectives.all_reduce(odd if is_odd else usual)


def small_size_differs(job):
    other_size(job, 1000, 1016)


def large_size_differs(job):
    other_size(job, 1_000_000, 1_000_016)


def groups_in_another_order(job):
    """Two groups of all ranks: the victim calls them the other way round."""
    torch, dist = job.collectives.torch, job.collectives.dist
    groups = [dist.new_group(list(range(job.ranks))) for _ in range(2)]
    for step in range(job.steps):
        order = groups
        if job.is_victim and step == FAULT_STEP:
            job.mark("fault")
            order = groups[::-1]
        for group in order:
            dist.all_reduce(torch.ones(1000, device=job.collectives.device), group=group)
        time.sleep(0.005)


# --- devices (library gpu) -------------------------------------------------------------------------------------------------------


def device_is_slow(job):
    """The victim's device has more to do in each step; its program is as fast as the others'."""
    def before(step):
        if step >= FAULT_STEP and job.is_victim:
            if step == FAULT_STEP:
                job.mark("fault")
            job.collectives.compute(0.1)
    job.train(before)


def device_never_ends(job):
    """The victim's device is given work for a minute and a half; its program stands still once the device's queue is full."""
    def spin():
        for _ in range(60):
            job.collectives.compute(1.5)
    job.train(job.at(FAULT_STEP, spin))


def copies_wait(job):
    """The victim reads results back in each step, and sleeps before it goes on: a slow input pipeline on a device."""
    def before(step):
        if step >= FAULT_STEP and job.is_victim:
            if step == FAULT_STEP:
                job.mark("fault")
            job.collectives.synchronize()
            time.sleep(0.08)
    job.train(before)


LEAVES = {f"leaves_by_{how.__name__}": leaves(how) for how in (exception, memory_error, assertion, recursion, sys_exit, os_exit,
                                                                  segfault, abort, killed, out_of_memory)}
