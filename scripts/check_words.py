#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One vocabulary: the glossary at the head of src/README.md, and here the words that it replaced.

Looks at names, comments, texts and documents of all tracked files: a word is found in sentences, in snake_case and in
CamelCase. Some are replaced only in what users read: documents, texts of the program, keys of its JSON. Prints one line
per occurrence with the glossary's term; the exit code is 1 if there is any.
"""

import pathlib
import re
import subprocess
import sys

# word (all of its forms) -> the term to use
REPLACED = {
    ("tell", "tells", "telling", "told", "untold"): "report, reported; distinguish; unobserved",
    ("dear", "dearer", "dearest"): "expensive, costly",
    ("meanwhile",): "in the meantime, during",
    ("heard",): "received, learned",
    ("lane", "lanes"): "call sequence",
    ("stretch", "stretches"): "row group, interval",
    ("box", "boxes"): "profiler file, profiler session",
    ("verb", "verbs"): "subcommand",
    ("whoever",): "who it is: the user, the process, the file that",
}
# A word that has other meanings is replaced where its neighbours show ours: pattern -> word, term.
REPLACED_PHRASES = {
    re.compile(r"\bcauses?\b,?(?: \w+){0,2} places?\b|\bplaces?\b,?(?: and| or)(?: \w+)? causes?\b"): ("place", "location"),
    re.compile(r"\b(?:culprit|stall|finding|hypothesis)(?:'s|s') place\b"): ("place", "location"),
    re.compile(r"\bso (?:many|much) (?:bytes|rows|entries|pids|offsets|descriptors)\b"): ("so many", "this many; the number of"),
    # A key of JSON, where it is written: {"place", ...}, ["place"].
    re.compile(r"""[\[{]\s*["']places?["']"""): ("place", "location"),
    re.compile(r"""[\[{]\s*["']said(?:_ms)?["']"""): ("said", "reported"),
}
# Only in what users read.
REPLACED_IN_USER_TEXT = {
    re.compile(r"\b(?:choose|give|name) (?:a|another|the) place\b"): ("place", "folder, location"),
    re.compile(r"\bat most so (?:many|much)\b|\b(?:begins|ends|waits?|computes) so (?:long|much)\b"): ("so long", "this long, that long"),
    re.compile(r"(?:^|; |: )say (?:\{|which|what|how)"): ("say", "give, name"),  # a remedy
}
TERMS = {word: term for words, term in REPLACED.items() for word in words}
FOLDERS = ("src", "bpf", "plugin", "lab", "tests", "bench", "scripts", "docs", "cmake")
SUFFIXES = {".h", ".c", ".cpp", ".py", ".sh", ".md", ".txt", ".cmake", ".toml", ".sql"}
# Exceptions: the profiler file's format keeps the prefix of its types, and the plugin's writer its folder. Printed
# output of programs is evidence and stays unchanged. This list and its test contain the words.
SKIPPED = re.compile(r"^(docs/evidence/|tests/fuzz/corpus/|scripts/check_words\.py$|tests/checks/scripts_test\.py$)")
USER_TEXT = re.compile(r"\.md$|^docs/\w+\.json$|/testdata/\w+\.txt$|^tests/support/sentences\.txt$")
PROGRAM = re.compile(r"^(src|lab)/.*(?<!_test)\.(cpp|h)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FORMAT_NAMES = re.compile(r"\b(st_box|ST_BOX)\w*|plugin/box\b|\bbox/")
WRITER = "plugin/"
# One part of a name or sentence: a run of lower-case letters with at most one leading upper-case letter.
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of(path, line):
    """The replaced words in a line, in order."""
    line = FORMAT_NAMES.sub(" ", line)
    for part in PART.findall(line):
        word = part.lower()
        if word in TERMS and not (word.startswith("box") and path.startswith(WRITER)):
            yield word


def user_text_of(path, line):
    """What users read of a line: all of a document, the strings of the program."""
    if USER_TEXT.search(path):
        return line
    return "; ".join(STRING.findall(line)) if PROGRAM.search(path) and not line.startswith("#include") else ""


def replaced_in(path, line):
    """The replaced words in a line with their terms: single words, then phrases."""
    for word in words_of(path, line):
        yield word, TERMS[word]
    for pattern, replaced in REPLACED_PHRASES.items():
        if pattern.search(line):
            yield replaced
    text = user_text_of(path, line)
    for pattern, replaced in REPLACED_IN_USER_TEXT.items():
        if text and pattern.search(text):
            yield replaced


def check(root):
    """All occurrences under `root`, as 'path:line: ...'."""
    listed = subprocess.run(["git", "-C", root, "ls-files", *FOLDERS, "*.md", "*.sh"], capture_output=True, text=True, check=True)
    found = []
    for path in sorted(set(listed.stdout.splitlines())):
        file = root / path
        if SKIPPED.match(path) or not (file.suffix in SUFFIXES or USER_TEXT.search(path)) or not file.is_file():
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            found.extend(f"{path}:{number}: '{word}'; the glossary has: {term}" for word, term in replaced_in(path, line))
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = check(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
