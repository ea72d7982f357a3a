#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the units that scripts/fuzz.sh compiles: the files of a folder together, as the build does it.

    scripts/fuzz/units.py FOLDER ROOM... [--without PATTERN...] [--of FILE...]

A unit is FOLDER/NAME.cpp; their paths are printed. Files of the folders that a room's CMakeLists.txt names after ALONE are a unit each.
A file that a pattern matches (a whole path, * for any part of it) is left out. With --of, only units that these files need are printed:
those of the folders whose headers they include, and what these need in turn.
"""

import argparse
import collections
import fnmatch
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def is_source(path):
    return not path.name.endswith("_test.cpp") and path.parent.name != "testing"


def alone(room):
    """Folders whose files have names of their own with the same spelling."""
    lists = [path for folder in (room, *room.parents) if (path := folder / "CMakeLists.txt").is_file()]
    text = " ".join(path.read_text() for path in lists)
    bases = [path.parent for path in lists]
    return {(base / name).resolve() for words in re.findall(r"stalltrace_room\([^)]*\bALONE ([^)]*)\)", text) for name in words.split() for base in bases}


def units(rooms, without):
    for room in rooms:
        top = ROOT / room
        apart = alone(top)
        for folder in (top, *sorted(path for path in top.rglob("*") if path.is_dir())):
            sources = [path for path in sorted(folder.glob("*.cpp")) if is_source(path) and not any(fnmatch.fnmatch(str(path.relative_to(ROOT)), pattern) for pattern in without)]
            for group in [[path] for path in sources] if folder in apart else [sources]:
                if group:
                    name = group[0].relative_to(ROOT).with_suffix("") if folder in apart else folder.relative_to(ROOT)
                    yield str(name).replace("/", "_"), [path.relative_to(ROOT) for path in group]


def includes(path):
    """The headers of ours that a file includes, by their paths in the repository."""
    found = set()
    for name in re.findall(r'^#include "([^"]+)"', (ROOT / path).read_text(), re.M):
        found.update(pathlib.Path(base, name) for base in ("src", "bpf", "") if (ROOT / base / name).is_file())
    return found


def needed(every, files):
    """The names of the units that the files need."""
    in_folder = collections.defaultdict(dict)  # of a folder: unit -> its sources
    for name, sources in every:
        in_folder[sources[0].parent][name] = sources
    seen, names, queue = set(), set(), list(files)
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        queue += includes(path)
        near = in_folder[path.parent]
        below = {name: sources for folder, own in in_folder.items() if folder.is_relative_to(path.parent) for name, sources in own.items()}
        own = {name: sources for name, sources in near.items() if path.with_suffix(".cpp") in sources}
        own = own or (below if path.suffix == ".h" else near)  # what a header declares may be defined further down
        names |= own.keys()
        queue += [source for sources in own.values() for source in sources]
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--of", nargs="*", default=[], type=pathlib.Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    every = list(units(options.rooms, options.without))
    chosen = needed(every, options.of) if options.of else {name for name, _ in every}
    for name, sources in every:
        if name not in chosen:
            continue
        unit = options.folder / f"{name}.cpp"
        text = "".join(f'#include "{source}"\n' for source in sources)
        if not unit.is_file() or unit.read_text() != text:
            unit.write_text(text)
        print(unit)


if __name__ == "__main__":
    main()
