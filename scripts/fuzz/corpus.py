#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a fuzz corpus into one file and unpacks it.

    scripts/fuzz/corpus.py pack FOLDER PACK
    scripts/fuzz/corpus.py unpack PACK FOLDER

A pack is a gzip stream: for each entry its size (32 bits, little-endian), then its bytes. Entries are sorted by the SHA-1 of
their bytes, without duplicates, so that the same entries make the same file. Unpacked, an entry is the file that its number
in the pack names (0000, 0001, ...): the number that tests/fuzz/replay.cpp prints.
"""

import gzip
import hashlib
import pathlib
import struct
import sys

SIZE = struct.Struct("<I")


def pack(folder, path):
    entries = {hashlib.sha1(entry).digest(): entry for entry in (file.read_bytes() for file in folder.iterdir() if file.is_file())}
    content = b"".join(SIZE.pack(len(entry)) + entry for _, entry in sorted(entries.items()))
    path.write_bytes(gzip.compress(content, mtime=0))
    return len(entries)


def unpack(path, folder):
    content = gzip.decompress(path.read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    at = number = 0
    while at < len(content):
        if at + SIZE.size > len(content):
            raise ValueError(f"{path}: entry {number} has no size")
        begin = at + SIZE.size
        at = begin + SIZE.unpack_from(content, at)[0]
        if at > len(content):
            raise ValueError(f"{path}: entry {number} is cut off")
        (folder / f"{number:04}").write_bytes(content[begin:at])
        number += 1
    return number


def main():
    actions = {"pack": pack, "unpack": unpack}
    if len(sys.argv) != 4 or sys.argv[1] not in actions:
        print("usage: scripts/fuzz/corpus.py pack FOLDER PACK | unpack PACK FOLDER", file=sys.stderr)
        return 2
    try:
        count = actions[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    except (OSError, EOFError, ValueError) as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 1
    print(f"{count} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
