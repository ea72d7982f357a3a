#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layering, executable: who may include whom.

    base <- model <- {store, analysis, export, lab, blackbox <- {import, capture}} <- {fleet, serve} <- cli

Siblings don't include each other. sqlite3.h is seen by store/ alone, libbpf and the skeletons by capture/ alone.
The practice job (lab/nccl, lab/cuda, lab/workload, lab/mpi) knows nothing of stalltrace; its NCCL sees plugin/abi,
which is NCCL's own profiler interface.
Prints one line per violation; the exit code is 1 if there is any.
"""

import pathlib
import re
import sys

MIDDLE = {"store", "analysis", "capture", "export", "import", "lab"}
UPPER = {"fleet", "serve"}
ALLOWED = {
    "base": set(),
    "model": {"base"},
    "embedded": {"base"},
    "blackbox": {"base", "model", "plugin/wire"},
    **{room: {"base", "model"} for room in MIDDLE},
    **{room: {"base", "model"} | MIDDLE for room in UPPER},
    "cli": {"base", "model", "embedded"} | MIDDLE | UPPER,
    "main": {"cli"},
    "job": {"plugin/abi"},
    "bpf": {"wire", "plugin/wire"},
}
ALLOWED["cli"] |= {"blackbox"}
ALLOWED["lab"] |= {"embedded"}
ALLOWED["capture"] |= {"wire", "bpf", "blackbox", "plugin/wire"}  # what both sides of the kernel see
ALLOWED["import"] |= {"blackbox", "plugin/wire"}

# header pattern -> the rooms that may see it
PRIVATE = [
    (re.compile(r"^sqlite3(ext)?\.h$"), {"store"}),
    (re.compile(r"^bpf/(libbpf|bpf|btf|libbpf_\w+)\.h$"), {"capture"}),
    (re.compile(r"\.skel\.h$"), {"capture"}),
    (re.compile(r"^bpf/bpf_\w+\.h$"), {"bpf"}),
    (re.compile(r"^CLI/"), {"cli"}),
]
JOB_FOLDERS = {"nccl", "cuda", "workload", "mpi", "torch"}
SUFFIXES = {".h", ".c", ".cpp", ".S"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of_file(path):
    """The room of a source file, by its path from the root; None where no rule applies."""
    parts = path.parts
    if parts[0] == "bpf":
        return "bpf"
    if parts[0] == "lab":
        return "job" if len(parts) > 1 and parts[1] in JOB_FOLDERS else "lab"
    if parts[0] == "src":
        return "main" if len(parts) == 2 else parts[1]
    return None


def room_of_include(root, path, header):
    """The room a header belongs to; None for one of no room or a neighbour in the same folder."""
    if (path.parent / header).exists():
        return None
    first = header.split("/")[0] if "/" in header else ""
    if first == "plugin":
        return "/".join(header.split("/")[:2])
    if first == "wire" or first in ALLOWED and first not in {"main", "job", "bpf"}:
        return first
    return "bpf" if (root / "bpf" / header).exists() else None


def violation(root, path, bracket, header):
    """Why the file may not include `header`; None if it may."""
    room = room_of_file(path.relative_to(root))
    for pattern, rooms in PRIVATE:
        if pattern.search(header) and room not in rooms:
            return f"only {', '.join(sorted(rooms))}/ may see {header}"
    target = room_of_include(root, path, header) if bracket == '"' else None
    if target is None or target == room or target in ALLOWED.get(room, set()):
        return None
    return f"{room}/ must not include {target}/ ({header})"


def check(root):
    """All violations under `root`, as 'path:line: reason'."""
    found = []
    for top in ("src", "lab", "bpf"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            relative = path.relative_to(root)
            room = room_of_file(relative)
            if room not in ALLOWED:
                found.append(f"{relative}:1: '{room}' is not a room; give it a row in scripts/check_includes.py")
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                reason = match and violation(root, path, match[1], match[2])
                if reason:
                    found.append(f"{relative}:{number}: {reason}")
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = check(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
