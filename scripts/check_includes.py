#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layering, executable: who may include whom, no cycles between folders, and how many files a folder may hold.

    base <- {stacks, model} <- {store, analysis, report, export, import, preflight, simulation <- lab, blackbox <- {capture, launch}}
         <- {serve <- fleet, autopsy} <- cli

Siblings don't include each other; serve and fleet see store and analysis of them, autopsy sees stacks, capture and analysis.
sqlite3.h is seen by store/ alone, libbpf and the skeletons by capture/ alone, Asio, Beast and OpenSSL by serve/ and fleet/ alone.
The model of jobs (lab/simulation) is a room of its own, which tests may see too; tests/ is seen by tests alone.
The practice job (lab/nccl, lab/cuda, lab/workload, lab/mpi) knows nothing of stalltrace; its NCCL sees plugin/abi,
which is NCCL's own profiler interface. Of the plugin, box/ (the file's bytes) knows nothing of NCCL, and nothing of
the plugin sees src/: it is loaded into other people's programs. Neither does plugin/collectives, a program that loads their libraries.
The folders of analysis/ are layers: each sees only those before it in ANALYSIS_LAYERS.
A header counts as what it is, however it is named: by a path from a root, beside the file, with "..", in angle brackets.
At every depth, the folders side by side in one folder include each other in one direction only. The files of that folder
itself, which put its parts together, may include all of them and be included by them; tests may include all.
Prints one line per violation; the exit code is 1 if there is any.
"""

import collections
import os
import pathlib
import re
import sys

# Above this number of files, a folder is hard to overview and needs subfolders.
MOST_FILES = 25

PLUGIN_PARTS = {"plugin/abi", "plugin/wire", "plugin/box", "plugin/recorder"}
ALLOWED = {
    "base": {"plugin/wire"},  # redaction of command lines
    "model": {"base"},
    "store": {"base", "model"},
    "analysis": {"base", "model"},
    "report": {"base", "model"},
    "serve": {"base", "model", "store", "analysis"},
    "fleet": {"base", "model", "store", "analysis", "serve"},
    "export": {"base", "model"},
    "stacks": {"base"},
    "import": {"base", "model"},
    "preflight": {"base", "model"},
    "blackbox": {"base", "model", "plugin/wire"},
    "capture": {"base", "model", "blackbox", "stacks", "bpf", "wire", "plugin/wire"},  # both sides of the kernel
    "autopsy": {"base", "model", "analysis", "stacks", "capture"},
    "launch": {"base", "model", "blackbox", "plugin/embedded"},
    "simulation": {"base", "model"},
    "lab": {"base", "model", "plugin/embedded", "simulation"},
    "cli": {"base", "model", "store", "analysis", "serve", "fleet", "report", "export", "blackbox", "import", "preflight", "capture", "autopsy", "stacks", "launch",
            "lab", "simulation", "plugin/embedded"},
    "main": {"base", "cli"},
    "job": {"plugin/abi"},
    "bpf": {"wire", "plugin/wire"},
    "plugin": PLUGIN_PARTS,
    "plugin/abi": set(),
    "plugin/wire": set(),
    "plugin/box": {"plugin/wire"},
    "plugin/recorder": {"plugin/abi", "plugin/wire", "plugin/box"},
    "plugin/testing": PLUGIN_PARTS,
    "plugin/collectives": set(),
    "plugin/embedded": {"base"},
}

# The layers of analysis/, from the events to the findings. "base" are headers and folders that all layers may include,
# "explain" is the rest of its root. Tests and their helpers in testing/ may include all.
ANALYSIS_LAYERS = ["base", "timeline", "evidence", "profiles", "stalls", "causes", "findings", "order", "devices", "launches", "inspector", "benchmarks", "traces", "captures", "explain", "live"]
ANALYSIS_BASE = {"advice", "intervals", "node_filter", "rank_numbers", "thresholds"}

# header pattern -> the rooms that may include it
PRIVATE = [
    (re.compile(r"^sqlite3(ext)?\.h$"), {"store"}),
    (re.compile(r"^bpf/(libbpf|bpf|btf|libbpf_\w+)\.h$"), {"capture", "bench"}),
    (re.compile(r"\.skel\.h$"), {"capture"}),
    (re.compile(r"^(boost|openssl)/"), {"serve", "fleet"}),
    (re.compile(r"^bpf/bpf_\w+\.h$"), {"bpf"}),
]
# C++ outside of the rooms that may see all of them: what no room can test or measure alone. Private headers stay private.
EVERYWHERE = {"tests", "bench"}
JOB_FOLDERS = {"nccl", "cuda", "workload", "mpi", "torch"}
# Where the folders side by side may form no cycle, at every depth.
WITHOUT_CYCLES = ("src", "lab", "bpf", "plugin")
TOPS = ("src", "lab", "bpf", "plugin", "tests", "bench")
# Whose folders may hold MOST_FILES at most: code, and what builds, checks and installs it.
COUNTED = (*TOPS, "scripts", "cmake", "packaging")
SUFFIXES = {".h", ".c", ".cpp", ".S"}
# Data that programs make: there may be many side by side.
UNCOUNTED_FOLDERS = {"testdata", "corpus", "__pycache__"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of_file(path):
    """The room of a source file, by its path from the root; None if no rule applies."""
    parts = path.parts
    if parts[0] == "bpf":
        return "bpf"
    if parts[:2] == ("lab", "simulation"):
        return "simulation"
    if parts[0] == "lab":
        return "job" if len(parts) > 1 and parts[1] in JOB_FOLDERS else "lab"
    if parts[0] in EVERYWHERE:
        return parts[0]
    if parts[0] == "src":
        return "main" if len(parts) == 2 else parts[1]
    if parts[0] == "plugin":
        return "plugin" if len(parts) == 2 else f"plugin/{parts[1]}"
    return None


def path_of_include(root, path, bracket, header):
    """The path from the root of a header of ours, however it is named; None if it is another's, or generated outside of the rooms."""
    bases = [*([path.parent.relative_to(root)] if bracket == '"' else []), pathlib.Path("src"), pathlib.Path("bpf"), pathlib.Path()]
    named = [pathlib.Path(os.path.normpath(base / header)) for base in bases]
    if found := next((file for file in named if (root / file).is_file()), None):
        return found
    if bracket == "<":
        return None
    # Of a header that is not there, by the names of the rooms.
    first = header.split("/")[0] if "/" in header else ""
    if first == "..":
        return named[0]
    if first in TOPS:
        return pathlib.Path(header)
    if first == "wire":
        return pathlib.Path("bpf", header)
    return pathlib.Path("src", header) if first in ALLOWED and first not in {"main", "job"} else None


def room_of_include(target):
    """The room of a header, by its path from the root; None if it is in no room. The kernel's records are one of their own."""
    return "wire" if target.parts[:2] == ("bpf", "wire") else room_of_file(target)


def analysis_layer(parts):
    """The layer of a file of analysis/, by its path from there; None for tests and their helpers."""
    if parts[0] == "testing" or parts[-1].endswith("_test.cpp"):
        return None
    name = pathlib.Path(parts[0]).stem
    if name in ANALYSIS_BASE:
        return "base"
    return name if len(parts) > 1 else "explain"


def layer_violation(relative, target):
    """The reason why a file of analysis/ may not include a header of analysis/, by their paths from the root; None if it may."""
    if relative.parts[:2] != ("src", "analysis") or target.parts[:2] != ("src", "analysis"):
        return None
    own, other = analysis_layer(relative.parts[2:]), analysis_layer(target.parts[2:])
    if own is None or own == other:
        return None
    for layer in (own, other):
        if layer not in ANALYSIS_LAYERS:
            return f"'{layer}' is no layer of analysis/; give it a row in ANALYSIS_LAYERS of scripts/check_includes.py"
    if ANALYSIS_LAYERS.index(other) < ANALYSIS_LAYERS.index(own):
        return None
    return f"analysis/{own} must not include analysis/{other} ({target}): {' <- '.join(ANALYSIS_LAYERS)}"


def violation(root, path, bracket, header):
    """The reason why the file may not include `header`; None if it may."""
    relative = path.relative_to(root)
    room = room_of_file(relative)
    for pattern, rooms in PRIVATE:
        if pattern.search(header) and room not in rooms:
            return f"only {', '.join(sorted(rooms))}/ may see {header}"
    file = path_of_include(root, path, bracket, header)
    if file is None:
        return None
    if reason := layer_violation(relative, file):
        return reason
    target = room_of_include(file)
    if target == "plugin/testing" and path.name.endswith("_test.cpp"):
        return None
    if target in {"simulation", "tests"} and (path.name.endswith("_test.cpp") or path.parent.name == "testing"):
        return None  # the jobs of tests, and what all of them share
    if target is None or target == room or room in EVERYWHERE or target in ALLOWED.get(room, set()):
        return None
    return f"{room}/ must not include {target}/ ({header})"


def check_sizes(root):
    """One line for each code folder with too many files, of whatever kind."""
    counts = collections.Counter(path.parent for top in COUNTED for path in (root / top).rglob("*")
                                 if path.is_file() and not UNCOUNTED_FOLDERS & set(path.relative_to(root).parts))
    return [f"{folder.relative_to(root)}: {count} files side by side; give it folders of at most {MOST_FILES}"
            for folder, count in sorted(counts.items()) if count > MOST_FILES]


def includes_of(path):
    """The line number, the bracket and the header of each include."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def sibling_includes(root):
    """folder -> its part -> another part of it -> the first include from one to the other, as (path:line, header)."""
    files = {path.relative_to(root) for top in WITHOUT_CYCLES for path in (root / top).rglob("*")
             if path.suffix in SUFFIXES and path.is_file() and path.parent.name != "testing" and not path.name.endswith("_test.cpp")}
    interfaces = sorted({path.parent for path in files if path.parent.name == "include"})
    edges = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(files):
        # The practice job's programs include by paths from a folder of their own, all others by paths from one of the roots.
        roots = [pathlib.Path(), pathlib.Path("src"), pathlib.Path("bpf"), *interfaces]
        for number, bracket, header in includes_of(root / path):
            bases = [*path.parents, *roots] if bracket == '"' else roots
            named = (pathlib.Path(os.path.normpath(base / header)) for base in bases)
            target = next((file for file in named if file in files), None)
            if target is None:
                continue
            own, other = path.parent.parts, target.parent.parts
            depth = next((i for i, (a, b) in enumerate(zip(own, other)) if a != b), 0)
            if depth > 0:
                edges["/".join(own[:depth])][own[depth]].setdefault(other[depth], (f"{path}:{number}", header))
    return edges


def shortest_cycle(edges, start):
    """The folders on the way from `start` back to it, `start` at both ends; None if there is no way."""
    ways = collections.deque([[start]])
    seen = set()
    while ways:
        way = ways.popleft()
        for target in sorted(edges.get(way[-1], ())):
            if target == start:
                return [*way, start]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return None


def check_cycles(root):
    """One line for each step of each cycle; of several cycles through a folder, the shortest."""
    found, known = [], set()
    for folder, edges in sorted(sibling_includes(root).items()):
        for start in sorted(edges):
            way = shortest_cycle(edges, start)
            if way is None or (folder, frozenset(way)) in known:
                continue
            known.add((folder, frozenset(way)))
            for one, other in zip(way, way[1:]):
                line, header = edges[one][other]
                found.append(f"{line}: {one} -> {other} ({header}) is part of a cycle in {folder}/: {' -> '.join(way)}")
    return found


def check(root):
    """All violations under `root`, as 'path:line: reason'."""
    found = check_sizes(root) + check_cycles(root)
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            relative = path.relative_to(root)
            room = room_of_file(relative)
            if room not in ALLOWED and room not in EVERYWHERE:
                found.append(f"{relative}:1: '{room}' is not a room; give it a row in scripts/check_includes.py")
                continue
            for number, bracket, header in includes_of(path):
                if reason := violation(root, path, bracket, header):
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
