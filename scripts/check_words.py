#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One vocabulary: the glossary at the head of src/README.md, and here the words that it replaced.

Looks at names, comments, texts and documents of all tracked files: a word is found in sentences, in snake_case and in
CamelCase. Some are replaced only in what users read (documents, texts of the program), in the program's names, or outside
of some folders. Prints one line per occurrence with the glossary's term; the exit code is 1 if there is any.
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
    ("nobody", "anybody", "somebody", "everybody", "anyone", "someone", "everyone"): "who it is: no rank, any user, another process",
    ("place", "places"): "location, attribution, call site, folder, position, slot",
    ("said", "unsaid"): "reported, stated, printed; a statement, an answer",
}
# Where these words stay: idioms, the user with this name, two values of JSON.
ALLOWED = re.compile(
    r"(?<![A-Za-z])(?i:in|out[ _-]of)[ _-](?i:place)(?![A-Za-z])|InPlace|\b[Ii]n (?:the|its|their|whose|(?:\w+ )?\w+'s) place\b|"
    r"\btak(?:es?|en|ing) (?:the|its|their) place\b|"
    r"\b(?:the )?user nobody\b|UserNobody|\bkNobody\b|\b(?:\w+_)?(?:as|for|become)_nobody\b|(?:\b|AS_)NOBODY\b|"
    r'[`"]nobody_wait(?:s|ed)[`"]')
# A word that has other meanings is replaced where its neighbours show ours: pattern -> word, term.
LOOKS_LIKE = r"(?![-'])(?! (?:for|into|like|the same|alike|after|up|healthy|slow|through)\b)"
REPLACED_PHRASES = {
    re.compile(r"\b[Ss]o (?:many|much|long)\b(?! (?:as|that)\b)"): ("so many", "this many; the number of; the name of the number"),
    re.compile(r"\b(?:a|the|one|each|every|last|first|second|both|two|next|several|new|single|between|per|another|\d+|\{\}) looks?\b"
               + LOOKS_LIKE): ("look", "sample (of a stack), snapshot (of autopsy), round (of trace --live), reading"),
    re.compile(r"\b[Ll]ooks (?:never|of)\b|\blook's\b"): ("look", "sample, snapshot, round, reading"),
}
# Only in names of the program.
REPLACED_IN_NAMES = {
    re.compile(r"\b[Ss]ays?\b|\b[Ss]ays?_\w|\w_says?\b"): ("say", "report, announce, state, answer"),
}
# Only in what users read.
REPLACED_IN_USER_TEXT = {
    re.compile(r"\b[Ss]ays?\b"): ("say", "report, state, show, name, describe"),
}
# Names of the profiler file, outside of its own code: there, and in that of the kernel's records, a ring is a buffer.
REPLACED_OUTSIDE = {
    re.compile(r"\brings(?=\(|\.\w|\s*=)|\b[a-z]\w*_rings\b|\bring_(?:file|folder|path|target)s?\b|\bring\.pack\b|\bRings\b"
               r"|\brings? (?:file|folder)s?\b"): ("ring", "profiler file"),
}
RING_BUFFERS = re.compile(r"^(bpf|plugin|lab/nccl|src/blackbox|src/capture|docs)/|\.md$")
TERMS = {word: term for words, term in REPLACED.items() for word in words}
# In every line that has a replaced word or phrase; most lines have none of these, and are not read further.
CANDIDATES = re.compile("|".join((*(word for word in TERMS if not word.startswith("place")), "(?<!re)place", "so m", "so l", "look", "say",
                                  "(?<!st)ring")), re.IGNORECASE)
FOLDERS = ("src", "bpf", "plugin", "lab", "tests", "bench", "scripts", "docs", "cmake", "packaging")
SUFFIXES = {".h", ".c", ".cpp", ".py", ".sh", ".md", ".txt", ".cmake", ".toml", ".sql", ".mjs"}
# Exceptions: the profiler file's format keeps the prefix of its types, and the plugin's writer its folder. Printed
# output of programs is evidence and stays unchanged. This list and its test contain the words, and
# src/FILES.md quotes comments, in which fewer are replaced than in pages.
SKIPPED = re.compile(r"^(docs/evidence/|tests/fuzz/corpus/|src/FILES\.md$|scripts/check_words\.py$|tests/checks/scripts_test\.py$)")
USER_TEXT = re.compile(r"\.md$|^docs/\w+\.json$|/testdata/\w+\.txt$|^tests/support/sentences\.txt$")
PROGRAM = re.compile(r"^(src|lab|plugin|bpf)/.*(?<!_test)\.(cpp|h)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
COMMENT = re.compile(r"^ \*.*|//.*|/\*.*")
FORMAT_NAMES = re.compile(r"\b(st_box|ST_BOX)\w*|plugin/box\b|\bbox/")
WRITER = "plugin/"
# One part of a name or sentence: a run of lower-case letters with at most one leading upper-case letter.
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of(path, line):
    """The replaced words in a line, in order."""
    line = ALLOWED.sub(" ", FORMAT_NAMES.sub(" ", line))
    for part in PART.findall(line):
        word = part.lower()
        if word in TERMS and not (word.startswith("box") and path.startswith(WRITER)):
            yield word


def user_text_of(path, line):
    """What users read of a line: all of a document, the strings of the program."""
    if USER_TEXT.search(path):
        return line
    return "; ".join(STRING.findall(line)) if PROGRAM.search(path) and not line.startswith("#include") else ""


def names_of(path, line):
    """A line of the program without its texts and comments."""
    return COMMENT.sub("", STRING.sub(" ", line)) if PROGRAM.search(path) else ""


def phrases_in(path, line):
    """The replaced phrases in a line with their terms."""
    for patterns, text in ((REPLACED_PHRASES, line), (REPLACED_IN_NAMES, names_of(path, line)),
                           (REPLACED_OUTSIDE, "" if RING_BUFFERS.search(path) else line),
                           (REPLACED_IN_USER_TEXT, user_text_of(path, line))):
        for pattern, replaced in patterns.items():
            if text and pattern.search(text):
                yield replaced


def replaced_in(path, line):
    """The replaced words in a line with their terms: single words, then phrases."""
    for word in words_of(path, line):
        yield word, TERMS[word]
    yield from phrases_in(path, line)


def check(root):
    """All occurrences under `root`, as 'path:line: ...'."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS, "*.md", "*.sh"],
                            capture_output=True, text=True, check=True)
    found = []
    for path in sorted(set(listed.stdout.splitlines())):
        file = root / path
        if SKIPPED.match(path) or not (file.suffix in SUFFIXES or USER_TEXT.search(path)) or not file.is_file():
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            if CANDIDATES.search(line):
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
