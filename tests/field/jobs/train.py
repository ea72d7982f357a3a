# SPDX-License-Identifier: Apache-2.0
"""One rank of a job as people write them: train.py LIBRARY BEHAVIOUR FOLDER [VICTIM].

LIBRARY is of collectives.py, BEHAVIOUR of phases.py (what healthy jobs do) or faults.py (what breaks them, on rank VICTIM).
In FOLDER it leaves the file `begun`, and `fault` when a fault begins.
"""

import os
import sys
import time

import collectives
import faults
import phases

DEVICE_SECONDS = float(os.environ.get("FIELD_DEVICE_MS", "5")) / 1e3


class Job:
    def __init__(self, library, folder, victim):
        self.collectives = collectives.LIBRARIES[library](folder)
        self.rank, self.ranks = self.collectives.rank, self.collectives.ranks
        self.folder = folder
        self.is_victim = self.rank == victim
        self.is_pytorch = library in ("ddp", "gpu")
        self.steps = int(os.environ.get("FIELD_STEPS", "150"))

    def mark(self, what):
        """When something happened, and to whom: a file that appears whole."""
        path = os.path.join(self.folder, what)
        with open(f"{path}.{os.getpid()}", "w", encoding="ascii") as file:
            file.write(f"{time.time_ns()} {os.getpid()}")
        os.rename(file.name, path)

    def step(self, data=None):
        if self.is_pytorch:
            self.collectives.step(data=data)
        else:
            self.collectives.all_reduce()
        time.sleep(DEVICE_SECONDS)

    def train(self, before=None, data=None):
        """`before` is called before each step."""
        for number in range(self.steps):
            if before:
                before(number)
            self.step(data)

    def at(self, step, what):
        """For train(): the victim does `what` before this step."""
        def before(number):
            if number == step and self.is_victim:
                self.mark("fault")
                what()
        return before

    def finish(self):
        self.collectives.barrier()
        getattr(self.collectives, "finish", lambda: None)()


def main():
    library, behaviour, folder, *victim = sys.argv[1:]
    job = Job(library, folder, int(victim[0]) if victim else None)
    job.mark("begun")
    {**vars(phases), **vars(faults), **faults.LEAVES}[behaviour](job)
    job.finish()


if __name__ == "__main__":
    main()
