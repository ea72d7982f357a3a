# SPDX-License-Identifier: Apache-2.0
"""Writes the address of an exception's traceback into the file of its last argument, and waits."""

import os
import sys
import time


def load_batch(number):
    raise ValueError(
        f"batch {number}"
    )


def 中文(depth):
    return 中文(depth - 1) if depth > 0 else [
        load_batch(number)
        for number in range(3)
    ]


class Trainer:
    def step(self):
        return 中文(20)


try:
    Trainer().step()
except ValueError as error:
    address = id(error.__traceback__)
    with open(sys.argv[-1] + ".part", "w", encoding="ascii") as file:
        file.write(str(address))
    os.rename(sys.argv[-1] + ".part", sys.argv[-1])
    time.sleep(600)
