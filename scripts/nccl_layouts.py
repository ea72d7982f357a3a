#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the offsets in NCCL's `struct ncclComm`, as src/stacks/nccl/comm_layout.cpp has them: of each release that marks its
communicators. Needs g++, a clone of NCCL's sources with its tags, and the headers of a CUDA toolkit. Nothing is linked or run: the
compiler's assembly has the numbers.

    scripts/nccl_layouts.py NCCL_CLONE CUDA_INCLUDE [TAG...]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FIELDS = ("commHash", "rank", "nRanks", "cudaDev", "collOpCount", "seqNumber", "endMagic")


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, **more).stdout


def version_of(tag):
    return tuple(int(number) for number in re.match(r"v(\d+)\.(\d+)\.(\d+)", tag).groups())


def unpack(clone, tag, folder):
    archive = output("git", "-C", clone, "archive", tag, "src")
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    major, minor, patch = version_of(tag)
    header = (folder / "src" / "nccl.h.in").read_text()
    values = {"Major": major, "Minor": minor, "Patch": patch, "Suffix": "", "Version": major * 10000 + minor * 100 + patch}
    for name, value in values.items():
        header = header.replace("${nccl:" + name + "}", str(value))
    (folder / "nccl.h").write_text(header)


def driver_types(folder, cuda):
    """NCCL up to 2.25 names driver functions as CUDA 12 did: the type that the newest toolkit has for each."""
    wanted = set(re.findall(r"\bPFN_cu\w+", (folder / "src/include/cudawrap.h").read_text()))
    wanted |= {"PFN_cu" + name for name in re.findall(r"DECLARE_CUDA_PFN_EXTERN\(cu(\w+)", (folder / "src/include/cudawrap.h").read_text())}
    known = (cuda / "cudaTypedefs.h").read_text()
    lines = ["#include <cudaTypedefs.h>"]
    for name in sorted(wanted):
        versions = re.findall(rf"\b{name}_v(\d+)\b", known)
        if versions and not re.search(rf"#define {name}\b", known):
            lines.append(f"typedef {name}_v{max(map(int, versions))} {name};")
    (folder / "driver_types.h").write_text("\n".join(lines) + "\n")


def offsets(clone, tag, cuda):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        unpack(clone, tag, folder)
        comm = (folder / "src/include/comm.h").read_text()
        if "startMagic" not in comm:
            return None
        struct = comm[comm.index("\nstruct ncclComm {"):]
        fields = [field for field in FIELDS if re.search(rf"\b{field}\b", struct)]
        driver_types(folder, cuda)
        lines = ['#include "comm.h"', "extern const unsigned long offsets[];", "const unsigned long offsets[] = {"]
        lines += [f"offsetof(ncclComm, {field})," for field in fields]
        (folder / "probe.cc").write_text("\n".join([*lines, "};"]) + "\n")
        include = folder / "src/include"
        where = [folder, include, include / "plugin", include / "os", cuda, cuda / "cccl"]
        assembly = output("g++", "-std=c++17", "-w", "-S", "-o", "-", "-DNCCL_OS_LINUX", "-include", folder / "driver_types.h",
                          *(f"-I{path}" for path in where), folder / "probe.cc", text=True)
        numbers = re.findall(r"\.quad\s+(\d+)", assembly[assembly.index("\noffsets:"):])
        return dict(zip(fields, map(int, numbers)))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    clone, cuda = sys.argv[1], pathlib.Path(sys.argv[2])
    tags = sys.argv[3:] or output("git", "-C", clone, "tag", text=True).split()
    for tag in sorted((tag for tag in tags if re.match(r"v2\.\d+\.\d+-1$", tag)), key=version_of):
        if version_of(tag) >= (2, 19, 0):
            print(tag, offsets(clone, tag, cuda) or "marks no communicators", flush=True)


if __name__ == "__main__":
    main()
