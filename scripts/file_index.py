#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/FILES.md: each source file with the first sentence of its head comment, to search in. `--check` compares instead."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "src" / "FILES.md"
FOLDERS = ("src", "bpf", "plugin", "lab", "tests", "bench", "scripts")
SUFFIXES = {".h", ".c", ".cpp", ".py", ".sh"}
LEFT_OUT = re.compile(r"_test\.cpp$|/testing/|/testdata/|/corpus/|/include/|^tests/field/jobs/")
LONGEST = 138  # characters of a line
HEAD = """# Every source file

A page to search in: each file with the first sentence of its head comment. `scripts/file_index.py` writes it, and a check compares it. A
`.cpp` file stands with its header; unit tests (`NAME_test.cpp`) and their helpers are left out. [README.md](README.md) has the terms and
the rooms.
"""


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS], check=True,
                            capture_output=True, text=True).stdout.split("\n")
    present = {name for name in listed if name and (ROOT / name).is_file()}
    for name in sorted(present):
        path = pathlib.PurePosixPath(name)
        if path.suffix in SUFFIXES and not LEFT_OUT.search(name) and not (path.suffix in (".cpp", ".c") and str(path.with_suffix(".h")) in present):
            yield path


def comment_of(path):
    """Its head comment, else the first one of a declaration, in one line."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = re.match(r'(?:#[^\n]*\n|\s)*"""(.*?)"""', text, re.S)
        return " ".join(found[1].split()) if found else ""
    if found := re.match(r"(?:/\* SPDX[^\n]*\n|//[^\n]*\n)?\s*/\*(?! *SPDX)(.*?)\*/", text, re.S):
        return " ".join(found[1].replace("\n *", " ").split())
    mark = "#" if path.suffix == ".sh" else "//"
    block = []
    for line in text.splitlines():
        line = line.strip()
        words = line.lstrip("/#").strip()
        if line.startswith(mark) and not line.startswith("#!") and not words.startswith("SPDX"):
            block.append(words)
        elif block:
            break
    return " ".join(block)


def entry(path):
    sentence = re.split(r"(?<=\.)\s", comment_of(path), maxsplit=1)[0].removesuffix(".")
    line = f"- `{path.name}` {sentence}".rstrip()
    return line if len(line) <= LONGEST else line[:LONGEST - 4].rsplit(" ", 1)[0] + " ..."


def page():
    lines = [HEAD]
    folder = None
    for path in sorted(files(), key=lambda one: (FOLDERS.index(one.parts[0]), str(one.parent), one.name)):
        if path.parent != folder:
            folder = path.parent
            lines.append(f"\n## {folder}\n")
        lines.append(entry(path))
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("src/FILES.md is not what the files' head comments give: run scripts/file_index.py")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
