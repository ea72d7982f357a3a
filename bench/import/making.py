# SPDX-License-Identifier: Apache-2.0
"""What the makers of evidence for size_bench.py share: files that are filled block by block, without holding them in memory."""

import dataclasses

BEGIN_S = 1_777_975_200  # 2026-05-05T10:00:00Z
MIB = 1 << 20
MOST_VALUES = 4 << 20  # of a JSON document or pickle: ValueTree::kMostValues


@dataclasses.dataclass
class Made:
    """What import has to record of the files that were made."""

    rows: dict  # {query: the number that it has to return}
    plain_bytes: int | None = None  # where the files are compressed


def fill(path, size, block, head=b"", tail=b"", open_file=open):
    """Writes head, block(0), block(1) and so on up to `size` bytes, at least one, and tail. Returns (blocks, bytes)."""
    with open_file(path, "wb") as file:
        written = file.write(head)
        number = 0
        while True:
            text = block(number)
            if number > 0 and written + len(text) + len(tail) > size:
                break
            written += file.write(text)
            number += 1
        written += file.write(tail)
    return number, written


def shares(folder, size, each, name):
    """[(path, bytes)]: files of about `each` bytes, together `size`."""
    count = max(1, round(size / each))
    return [(folder / name(number), size // count) for number in range(count)]


def documents(folder, size, name, content):
    """Files with content(number), together at most `size` bytes but at least one; how many."""
    written = number = 0
    while True:
        text = content(number)
        if number > 0 and written + len(text) > size:
            return number
        written += (folder / name(number)).write_bytes(text)
        number += 1


def clock(seconds):
    """The time of day that many seconds after BEGIN_S: b"10:00:07"."""
    return b"%02d:%02d:%02d" % ((10 + seconds // 3600) % 24, seconds // 60 % 60, seconds % 60)


def values_of(value):
    """How many of MOST_VALUES a JSON value takes."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_of(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(values_of, value))
    return 1


def count(table, condition="1"):
    return f"SELECT count(*) FROM {table} WHERE {condition}"
